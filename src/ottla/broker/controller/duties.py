"""What this node does of its own accord while it leads the quorum: watch over the brokers, and tidy up now and then.

A broker that is silent for `broker.session.timeout.ms` is fenced: others lead its partitions. Where its connection has
closed and its own listener refuses to be reached, the process is gone, and it is fenced at once; a broker that is merely
paused, or behind a slow network, keeps its connection and has its whole session. A new leader of the quorum gives everyone
a whole session, and looks after those who don't report.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from ottla.background import keep_running
from ottla.base import ErrorCode, KafkaError, LeaderEpoch, NodeId
from ottla.broker.controller.broker_sessions import BrokerSessions
from ottla.broker.quorum.driver import Quorum
from ottla.broker.quorum.vacancy import refuses
from ottla.config import BrokerConfig
from ottla.metadata import Broker, Image, decide
from ottla.net import Network

__all__ = ["ControllerDuties", "Duty"]

log = logging.getLogger(__name__)

PROBE_PAUSE_S = 0.05
"""Between two attempts to reach a broker that hung up; a process that ends closes its listener a moment later."""
PROBES_MAX = 12
REFUSALS_NEEDED = 4
"""Refusals in a row that show that a broker's process is gone: 0.2 s. One that lives, and has lost its connections to a
firewall or an address translation, asks for metadata through another by then."""
REPORT_S = 0.3
"""How long a new leader of the quorum waits for brokers to report before it looks after them."""
LATE_S = 1.0
"""A timer so late means that this process was held up: then nothing is known of the brokers, and nobody is to blame."""
AGAIN_S = 1.0
"""Before a duty that could not be done, or has more to do, is done again."""


@dataclass(frozen=True, slots=True)
class Duty:
    """Something to decide every so often; the response is True where there is more of it to do."""

    name: str
    interval_s: Callable[[], float]
    decision: Callable[[Image], decide.Decision[bool]]


class ControllerDuties:
    """Alive from the start of the node, active only while it leads the quorum."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        quorum: Quorum,
        network: Network,
        config: Callable[[], BrokerConfig],
        inter_broker_listener: str,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._node_id = node_id
        self._quorum = quorum
        self._network = network
        self._config = config
        self._listener = inter_broker_listener
        self._loop = loop
        self._duties: list[Duty] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._epoch: LeaderEpoch | None = None
        self._progress = asyncio.Event()
        """Set, and replaced, when something is heard of a broker."""
        self.sessions = BrokerSessions(config().settings.broker_session_timeout_ms / 1000)
        self._departures: dict[decide.Departure, float] = {}
        """Copies that are to go and were asked about, and since when."""
        self.timed_out = 0
        """How many brokers this controller has fenced because nothing was heard from them."""

    def start(self) -> None:
        """Follow the quorum's leadership."""
        self._quorum.subscribe_leadership(self._leadership_changed)

    def add(self, duty: Duty) -> None:
        """Do this from the next leadership on, first after its interval."""
        self._duties.append(duty)

    def stop(self) -> None:
        """Have no more duties."""
        self._end()

    @property
    def is_active(self) -> bool:
        """True while this node is the active controller."""
        return self._epoch is not None and self._quorum.is_leader

    # -- what handlers tell

    def heard(self, node: NodeId, epoch: int, channel: object, metadata_offset: int = -1) -> None:
        """Renew the session of a broker that has registered or sent a heartbeat."""
        if self._epoch is not None:
            self.sessions.heard(node, epoch, self._loop.time(), channel=channel, metadata_offset=metadata_offset)
            self._progressed()
            if self._timer is None:
                self._set_timer()

    def fetches(self, node: NodeId, channel: object, shown: int = -1) -> None:
        """Note the connection through which a node asks for metadata: while it is open, its process lives.

        `shown` is the offset up to which the node shows the metadata, -1 where it does not say.
        """
        if self._epoch is not None:
            self.sessions.fetches(node, channel, shown)
            self._progressed()

    def _progressed(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()

    def knows(self, node: NodeId, offset: int) -> bool:
        """Return whether a broker goes by the metadata up to this offset, or by none: its session is over."""
        broker = self._quorum.image.brokers.get(node)
        if broker is None or broker.fenced or self.sessions.get(node, broker.epoch) is None:
            return True
        if node == self._node_id:
            return self._quorum.image.offset >= offset
        return self.sessions.shown(node, broker.epoch) >= offset

    def waited_for(self, departure: decide.Departure) -> bool:
        """Return whether a whole session has passed since this was asked first about a copy that is to go.

        Then its broker does not answer by an older leadership, whether or not it was heard meanwhile.
        """
        now_s, session_s = self._loop.time(), self.sessions.timeout_s
        since_s = self._departures.setdefault(departure, now_s)
        self._departures = {each: at for each, at in self._departures.items() if now_s - at < 2 * session_s}
        return now_s - since_s >= session_s

    async def until_known(self, nodes: Iterable[NodeId], offset: int) -> None:
        """Return when these brokers know the committed metadata up to this offset, or cannot be answering by an older one.

        After a session that is so, whatever becomes of them: a lease ends sooner, for want of heartbeats or of metadata.
        Raises NOT_CONTROLLER where this node does not lead the quorum any more.
        """
        deadline_s = self._loop.time() + self.sessions.timeout_s
        waiting = list(nodes)
        while True:
            if not self.is_active:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
            waiting = [each for each in waiting if not self.knows(each, offset)]
            left_s = deadline_s - self._loop.time()
            if not waiting or left_s <= 0:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._progress.wait()

    def supersedes(self, registration: decide.Registration) -> bool:
        """Return whether a new incarnation takes the place of a registered one, because that is known to be gone.

        It is where nothing connects it any more with this controller, or where the new one listens at its address.
        """
        old = self._quorum.image.brokers.get(registration.broker_id)
        if old is None or registration.broker_id == self._node_id:  # this process has locked its folders
            return True
        if self.sessions.is_lively(old.id, old.epoch, self._loop.time()):
            return False
        session = self.sessions.get(old.id, old.epoch)
        return session is None or session.heard or set(old.endpoints) & set(registration.endpoints) != set()

    def others_follow(self, broker: Broker) -> bool:
        """Return whether every other active broker has heard who leads what a leaving broker led."""
        session = self.sessions.get(broker.id, broker.epoch)
        if session is None or session.leaves_after is None:
            return False
        return all(
            self._offset_of(each) >= session.leaves_after
            for each in self._quorum.image.brokers.values()
            if each.active and each.id != broker.id and self.sessions.get(each.id, each.epoch) is not None
        )

    def leaving(self, node: NodeId, epoch: int) -> None:
        """Remember from where on a broker leads nothing: at the metadata's end as it is now."""
        session = self.sessions.get(node, epoch)
        if session is not None and session.leaves_after is None:
            session.leaves_after = self._quorum.image.offset

    def _offset_of(self, broker: Broker) -> int:
        """Return how far a broker has the metadata: by its heartbeats, or by what it fetches."""
        if broker.id == self._node_id:
            return self._quorum.image.offset
        session = self.sessions.get(broker.id, broker.epoch)
        told = -1 if session is None else session.metadata_offset
        progress = self._quorum.status.replicas.get(broker.id)
        fetched = -1 if progress is None or progress.end_offset is None else progress.end_offset - 1
        return max(told, fetched)

    def disconnected(self, channel: object) -> None:
        """Called when a connection to this controller is closed; see whether the broker behind it still lives."""
        node = self.sessions.disconnected(channel)
        if node is not None and self.is_active and node != self._node_id:
            self._run(partial(self._probe, node))

    # -- leadership

    def _leadership_changed(self, leader: NodeId | None, epoch: LeaderEpoch, is_self: bool) -> None:
        if is_self and epoch != self._epoch:
            self._end()
            self._begin(epoch)
        elif not is_self:
            self._end()

    def _begin(self, epoch: LeaderEpoch) -> None:
        self._epoch = epoch
        self._departures = {}
        self.sessions = BrokerSessions(self._config().settings.broker_session_timeout_ms / 1000)
        brokers = [(each.id, each.epoch) for each in self._quorum.image.brokers.values() if not each.fenced]
        self.sessions.begin(sorted(brokers), self._loop.time())
        self._set_timer()
        self._run(self._look_after)
        for duty in self._duties:
            self._run(partial(self._keep, duty))

    def _end(self) -> None:
        self._epoch = None
        self._progressed()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something beside; it is not given up by a mistake of ours, for who is to be fenced must be."""
        task = keep_running(work, name="a duty", serves="the cluster's controller", loop=self._loop)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- sessions

    def _set_timer(self) -> None:
        next_end = self.sessions.next_end
        if next_end is not None:
            self._timer_at = next_end
            self._timer = self._loop.call_later(max(next_end - self._loop.time(), 0), self._look)

    def _look(self) -> None:
        """Fence whose session is over."""
        self._timer = None
        now = self._loop.time()
        if now - self._timer_at > LATE_S:
            brokers = [(each.id, each.epoch) for each in self._quorum.image.brokers.values() if not each.fenced]
            self.sessions.begin(sorted(brokers), now)
        for node in self.sessions.ended(now):
            self.sessions.forget(node)
            self._progressed()
            broker = self._quorum.image.brokers.get(node)
            if broker is not None and not broker.fenced:
                self._run(partial(self._fence, broker, "nothing was heard from it for its whole session"))
        self._set_timer()

    async def _fence(self, broker: Broker, reason: str) -> None:
        log.warning("Broker %s is fenced: %s", broker.id, reason)
        self.timed_out += 1
        self.sessions.forget(broker.id)
        while self.is_active:
            try:
                await self._quorum.submit(
                    lambda image: decide.fence_broker(image, broker.id, broker.epoch, config=self._config())
                )
            except KafkaError as error:
                if error.code is ErrorCode.NOT_CONTROLLER:
                    return  # whoever leads next looks after the brokers anew
                await asyncio.sleep(AGAIN_S)
            else:
                return

    # -- brokers that are gone

    async def _look_after(self) -> None:
        """Look after the brokers that have not reported to the new leader."""
        await asyncio.sleep(REPORT_S)
        for node in self.sessions.unheard():
            if node != self._node_id:
                self._run(partial(self._probe, node))

    async def _probe(self, node: NodeId) -> None:
        """Fence a broker whose listener refuses to be reached, and that is not heard; whoever can be reached has time."""
        refused = 0
        for _ in range(PROBES_MAX):
            await asyncio.sleep(PROBE_PAUSE_S)
            broker = self._quorum.image.brokers.get(node)
            if broker is None or broker.fenced or not self.is_active:
                return
            session = self.sessions.get(node, broker.epoch)
            if session is None or session.channel is not None or self.sessions.is_fetching(node):
                return
            if not await self._refuses(broker):
                refused = 0
                continue
            refused += 1
            if refused >= REFUSALS_NEEDED:
                await self._fence(broker, "its connection is closed, and its listener refuses another")
                return

    async def _refuses(self, broker: Broker) -> bool:
        """Return whether the machine is there and nobody listens at the broker's address."""
        endpoint = broker.endpoint(self._listener) or next(iter(broker.endpoints), None)
        return endpoint is not None and await refuses(self._network, endpoint)

    # -- now and then

    async def _keep(self, duty: Duty) -> None:
        wait_s = duty.interval_s()
        while True:
            await asyncio.sleep(wait_s)
            wait_s = duty.interval_s()
            with suppress(KafkaError):
                if await self._quorum.submit(duty.decision):
                    wait_s = min(wait_s, AGAIN_S)
