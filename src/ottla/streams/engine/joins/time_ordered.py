"""Bytes by time: what waits, in the order of (time, key), where each batch adds some and takes the oldest away.

Keys begin with their time as eight bytes, so that the order of bytes is the order of time, as in Kafka's time-ordered
stores. They lie in buckets, each a stretch of time: a batch reads and writes those that it touches, not all that waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.streams.engine.blocks import Blocks
from ottla.streams.engine.interface import StateBackend
from ottla.streams.engine.time_index import TimeIndex

__all__ = ["TimeOrdered"]

_BUCKETS_PER_SPAN = 256
_BUCKETS_PER_BLOB = 8


class TimeOrdered:
    """Entries by key bytes; a value is whatever marshal can write. `span_ms`: how long an entry waits, about."""

    def __init__(self, backend: StateBackend, name: str, span_ms: int) -> None:
        self._width = max(1, span_ms // _BUCKETS_PER_SPAN)
        self._blocks = Blocks(backend, name, _BUCKETS_PER_BLOB)
        self._times = TimeIndex(backend, name, _BUCKETS_PER_BLOB)

    def _bucket(self, key: bytes) -> tuple[int, bytes]:
        number = int.from_bytes(key[:8], "big") // self._width
        return number, number.to_bytes(8, "big")

    def get(self, key: bytes) -> Any:
        """Return a key's value, or None."""
        _, raw = self._bucket(key)
        found = self._blocks.entries(raw).get(raw)
        return None if found is None else found.get(key)

    def put(self, key: bytes, value: Any) -> None:
        """Set a key's value; None removes it."""
        number, raw = self._bucket(key)
        buckets = self._blocks.changing(raw)
        if value is not None:
            buckets.setdefault(raw, {})[key] = value
            self._times.add(number, 0)
            return
        found = buckets.get(raw)
        if found is not None and found.pop(key, None) is not None and not found:
            del buckets[raw]
            self._times.discard(number, 0)

    def __iter__(self) -> Iterator[tuple[bytes, Any]]:
        """Return all entries in order; those of a bucket as they were when it was reached."""
        for number, _ in tuple(self._times):
            raw = number.to_bytes(8, "big")
            yield from sorted(self._blocks.entries(raw).get(raw, {}).items())

    def last(self) -> bytes | None:
        """Return the greatest key, or None."""
        numbers = [number for number, _ in self._times]
        if not numbers:
            return None
        raw = numbers[-1].to_bytes(8, "big")
        found: dict[bytes, Any] = self._blocks.entries(raw)[raw]
        return max(found)

    def finish(self, keep: int) -> None:
        """Write what changed, and let go of more than `keep` buckets."""
        self._blocks.write()
        self._blocks.forget(keep)
        self._times.finish()
