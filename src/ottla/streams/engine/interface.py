"""What goes into an executor and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

__all__ = [
    "COLUMN_ROWS_MIN",
    "Change",
    "EngineSettings",
    "Headers",
    "Output",
    "Progress",
    "Record",
    "StateBackend",
    "StoreChange",
]

COLUMN_ROWS_MIN = 128
"""Records that come together from which on hosts and tasks have them go as columns, which cost some 0.3 ms whatever they
hold: `EngineSettings.column_rows_min` of both modes."""
Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record at a source: bytes, or values where the source's serdes are None (Spark decoded or computed them)."""

    key: Any
    value: Any
    timestamp: int
    """Milliseconds."""
    headers: Headers = ()
    topic: str = ""
    partition: int = 0
    offset: int = -1


class Change(NamedTuple):
    """What table processors forward. `latest` is False for a versioned table's record that came after a newer one."""

    old: Any
    new: Any
    latest: bool = True


class Output(NamedTuple):
    """A record that leaves: `target` is the sink's node name, `topic` the topic's full name."""

    target: str
    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()
    partition: int | None = None


class StoreChange(NamedTuple):
    """A store's entry after a batch, in Kafka's changelog format for that kind of store; None deletes it."""

    store: str
    key: bytes
    value: bytes | None
    timestamp: int
    """Milliseconds; -1 where the producer says when."""
    headers: Headers = ()


class StateBackend(Protocol):
    """Where one partition's state lies between batches: blobs by name. The executor decides what a blob holds.

    Blobs are read when they are first needed and written once per batch, those that changed.
    """

    def get(self, blob: str) -> bytes | None:
        """Return a blob's bytes as of the last batch."""

    def put(self, blob: str, data: bytes | None) -> None:
        """Set a blob; None removes it."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How an executor works; the defaults are Kafka Streams' own where it has them."""

    cache: bool = True
    """Forward a key's updates of a table once per batch (the record cache); False forwards every update."""
    block_entries: int = 512
    """How many keys a block of state may hold before it is split into two blobs."""
    resident_entries: int = 1_000_000
    """How many entries of state stay decoded in memory between batches, per store."""
    tell_expired: bool = True
    """Tell a window on close also where stream time leapt so far that Kafka's store would have dropped it before."""
    skip_undecodable: bool = False
    """deserialization.exception.handler: log and continue; False fails the batch."""
    skip_failing: bool = False
    """processing.exception.handler: log and continue; False fails the batch."""
    decide_undecodable: Callable[..., str] | None = None
    """A handler of the user's in the place of `skip_undecodable`: (record as it came, error) → `fail` or `continue`."""
    decide_failing: Callable[..., str] | None = None
    """The same in the place of `skip_failing`."""
    skip_unwritable: bool = False
    """production.exception.handler: log and continue with what a sink's serdes cannot write; False fails the batch."""
    decide_unwritable: Callable[..., str] | None = None
    """The same as `decide_undecodable` in its place."""
    dead_letter_topic: str | None = None
    """Where a skipped record goes too, as it came, with Kafka's `__streams.errors.*` headers (KIP-1034)."""
    column_rows_min: int = 0
    """Rows from which on a block goes as columns, and updates leave as columns; 0 never: records come and go alone."""
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    """Partitions of sink topics, for partitioners of the user's; by full topic name."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What an executor counted in a batch."""

    processed: int = 0
    dropped_late: int = 0
    dropped_null_key: int = 0
    skipped_poison: int = 0
    stream_time: int = -1
    """The task's stream time in milliseconds, -1 before the first record."""
