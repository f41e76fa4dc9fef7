"""Incremental fetch sessions (KIP-227): the server remembers what a client fetches, and both send only what changed.

A session's epoch counts its requests. 0 asks for a new session with a full request, -1 closes one; anything else must
be the epoch that the session expects, or the client has to start over. Topics are remembered by id since Fetch 13
(KIP-516), by name before, and one session never mixes the two.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from ottla.base import ErrorCode, KafkaError, Rng
from ottla.replica.replica import NEVER, LastFetch
from ottla.replica.waits import Wait

__all__ = ["FetchSession", "FetchSessionCache", "FetchedPartition", "SessionKey", "next_session_epoch"]

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
NO_SESSION: Final = 0
EPOCH_MAX: Final = 2**31 - 1
EVICTION_S: Final = 120.0
"""A session is safe from eviction for this long after it was made, or used (Kafka's fixed two minutes)."""
PARTITIONS_MAX: Final = 500_000
"""Partitions that consumers' sessions remember together, 300 bytes each: a thousand sessions of whatever size would be as
much memory as clients like. Who finds no room is served without a session, as where all slots are taken."""


class SessionKey(NamedTuple):
    """A partition in a session: its topic's id (bytes) or name (str), and its index."""

    topic: bytes | str
    partition: int


class FetchedPartition:
    """What a client fetches from one partition, and what it was last told of it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark_sent",
        "last_fetched_epoch",
        "log_start_offset",
        "log_start_sent",
        "max_bytes",
    )

    def __init__(
        self,
        *,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        high_watermark: int = -1,
    ) -> None:
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.high_watermark_sent = high_watermark
        self.log_start_sent = -1

    def update(self, newer: FetchedPartition) -> None:
        """Take over what the client asks for now; what it was told stays."""
        self.fetch_offset = newer.fetch_offset
        self.max_bytes = newer.max_bytes
        self.current_leader_epoch = newer.current_leader_epoch
        self.last_fetched_epoch = newer.last_fetched_epoch
        self.log_start_offset = newer.log_start_offset
        if newer.high_watermark_sent >= 0:
            self.high_watermark_sent = newer.high_watermark_sent

    def has_heard(self, *, high_watermark: int, log_start_offset: int) -> bool:
        """Return whether the last answer has said this."""
        return high_watermark == self.high_watermark_sent and log_start_offset == self.log_start_sent

    def must_answer(self, *, high_watermark: int, log_start_offset: int, has_news: bool) -> bool:
        """Return whether an incremental response includes this partition, and remember what it then says.

        `has_news` is True for records, an error, a diverging epoch or a preferred replica. After an error the watermark
        counts as never sent, so that the client hears of the recovery.
        """
        changed = not self.has_heard(high_watermark=high_watermark, log_start_offset=log_start_offset)
        self.high_watermark_sent = high_watermark
        self.log_start_sent = log_start_offset
        return has_news or changed


class IdlePartition(Protocol):
    """A partition of which somebody has everything: `wake_followers` ends that for everybody."""

    def wake_followers(self) -> None:
        """Have the partition read again by the next fetch of every session in which it is parked."""


class FetchSession:
    """One client's session: its partitions in the order in which they are served next.

    A follower's session is read where something has happened: partitions of which it has everything are parked until then.
    """

    __slots__ = (
        *(
            "answered_s",
            "awake",
            "created_s",
            "epoch",
            "id",
            "waiting",
            "partitions",
            "privileged",
            "last_fetch",
            "replica_epoch",
        ),
        *("idle", "used_s", "uses_topic_ids"),
    )

    def __init__(self, id: int, *, privileged: bool, uses_topic_ids: bool, now_s: float) -> None:
        self.id = id
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_s = now_s
        self.used_s = now_s
        self.epoch = 1
        self.partitions: OrderedDict[SessionKey, FetchedPartition] = OrderedDict()
        self.awake = self.partitions
        """Those that the next fetch looks at."""
        self.idle: dict[SessionKey, IdlePartition] = {}
        self.last_fetch = LastFetch(now_s)
        self.answered_s = NEVER
        """When a follower's last request was answered: it sends the next one after that."""
        self.replica_epoch = -1
        self.waiting: Wait | None = None
        """The fetch of a follower that waits."""

    def begin(self, partitions: OrderedDict[SessionKey, FetchedPartition]) -> None:
        """Take the partitions of the first request."""
        self.partitions = partitions
        self.awake = OrderedDict(partitions) if self.privileged else partitions

    def update(self, changed: Iterable[tuple[SessionKey, FetchedPartition]], forgotten: Iterable[SessionKey]) -> None:
        """Add or change partitions, and drop those that the client no longer wants."""
        partitions = self.partitions
        for key, wanted in changed:
            known = partitions.get(key)
            if known is None:
                partitions[key] = self.awake[key] = wanted
            else:
                self._wake(key)
                known.update(wanted)
        for key in forgotten:
            self._wake(key)
            partitions.pop(key, None)
            self.awake.pop(key, None)

    def fetched(self, now_s: float, replica_epoch: int) -> None:
        """Note a follower's fetch; a broker that has registered anew is looked at in every partition."""
        self.last_fetch.fetched_s = now_s
        self.last_fetch.confirmed_s = self.answered_s
        if replica_epoch != self.replica_epoch:
            self.replica_epoch = replica_epoch
            self.wake_all()

    def served(self, key: SessionKey) -> None:
        """Move a partition that gave records behind the others, so that a full response starves nobody."""
        if key in self.awake:
            self.awake.move_to_end(key)

    def park(self, key: SessionKey, partition: IdlePartition) -> None:
        """Read a partition no more until it is woken."""
        if self.awake.pop(key, None) is not None:
            self.idle[key] = partition

    def woken(self, key: SessionKey) -> Wait | None:
        """Read a partition again; return the fetch that waits, which may have reason to end."""
        if self.idle.pop(key, None) is not None and key in self.partitions:
            self.awake[key] = self.partitions[key]
        return self.waiting

    def wake_all(self) -> None:
        """Read every partition again."""
        for each in list(self.idle.values()):
            each.wake_followers()

    def _wake(self, key: SessionKey) -> None:
        idle = self.idle.get(key)
        if idle is not None:
            idle.wake_followers()


class FetchSessionCache:
    """Sessions of one broker, at most `slots_max` (`max.incremental.fetch.session.cache.slots`)."""

    def __init__(self, slots_max: int, rng: Rng, *, partitions_max: int = PARTITIONS_MAX) -> None:
        self._slots_max = slots_max
        self._partitions_max = partitions_max
        self._rng = rng
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.evictions = 0
        self.partitions = 0
        """How many partitions all sessions remember."""

    def __len__(self) -> int:
        return len(self._sessions)

    def create(
        self,
        partitions: Iterable[tuple[SessionKey, FetchedPartition]],
        *,
        privileged: bool,
        uses_topic_ids: bool,
        now_s: float,
    ) -> FetchSession | None:
        """Make a session, evicting another where the cache is full; None where no other may be evicted."""
        wanted = OrderedDict(partitions)
        size = len(wanted)
        if not wanted or (not privileged and not self._holds(size, now_s=now_s)):
            return None
        if not self._make_room(size, privileged=privileged, now_s=now_s):
            return None
        session = FetchSession(self._new_id(), privileged=privileged, uses_topic_ids=uses_topic_ids, now_s=now_s)
        session.begin(wanted)
        self._sessions[session.id] = session
        self.partitions += size
        return session

    def update(
        self,
        session: FetchSession,
        changed: Sequence[tuple[SessionKey, FetchedPartition]],
        forgotten: Iterable[SessionKey],
        *,
        now_s: float,
    ) -> None:
        """Let an incremental request change its session.

        Raises KafkaError with FETCH_SESSION_ID_NOT_FOUND where it would grow beyond what there is room for: the session is
        closed, and its client begins anew.
        """
        if changed and not session.privileged:
            added = sum(key not in session.partitions for key, _ in changed)
            if added and not self._holds(added, now_s=now_s):
                self.close(session.id)
                raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        before = len(session.partitions)
        session.update(changed, forgotten)
        self.partitions += len(session.partitions) - before

    def resume(self, session_id: int, epoch: int, *, uses_topic_ids: bool, now_s: float) -> FetchSession:
        """Return the session of an incremental request and count the request.

        Raises KafkaError with FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = next_session_epoch(epoch)
        session.used_s = now_s
        self._sessions.move_to_end(session_id)
        return session

    def close(self, session_id: int) -> None:
        """Forget a session, if it is known."""
        closed = self._sessions.pop(session_id, None)
        if closed is not None:
            self.partitions -= len(closed.partitions)
            closed.wake_all()

    def of_followers(self) -> list[FetchSession]:
        """Return the sessions of other brokers."""
        return [each for each in self._sessions.values() if each.privileged]

    def _new_id(self) -> int:
        while True:
            found = 1 + self._rng.randrange(EPOCH_MAX)
            if found not in self._sessions:
                return found

    def _holds(self, size: int, *, now_s: float) -> bool:
        """Return whether so many more partitions can be remembered; sessions that nobody has used lately make room."""
        while self.partitions + size > self._partitions_max and self._sessions:
            oldest = next(iter(self._sessions.values()))
            if now_s - oldest.used_s <= EVICTION_S:
                return False
            self.close(oldest.id)
            self.evictions += 1
        return self.partitions + size <= self._partitions_max

    def _make_room(self, size: int, *, privileged: bool, now_s: float) -> bool:
        """Evict the least recently used session if it is stale, else a smaller or less privileged old one."""
        if len(self._sessions) < self._slots_max:
            return True
        if self._slots_max <= 0:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_s - oldest.used_s > EVICTION_S:
            victim = oldest
        else:
            evictable = [each for each in self._sessions.values() if now_s - each.created_s >= EVICTION_S]
            if not evictable:
                return False
            victim = min(evictable, key=lambda each: (each.privileged, len(each.partitions), each.id))
            if (victim.privileged, len(victim.partitions)) >= (privileged, size):
                return False
        self.close(victim.id)
        self.evictions += 1
        return True


def next_session_epoch(epoch: int) -> int:
    """Return the epoch of a session's next request: it wraps around to 1, since 0 and -1 have meanings."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1
