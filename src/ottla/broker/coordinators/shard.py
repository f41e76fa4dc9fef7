"""A coordinator's shard: what it is to the coordinator, what became of it, and the answers that it owes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar

from ottla.base import KafkaError
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.requests.answers import Deferred
from ottla.wire import Record

__all__ = [
    "CoordinatedShard",
    "Decided",
    "MadeDecision",
    "ParkedAnswer",
    "RunningShard",
    "ShardState",
    "UncommittedAnswers",
]


class Decided(Protocol):
    """What a decision has to say here."""

    @property
    def records(self) -> Sequence[Any]:
        """The records to append."""
        ...

    @property
    def response(self) -> Any:
        """The answer of who asked, or None where it is parked."""
        ...

    @property
    def replies(self) -> Iterable[tuple[int, Any]]:
        """Answers of requests that were parked, by their tokens."""
        ...

    @property
    def producer(self) -> tuple[int, int] | None:
        """The producer id and epoch in whose transaction the records are written, or None outside of transactions."""
        ...


class CoordinatedShard(Protocol):
    """The state of one partition of a coordinator's topic; `state` is one immutable value."""

    @property
    def state(self) -> Any:
        """What every record so far, and every decision, has left."""
        ...

    def replay(self, record: Record, producer_id: int) -> None:
        """Apply a stored record while the shard is loaded; `producer_id` is -1 outside of transactions."""
        ...

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply a transaction marker."""
        ...

    def encode(self, decision: Any) -> Sequence[tuple[bytes, bytes | None]]:
        """Return the (key, value) bytes of a decision's records."""
        ...

    def applied(self, decision: Any, base_offset: int) -> None:
        """Take over a decision whose records have been appended at `base_offset`."""
        ...

    def loaded(self, context: Any) -> Iterator[Any]:
        """Yield what has to be decided once everything has been replayed."""
        ...

    def expire(self, context: Any) -> Iterator[Any]:
        """Yield a decision for each deadline that has come."""
        ...

    def next_deadline(self) -> int | None:
        """Return a time before which nothing expires; None where nothing does."""
        ...

    def postpone(self, until_ms: int) -> None:
        """Let what the last decision was about, which could not be appended, be decided about again."""
        ...


S = TypeVar("S", bound=CoordinatedShard)


@dataclass(frozen=True, slots=True)
class MadeDecision:
    """A decision that is made already: only its answer is left, for when what was appended is committed."""

    response: Any
    records: Sequence[Any] = ()
    replies: tuple[tuple[int, Any], ...] = ()
    producer: tuple[int, int] | None = None


@dataclass(slots=True)
class ParkedAnswer:
    """An answer that is owed, and how it is refused."""

    answer: Deferred[Any]
    refuse: Callable[[KafkaError], Any]


@dataclass(slots=True)
class UncommittedAnswers:
    """What leaves, and what can be read, once the high watermark has reached `end`."""

    end: int
    state: Any
    answers: list[tuple[ParkedAnswer, Any]]


class ShardState(Enum):
    """What a shard does at this broker."""

    LOADING = auto()
    """Its partition is being replayed; who asks is to ask again."""
    FAILED = auto()
    """It could not be loaded, and is loaded again after a while."""
    ACTIVE = auto()
    """It is in office: it decides and answers."""
    UNLOADED = auto()
    """It was let go: another broker may coordinate."""


_MOVES = {
    ShardState.LOADING: {ShardState.ACTIVE, ShardState.FAILED, ShardState.UNLOADED},
    ShardState.FAILED: {ShardState.LOADING, ShardState.UNLOADED},
    ShardState.ACTIVE: {ShardState.UNLOADED},
    ShardState.UNLOADED: set[ShardState](),
}
"""From which state a shard may come into which."""


@dataclass(slots=True)
class RunningShard(Generic[S]):
    """A shard at this broker. `committed` is its content at the high watermark, `end` where what it has decided ends."""

    partition: LocalPartition
    epoch: int
    shard: S
    committed: Any
    state: ShardState = ShardState.LOADING
    end: int = 0
    loaded_end: int = 0
    """Where what was loaded ends: it counts as committed while there are too few in-sync replicas to commit it."""
    parked: dict[int, ParkedAnswer] = field(default_factory=dict)
    uncommitted: deque[UncommittedAnswers] = field(default_factory=deque)
    """Ascending by `end`; each lies above the high watermark that was last looked at, and none above `end` here."""

    def become(self, state: ShardState) -> None:
        """Go over into another state."""
        assert state in _MOVES[self.state], f"{self.partition.key}: {self.state.name} to {state.name}"
        self.state = state

    @property
    def is_active(self) -> bool:
        """True while the shard is in office."""
        return self.state is ShardState.ACTIVE
