"""What goes into an executor and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

__all__ = ["Change", "Output", "Record", "StateBackend", "StoreChange"]

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
    """What table processors forward."""

    old: Any
    new: Any


class Output(NamedTuple):
    """A record that leaves: `target` is the sink's node name."""

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


class StateBackend(Protocol):
    """Where one partition's state lies between batches: blobs by name. The executor decides what a blob holds.

    Blobs are read when they are first needed and written once per batch, those that changed.
    """

    def get(self, blob: str) -> bytes | None:
        """Return a blob's bytes as of the last batch."""

    def put(self, blob: str, data: bytes | None) -> None:
        """Set a blob; None removes it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What an executor counted in a batch."""

    processed: int = 0
    dropped_late: int = 0
    dropped_null_key: int = 0
    skipped_poison: int = 0
