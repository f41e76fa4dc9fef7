"""Processors of one's own (Kafka's `processor.api`): a class with `process(record)` that may keep state, forward and wait.

    class Deduplicate(Processor):
        def init(self, context):
            self.context, self.seen = context, context.get_state_store("seen")
            context.schedule(3_600_000, PunctuationType.STREAM_TIME, self.forget)

        def process(self, record):
            if self.seen.put_if_absent(record.key, record.timestamp) is None:
                self.context.forward(record)

        def forget(self, now_ms): ...

There is one processor per step and partition, so its attributes need no locks; only stores outlive a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple, Protocol

__all__ = [
    "Cancellable",
    "FixedKeyProcessor",
    "ProcessRecord",
    "Processor",
    "ProcessorContext",
    "PunctuationType",
    "RecordMetadata",
    "ValueAndTimestamp",
]

Headers = tuple[tuple[str, bytes | None], ...]


class ProcessRecord(NamedTuple):
    """What a processor gets and forwards; immutable, each `with_…` returns another."""

    key: Any
    value: Any
    timestamp: int
    """Milliseconds."""
    headers: Headers = ()

    def with_key(self, key: Any) -> ProcessRecord:
        """Return the record under another key."""
        return ProcessRecord(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: Any) -> ProcessRecord:
        """Return the record with another value."""
        return ProcessRecord(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> ProcessRecord:
        """Return the record at another time, in milliseconds."""
        return ProcessRecord(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> ProcessRecord:
        """Return the record with other headers."""
        return ProcessRecord(self.key, self.value, self.timestamp, headers)


class RecordMetadata(NamedTuple):
    """Where the record that is processed came from."""

    topic: str
    partition: int
    offset: int


class ValueAndTimestamp(NamedTuple):
    """What a timestamped store holds for a key."""

    value: Any
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

    def forward(self, record: ProcessRecord, child: str | None = None) -> None:
        """Hand a record to all children, or to one by its name; raises KeyError for a name that is no child's."""

    def get_state_store(self, name: str) -> Any:
        """Return a store that the step was given; raises KeyError for any other."""

    def schedule(self, interval_ms: int, kind: PunctuationType, call: Callable[[int], None]) -> Cancellable:
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


class Processor:
    """What a processor derives from, if it likes: keeps the context as `self.context`."""

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        """Begin: called once, before the first record."""
        self.context = context

    def process(self, record: ProcessRecord) -> None:
        """Take a record in."""
        raise NotImplementedError

    def close(self) -> None:
        """End."""


class FixedKeyProcessor(Processor):
    """The same for `process_values`: it may forward under the record's own key only."""
