"""`HostService`: the driver's end of continuous mode. It keeps hosts running, places works, and knows how each stands.

One service may serve many applications: `add` and `remove` them while it runs. Its work is done on an event loop in a thread
of its own; the public methods are for any thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from ottla.background import awaited, keep_running, supervise, supervise_thread
from ottla.base import OttlaError, TopicPartition
from ottla.client import Client, ConsumerGroupMetadata, init_producer_id
from ottla.security.ephemeral import EphemeralKey, may_encrypt
from ottla.spark.connect.cluster import BIND, HOST, address_settings
from ottla.spark.connect.control import Attempt, ControlServer
from ottla.spark.continuous.fencing import Renew, fence_all
from ottla.spark.continuous.host import HostSpec
from ottla.spark.continuous.jobs import HostJobs
from ottla.spark.continuous.lane import transactional_id
from ottla.spark.continuous.metrics import Windows
from ottla.spark.continuous.plan import ApplicationPlan, replicas_of, works_of
from ottla.spark.private_api.workers import pickled
from ottla.spark.source.secured import network_of
from ottla.spark.streams.restarts import Failure, Restarts
from ottla.streams import StreamsWork, placing

__all__ = ["Fate", "HostFacts", "HostService", "WorkFacts"]

log = logging.getLogger(__name__)
T = TypeVar("T")
STOP_SECONDS = 15.0
CANCEL_SECONDS = 10.0
SILENT_SECONDS = 60.0
"""After so long without a word a host is ended: paused, stuck in a function, or cut off."""
LOOK_SECONDS = 0.5
CALL_SECONDS_MAX = 60.0
FENCE_SECONDS_MAX = 90.0
PAUSE_SECONDS_MAX = 5.0
"""How long hosts that are busy may take to hear of a pause; they hear of it later all the same."""
WELL_SECONDS = 30.0
"""A host that ran for so long was well: its failures count anew."""


@dataclass(slots=True)
class WorkFacts:
    """A work as its host has told it last."""

    host: int
    is_running: bool = False
    counts: Mapping[str, Any] = field(default_factory=dict)
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    standbys: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    """By host that keeps a copy of its state, how many records it is behind (None at first) and has read."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What its nodes and stores have counted, as `Host` tells it."""

    @property
    def lag(self) -> int:
        """Records that are in the topics and not processed yet."""
        return sum(max(0, end - self.positions.get(each, 0)) for each, end in self.ends.items())


@dataclass(slots=True)
class HostFacts:
    """A host as it stands."""

    number: int
    is_ready: bool = False
    pid: int | None = None
    restarts: int = 0
    last_error: str | None = None
    cpu_s: float = 0.0
    rss_kib: int = 0
    lanes: Sequence[Mapping[str, Any]] = ()


@dataclass(slots=True)
class Fate:
    """What has become of an application, as the service knows it."""

    failures: list[str] = field(default_factory=list)
    """Why works were taken off, with traces; who reads them takes them away."""
    works: dict[StreamsWork, WorkFacts] = field(default_factory=dict)
    is_parked: bool = False
    """Whether its works run nowhere since one of them has failed."""
    version: int = 0
    """Grows with every work that begins, ends or fails."""


@dataclass(slots=True)
class _Application:
    plan: ApplicationPlan
    data: bytes
    member: ConsumerGroupMetadata | None
    """The driver's place in the group; None while it has not joined, and nothing is committed."""
    renew: Renew | None = None
    fate: Fate = field(default_factory=Fate)
    life: int = 0
    """Which of the applications that this service has had is meant: hosts may still tell of an earlier one of the name."""
    is_paused: bool = False
    is_draining: bool = False
    sent_to: set[int] = field(default_factory=set)
    """Hosts that know its plan."""
    unheard: set[int] = field(default_factory=set)
    """Hosts that have not said yet that they have heard of the last pause, or of its end."""
    heard: asyncio.Event = field(default_factory=asyncio.Event)


class HostService:
    """See the module's description; `start` first, `close` at the end."""

    def __init__(
        self,
        name: str,
        jobs: HostJobs,
        *,
        hosts: int = 1,
        settings: Mapping[str, str] | None = None,
        restarts: Callable[[], Restarts] = lambda: Restarts(1_000_000, 0.5, 10.0),
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`name` begins every transactional id; `settings` are Spark's: where executors reach this machine.

        `changed` is called, on the loop, when an application's `Fate.version` has grown or a host is there.
        """
        self.name, self._changed = name, changed
        self._jobs, self._count = jobs, hosts
        self._settings = dict(settings or {})
        self._applications: dict[str, _Application] = {}
        self._places = placing.Places()
        self._hosts = [_Host(self, number, restarts()) for number in range(hosts)]
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._threads = ThreadPoolExecutor(hosts + 4, thread_name_prefix=f"host-{name}")
        self._control: ControlServer | None = None
        self._keeping: list[asyncio.Task[None]] = []
        self._fencing: dict[int, asyncio.Task[None]] = {}
        self._clients: dict[tuple[Any, ...], Client] = {}
        self._lanes: set[tuple[Any, ...]] = set()
        """Lanes whose transactional ids are this life's: nobody of an earlier one commits by them any more."""
        self._is_closing = False
        self._lives = self._orders = 0
        self._given: dict[StreamsWork, int] = {}
        """By which order each work was given to a host last."""
        self.windows = Windows()
        """What hosts have measured lately."""

    # -- for any thread

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that the service runs, in a thread of its own."""
        return self._loop

    def client(self, bootstrap: str, security: tuple[tuple[str, str], ...]) -> Client:
        """Return the client, on `loop`, that all share who ask one cluster as one principal."""

        async def found() -> Client:
            return self._client(bootstrap, security)

        return self._run(found())

    def fence(self, plan: ApplicationPlan) -> None:
        """Make sure that no host of this service's earlier life commits by the transactional ids of a plan's lane.

        Raises KafkaError. Does nothing where this life has begun that lane: its hosts have them.
        """
        self._run(self._fence_lane(plan), FENCE_SECONDS_MAX)

    def start(self, masters: str | None = None) -> None:
        """Begin to listen, and start the hosts, which takes a moment; works may be added at once."""
        self._thread = supervise_thread(
            self._loop.run_forever, name=f"hosts-{self.name}", serves=f"service {self.name}"
        )
        self._run(self._open(masters))

    def add(self, plan: ApplicationPlan, member: ConsumerGroupMetadata | None, renew: Renew | None = None) -> None:
        """Have an application's works run; without a member they commit when there is one.

        `renew` has the driver be another generation's member, where a host is lost that commits as this one's. Raises
        TypeError for a function that cannot be sent to the hosts.
        """
        try:
            data = pickled(plan)
        except Exception as error:  # pickle raises whatever an object's own methods raise
            words = f"{plan.application_id}: a function or serde cannot be sent to Spark's workers: {error}"
            raise TypeError(words) from error
        self._run(self._add(_Application(plan, data, member, renew)))

    def resume(self, application: str) -> None:
        """Have the works of an application that was parked run again."""
        self._run(self._resume(application))

    def pause(self, application: str, *, paused: bool) -> None:
        """Have an application's works stay where they are and process nothing, or go on; its hosts have heard of it then."""
        self._run(self._pause(application, paused=paused))

    def drain(self, application: str) -> None:
        """Have an application's works read only its repartition topics from now on, before it is removed."""
        self._run(self._drain(application))

    def set_member(self, member: ConsumerGroupMetadata) -> None:
        """Tell hosts the driver's place in an application's group, where that has changed; on the loop, too."""
        asyncio.run_coroutine_threadsafe(self._set_member(member), self._loop)

    def remove(self, application: str, patience_s: float = STOP_SECONDS) -> bool:
        """Have an application's works commit and end; returns whether all did in time."""
        return self._run(self._remove(application, patience_s), patience_s + CALL_SECONDS_MAX)

    def has_let_go(self, application: str) -> bool:
        """Whether no host has works of an application any more that it may still commit for."""
        return all(each.application != application for each in self._places.owners)

    def fate(self, application: str) -> Fate:
        """Return how an application stands; the value changes as that does, and is empty for one that is not there."""
        found = self._applications.get(application)
        return Fate() if found is None else found.fate

    def hosts(self) -> list[HostFacts]:
        """Return how the hosts stand."""
        return [each.facts for each in self._hosts]

    def close(self, patience_s: float = STOP_SECONDS) -> None:
        """Have every host commit and end; those that do not are ended."""
        if self._loop.is_closed() or self._thread is None or not self._thread.is_alive():
            return
        with suppress(TimeoutError):
            self._run(self._close(patience_s), patience_s + CANCEL_SECONDS + CALL_SECONDS_MAX)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS_MAX)
        self._threads.shutdown(wait=False)

    def _run(self, call: Coroutine[Any, Any, T], timeout_s: float = CALL_SECONDS_MAX) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(timeout_s)

    # -- on the loop

    async def _open(self, master: str | None) -> None:
        key = EphemeralKey() if may_encrypt() else None
        if self._jobs.is_local:
            self._control = ControlServer(key=key)
        else:
            found = address_settings(self._settings, master or "")
            self._control = ControlServer(found[HOST], bind=found[BIND], key=key)
        await self._control.listen()
        self._keeping = [
            keep_running(each.keep, name=f"host {each.number}", serves=f"service {self.name}", loop=self._loop)
            for each in self._hosts
        ]

    async def _add(self, application: _Application) -> None:
        self._lives += 1
        application.life = self._lives
        self._applications[application.plan.application_id] = application
        self._place()

    async def _resume(self, name: str) -> None:
        application = self._applications.get(name)
        if application is not None:
            application.fate.is_parked = False
            self._place()

    async def _pause(self, name: str, *, paused: bool) -> None:
        application = self._applications.get(name)
        if application is None or application.is_paused == paused:
            return
        application.is_paused = paused
        application.unheard = set()
        for host in self._hosts:
            if host.number in application.sent_to and host.facts.is_ready:
                application.unheard.add(host.number)
                host.send({"order": "pause", "application": name, "paused": paused})
        application.heard.clear()
        self._heard(application)
        with suppress(TimeoutError):
            await asyncio.wait_for(application.heard.wait(), PAUSE_SECONDS_MAX)

    async def _drain(self, name: str) -> None:
        application = self._applications.get(name)
        if application is None:
            return
        application.is_draining = True
        for host in self._hosts:
            if host.number in application.sent_to:
                host.send({"order": "drain", "application": name})

    def _heard(self, application: _Application, host: int | None = None) -> None:
        application.unheard.discard(-1 if host is None else host)
        if not application.unheard:
            application.heard.set()

    async def _set_member(self, member: ConsumerGroupMetadata) -> None:
        application = self._applications.get(member.group)
        if application is None or application.member == member:
            return
        application.member = member
        order = {"order": "member", "application": member.group, "member": [member.member_id, member.generation]}
        for host in self._hosts:
            if host.number in application.sent_to:
                host.send(order)

    async def _remove(self, name: str, patience_s: float) -> bool:
        application = self._applications.get(name)
        if application is None:
            return True
        application.fate.is_parked = True
        self._place()
        until_s = time.monotonic() + patience_s
        while not self.has_let_go(name) and time.monotonic() < until_s:  # noqa: ASYNC110  (hosts say it one by one)
            await asyncio.sleep(LOOK_SECONDS / 20)
        left = [each for each in self._places.owners if each.application == name]
        for host in self._hosts:
            if host.number in application.sent_to:
                host.send({"order": "forget", "application": name})
                self._places = self._places.released(host.number, left)
        del self._applications[name]
        self._place()
        return not left

    async def _close(self, patience_s: float) -> None:
        self._is_closing = True
        for host in self._hosts:
            host.stop()
        _, pending = await asyncio.wait(self._keeping, timeout=patience_s)
        if pending:
            for host in self._hosts:
                host.cancel()
            _, pending = await asyncio.wait(pending, timeout=CANCEL_SECONDS)
        for task in (*pending, *self._fencing.values()):
            task.cancel()
        for client in self._clients.values():
            await client.close()
        if self._control is not None:
            await self._control.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    # -- placing

    def _place(self) -> None:
        """Say to the hosts what follows from how things stand."""
        running = [each.plan for each in self._applications.values() if not each.fate.is_parked]
        wanted = [work for plan in running for work in works_of(plan)]
        replicas = {work: count for plan in running for work, count in replicas_of(plan).items()}
        self._places, said = placing.orders(self._places.wanting(wanted, replicas))
        for number in said.fence:
            if number not in self._fencing and not self._is_closing:
                self._fencing[number] = keep_running(
                    partial(self._fence, number), name=f"fence {number}", serves=f"service {self.name}", loop=self._loop
                )
        for number, works in said.revoke.items():
            self._hosts[number].send({"order": "revoke", "works": [list(each) for each in works]})
        for number, works in said.unfollow.items():
            self._hosts[number].send({"order": "unfollow", "works": [list(each) for each in works]})
        for number, works in said.assign.items():
            self._assign(self._hosts[number], works)
        for number, works in said.follow.items():
            self._teach(self._hosts[number], works)
            self._hosts[number].send({"order": "follow", "works": [list(each) for each in works]})

    def _teach(self, host: _Host, works: Sequence[StreamsWork]) -> None:
        """Tell a host what it does not know of the applications of works."""
        for name in dict.fromkeys(each.application for each in works):
            application = self._applications[name]
            if host.number not in application.sent_to:
                known = application.member
                member = None if known is None else [known.member_id, known.generation]
                told = {"order": "application", "name": name, "plan": application.data, "member": member}
                state = {"paused": application.is_paused, "draining": application.is_draining}
                host.send({**told, **state, "life": application.life})
                application.sent_to.add(host.number)

    def _assign(self, host: _Host, works: Sequence[StreamsWork]) -> None:
        self._teach(host, works)
        self._orders += 1
        for work in works:
            self._given[work] = self._orders
            self._applications[work.application].fate.works[work] = WorkFacts(host.number)
        host.send({"order": "assign", "works": [list(each) for each in works], "number": self._orders})

    async def _fence(self, number: int) -> None:
        """Make sure that a host that is gone commits nothing more, and give its works to others."""
        names = {work.application for work, owner in self._places.owners.items() if owner == number}
        fences: dict[Any, Callable[[], Coroutine[Any, Any, None]]] = {}
        for name, each in self._applications.items():
            if each.plan.exactly_once:
                fences[each.plan.lane] = partial(self._take_over, each.plan, number)
            elif name in names:
                fences[name] = partial(self._renew, each)
        await fence_all(fences, f"host {number} of {self.name}", lambda: self._is_closing)
        self._fencing.pop(number, None)
        self._places = self._places.fenced(number)
        self._place()

    async def _fence_lane(self, plan: ApplicationPlan) -> None:
        if not plan.exactly_once or plan.lane in self._lanes:
            return
        self._lanes.add(plan.lane)  # first: whoever comes next with this lane must not fence the hosts that run it
        try:
            for host in self._hosts:
                await self._take_over(plan, host.number)
        except BaseException:
            self._lanes.discard(plan.lane)
            raise

    async def _take_over(self, plan: ApplicationPlan, number: int) -> None:
        name = transactional_id(self.name, number, plan.lane)
        client = self._client(plan.bootstrap, plan.security)
        await init_producer_id(client, name, timeout_ms=plan.transaction_timeout_ms)

    async def _renew(self, application: _Application) -> None:
        """Have nobody commit any more as the driver's member that hosts have been told of, and tell those that live."""
        is_here = self._applications.get(application.plan.application_id) is application
        if is_here and application.renew is not None and (member := await application.renew()) is not None:
            await self._set_member(member)

    def _client(self, bootstrap: str, security: tuple[tuple[str, str], ...]) -> Client:
        key = (bootstrap, security)
        if key not in self._clients:
            network = network_of(security)
            self._clients[key] = Client(bootstrap, client_id=f"{self.name}-driver", network=network)
        return self._clients[key]

    # -- what hosts say

    def host_ready(self, host: _Host) -> None:
        """A host takes orders; whatever its last life had was fenced when that was lost."""
        for application in self._applications.values():
            application.sent_to.discard(host.number)
        supervise(self._welcome(host), name=f"welcome {host.number}", serves=f"service {self.name}", loop=self._loop)
        self._changed()

    async def _welcome(self, host: _Host) -> None:
        fencing = self._fencing.get(host.number)
        if fencing is not None:
            await asyncio.wait([fencing])
        if host.facts.is_ready:
            self._places = self._places.joined(host.number)
            self._place()

    def host_gone(self, host: _Host) -> None:
        """A host answers no more."""
        for application in self._applications.values():
            self._heard(application, host.number)
            for facts in application.fate.works.values():
                facts.standbys.pop(host.number, None)
                if facts.host == host.number:
                    facts.is_running = False
                    self._stir(application.fate)
        self._places = self._places.left(host.number)
        if not self._is_closing:
            self._place()

    def host_stuck(self, host: _Host, application: str, seconds: float) -> None:
        """A host is ended that one application's functions have held up: that one fails, and the others begin anew."""
        words = f"ProcessingError: a function of it has not returned for {seconds:.0f} s, and held up its host"
        log.error("application %s: %s", application, words)
        self._failed(host, application, [], words)

    def on_note(self, host: _Host, op: str, message: Mapping[str, Any]) -> None:
        """Called with what a host tells."""
        match op:
            case "running":
                for work in self._present(message):
                    self._set_running(work, host, is_running=True)
            case "released":
                released = self._present(message)
                for work in released:
                    self._set_running(work, host, is_running=False)
                self._places = self._places.released(host.number, released)
                self._place()
            case "failed":
                if self._is_present(str(message["application"]), message):
                    self._failed(host, str(message["application"]), self._present(message), str(message["details"]))
            case "paused":
                if (application := self._applications.get(str(message["application"]))) is not None:
                    self._heard(application, host.number)
            case "report":
                self._reported(host, message)

    def _present(self, message: Mapping[str, Any]) -> list[StreamsWork]:
        """Return the works of a note, without those of applications that were removed before it came.

        What a host has let go, and was given again before the note came, it has.
        """
        found = zip(_works(message), message["given"], strict=True)
        same = [work for work, number in found if number == self._given.get(work)]
        return [each for each in same if self._is_present(each.application, message)]

    def _is_present(self, name: str, message: Mapping[str, Any]) -> bool:
        """Whether a note is of the application that has a name now; where there is none, its hosts may let works go."""
        application, life = self._applications.get(name), message["lives"].get(name)
        return application is None or life is None or application.life == life

    def _facts(self, work: StreamsWork, host: _Host) -> WorkFacts | None:
        application = self._applications.get(work.application)
        facts = None if application is None else application.fate.works.get(work)
        return facts if facts is not None and facts.host == host.number else None

    def _set_running(self, work: StreamsWork, host: _Host, *, is_running: bool) -> None:
        facts = self._facts(work, host)
        if facts is not None:
            facts.is_running = is_running
            self._stir(self._applications[work.application].fate)

    def _stir(self, fate: Fate) -> None:
        fate.version += 1
        self._changed()

    def _failed(self, host: _Host, name: str, gone: Sequence[StreamsWork], details: str) -> None:
        """Park an application of which a host has taken its works off; others go on."""
        application = self._applications.get(name)
        if application is None:
            return
        application.fate.failures.append(details)
        application.fate.is_parked = True
        for work in gone:
            self._set_running(work, host, is_running=False)
        self._stir(application.fate)
        self._places = self._places.released(host.number, gone)
        self._place()

    def _reported(self, host: _Host, message: Mapping[str, Any]) -> None:
        facts = host.facts
        facts.cpu_s, facts.rss_kib, facts.lanes = message["cpu_s"], message["rss_kib"], message["lanes"]
        self.windows.note(host.number, facts.pid, message, time.monotonic())
        costs = {}
        for each in message["works"]:
            work = StreamsWork(*each["work"])
            found = self._facts(work, host) if self._is_present(work.application, message) else None
            if found is None:
                continue
            before = found.counts.get("process_s", 0.0)
            found.counts = each["counts"]
            found.positions = {TopicPartition(name, part): at for name, part, at, _ in each["positions"]}
            found.ends = {TopicPartition(name, part): end for name, part, _, end in each["positions"]}
            found.committed = {TopicPartition(name, part): at for name, part, at in each["committed"]}
            found.details = each["details"] or found.details
            spent = max(0.0, found.counts["process_s"] - before)
            costs[work] = 0.9 * self._places.cost(work) + 0.1 * (0.01 + spent)
        self._followed(host, message)
        if self._count > 1:
            self._places = self._places.measured(costs)
            self._place()

    def _followed(self, host: _Host, message: Mapping[str, Any]) -> None:
        """Note which copies of states a host keeps."""
        told = {StreamsWork(*name): (lag, read) for lane in message["lanes"] for name, lag, read in lane["standbys"]}
        for application in self._applications.values():
            for work, facts in application.fate.works.items():
                if work in told:
                    facts.standbys[host.number] = told[work]
                else:
                    facts.standbys.pop(host.number, None)
        self._places = self._places.followed(
            host.number, [work for work, (lag, _) in told.items() if self._is_warm(work, lag)]
        )

    def _is_warm(self, work: StreamsWork, lag: int | None) -> bool:
        application = self._applications.get(work.application)
        return application is not None and lag is not None and lag <= application.plan.recovery_lag_max

    def expect(self, host: _Host) -> Attempt[HostSpec]:
        """Announce a host's next life."""
        assert self._control is not None, "the service was started"
        return self._control.expect(host, HostSpec(self.name, host.number))

    @property
    def jobs(self) -> HostJobs:
        """Where hosts run."""
        return self._jobs

    @property
    def is_closing(self) -> bool:
        """Whether hosts that end are not started again."""
        return self._is_closing

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Wait for what waits."""
        return await self._loop.run_in_executor(self._threads, call)


class _Host:
    """One host's lives, one after another; what a life tells comes here (`Served`)."""

    def __init__(self, service: HostService, number: int, restarts: Restarts) -> None:
        self.number = number
        self.facts = HostFacts(number)
        self._service, self._restarts = service, restarts
        self._attempt: Attempt[HostSpec] | None = None
        self._heard_s = 0.0
        self._stuck: tuple[str, float] | None = None
        """Whose functions have held the host up since it was heard last, and for how many seconds."""

    async def keep(self) -> None:
        """Start the host, and start it again when it ends, until the service closes."""
        service = self._service
        while not service.is_closing:
            began_s = time.monotonic()
            error = await self._live()
            service.host_gone(self)
            if service.is_closing:
                return
            if time.monotonic() - began_s > WELL_SECONDS:
                self._restarts.progressed()
            self.facts.last_error = (error or "it ended by itself").splitlines()[0]
            self.facts.restarts += 1
            wait_s = self._restarts.after(Failure(self.facts.last_error, fatal=False))
            is_first = self._restarts.in_a_row == 1
            wait_s = 0.0 if is_first else wait_s or self._restarts.backoff_max_s
            log.warning("host %d of %s ended, and starts again in %.1f s: %s", self.number, service.name, wait_s, error)
            await asyncio.sleep(wait_s)

    async def _live(self) -> str | None:
        """Run the host once; returns what it ended with."""
        service = self._service
        attempt = self._attempt = service.expect(self)
        self._heard_s = time.monotonic()
        name = f"{service.name} host {self.number}"
        job = awaited(service.in_thread(lambda: service.jobs.run(attempt.dial, name)))
        try:
            while not job.done():
                await asyncio.wait([job], timeout=LOOK_SECONDS)
                if self.facts.is_ready and time.monotonic() - self._heard_s > SILENT_SECONDS:
                    log.error("host %d of %s says nothing any more, and is ended", self.number, service.name)
                    self.facts.is_ready = False
                    if self._stuck is not None:
                        service.host_stuck(self, *self._stuck)
                        self._stuck = None
                    service.jobs.cancel(attempt.dial)
                elif self.facts.is_ready and attempt.lost.is_set():
                    self.facts.is_ready = False
                    service.host_gone(self)
            return job.result()
        finally:
            self.facts.is_ready = False
            attempt.close()

    def send(self, order: dict[str, Any]) -> None:
        """Give the host an order, where it lives."""
        if self._attempt is not None:
            self._attempt.send(order)

    def stop(self) -> None:
        """Have the host commit and end."""
        self.send({"order": "stop"})
        if self._attempt is not None and not self.facts.is_ready:
            self.cancel()

    def cancel(self) -> None:
        """End the host at once."""
        if self._attempt is not None:
            self._service.jobs.cancel(self._attempt.dial)

    # -- `Served`

    def on_status(self, state: Any, trace: str | None) -> None:
        """Hosts tell no states."""

    async def on_request(self, op: str, message: Mapping[str, Any]) -> Any:
        """Answer a host's question: whether it is still ours. It is as long as its connection is."""
        if op != "confirm":
            raise OttlaError(f"{op}: no such question")

    def on_note(self, op: str, message: Mapping[str, Any]) -> None:
        """See `Served`."""
        if op == "stuck":
            self._stuck = str(message["application"]), float(message["seconds"])
            return
        self._heard_s, self._stuck = time.monotonic(), None
        if op == "ready":
            self.facts.is_ready, self.facts.pid = True, message.get("pid")
            self._service.host_ready(self)
        else:
            self._service.on_note(self, op, message)


def _works(message: Mapping[str, Any]) -> list[StreamsWork]:
    return [StreamsWork(*each) for each in message["works"]]
