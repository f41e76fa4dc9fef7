"""One driver for each application: it is the one member of the consumer group named by `application.id`.

The group's coordinator decides, and nothing on a disk, so that drivers on different machines see each other. Each driver
joins by a protocol that nobody else has; Kafka's coordinators refuse whoever has no protocol in common with the members, so
a second driver stays outside while the first lives, and comes in once the first has left or its session has run out. Tasks
commit as this member, of this generation, in their transactions (KIP-447): whoever is a member no more commits nothing.

The group lives on when a driver loses its membership over a long pause. It joins again if nobody has come in between; the
tasks that run then fail, and are done again.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.base import ErrorCode, KafkaError, OttlaError
from ottla.client import (
    BlockingClient,
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


class Membership:
    """A driver's place in the group of its application; `join` first. A thread of its own says that it lives."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        application: str,
        *,
        topics: Sequence[str] = (),
        session_ms: int = SESSION_TIMEOUT_MS_DEFAULT,
        client_id: str = "ottla-driver",
        network: Callable[[], SecuredNetwork | None] = lambda: None,
    ) -> None:
        """`network` is asked for what each client connects on; None is TCP in clear."""
        self._application = application
        self._bootstrap, self._client_id, self._network = bootstrap, client_id, network
        self._session_s = session_ms / 1000
        self._protocol = f"{PROTOCOL}{uuid.uuid4().hex}"
        subscription = ConsumerProtocolSubscription(topics=sorted(topics))
        self._metadata = (1).to_bytes(2, "big") + encode(subscription, 1)
        self._member: GroupMember | None = None
        self._identity: ConsumerGroupMetadata | None = None
        self._lost: KafkaError | None = None
        self._leaving = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def member(self) -> ConsumerGroupMetadata:
        """The member as it is now; raises KafkaError where another driver has taken over."""
        if self._lost is not None:
            raise self._lost
        assert self._identity is not None, "join comes first"
        return self._identity

    @property
    def lost(self) -> KafkaError | None:
        """Why this driver may not go on; None while it may."""
        return self._lost

    def join(self) -> ConsumerGroupMetadata:
        """Become the group's one member; waits for one that may be dead as long as its session may last.

        Raises KafkaError INCONSISTENT_GROUP_PROTOCOL, with words that name it, where another driver lives.
        """
        client = self._client()
        try:
            self._member = self._new_member(client)
            until = time.monotonic() + self._session_s + SLACK_SECONDS
            said = False
            while not self._try_join(client):
                who = self._holder(client)
                if time.monotonic() > until:
                    raise self._refused(who)
                if not said:
                    said = True
                    log.warning("application %s has a driver: %s; waiting whether it lives", self._application, who)
                time.sleep(LOOK_SECONDS)
        except BaseException:
            client.close()
            raise
        name = f"driver-{self._application}"
        self._thread = threading.Thread(target=self._beat, args=(client,), name=name, daemon=True)
        self._thread.start()
        return self.member

    def leave(self) -> None:
        """Leave the group, so that the next driver need not wait; does nothing where it never joined."""
        self._leaving.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS_MAX)
            self._thread = None

    # -- inside

    def _client(self) -> BlockingClient:
        limits = Limits(request_s=max(self._session_s / 2, 1.0))
        return BlockingClient(self._bootstrap, client_id=self._client_id, limits=limits, network=self._network())

    def _new_member(self, client: BlockingClient) -> GroupMember:
        session_ms = round(self._session_s * 1000)
        return GroupMember(
            client.client,
            self._application,
            protocol_type=PROTOCOL_TYPE,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // HEARTBEATS_PER_SESSION,
        )

    def _try_join(self, client: BlockingClient) -> bool:
        """Join; false where somebody else is in the group. Raises KafkaError."""
        assert self._member is not None
        until = time.monotonic() + JOIN_SECONDS_MAX
        try:
            while client.run(self._member.join([(self._protocol, self._metadata)], _assign_nothing)) is None:
                if time.monotonic() > until:
                    words = f"application {self._application} does not come to be in its group"
                    raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, words)
        except JoinRefusedError as error:
            if error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                return False
            raise
        self._identity = self._member.identity
        return True

    def _holder(self, client: BlockingClient) -> str:
        """Return words for who is in the group."""
        request = DescribeGroupsRequest(groups=[self._application])
        [group] = client.request(request, coordinator_of=Coordinated(self._application)).groups
        found = [f"{each.client_id} at {each.client_host} (member {each.member_id})" for each in group.members]
        return ", ".join(found) or "a group of another kind, or one that is just ending"

    def _refused(self, who: str) -> KafkaError:
        return KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"application {self._application} is already run by {who}: an application.id has one driver at a time",
        )

    def _beat(self, client: BlockingClient) -> None:
        """The thread: heartbeats until this driver leaves, or another is there."""
        try:
            while not self._leaving.wait(self._session_s / HEARTBEATS_PER_SESSION):
                try:
                    self._beat_once(client)
                except OttlaError as error:
                    log.warning("the group's coordinator does not answer driver %s: %s", self._application, error)
                if self._lost is not None:
                    return
            self._leave(client)
        finally:
            client.close()

    def _beat_once(self, client: BlockingClient) -> None:
        member = self._member
        assert member is not None
        if not member.rejoins:
            client.run(member.heartbeat())
        if not member.rejoins:
            return
        log.warning("driver of %s is to join again", self._application)
        if not self._try_join(client):
            words = f"application {self._application} was taken over by {self._holder(client)}"
            self._lost = KafkaError(ErrorCode.FENCED_INSTANCE_ID, words)
            log.error("%s", words)

    def _leave(self, client: BlockingClient) -> None:
        assert self._member is not None
        client.run(self._member.leave("the driver has stopped"))


def _assign_nothing(protocol: str, generation: int, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
    nothing = (0).to_bytes(2, "big") + encode(ConsumerProtocolAssignment(), 0)
    return {each.member_id: nothing for each in members}
