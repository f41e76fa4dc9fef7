"""Records of a stream that wait for a versioned table to catch up (KIP-923): RocksDBTimeOrderedKeyValueBuffer."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

from ottla.streams.engine.interface import EngineSettings, Headers, Record, StateBackend, StoreChange
from ottla.streams.engine.joins.time_ordered import TimeOrdered
from ottla.streams.plan.nodes import StoreSpec

__all__ = ["JoinBuffer"]

_TIME = Struct(">q")
_INT = Struct(">i")
_PREFIX = b"\0"
"""What Kafka's TimeFirstWindowKeySchema begins with."""
_NUMBER_MASK = 0x7FFFFFFF


class JoinBuffer:
    """Records by time, key and the order in which they came."""

    def __init__(
        self, spec: StoreSpec, backend: StateBackend, settings: EngineSettings, memory: dict[str, int]
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self._memory = memory
        self._grace_ms = spec.retention_ms
        self._waiting = TimeOrdered(backend, spec.name, spec.retention_ms)
        self._changed: dict[bytes, None] = {}
        self._keep = settings.resident_entries

    def put(self, record: Record) -> bool:
        """Have a record wait; False where it is too late for that."""
        now = self._memory.get("time", -1)
        if now - self._grace_ms > record.timestamp:
            return False
        self._memory["time"] = max(now, record.timestamp)
        number = self._memory["number"] = (self._memory.get("number", 0) + 1) & _NUMBER_MASK
        key = self.spec.key.serialize(record.key)
        value = self.spec.value.serialize(record.value)
        raw = _TIME.pack(record.timestamp) + (key or b"") + _INT.pack(number)
        self._set(raw, (value, record.timestamp, record.headers, record.topic, record.partition, record.offset))
        return True

    def _set(self, raw: bytes, entry: Any) -> None:
        self._waiting.put(raw, entry)
        self._changed[raw] = None

    def due(self) -> Iterator[Record]:
        """Take out and return the records that have waited long enough, in order."""
        bound = self._memory.get("time", -1) - self._grace_ms
        for raw, (value, timestamp, headers, topic, partition, offset) in self._waiting:
            if timestamp > bound:
                return
            self._set(raw, None)
            key = self.spec.key.deserialize(raw[8:-4])
            yield Record(key, self.spec.value.deserialize(value), timestamp, headers, topic, partition, offset)

    def finish(self, changes: list[StoreChange]) -> None:
        """Write the batch's updates."""
        if self.spec.logged:
            for raw in self._changed:
                found = self._waiting.get(raw)
                data = None if found is None else _buffer_value(*found)
                changes.append(StoreChange(self.name, _PREFIX + raw, data, _TIME.unpack_from(raw)[0]))
        self._changed.clear()
        self._waiting.finish(self._keep)

    def restore(self, change: StoreChange) -> None:
        """Take in a record of the changelog topic."""
        raw = change.key[len(_PREFIX) :]
        self._waiting.put(raw, None if change.value is None else _read_buffer_value(change.value))
        time, number = _TIME.unpack_from(raw)[0], _INT.unpack(change.key[-4:])[0]
        self._memory["time"] = max(time, self._memory.get("time", -1))
        self._memory["number"] = max(number, self._memory.get("number", 0))


def _buffer_value(value: bytes, timestamp: int, headers: Headers, topic: str, partition: int, offset: int) -> bytes:
    """Return a record as Kafka's BufferValue: its context, no prior and no old value, the value, and a time."""
    name = topic.encode()
    parts = [_TIME.pack(timestamp), _TIME.pack(offset), _INT.pack(len(name)), name, _INT.pack(partition)]
    parts.append(_INT.pack(len(headers)))
    for header, data in headers:
        encoded = header.encode()
        parts += [_INT.pack(len(encoded)), encoded, _INT.pack(-1 if data is None else len(data)), data or b""]
    context = b"".join(parts)
    nothing = _INT.pack(-1)
    return b"".join([context, nothing, nothing, _INT.pack(len(value)), value, _TIME.pack(0)])


def _read_buffer_value(data: bytes) -> tuple[bytes, int, Headers, str, int, int]:
    timestamp, offset = _TIME.unpack_from(data, 0)[0], _TIME.unpack_from(data, 8)[0]
    topic, at = _read_bytes(data, 16)
    partition, count = _INT.unpack_from(data, at)[0], _INT.unpack_from(data, at + 4)[0]
    at += 8
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _read_bytes(data, at)
        value, at = _read_bytes(data, at)
        headers.append(((name or b"").decode(), value))
    for _ in range(2):
        _, at = _read_bytes(data, at)
    value, _ = _read_bytes(data, at)
    return value or b"", timestamp, tuple(headers), (topic or b"").decode(), partition, offset


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size = _INT.unpack_from(data, at)[0]
    return (None, at + 4) if size < 0 else (data[at + 4 : at + 4 + size], at + 4 + size)
