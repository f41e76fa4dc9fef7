"""What a decision about a group is, and what it may know: the values shared by every kind of group.

A decision changes nothing. It names the records to append to `__consumer_offsets`, the answers that leave once these are
committed, and the timers to set; whoever drives the shard appends, applies and answers. If the append fails, nothing has
happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from ottla.base import ErrorCode, Millis, ProducerEpoch, ProducerId, Rng, Uuid
from ottla.config import BrokerSettings
from ottla.wire import Message, encode_coordinator_record
from ottla.wire.messages.offset_commit_value import OffsetCommitValue

__all__ = [
    "NOTHING",
    "Cluster",
    "Committed",
    "Decision",
    "DecisionContext",
    "Group",
    "GroupKind",
    "Record",
    "Reply",
    "RequestOrigin",
    "Timer",
    "TimerChange",
    "TopicFacts",
    "encode_records",
    "new_uuid_text",
]


class Record(NamedTuple):
    """One record of `__consumer_offsets`; without a value it is a tombstone."""

    key: Message
    value: Message | None


class Reply(NamedTuple):
    """An answer for a request that was parked under `token`."""

    token: int
    response: Message


class Timer(NamedTuple):
    """Names a deadline: `kind` is the group kind's own word for what happens then."""

    group_id: str
    kind: str
    member_id: str = ""


class TimerChange(NamedTuple):
    """Sets a timer to a time of the wall clock, or takes it away where that is None."""

    timer: Timer
    at_ms: int | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done.

    `response` is the answer of the request itself; None parks it under its token, to be answered by a later decision's
    `replies`. `group` is the group with what no record holds (parked requests, members that are still joining): it takes
    the group's place after the records have been applied. Answers and timers count only once the append has succeeded.
    """

    records: tuple[Record, ...] = ()
    response: Message | None = None
    replies: tuple[Reply, ...] = ()
    timers: tuple[TimerChange, ...] = ()
    group: Group | None = None
    producer: tuple[ProducerId, ProducerEpoch] | None = None
    """The producer in whose transaction the records are written; None outside of transactions."""
    otherwise: Callable[[ErrorCode], Decision] | None = None
    """What is decided instead, by the error that clients are to hear, where the records cannot be appended."""


NOTHING = Decision()


class RequestOrigin(NamedTuple):
    """Who asks, and under which token the answer is parked if it has to wait."""

    client_id: str
    client_host: str
    """As in Kafka with a slash before the address: `/127.0.0.1`."""
    api_version: int
    token: int = -1
    may_describe: Callable[[str], bool] = lambda topic: True
    """Says of a topic's name whether the asker may know of it."""


class TopicFacts(NamedTuple):
    """What coordinators know of a topic; `racks` holds, by partition, the racks of its replicas' brokers."""

    name: str
    id: Uuid
    partitions: int
    racks: tuple[frozenset[str], ...] = ()


class Cluster(Protocol):
    """The metadata image as groups see it."""

    @property
    def version(self) -> int:
        """A number that grows whenever topics may have changed."""
        ...

    def topic(self, name: str) -> TopicFacts | None:
        """Return a topic by name."""
        ...

    def topic_by_id(self, topic_id: bytes) -> TopicFacts | None:
        """Return a topic by id."""
        ...

    def topic_names(self) -> Iterable[str]:
        """Return every topic's name, internal ones too, in no order."""
        ...

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """Return what is configured for one group (ConfigResource GROUP), as text by key."""
        ...


class DecisionContext(NamedTuple):
    """What a decision may know besides its group: time, chance, the broker's settings and the cluster's topics."""

    now_ms: Millis
    """The time that deadlines are in: it goes on evenly, whatever is done to the wall clock."""
    rng: Rng
    settings: BrokerSettings
    cluster: Cluster
    wall_ms: Millis
    """The wall clock's time, for what records say to other brokers and later ones."""


class GroupKind(Enum):
    """Kinds of group, by the names that ListGroups uses."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Committed(NamedTuple):
    """A committed offset, as its record says; `expire_ms` is set only by clients of long ago (-1 where not)."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1
    topic_id: bytes = bytes(16)
    record_offset: int = -1
    """Where its record stands in `__consumer_offsets`."""


class Group(Protocol):
    """What a shard asks of a group of any kind: a value that no one changes."""

    @property
    def kind(self) -> GroupKind:
        """The group's kind."""
        ...

    @property
    def group_id(self) -> str:
        """The group's id."""
        ...

    @property
    def protocol_type(self) -> str:
        """What ListGroups says of it: `consumer`, `connect`, the empty text for offsets without members."""
        ...

    def state_name(self) -> str:
        """Return the state as ListGroups names it, such as `Stable`."""
        ...

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        *,
        api_version: int,
        transactional: bool,
    ) -> None:
        """Raise the KafkaError for which a commit by this member in this generation or epoch is refused."""
        ...

    def check_commit_partition(self, member_id: str, epoch: int, topic_id: Uuid, partition: int) -> None:
        """Raise the KafkaError for which one partition of a commit that passed the check above is refused (KIP-1251)."""
        ...

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise the KafkaError for which reading offsets as this member is refused (KIP-848)."""
        ...

    def check_offset_delete(self) -> None:
        """Raise the KafkaError for which no offset of the group can be deleted now."""
        ...

    def check_delete(self) -> None:
        """Raise the KafkaError for which the group cannot be deleted now (NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND)."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """Return whether members use a topic, so that its offsets neither expire nor can be deleted."""
        ...

    def expires_from(self, committed: Committed) -> int | None:
        """Return from when retention counts for an offset (KIP-211), in ms; None where it does not expire now."""
        ...

    def is_empty(self) -> bool:
        """Return whether it has no members: such a group goes when its last offset has gone."""
        ...

    def tombstones(self) -> Sequence[Record]:
        """Return the records that remove the group, its offsets not among them."""
        ...


_COMMIT_VERSION_WITH_EXPIRY = 1
_VALUE_VERSIONS = {1: 4, 2: 3}
"""Versions of values by their key's type where Kafka 4.3 does not write version 0: offsets and classic groups."""


def value_version(value: Message) -> int:
    """Return the version in which Kafka 4.3 writes a value."""
    if isinstance(value, OffsetCommitValue) and value.expire_timestamp != -1:
        return _COMMIT_VERSION_WITH_EXPIRY
    assert value.API_KEY is not None
    return _VALUE_VERSIONS.get(value.API_KEY, 0)


def encode_records(records: Iterable[Record]) -> list[tuple[bytes, bytes | None]]:
    """Return (key, value) bytes of records, in the versions in which Kafka 4.3 writes them."""
    return [
        encode_coordinator_record(key, value, 0 if value is None else value_version(value)) for key, value in records
    ]


def new_uuid_text(rng: Rng) -> str:
    """Return a random UUID in the text form of `java.util.UUID` (version 4), as ends of member ids have it."""
    raw = bytearray(rng.randbytes(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
