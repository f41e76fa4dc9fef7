"""One driver for each application: it is the one member of the consumer group named by `application.id`.

The group's coordinator decides, and nothing on a disk, so that drivers on different machines see each other. Each driver
joins by a protocol that nobody else has; Kafka's coordinators refuse whoever has no protocol in common with the members, so
a second driver stays outside while the first lives, and comes in once the first has left or its session has run out. Tasks
commit as this member, of this generation, in their transactions (KIP-447): whoever is a member no more commits nothing.

The group lives on when a driver loses its membership over a long pause. It joins again if nobody has come in between; the
tasks that run then fail, and are done again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress

from ottla.background import count_failure, end, keep_running, supervise_thread
from ottla.base import ErrorCode, KafkaError, OttlaError
from ottla.client import (
    Client,
    ConsumerGroupMetadata,
    Coordinated,
    GroupMember,
    JoinedMember,
    JoinRefusedError,
    Limits,
    SecuredNetwork,
)
from ottla.wire import encode
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.describe_groups import DescribeGroupsRequest

__all__ = ["SESSION_TIMEOUT_MS_DEFAULT", "Membership"]

log = logging.getLogger(__name__)
SESSION_TIMEOUT_MS_DEFAULT = 10_000
"""How long after the last sign of a driver another may take over; `session.timeout.ms`."""
HEARTBEATS_PER_SESSION = 5
PROTOCOL_TYPE, PROTOCOL = "consumer", "ottla-driver-"
JOIN_SECONDS_MAX = 60.0
"""How long joins may come to nothing, one after another."""
LOOK_SECONDS = 0.25
"""How often it is looked whether a member that may be dead is gone."""
SLACK_SECONDS = 5.0
"""How much longer than a session a member that is there is waited for before it is said to live."""
LEAVE_SECONDS_MAX = 30.0


class Membership:
    """A driver's place in the group of its application; `join` first. An event loop in another thread says that it lives."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        application: str,
        *,
        topics: Sequence[str] = (),
        session_ms: int = SESSION_TIMEOUT_MS_DEFAULT,
        client_id: str = "ottla-driver",
        network: Callable[[], SecuredNetwork | None] = lambda: None,
        loop: asyncio.AbstractEventLoop | None = None,
        shared: Client | None = None,
        rejoined: Callable[[ConsumerGroupMetadata], None] = lambda member: None,
    ) -> None:
        """`network` is asked for what each client connects on; None is TCP in clear.

        Many memberships may live on one `loop`, which another thread runs, and send their heartbeats through one `shared`
        client of it; without, this one has both for itself. `rejoined` is told, on the loop, of another member or
        generation.
        """
        self._application = application
        self._bootstrap, self._client_id, self._network = bootstrap, client_id, network
        self._session_s = session_ms / 1000
        self._protocol = f"{PROTOCOL}{uuid.uuid4().hex}"
        subscription = ConsumerProtocolSubscription(topics=sorted(topics))
        self._metadata = (1).to_bytes(2, "big") + encode(subscription, 1)
        self._member: GroupMember | None = None
        self._identity: ConsumerGroupMetadata | None = None
        self._lost: KafkaError | None = None
        self._loop, self._shared, self._rejoined = loop, shared, rejoined
        self._owns_loop = loop is None
        self._thread: threading.Thread | None = None
        self._joining: Future[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._own: Client | None = None
        self._turn = asyncio.Lock()
        """Held by whoever joins again, since heartbeats and `renew` may both."""

    @property
    def member(self) -> ConsumerGroupMetadata:
        """The member as it is now; raises KafkaError where another driver has taken over."""
        if self._lost is not None:
            raise self._lost
        assert self._identity is not None, "join comes first"
        return self._identity

    @property
    def known(self) -> ConsumerGroupMetadata | None:
        """The member as it is now; None while `begin` has not come to an end. Raises KafkaError as `member`."""
        return self.member if self._identity is not None or self._lost is not None else None

    @property
    def lost(self) -> KafkaError | None:
        """Why this driver may not go on; None while it may."""
        return self._lost

    def join(self) -> ConsumerGroupMetadata:
        """Become the group's one member; waits for one that may be dead as long as its session may last.

        Raises KafkaError INCONSISTENT_GROUP_PROTOCOL, with words that name it, where another driver lives.
        """
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            name = f"driver-{self._application}"
            self._thread = supervise_thread(
                self._loop.run_forever, name=name, serves=f"application {self._application}"
            )
        joining = asyncio.run_coroutine_threadsafe(self._join(), self._loop)
        try:
            joining.result()
        except BaseException:
            joining.cancel()
            self._end_loop()
            raise
        return self.member

    def is_free(self) -> bool:
        """Whether nobody is in the group now; for a membership that shares a client. Raises KafkaError."""
        assert self._loop is not None and self._shared is not None, "it lives on a loop that others share"
        return asyncio.run_coroutine_threadsafe(self._members(self._shared), self._loop).result() == 0

    def begin(self) -> None:
        """Begin to join, and return at once: `known` or `lost` say later what came of it."""
        assert self._loop is not None and self._joining is None, "it lives on a loop that others share"
        self._joining = asyncio.run_coroutine_threadsafe(self._join_later(), self._loop)

    async def renew(self) -> ConsumerGroupMetadata | None:
        """Have another generation of this driver begin, and return it: coordinators refuse who commits as the one before.

        None where another driver has taken over, which is as good. For any event loop; raises KafkaError.
        """
        loop = self._loop
        if loop is None or loop.is_closed():
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"the driver of {self._application} has left its group")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._renew(), loop))

    def leave(self) -> None:
        """Leave the group, so that the next driver need not wait; does nothing where it never joined."""
        if self._loop is None or self._loop.is_closed():
            return
        if self._joining is not None:
            self._joining.cancel()
        if self._member is None:
            return
        leaving = asyncio.run_coroutine_threadsafe(self._leave(), self._loop)
        with suppress(TimeoutError):
            leaving.result(LEAVE_SECONDS_MAX)
        self._identity = None
        self._end_loop()

    # -- inside, on the loop

    async def _members(self, client: Client) -> int:
        request = DescribeGroupsRequest(groups=[self._application])
        [group] = (await client.request(request, coordinator_of=Coordinated(self._application))).groups
        return len(group.members)

    async def _join_later(self) -> None:
        try:
            await self._join()
        except OttlaError as error:
            if isinstance(error, KafkaError):
                self._lost = error
            else:
                self._lost = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
            log.error("%s", error)
        except Exception as error:  # whoever waits for it would wait for ever
            self._lost = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the driver could not join: {error!r}")
            log.exception("driver of %s could not join", self._application)
            count_failure("Streams drivers")
        else:
            self._rejoined(self.member)

    async def _join(self) -> None:
        client = self._own = self._client()
        try:
            self._member = self._new_member(client)
            until = time.monotonic() + self._session_s + SLACK_SECONDS
            said = False
            while not await self._try_join():
                who = await self._holder(client)
                if time.monotonic() > until:
                    raise self._refused(who)
                if not said:
                    said = True
                    log.warning("application %s has a driver: %s; waiting whether it lives", self._application, who)
                await asyncio.sleep(LOOK_SECONDS)
            await self._settle()
        except BaseException:
            self._own = None
            await client.close()
            raise
        name = f"driver of {self._application}"
        self._beating = keep_running(self._beat, name=name, serves=f"application {self._application}")

    async def _settle(self) -> None:
        """Send what follows through the shared client: only a join holds up what else a connection is asked."""
        assert self._member is not None
        if self._shared is not None and self._own is not None:
            self._member.use(self._shared)
            await self._own.close()
            self._own = None

    def _client(self) -> Client:
        limits = Limits(request_s=max(self._session_s / 2, 1.0))
        return Client(self._bootstrap, client_id=self._client_id, limits=limits, network=self._network())

    def _new_member(self, client: Client) -> GroupMember:
        session_ms = round(self._session_s * 1000)
        return GroupMember(
            client,
            self._application,
            protocol_type=PROTOCOL_TYPE,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // HEARTBEATS_PER_SESSION,
        )

    async def _try_join(self) -> bool:
        """Join; false where somebody else is in the group. Raises KafkaError."""
        assert self._member is not None
        until = time.monotonic() + JOIN_SECONDS_MAX
        try:
            while await self._member.join([(self._protocol, self._metadata)], _assign_nothing) is None:
                if time.monotonic() > until:
                    words = f"application {self._application} does not come to be in its group"
                    raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, words)
        except JoinRefusedError as error:
            if error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                return False
            raise
        self._identity = self._member.identity
        return True

    async def _holder(self, client: Client) -> str:
        """Return words for who is in the group."""
        request = DescribeGroupsRequest(groups=[self._application])
        [group] = (await client.request(request, coordinator_of=Coordinated(self._application))).groups
        found = [f"{each.client_id} at {each.client_host} (member {each.member_id})" for each in group.members]
        return ", ".join(found) or "a group of another kind, or one that is just ending"

    def _refused(self, who: str) -> KafkaError:
        return KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"application {self._application} is already run by {who}: an application.id has one driver at a time",
        )

    async def _beat(self) -> None:
        """Send heartbeats until this driver leaves, or another is there."""
        while self._lost is None:
            await asyncio.sleep(self._session_s / HEARTBEATS_PER_SESSION)
            try:
                await self._beat_once()
            except (OttlaError, OSError) as error:
                log.warning("the group's coordinator does not answer driver %s: %s", self._application, error)
            except Exception:  # a mistake of our own: who sends no more heartbeats goes on beside the next driver
                log.exception("driver of %s could not say that it lives, and tries again", self._application)
                count_failure("Streams drivers")

    async def _renew(self) -> ConsumerGroupMetadata | None:
        if self._lost is None and self._member is not None and self._identity is not None:
            async with self._turn:
                self._member.request_rejoin("a host that commits as this member is lost")
                await self._rejoin()
        return self._identity if self._lost is None else None

    async def _beat_once(self) -> None:
        async with self._turn:
            await self._rejoin()

    async def _rejoin(self) -> None:
        """Say that this driver lives, and join again where it has to."""
        member = self._member
        assert member is not None
        if not member.rejoins:
            await member.heartbeat()
        if not member.rejoins:
            return
        log.warning("driver of %s is to join again", self._application)
        if self._own is None:
            self._own = self._client()
            member.use(self._own)
        if await self._try_join():
            self._rejoined(self.member)
        else:
            words = f"application {self._application} was taken over by {await self._holder(self._own)}"
            self._lost = KafkaError(ErrorCode.FENCED_INSTANCE_ID, words)
            log.error("%s", words)
        await self._settle()

    async def _leave(self) -> None:
        await end(self._beating)
        if self._lost is None:
            await self._say_goodbye()
        if self._own is not None:
            await self._own.close()
            self._own = None

    async def _say_goodbye(self) -> None:
        assert self._member is not None
        await self._member.leave("the driver has stopped")

    def _end_loop(self) -> None:
        """Stop the thread and the loop, where they are this membership's own."""
        if not self._owns_loop or self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LEAVE_SECONDS_MAX)
        if not self._thread.is_alive():
            self._loop.close()
        self._loop = self._thread = None


def _assign_nothing(protocol: str, generation: int, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
    nothing = (0).to_bytes(2, "big") + encode(ConsumerProtocolAssignment(), 0)
    return {each.member_id: nothing for each in members}
