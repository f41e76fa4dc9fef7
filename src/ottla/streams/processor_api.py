"""Processors of one's own (Kafka's `processor.api`): a class with `process(record)` that may keep state, forward and wait.

    class Deduplicate(Processor[str, Order, str, Order]):
        def init(self, context):
            self.context, self.seen = context, context.get_state_store("seen")
            context.schedule("1h", PunctuationType.STREAM_TIME, self.forget)

        def process(self, record):
            if self.seen.put_if_absent(record.key, record.timestamp) is None:
                self.context.forward(record)

        def forget(self, now_ms): ...

        @staticmethod
        def stores():  # added and connected wherever the class is used; or name stores where it is
            return [Stores.key_value_store("seen", str, int)]

There is one processor per step and partition, so its attributes need no locks; only stores outlive a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from ottla.streams.durations import Duration

if TYPE_CHECKING:
    from ottla.streams.stores import StoreBuilder

__all__ = [
    "Cancellable",
    "FixedKeyProcessor",
    "ProcessRecord",
    "Processor",
    "ProcessorContext",
    "PunctuationType",
    "RecordMetadata",
    "ValueAndTimestamp",
    "ValueTransformer",
]

Headers = tuple[tuple[str, bytes | None], ...]
K = TypeVar("K")
V = TypeVar("V")
KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")


class ProcessRecord(NamedTuple, Generic[K, V]):
    """What a processor gets and forwards; immutable, each `with_…` returns another."""

    key: K
    value: V
    timestamp: int
    """Milliseconds."""
    headers: Headers = ()

    def with_key(self, key: KOut) -> ProcessRecord[KOut, V]:
        """Return the record under another key."""
        return ProcessRecord(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: VOut) -> ProcessRecord[K, VOut]:
        """Return the record with another value."""
        return ProcessRecord(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> ProcessRecord[K, V]:
        """Return the record at another time, in milliseconds."""
        return ProcessRecord(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> ProcessRecord[K, V]:
        """Return the record with other headers."""
        return ProcessRecord(self.key, self.value, self.timestamp, headers)


class RecordMetadata(NamedTuple):
    """Where the record that is processed came from."""

    topic: str
    partition: int
    offset: int


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """What a timestamped store holds for a key."""

    value: V
    timestamp: int


class PunctuationType(Enum):
    """What a schedule goes by: the records' own time, which stands while none come, or the clock's."""

    STREAM_TIME = "stream_time"
    WALL_CLOCK_TIME = "wall_clock_time"


class Cancellable(Protocol):
    """A schedule."""

    def cancel(self) -> None:
        """End it."""


class ProcessorContext(Protocol):
    """What a processor may do; given to `init`."""

    @property
    def application_id(self) -> str:
        """The application's `application.id`."""

    @property
    def partition(self) -> int:
        """The partition that this processor works on."""

    def forward(self, record: ProcessRecord[Any, Any], child: str | None = None) -> None:
        """Hand a record to all children, or to one by its name; raises KeyError for a name that is no child's."""

    def get_state_store(self, name: str) -> Any:
        """Return a store that the step was given; raises KeyError for any other."""

    def schedule(self, interval: Duration, kind: PunctuationType, call: Callable[[int], None]) -> Cancellable:
        """Have `call(time)` called each interval: by stream time from 0 on, by the clock from now on.

        Intervals that were missed are made up for by one call. Schedules made in `init` go on after a restart.
        """

    def commit(self) -> None:
        """Ask for a commit: every batch ends with one."""

    def record_metadata(self) -> RecordMetadata | None:
        """Return where the current record came from; None in a schedule's call."""

    def current_stream_time_ms(self) -> int:
        """Return the latest timestamp that the partition has had; -1 before the first record."""

    def current_system_time_ms(self) -> int:
        """Return the clock's time, as it was when the batch began."""


class _Begun:
    """What processors of all kinds have; `init` keeps the context as `self.context`."""

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        """Begin: called once, before the first record."""
        self.context = context

    def close(self) -> None:
        """End."""

    @staticmethod
    def stores() -> Iterable[StoreBuilder]:
        """Return stores that are added, and connected to each step that uses this class."""
        return ()


class Processor(_Begun, Generic[KIn, VIn, KOut, VOut]):
    """What a processor derives from, if it likes; `process` may forward what it likes."""

    def process(self, record: ProcessRecord[KIn, VIn]) -> None:
        """Take a record in."""
        raise NotImplementedError


class FixedKeyProcessor(_Begun, Generic[KIn, VIn, VOut]):
    """The same for `process_values`: it may forward under the record's own key only."""

    def process(self, record: ProcessRecord[KIn, VIn]) -> None:
        """Take a record in; forward `record.with_value(...)`."""
        raise NotImplementedError


class ValueTransformer(_Begun, Generic[KIn, VIn, VOut]):
    """What `KTable.process_values` runs over a table's rows: the same row must give the same value."""

    def transform(self, key: KIn, value: VIn) -> VOut:
        """Return a row's new value."""
        raise NotImplementedError
