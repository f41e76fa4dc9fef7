"""The driver of a lanes' world: what `HostService` and a supervisor do, over channels that take their time and may be cut.

Where works go is decided by `placing`, as there. A host is a process: it may be killed, or cut off while it lives on.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from ottla.base import Offset, TopicPartition
from ottla.client import ConsumerGroupMetadata
from ottla.spark.continuous.host import STOP, Host, HostSpec, Orders
from ottla.spark.continuous.lane import Doors, transactional_id
from ottla.spark.continuous.plan import ApplicationPlan, works_of
from ottla.spark.continuous.work import Note, note_of, words_of
from ottla.streams import StreamsWork, placing
from tests.sim.loop import SimLoop
from tests.sim.process import Process
from tests.streams.lanes.applications import plan_data, plan_of
from tests.streams.lanes.cluster import Door, LaneCluster

__all__ = ["HOSTS", "Driver", "HostLife"]

LOOK_SECONDS = 0.02
TRANSACTION_SECONDS = 10.0
"""After so long a transaction of which nobody knows any more is aborted."""

HOSTS, SERVICE = 2, "service"


@dataclass
class _Application:
    plan: ApplicationPlan
    member: ConsumerGroupMetadata
    life: int
    is_parked: bool = True
    is_paused: bool = False
    is_draining: bool = False
    is_beginning: bool = False
    sent_to: set[int] = field(default_factory=set)


class HostLife:
    """One life of a host, its process, and the channel to it (`HostPort`)."""

    def __init__(self, driver: Driver, number: int) -> None:
        self.number, self.orders = number, Orders()
        self.is_ready = self.is_cut = self.is_gone = False
        self.works: dict[StreamsWork, int] = {}
        """What it has reported last."""
        self.running: set[StreamsWork] = set()
        """What it has told of as running, and not as let go: from when it tells, not from when it is heard."""
        self._driver, self._to_host_s, self._to_driver_s = driver, 0.0, 0.0
        self._has_noticed = False
        self.process = Process(driver.loop, f"host {number}")
        doors = Doors(client=driver.client, wait=self.wait)
        self.task = self.process.spawn(Host(HostSpec(SERVICE, number), self, self.orders, doors).serve())
        self.task.add_done_callback(self._ended)

    def send(self, order: Mapping[str, Any]) -> None:
        """Give an order, behind those before it."""
        if not self.is_cut:
            self._to_host_s = max(self._to_host_s + 1e-6, self._driver.loop.time() + self._driver.delay_s())
            self._driver.at(self._to_host_s, lambda: self.orders.put(order))

    def note(self, op: str, /, **facts: Any) -> None:
        """See `HostPort`."""
        if self._has_noticed or self.is_gone:
            raise ConnectionError("the driver is gone")
        self._keep_in_mind(op, facts)
        if not self.is_cut:
            self._to_driver_s = max(self._to_driver_s + 1e-6, self._driver.loop.time() + self._driver.delay_s())
            self._driver.at(self._to_driver_s, lambda: self._driver.heard(self, op, facts))

    def _keep_in_mind(self, op: str, facts: Mapping[str, Any]) -> None:
        if op == "running":
            works = self._driver.of_today(facts)
            self.running |= works
            self._driver.check_alone(self, works)
        elif op in ("released", "failed"):
            self.running -= {StreamsWork(*each) for each in facts["works"]}

    def forget(self, application: str) -> None:
        """Tell it to give an application up; what it does until it hears that is fenced by the group's next member."""
        self.running = {each for each in self.running if each.application != application}
        self.send({"order": "forget", "application": application})

    @property
    def is_trusted(self) -> bool:
        """Whether the driver counts on it: it lives, and neither was it cut off nor given up."""
        return self.process.alive and not self.is_cut and not self.is_gone and not self.task.done()

    def confirm(self) -> None:
        """See `HostPort`; called where the driver hears it."""
        if self.is_cut or self.is_gone:
            raise ConnectionError("the driver is gone")

    async def wait(self, call: Callable[[], None]) -> None:
        """Ask the driver something, and wait for its answer; where the line is cut, until that is noticed."""
        await asyncio.sleep(self._driver.answer_s())
        try:
            call()
        except ConnectionError:
            await _until(lambda: self._has_noticed or self.is_gone)
            raise
        await asyncio.sleep(self._driver.answer_s())

    def cut(self, noticed_s: float) -> None:
        """Cut the line: nothing comes through any more, and the host notices that later."""
        self.is_cut = True
        self._driver.at(self._driver.loop.time() + noticed_s, self._notice)

    def _notice(self) -> None:
        self._has_noticed = True
        self.orders.put(STOP)

    def kill(self) -> None:
        """End the process."""
        if self.process.alive:
            self.process.kill()
            self._driver.at(self._driver.loop.time() + self._driver.delay_s(), lambda: self._driver.host_gone(self))

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._driver.ends.append(repr(task.exception()))
        self._driver.at(self._driver.loop.time(), lambda: self._driver.host_gone(self))


class Driver:
    """See the module's description; its methods are called in the loop."""

    def __init__(
        self, loop: SimLoop, rng: random.Random, cluster: LaneCluster, *, exactly_once: bool, slow: float
    ) -> None:
        """`slow` is the part of messages that takes long."""
        self.loop, self._rng, self.cluster, self._exactly_once = loop, rng, cluster, exactly_once
        self._outside = Context()
        self.places = placing.Places()
        self.applications: dict[str, _Application] = {}
        self.hosts: dict[int, HostLife] = {}
        self.everyone: list[HostLife] = []
        self.ends: list[str] = []
        """What hosts have ended with."""
        self._fencing: set[int] = set()
        self._lives = self._orders = 0
        self._given: dict[StreamsWork, int] = {}
        self._latest_s, self._slow = 0.0, slow
        self._tasks: set[asyncio.Task[None]] = set()
        for number in range(HOSTS):
            self._start(number)

    def client(self, *_given: Any, **_options: Any) -> Any:
        """Return a client of the cluster."""
        return Door(self.cluster, self._rng, self._outside)

    def delay_s(self) -> float:
        """Return how long a message takes."""
        is_slow = self.cluster.is_troubled and self._rng.random() < self._slow
        return self._rng.uniform(0.2, 3.0) if is_slow else self._rng.uniform(0.0001, 0.003)

    def answer_s(self) -> float:
        """Return how long a question to the driver takes, whose loop may have much to do."""
        is_slow = self.cluster.is_troubled and self._rng.random() < 0.4
        return self._rng.uniform(0.01, 0.5) if is_slow else self.delay_s()

    def at(self, when_s: float, call: Callable[[], None]) -> None:
        """Have something happen that no process does."""
        self._latest_s = max(self._latest_s, when_s)
        self.loop.call_at(when_s, call, context=self._outside)

    def under_way_s(self) -> float:
        """Return how long it takes until everything has arrived that was sent."""
        return max(0.0, max(self._latest_s, self.cluster.latest_s) - self.loop.time()) + LOOK_SECONDS

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something of the driver's beside the rest."""
        task = self.loop.create_task(work, context=self._outside.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- applications

    def add(self, name: str) -> None:
        """Begin an application, as another one than those of its name before."""
        self._lives += 1
        plan = plan_of(name, exactly_once=self._exactly_once)
        member = self.cluster.rejoin(name)
        self.applications[name] = _Application(plan, member, self._lives)
        self.spawn(self._begin(name, self.applications[name]))

    async def _begin(self, name: str, found: _Application) -> None:
        """Choose where it begins, as `prepare_continuous` does, and have its works run."""
        if found.is_beginning:
            return
        found.is_beginning = True
        await asyncio.sleep(0.05 + self.delay_s())
        until_s = self.loop.time() + TRANSACTION_SECONDS
        await _until(lambda: self.cluster.is_stable(name) or self.loop.time() > until_s)
        self.cluster.time_out(name)
        offsets, places = self.cluster.offsets.setdefault(name, {}), works_of(found.plan)
        for partition in range(len(places)):
            place = TopicPartition("in", partition)
            offset, words = offsets.get(place, (-1, ""))
            topic_id = self.cluster.topics[place.topic][0].hex()
            begin, end = self.cluster.starts.get(place, 0), self.cluster.logs[place].end
            if note_of(words).topic_id not in ("", topic_id) or not begin <= offset <= end:
                offsets[place] = Offset(begin), words_of(Note(None, topic_id))
        found.is_parked = found.is_beginning = False
        if self.applications.get(name) is found:
            self.place()

    async def remove(self, name: str, patience_s: float) -> None:
        """Have an application's works commit and end, or give them up; as `HostService.remove`."""
        found = self.applications[name]
        found.is_parked, found.is_beginning = True, True
        self.place()
        until_s = self.loop.time() + patience_s
        await _until(lambda: self.loop.time() >= until_s or self.has_let_go(name))
        left = [each for each in self.places.owners if each.application == name]
        for host in self.hosts.values():
            if host.number in found.sent_to:
                host.forget(name)
                self.places = self.places.released(host.number, left)
        del self.applications[name]
        self.place()

    def pause(self, name: str, *, paused: bool) -> None:
        """Have an application's works stay, or go on."""
        found = self.applications[name]
        found.is_paused = paused
        self._tell(found, {"order": "pause", "application": name, "paused": paused})

    def drain(self, name: str) -> None:
        """Have an application read its sources no more."""
        self.applications[name].is_draining = True
        self._tell(self.applications[name], {"order": "drain", "application": name})

    def rejoin(self, name: str) -> None:
        """Have the driver be another member of an application's group: hosts hear of it later."""
        found = self.applications[name]
        found.member = self.cluster.rejoin(name)
        member = [found.member.member_id, found.member.generation]
        self._tell(found, {"order": "member", "application": name, "member": member})

    def renew(self, name: str) -> None:
        """Have another generation begin: at least once this fences a host that is gone."""
        self.rejoin(name)

    def _tell(self, found: _Application, order: Mapping[str, Any]) -> None:
        for host in self.hosts.values():
            if host.number in found.sent_to:
                host.send(order)

    # -- placing

    def place(self) -> None:
        """Say to the hosts what follows from how things stand."""
        running = [each.plan for each in self.applications.values() if not each.is_parked]
        self.places, said = placing.orders(self.places.wanting([work for plan in running for work in works_of(plan)]))
        for number in said.fence:
            if number not in self._fencing:
                self._fencing.add(number)
                self.spawn(self._fence(number))
        for number, works in said.revoke.items():
            self.hosts[number].send({"order": "revoke", "works": [list(each) for each in works]})
        for number, works in said.assign.items():
            self._assign(self.hosts[number], works)

    def _assign(self, host: HostLife, works: tuple[StreamsWork, ...]) -> None:
        for name in dict.fromkeys(each.application for each in works):
            found = self.applications[name]
            if host.number not in found.sent_to:
                found.sent_to.add(host.number)
                plan = plan_data(name, exactly_once=self._exactly_once)
                told = {"order": "application", "name": name, "plan": plan, "life": found.life}
                state = {"paused": found.is_paused, "draining": found.is_draining}
                host.send({**told, **state, "member": [found.member.member_id, found.member.generation]})
        self._orders += 1
        self._given.update(dict.fromkeys(works, self._orders))
        host.send({"order": "assign", "works": [list(each) for each in works], "number": self._orders})

    def move_something(self) -> None:
        """Measure other costs, so that a work is to move."""
        costs = {work: self._rng.random() for work in self.places.works}
        self.places = self.places.measured(costs)
        self.place()

    async def _fence(self, number: int) -> None:
        """Make sure that a host that is gone commits nothing more, and give its works to others."""
        lanes = {each.plan.lane for each in self.applications.values() if each.plan.exactly_once}
        for lane in lanes:
            await asyncio.sleep(self.delay_s())
            self.cluster.take_over(transactional_id(SERVICE, number, lane))
        owned = {work.application for work, owner in self.places.owners.items() if owner == number}
        for name in owned & self.applications.keys() if not self._exactly_once else ():
            await asyncio.sleep(self.delay_s())
            if name in self.applications:
                self.renew(name)
        await asyncio.sleep(self.delay_s())
        self._fencing.discard(number)
        self.places = self.places.fenced(number)
        self.place()

    # -- hosts

    def check_alone(self, host: HostLife, works: set[StreamsWork]) -> None:
        """Note works that run on a host while another, on which the driver counts, has not let them go."""
        for other in self.everyone:
            if other is not host and host.is_trusted and other.is_trusted and (both := works & other.running):
                self.cluster.wrong.append(f"{sorted(both)} run on host {host.number} and on host {other.number}")

    def _start(self, number: int) -> None:
        self.hosts[number] = HostLife(self, number)
        self.everyone.append(self.hosts[number])

    def host_gone(self, host: HostLife) -> None:
        """A host answers no more: another life begins."""
        if host.is_gone:
            return
        host.is_gone = True
        if self.hosts.get(host.number) is not host:
            return
        del self.hosts[host.number]
        self.places = self.places.left(host.number)
        self.place()
        self.at(self.loop.time() + self._rng.uniform(0.01, 0.5), lambda: self._start(host.number))

    async def _welcome(self, host: HostLife) -> None:
        await _until(lambda: host.number not in self._fencing)
        if self.hosts.get(host.number) is host:
            self.places = self.places.joined(host.number)
            self.place()

    def heard(self, host: HostLife, op: str, facts: Mapping[str, Any]) -> None:
        """Take in what a host tells."""
        if self.hosts.get(host.number) is not host:
            return
        if op == "ready":
            host.is_ready = True
            for found in self.applications.values():
                found.sent_to.discard(host.number)
            self.spawn(self._welcome(host))
        elif op == "report":
            host.works = {StreamsWork(*each["work"]): facts["lives"][each["work"][0]] for each in facts["works"]}
        elif op == "released":
            self.places = self.places.released(host.number, self._present(facts))
            self.place()
        elif op == "failed":
            self._failed(host, str(facts["application"]), facts)

    def _present(self, facts: Mapping[str, Any]) -> list[StreamsWork]:
        works = zip([StreamsWork(*each) for each in facts["works"]], facts["given"], strict=True)
        same = [work for work, number in works if self.is_as_given(work, number)]
        return [each for each in same if self._is_of(each, facts)]

    def is_as_given(self, work: StreamsWork, number: int) -> bool:
        """Whether a note is of the time since a work was given to a host last."""
        return self._given.get(work) == number

    def of_today(self, facts: Mapping[str, Any]) -> set[StreamsWork]:
        """Return the works of a note that are of applications as they are now, and not of one that was removed."""
        works = [StreamsWork(*each) for each in facts["works"]]
        return {each for each in works if each.application in self.applications and self._is_of(each, facts)}

    def _is_of(self, work: StreamsWork, facts: Mapping[str, Any]) -> bool:
        found = self.applications.get(work.application)
        return found is None or facts["lives"].get(work.application, found.life) == found.life

    def _failed(self, host: HostLife, name: str, facts: Mapping[str, Any]) -> None:
        found = self.applications.get(name)
        if found is None or facts["lives"].get(name, found.life) != found.life:
            return
        found.is_parked = True
        self.places = self.places.released(host.number, self._present(facts))
        self.place()
        self.at(self.loop.time() + 0.1, lambda: self._again(name, found))

    def _again(self, name: str, found: _Application) -> None:
        """Begin an application that has failed again, once all of its works are let go."""
        self.spawn(self._begin_again(name, found))

    async def _begin_again(self, name: str, found: _Application) -> None:
        if not found.is_beginning:
            await _until(lambda: self.has_let_go(name))
        if self.applications.get(name) is found:
            await self._begin(name, found)

    def has_let_go(self, name: str) -> bool:
        """Whether no host has works of an application."""
        return all(each.application != name for each in self.places.owners)

    async def close(self) -> None:
        """End everything at once."""
        for host in self.everyone:
            host.process.kill()
            host.process.bury()
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def _until(holds: Callable[[], bool]) -> None:
    """Wait, in virtual time, until something is so."""
    while not holds():  # noqa: ASYNC110  (a look costs nothing here)
        await asyncio.sleep(LOOK_SECONDS)
