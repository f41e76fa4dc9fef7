"""The buffer of suppression: a table's changes by time, with Kafka's changelog format and its reckoning of bytes.

InMemoryTimeOrderedKeyValueChangeBuffer: a key keeps the time at which it came in first, and what its row was before that
(the *prior* value, which lookups still see).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, NamedTuple

from ottla.streams.engine.blocks import Blocks
from ottla.streams.engine.interface import Change, EngineSettings, Headers, Record, StateBackend, StoreChange
from ottla.streams.engine.time_index import TimeIndex
from ottla.streams.plan.nodes import StoreSpec

__all__ = ["Held", "SuppressBuffer"]

_CONTEXT = Struct(">qqi")
_INT = Struct(">i")
_LONG = Struct(">q")
_NULL, _SAME_AS_PRIOR = -1, -2
_VERSION_HEADERS: Headers = (("v", b"\x03"),)


class Held(NamedTuple):
    """A change that waits. Values are bytes; `context` is what the record came with."""

    time: int
    prior: bytes | None
    old: bytes | None
    new: bytes | None
    timestamp: int
    offset: int
    topic: str
    partition: int
    headers: Headers

    def size(self, key: bytes) -> int:
        """Return how many bytes Kafka reckons it to take."""
        values = (self.prior, None if self.old == self.prior else self.old, self.new)
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return 8 + len(key) + sum(len(each) for each in values if each) + 20 + len(self.topic) + headers

    def encode(self) -> bytes:
        """Return what the changelog holds (BufferValue.serialize and the time)."""
        topic = self.topic.encode()
        parts = [_CONTEXT.pack(self.timestamp, self.offset, len(topic)), topic, _INT.pack(self.partition)]
        parts.append(_INT.pack(len(self.headers)))
        for name, data in self.headers:
            raw = name.encode()
            parts += [_INT.pack(len(raw)), raw, _sized(data)]
        parts.append(_sized(self.prior))
        same = self.old is not None and self.old == self.prior
        parts.append(_INT.pack(_SAME_AS_PRIOR) if same else _sized(self.old))
        parts += [_sized(self.new), _LONG.pack(self.time)]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> Held:
        """Return what `encode` wrote."""
        reader = _Reader(data)
        timestamp, offset = reader.number(_LONG), reader.number(_LONG)
        topic = (reader.sized() or b"").decode()
        partition = reader.number(_INT)
        headers = tuple(((reader.sized() or b"").decode(), reader.sized()) for _ in range(reader.number(_INT)))
        prior = reader.sized()
        old = reader.sized(same=prior)
        new = reader.sized()
        return cls(reader.number(_LONG), prior, old, new, timestamp, offset, topic, partition, headers)


def _sized(data: bytes | None) -> bytes:
    return _INT.pack(_NULL) if data is None else _INT.pack(len(data)) + data


class _Reader:
    """Walks over the bytes of a changelog record."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, kind: Struct) -> int:
        found: int = kind.unpack_from(self._data, self._at)[0]
        self._at += kind.size
        return found

    def sized(self, same: bytes | None = None) -> bytes | None:
        length = self.number(_INT)
        if length < 0:
            return same if length == _SAME_AS_PRIOR else None
        self._at += length
        return self._data[self._at - length : self._at]


class SuppressBuffer:
    """What one suppression holds back; the kind `suppress_buffer`."""

    def __init__(
        self, spec: StoreSpec, backend: StateBackend, settings: EngineSettings, memory: dict[str, int]
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self._serialize_key = spec.key.serialize
        self._deserialize_key = spec.key.deserialize
        self._serialize = spec.value.serialize
        self._deserialize = spec.value.deserialize
        self._blocks = Blocks(backend, spec.name, settings.block_entries)
        self._times = TimeIndex(backend, spec.name, settings.block_entries)
        self._resident = settings.resident_entries
        self._memory = memory
        self._dirty: dict[bytes, None] = {}

    @property
    def records(self) -> int:
        """How many keys wait."""
        return self._memory.get("count", 0)

    @property
    def size_bytes(self) -> int:
        """How many bytes they take, as Kafka reckons."""
        return self._memory.get("bytes", 0)

    def _find(self, raw: bytes) -> Held | None:
        found = self._blocks.entries(raw).get(raw)
        return None if found is None else Held(*found)

    def _set(self, raw: bytes, before: Held | None, held: Held | None) -> None:
        if held is None:
            self._blocks.changing(raw).pop(raw, None)
        else:
            self._blocks.changing(raw)[raw] = tuple(held)
        memory = self._memory
        memory["count"] = self.records + (held is not None) - (before is not None)
        memory["bytes"] = self.size_bytes + (held.size(raw) if held else 0) - (before.size(raw) if before else 0)
        self._dirty.pop(raw, None)
        self._dirty[raw] = None

    def put(self, time: int, key: Any, change: Change, timestamp: int, headers: Headers, context: Record) -> None:
        """Hold a change back, in place of an earlier one of its key."""
        raw: bytes = self._serialize_key(key)  # type: ignore[assignment]
        old = None if change.old is None else self._serialize(change.old)
        new = None if change.new is None else self._serialize(change.new)
        before = self._find(raw)
        where = (context.offset, context.topic, context.partition)
        if before is None:
            self._times.add(time, raw)
            held = Held(time, old, old, new, timestamp, *where, headers)
        else:
            held = Held(before.time, before.prior, old, new, timestamp, *where, headers)
        self._set(raw, before, held)

    def evict(self, goes_on: Callable[[int], bool]) -> Iterator[tuple[Any, Change, Held]]:
        """Take out the earliest while `goes_on(its time)`, by time and key bytes."""
        while (first := self._times.peek()) is not None and goes_on(first[0]):
            time, raw = first
            held = self._find(raw)
            self._times.discard(time, raw)
            assert held is not None
            change = Change(self._value(held.old), self._value(held.new))
            yield self._deserialize_key(raw), change, held
            self._set(raw, held, None)

    def _value(self, data: bytes | None) -> Any:
        return None if data is None else self._deserialize(data)

    def prior(self, key: Any) -> tuple[Any] | None:
        """Return what a waiting key's row was before it waited, in a tuple; None for a key that does not wait."""
        raw: bytes = self._serialize_key(key)  # type: ignore[assignment]
        held = self._find(raw)
        return None if held is None else (self._value(held.prior),)

    def finish(self, changes: list[StoreChange]) -> None:
        """Write the batch's updates."""
        for raw in self._dirty if self.spec.logged else ():
            held = self._find(raw)
            if held is None:
                changes.append(StoreChange(self.name, raw, None, -1))
            else:
                changes.append(StoreChange(self.name, raw, held.encode(), -1, _VERSION_HEADERS))
        self._dirty.clear()
        self._times.finish()
        self._blocks.write()
        self._blocks.forget(self._resident)

    def restore(self, change: StoreChange) -> None:
        """Take in a record of the changelog topic."""
        before = self._find(change.key)
        if before is not None:
            self._times.discard(before.time, change.key)
        held = None if change.value is None else Held.decode(change.value)
        if held is not None:
            self._times.add(held.time, change.key)
        self._set(change.key, before, held)
        self._dirty.pop(change.key, None)
