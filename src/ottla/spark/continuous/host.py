"""A host: lanes of works in one event loop, what the driver orders, and what it is told.

Orders are messages of the control channel: `application` (a plan, pickled, and the driver's place in its group), `member`
(that place again, after a rebalance), `pause` it or not, `drain` it (it reads its repartition topics alone), `assign` and
`revoke` works, `follow` and `unfollow` their states, `forget` an application, `stop`.
Notes go the other way: `ready`, `running`, `released`, `failed`, `paused` (heard of that order), once a second `report`;
from a thread beside the loop `stuck`, which is no sign of life. Those about works say of which life of an application they
are, by the number that came with its plan.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import pickle
import resource
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Protocol

from ottla.background import awaited, keep_running, supervise_thread
from ottla.base import OttlaError
from ottla.client import ConsumerGroupMetadata
from ottla.spark.continuous.lane import OUTSIDE, Doors, FencedError, Lane, OnHost
from ottla.spark.continuous.plan import ApplicationPlan
from ottla.spark.continuous.work import Work
from ottla.streams import StreamsWork

__all__ = ["STOP", "Host", "HostPort", "HostSpec", "Orders"]

log = logging.getLogger(__name__)
STOP: Mapping[str, Any] = {"order": "stop"}
REPORT_SECONDS = 1.0
STUCK_SECONDS = 5.0
"""After so long in one work's functions the driver is told whose they are: nothing else runs here meanwhile."""
COLLECT_AFTER = 200_000
"""Objects after which Python looks for cycles among the young: a turn's records are many and have none."""


@dataclass(frozen=True, slots=True)
class HostSpec:
    """Which host this is; its works come later."""

    service: str
    number: int

    def to_message(self) -> dict[str, Any]:
        """Return what JSON can hold of it: all."""
        return asdict(self)

    @classmethod
    def of_message(cls, message: Mapping[str, Any]) -> HostSpec:
        """Return what `to_message` was given; raises TypeError for anything else."""
        return cls(**message)


class HostPort(Protocol):
    """The way to the driver; calls raise ConnectionError once it is gone."""

    def note(self, op: str, /, **facts: Any) -> None:
        """Tell the driver something."""
        ...

    def confirm(self) -> None:
        """Return where this host is still the driver's; raises ConnectionError or OttlaError; waits for the answer."""
        ...


class Orders:
    """What the driver has ordered, from the thread that hears it to the loop that does it."""

    def __init__(self) -> None:
        self._waiting: deque[Mapping[str, Any]] = deque()
        self._wake: Callable[[], None] | None = None

    def put(self, order: Mapping[str, Any]) -> None:
        """Add an order; for any thread."""
        self._waiting.append(order)
        wake = self._wake
        if wake is not None:
            wake()

    def listen(self, wake: Callable[[], None]) -> None:
        """Have `wake` called for each order from now on, and once for those that wait."""
        self._wake = wake
        wake()

    def take(self) -> Iterable[Mapping[str, Any]]:
        """Take those that wait, in their order."""
        while self._waiting:
            yield self._waiting.popleft()


class Host:
    """See the module's description; `run` until it is told to stop, or fails."""

    def __init__(self, spec: HostSpec, port: HostPort, orders: Orders, doors: Doors = OUTSIDE) -> None:
        self._spec, self._port, self._orders, self._doors = spec, port, orders, doors
        self._applications: dict[str, OnHost] = {}
        self._unread: dict[str, str] = {}
        """Applications whose plan could not be read, and why."""
        self._lives: dict[str, int] = {}
        """Which of the applications of a name each is: one that is removed and added again is another."""
        self._given: dict[StreamsWork, int] = {}
        """By which of the driver's orders each work came here last: it may have come before, and been let go."""
        self._lanes: dict[tuple[Any, ...], Lane] = {}
        self._running: dict[asyncio.Task[None], Lane] = {}
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._failed: BaseException | None = None
        self._told: dict[StreamsWork, tuple[int, int]] = {}
        """How many turns and commits each work had done when its details were told last."""

    async def run(self) -> None:
        """Run until `stop`, or until a lane has failed, which it raises: FencedError, KafkaError."""
        ended = threading.Event()
        supervise_thread(partial(self._watch, ended), name="host-watch", serves="the driver")
        try:
            with _quiet_collections():
                await self.serve()
        finally:
            ended.set()

    async def serve(self) -> None:
        """Do as `run` in the loop alone: with nobody beside it who looks whether it is held up."""
        loop = asyncio.get_running_loop()
        self._orders.listen(lambda: _soon(loop, self._wake.set))
        self._port.note("ready", pid=os.getpid())
        reporting = keep_running(self._report, name="report", serves="the driver")
        try:
            while not self._is_stopping and self._failed is None:
                await self._wake.wait()
                self._wake.clear()
                for order in self._orders.take():
                    self._obey(order)
        finally:
            reporting.cancel()
            await self._stop()
        if self._failed is not None:
            raise self._failed

    async def _stop(self) -> None:
        """Have every lane commit and end."""
        for lane in self._lanes.values():
            lane.stop()
        if self._running:
            await asyncio.wait(self._running)
        with suppress(ConnectionError):
            self._tell_report()

    def _obey(self, order: Mapping[str, Any]) -> None:
        match order["order"]:
            case "application":
                self._learn(order)
            case "pause":
                found = self._applications.get(order["application"])
                if found is not None and found.is_paused != order["paused"]:
                    found.is_paused = order["paused"]
                    for lane in self._lanes.values():
                        lane.set_paused(order["application"], paused=found.is_paused)
                self._note("paused", application=order["application"])
            case "drain":
                if (drained := self._applications.get(order["application"])) is not None:
                    drained.is_draining = True
                for lane in self._lanes.values():
                    lane.drain(order["application"])
            case "member":
                found = self._applications.get(order["application"])
                if found is not None:
                    found.member = _member(order["application"], order["member"])
            case "assign":
                self._given.update({StreamsWork(*each): order["number"] for each in order["works"]})
                for lane, works in self._by_lane(order["works"]):
                    lane.assign(works)
            case "revoke":
                for lane, works in self._by_lane(order["works"]):
                    lane.revoke(works)
            case "follow":
                for lane, works in self._by_lane(order["works"]):
                    lane.follow(works)
            case "unfollow":
                for lane, works in self._by_lane(order["works"]):
                    lane.unfollow(works)
            case "forget":
                for lane in self._lanes.values():
                    lane.forget(order["application"])
                for known in (self._applications, self._unread, self._lives):
                    known.pop(order["application"], None)
                self._retire()
            case "stop":
                self._is_stopping = True

    def _learn(self, order: Mapping[str, Any]) -> None:
        """Take in an application; one that cannot be read here fails, and nobody with it."""
        name = order["name"]
        self._lives[name] = order["life"]
        try:
            plan: ApplicationPlan = pickle.loads(order["plan"])
        except Exception as error:  # a pickle runs a user's code, which may raise anything
            self._applications.pop(name, None)
            details = "".join(traceback.format_exception(error))
            log.warning("application %s cannot be read: %s", name, error)
            self._unread[name] = details
            return
        self._unread.pop(name, None)
        member = _member(name, order["member"])
        self._applications[name] = OnHost(plan, member, is_paused=order["paused"], is_draining=order["draining"])

    def _by_lane(self, works: Iterable[Any]) -> Iterable[tuple[Lane, list[StreamsWork]]]:
        """Return works by the lane that they belong to, which is begun where there is none yet."""
        found: dict[tuple[Any, ...], list[StreamsWork]] = {}
        unknown: dict[str, list[StreamsWork]] = {}
        for each in works:
            work = StreamsWork(*each)
            known = self._applications.get(work.application)
            if known is not None:
                found.setdefault(known.plan.lane, []).append(work)
            else:
                unknown.setdefault(work.application, []).append(work)
        for name, lost in unknown.items():
            self.on_failed(name, lost, self._unread.get(name, f"{name} is not known to this host"))
        return [(self._lane(key, named[0].application), named) for key, named in found.items()]

    def _lane(self, key: tuple[Any, ...], application: str) -> Lane:
        lane = self._lanes.get(key)
        if lane is None:
            plan = self._applications[application].plan
            lane = self._lanes[key] = Lane(
                self._spec.service, self._spec.number, plan, self, self._applications, self._doors
            )
            before = [task for task, each in self._running.items() if each.key == key]
            work = self._run_lane(lane, before)
            task = awaited(work, name=f"lane of {application}")
            self._running[task] = lane
            task.add_done_callback(self._ended)
        return lane

    async def _run_lane(self, lane: Lane, before: list[asyncio.Task[None]]) -> None:
        """Run a lane once those before it, which have its transactional id, have ended."""
        if before:
            await asyncio.wait(before)
        await lane.run()

    def _retire(self) -> None:
        """Have lanes end of which nobody has an application any more."""
        wanted = {each.plan.lane for each in self._applications.values()}
        for key in self._lanes.keys() - wanted:
            self._lanes.pop(key).stop()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Note a lane's end.

        One that was fenced ends the host: its works begin anew where the driver says. Any other failure is its own: of its
        principal, or of what only it asks. Its applications are taken off, and those of other lanes go on.
        """
        lane = self._running.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is None or lane is None:
            return
        if isinstance(error, FencedError):
            log.error("host %d of %s ends: %s", self._spec.number, self._spec.service, error)
            self._failed = self._failed or error
            self._wake.set()
            return
        if self._lanes.get(lane.key) is lane:
            del self._lanes[lane.key]
        lane.give_up(error)

    # -- what the driver is told (`LaneListener`)

    def on_running(self, work: StreamsWork) -> None:
        """See `LaneListener`."""
        self._note("running", lives=self._lives_of([work]), **self._told_of([work]))

    def on_released(self, works: Iterable[StreamsWork]) -> None:
        """See `LaneListener`."""
        told = list(works)
        self._note("released", lives=self._lives_of(told), **self._told_of(told))

    def on_failed(self, application: str, works: Iterable[StreamsWork], details: str) -> None:
        """See `LaneListener`."""
        lives = {application: self._lives[application]} if application in self._lives else {}
        self._note("failed", application=application, details=details, lives=lives, **self._told_of(works))

    def _told_of(self, works: Iterable[StreamsWork]) -> dict[str, list[Any]]:
        """Return works for a note, with the orders by which they came: a note may be late, and they given again."""
        told = list(works)
        return {"works": [list(each) for each in told], "given": [self._given.get(each, 0) for each in told]}

    def _lives_of(self, works: Iterable[StreamsWork]) -> dict[str, int]:
        """Return which applications works are of, so that nobody takes them for those of another of the same name."""
        return {each.application: self._lives[each.application] for each in works if each.application in self._lives}

    async def confirm(self) -> None:
        """See `LaneListener`."""
        try:
            await self._doors.wait(self._port.confirm)
        except (ConnectionError, OttlaError) as error:
            raise FencedError(f"the driver does not know this host any more: {error}") from error

    def _note(self, op: str, **facts: Any) -> None:
        try:
            self._port.note(op, **facts)
        except ConnectionError:
            self._is_stopping = True  # the driver is gone: what is done is committed, if that is still allowed
            self._wake.set()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            try:
                self._tell_report()
            except ConnectionError:
                self._is_stopping = True
                self._wake.set()
                return

    def _watch(self, ended: threading.Event) -> None:
        """The thread beside the loop: say whose functions hold it up."""
        while not ended.wait(REPORT_SECONDS):
            for lane in list(self._lanes.values()):
                in_hand = lane.in_hand
                if in_hand is not None and (seconds := time.monotonic() - in_hand[1]) > STUCK_SECONDS:
                    try:
                        self._port.note("stuck", application=in_hand[0], seconds=seconds)
                    except ConnectionError:
                        return

    def _details(self, name: StreamsWork, work: Work) -> dict[str, Any] | None:
        """Return what nodes and stores of a work have counted; None where that is as it was told before."""
        now = work.counts.turns, work.counts.commits
        if self._told.get(name) == now:
            return None
        self._told[name] = now
        queues = work.arrivals.queues.values()
        return {
            "buffered": sum(queue.waiting for queue in queues),
            "consumed": [
                [queue.source, queue.partition.topic, queue.records_total, queue.size_bytes_total] for queue in queues
            ],
            "produced": [[*each, *meter.told()] for each, meter in work.produced.items()],
            "stores": work.store_entries,
        }

    def _tell_report(self) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        lanes = [
            {
                "applications": sorted({name.application for name in lane.works}),
                "restoring": lane.restoring,
                "standbys": [[list(each.name), each.lag, each.updated] for each in lane.standbys],
                "meters": lane.meters.told(),
                "turns": lane.turns,
                "commits": lane.commits,
                "commit_s_total": lane.commit_s_total,
                "commit_s_max": lane.commit_s_max,
                "busy_s": lane.busy_s,
                "fetches": lane.fetches,
                "fetched_bytes": lane.fetched_bytes,
            }
            for lane in self._lanes.values()
        ]
        works = [
            {
                "work": list(name),
                "counts": asdict(work.counts),
                "positions": [[*each, queue.position, queue.end] for each, queue in work.arrivals.queues.items()],
                "committed": [[*each, offset] for each, offset in work.offsets_committed.items()],
                "details": self._details(name, work),
            }
            for lane in self._lanes.values()
            for name, work in lane.works.items()
        ]
        held = {name for lane in self._lanes.values() for name in lane.works}
        self._told = {name: done for name, done in self._told.items() if name in held}
        cpu_s = usage.ru_utime + usage.ru_stime
        lives = dict(self._lives)
        self._port.note("report", works=works, lanes=lanes, cpu_s=cpu_s, rss_kib=usage.ru_maxrss, lives=lives)


def _member(application: str, given: Any) -> ConsumerGroupMetadata | None:
    if given is None:
        return None
    return ConsumerGroupMetadata(application, str(given[0]), int(given[1]))


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed: there is nobody who would do it
        loop.call_soon_threadsafe(call)


class _quiet_collections:
    """Have Python look for cycles rarely, and not among what is there already."""

    def __enter__(self) -> None:
        self._before = gc.get_threshold()
        gc.collect()
        gc.freeze()
        gc.set_threshold(COLLECT_AFTER, 50, 1000)

    def __exit__(self, *_: object) -> None:
        gc.set_threshold(*self._before)
        gc.unfreeze()
