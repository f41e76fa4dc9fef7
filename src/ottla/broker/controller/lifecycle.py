"""This node's broker in the cluster: registered as it starts, alive by heartbeats, and led away from as it stops (KIP-631).

The active controller may be this process or another: it is asked through the same channel. A broker stays fenced until it
has the metadata up to its own registration. Whose epoch is not the registered one any more registers anew. A broker that
stops says so first, and goes when others lead what it led; where no controller answers, it goes all the same after a
moment, and its next start takes that for a crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from ottla.background import awaited, keep_running
from ottla.base import ErrorCode, KafkaError, LeaderEpoch, NodeId, Uuid
from ottla.broker.controller.channel import ControllerChannel
from ottla.broker.quorum.driver import Quorum
from ottla.broker.quorum.vacancy import Vacancy
from ottla.broker.replicas.leader_lease import LeaderLease
from ottla.broker.replicas.storage import Storage
from ottla.config import BrokerSettings
from ottla.metadata import SUPPORTED_FEATURES, Delta, Endpoint, Image
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.controller_registration import Feature as ControllerFeature
from ottla.wire.messages.controller_registration import Listener as ControllerListener

__all__ = ["BrokerLifecycle", "registering_controller"]

log = logging.getLogger(__name__)

RETRY_S = 0.1
"""Before a heartbeat or a registration that failed is sent again; it doubles for registrations."""
RETRY_S_MAX = 1.0
LEAVING_INTERVAL_S = 0.02
"""Between the heartbeats of a broker that waits to be let go."""
LEAVE_S_MAX = 10.0
"""How long a controlled shutdown may take: others have the leaderships by then, or cannot have them."""
UNHEARD_S_MAX = 3.0
"""How long a broker that shuts down waits for a controller that does not answer."""
LOG_INTERVAL_S = 5.0
VACANCY_INTERVAL_S = 0.25
"""Between two looks at whether any controller can be in office, while none answers."""

GONE = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})
"""The registration is not this incarnation's any more."""
REFUSED = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""Asking again would not help."""


class BrokerLifecycle:
    """Registers this broker, keeps it alive, and takes its leave."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        incarnation_id: Uuid,
        endpoints: Callable[[], tuple[Endpoint, ...]],
        storage: Storage,
        controller: ControllerChannel,
        quorum: Quorum,
        lease: LeaderLease,
        vacancy: Vacancy,
        settings: Callable[[], BrokerSettings],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._node_id = node_id
        self._incarnation_id = incarnation_id
        self._endpoints = endpoints
        self._storage = storage
        self._controller = controller
        self._quorum = quorum
        self._lease = lease
        self._vacancy = vacancy
        self._settings = settings
        self._loop = loop
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._registered = asyncio.Event()
        self._unfenced = asyncio.Event()
        self._may_go = asyncio.Event()
        self._leaving = False
        self._heard_at = loop.time()
        self._usurped_s: float | None = None
        """When another process was last seen to serve under this id."""
        self.epoch = -1
        """The epoch of the newest registration, -1 before the first."""

    # -- starting

    async def register(self) -> None:
        """Register, and return once this broker's image has its registration.

        Only then may it act on the image: an older one may say that it leads what others lead by now, or what its disk
        has lost. Raises KafkaError where the controller refuses it for good, or did not register it within
        `initial.broker.registration.timeout.ms`.
        """
        await self._register(self._settings().initial_broker_registration_timeout_ms / 1000)
        self._quorum.subscribe(self._image_changed)
        await self._registered.wait()

    async def join(self) -> None:
        """Begin to send heartbeats, and return once the broker may serve."""
        self._quorum.subscribe_leadership(self._leadership_changed)
        self._storage.on_offline = self._wake.set
        self._task = self._lasting(self._live, "send heartbeats")
        self._watching = self._lasting(self._watch_vacancy, "watch for a controller")
        unfenced = awaited(self._unfenced.wait(), loop=self._loop)
        await asyncio.wait({self._task, unfenced}, return_when=asyncio.FIRST_COMPLETED)
        unfenced.cancel()
        if self._task.done():
            self._task.result()

    def _lasting(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
        """Begin what this broker's life hangs by; a mistake of ours in it is told, and it begins again."""
        return keep_running(work, name=name, serves=f"broker {self._node_id}", loop=self._loop)

    async def _register(self, patience_s: float) -> None:
        """Get an epoch; a controller that does not answer, or another incarnation that still lives, is waited for."""
        deadline = self._loop.time() + patience_s
        backoff_s, logged_at = RETRY_S, self._loop.time()
        while True:
            left_s = deadline - self._loop.time()
            error = await self._try_to_register(min(left_s, self._patience_s()))
            if error is None:
                return
            if error.code in REFUSED or left_s <= backoff_s:
                raise error
            if self._loop.time() - logged_at >= LOG_INTERVAL_S:
                logged_at = self._loop.time()
                log.info("Broker %s is not registered yet: %s", self._node_id, error.message)
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, RETRY_S_MAX)

    async def _try_to_register(self, timeout_s: float) -> KafkaError | None:
        try:
            answer = await self._controller.ask(self._registration(), timeout_ms=int(timeout_s * 1000))
        except KafkaError as error:
            return error
        if answer.error_code:
            code = ErrorCode(answer.error_code)
            return KafkaError(code, f"the controller does not register broker {self._node_id}: {code.name}")
        self.epoch = answer.broker_epoch
        self._tell("Broker %s is registered with epoch %s", self._node_id, self.epoch)
        return None

    def _tell(self, text: str, *arguments: object) -> None:
        """Log a step of this broker's life: news in a cluster, none on a node that is its own controller."""
        log.log(logging.DEBUG if self._quorum.is_alone else logging.INFO, text, *arguments)

    def _registration(self) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self._node_id,
            cluster_id=self._storage.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                Listener(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
                for each in self._endpoints()
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in _features(SUPPORTED_FEATURES)
            ],
            rack=self._settings().broker_rack,
            log_dirs=list(self._storage.directory_ids),
            previous_broker_epoch=self._storage.previous_broker_epoch if self.epoch < 0 else self.epoch,
        )

    # -- living

    async def _live(self) -> None:
        while True:
            self._wake.clear()
            wait_s = await self._beat()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    async def _beat(self) -> float:
        """Send a heartbeat, and return after how many seconds the next is due."""
        sent_s = self._loop.time()
        try:
            answer = await self._controller.ask(self._heartbeat(), timeout_ms=int(self._patience_s() * 1000))
        except KafkaError as error:
            log.warning("Broker %s cannot reach the controller: %s", self._node_id, error.message)
            return RETRY_S
        code = ErrorCode(answer.error_code)
        if code in GONE:
            return await self._register_anew(code)
        if code is not ErrorCode.NONE:
            log.warning("The controller refuses the heartbeat of broker %s: %s", self._node_id, code.name)
            return RETRY_S
        if answer.is_fenced:
            self._lease.suspend()  # others lead what this broker led, as soon as they hear of it
        elif self._quorum.image.offset >= self.epoch:
            self._lease.renew(sent_s)
        self._heard_at = self._loop.time()
        self._heed(answer)
        if self._leaving:
            return LEAVING_INTERVAL_S
        return self._settings().broker_heartbeat_interval_ms / 1000

    async def _watch_vacancy(self) -> None:
        """Keep the lease while heartbeats go unanswered because there is no controller, and not because it is elsewhere."""
        while not self._leaving:
            await asyncio.sleep(VACANCY_INTERVAL_S)
            asked_s = self._loop.time()
            overdue_s = self._settings().broker_heartbeat_interval_ms / 1000 + VACANCY_INTERVAL_S
            if asked_s - self._heard_at > overdue_s and self._lease.lasts:
                is_vacant = await self._vacancy.is_certain()
                if is_vacant and self._lease.lasts and not self._leaving:
                    self._lease.found_vacant(asked_s)

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self._node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._quorum.image.offset,
            want_fence=False,
            want_shut_down=self._leaving,
            offline_log_dirs=list(self._storage.offline_directory_ids),
            cordoned_log_dirs=list(self._storage.ids_of(self._settings().cordoned_log_dirs)),
        )

    def _heed(self, answer: BrokerHeartbeatResponse) -> None:
        if answer.should_shut_down:
            self._may_go.set()
        if answer.is_fenced == self._unfenced.is_set():
            if answer.is_fenced:
                self._unfenced.clear()
                if not self._leaving:
                    log.warning("Broker %s is fenced", self._node_id)
            else:
                self._unfenced.set()
                self._tell("Broker %s may serve", self._node_id)

    async def _register_anew(self, code: ErrorCode) -> float:
        self._lease.suspend()
        if self._leaving:
            self._may_go.set()  # nothing that this incarnation led is its own any more
            return LEAVING_INTERVAL_S
        if self._is_usurped():
            return RETRY_S_MAX
        log.warning("Broker %s registers anew: %s", self._node_id, code.name)
        self._unfenced.clear()
        try:
            await self._register(self._patience_s())
        except KafkaError as error:
            log.error("Broker %s cannot register anew: %s", self._node_id, error.message)
            return RETRY_S_MAX
        return 0.0

    def _is_usurped(self) -> bool:
        """Return whether another process goes by this id and may live: two must not take it from each other in turns.

        Its session has to be over, and it fenced for as long, before this one takes the id back.
        """
        other = self._quorum.image.brokers.get(self._node_id)
        now_s = self._loop.time()
        if other is None or other.incarnation_id == self._incarnation_id:
            self._usurped_s = None
            return False
        if self._usurped_s is None:
            log.error("Another process has registered as broker %s; this one serves nobody", self._node_id)
        if self._usurped_s is None or not other.fenced:
            self._usurped_s = now_s
        return now_s - self._usurped_s < self._settings().broker_session_timeout_ms / 1000

    def _patience_s(self) -> float:
        """Return how long one question may take: the session must not end while a dead controller is waited for."""
        return self._settings().broker_session_timeout_ms / 2000

    def _image_changed(self, old: Image, image: Image, delta: Delta) -> None:
        """Ask to be unfenced as soon as the registration is in the image."""
        if old.offset < self.epoch <= image.offset:
            self._registered.set()
            self._wake.set()

    def _leadership_changed(self, leader: NodeId | None, epoch: LeaderEpoch, is_self: bool) -> None:
        """Report to a new controller at once: it knows of no sessions."""
        if leader is not None:
            self._wake.set()

    # -- leaving

    async def leave(self) -> bool:
        """Ask to be let go, and return when others lead what this broker led; False where that was given up."""
        if self._task is None or self._task.done():
            return False
        self._leaving = True
        self._lease.end()
        self._wake.set()
        started = self._heard_at = self._loop.time()
        while not self._may_go.is_set():
            now = self._loop.time()
            if now - self._heard_at > UNHEARD_S_MAX or now - started > LEAVE_S_MAX:
                log.warning("Broker %s leaves without the controller's consent", self._node_id)
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVING_INTERVAL_S):
                    await self._may_go.wait()
        self._tell("Broker %s has handed over, within %.3f s", self._node_id, self._loop.time() - started)
        return True

    def close(self) -> None:
        """Send no more heartbeats."""
        for task in (self._task, self._watching):
            if task is not None:
                task.cancel()


def registering_controller(
    controller: ControllerChannel,
    *,
    node_id: NodeId,
    incarnation_id: Uuid,
    endpoints: tuple[Endpoint, ...],
    loop: asyncio.AbstractEventLoop,
) -> asyncio.Task[None]:
    """Begin to tell the active controller where this one is reached."""
    tell = partial(
        _register_controller, controller, node_id=node_id, incarnation_id=incarnation_id, endpoints=endpoints
    )
    return keep_running(tell, name="register the controller", serves="the metadata quorum", loop=loop)


async def _register_controller(
    controller: ControllerChannel,
    *,
    node_id: NodeId,
    incarnation_id: Uuid,
    endpoints: tuple[Endpoint, ...],
) -> None:
    """Tell the active controller where this one is reached; again until it answers."""
    request = ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=False,
        listeners=[
            ControllerListener(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in endpoints
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in _features(SUPPORTED_FEATURES)
        ],
    )
    while True:
        try:
            answer = await controller.ask(request)
        except KafkaError as error:
            log.info("Controller %s is not registered yet: %s", node_id, error.message)
        else:
            if answer.error_code:
                log.warning("Controller %s is not registered: %s", node_id, answer.error_message)
            return
        await asyncio.sleep(RETRY_S_MAX)


def _features(supported: Mapping[str, tuple[int, int]]) -> list[tuple[str, tuple[int, int]]]:
    return sorted(supported.items())
