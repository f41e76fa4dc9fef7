"""Where records of left and outer stream-stream joins wait that have met no partner: Kafka's outer-join store.

Keys are Kafka's (TimestampedKeyAndJoinSide): time, 1 for left or 0 for right, key. Values are lists, since records may share
all three.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from ottla.streams.engine.interface import EngineSettings, StateBackend, StoreChange
from ottla.streams.engine.joins.time_ordered import TimeOrdered
from ottla.streams.plan.nodes import StoreSpec

__all__ = ["LEFT", "RIGHT", "OuterJoinStore"]

LEFT, RIGHT = 1, 0
_HEAD = Struct(">qB")
_INT = Struct(">i")
_VARIABLE_SIZE = b"\x01"


class OuterJoinStore:
    """Values by (time, side, key bytes), in that order."""

    def __init__(
        self, spec: StoreSpec, backend: StateBackend, settings: EngineSettings, memory: dict[str, int]
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.memory = memory
        self._waiting = TimeOrdered(backend, spec.name, spec.retention_ms)
        self._changed: dict[bytes, int] = {}
        self._keep = settings.resident_entries

    def add(self, time: int, side: int, key: bytes, value: bytes) -> None:
        """Have a value wait."""
        raw = _HEAD.pack(time, side) + key
        found = self._waiting.get(raw)
        self._waiting.put(raw, [value] if found is None else [*found, value])
        self._changed[raw] = time
        counted = "left" if side == LEFT else "right"
        self.memory[counted] = self.memory.get(counted, 0) + 1

    def remove(self, time: int, side: int, key: bytes) -> None:
        """Have nothing of a key and time wait any more."""
        raw = _HEAD.pack(time, side) + key
        found = self._waiting.get(raw)
        if found is None:
            return
        self._waiting.put(raw, None)
        self._changed[raw] = time
        self.memory["left" if side == LEFT else "right"] -= len(found)

    def count(self, side: int) -> int:
        """Return how many values of a side wait."""
        return self.memory.get("left" if side == LEFT else "right", 0)

    def last_time(self) -> int:
        """Return the latest time that waits; -1 where nothing does."""
        raw = self._waiting.last()
        return -1 if raw is None else _HEAD.unpack_from(raw)[0]

    def __iter__(self) -> Iterator[tuple[int, int, bytes, bytes]]:
        """Return (time, side, key bytes, value) in order, one for each value of a list."""
        for raw, values in self._waiting:
            time, side = _HEAD.unpack_from(raw)
            key = raw[_HEAD.size :]
            for value in values:
                yield time, side, key, value

    def finish(self, changes: list[StoreChange]) -> None:
        """Write the batch's updates."""
        if self.spec.logged:
            for raw, time in self._changed.items():
                found = self._waiting.get(raw)
                changes.append(StoreChange(self.name, raw, None if found is None else _listed(raw, found), time))
        self._changed.clear()
        self._waiting.finish(self._keep)

    def restore(self, change: StoreChange) -> None:
        """Take in a record of the changelog topic."""
        time, side = _HEAD.unpack_from(change.key)
        key = change.key[_HEAD.size :]
        self.remove(time, side, key)
        for value in () if change.value is None else _unlisted(change.value):
            self.add(time, side, key, value)
            self.memory["earliest"] = min(time, self.memory.get("earliest", time))
        self._changed.pop(change.key, None)


def _listed(raw: bytes, values: list[bytes]) -> bytes:
    """Return values as Kafka's ListSerde over LeftOrRightValue writes them."""
    flag = raw[8:9]
    parts = [_VARIABLE_SIZE, _INT.pack(len(values))]
    for value in values:
        parts += [_INT.pack(1 + len(value)), flag, value]
    return b"".join(parts)


def _unlisted(data: bytes) -> list[bytes]:
    at, found = 5, []
    for _ in range(_INT.unpack_from(data, 1)[0]):
        size = _INT.unpack_from(data, at)[0]
        found.append(data[at + 5 : at + 4 + size])
        at += 4 + size
    return found
