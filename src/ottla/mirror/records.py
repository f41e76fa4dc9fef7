"""The records of MirrorMaker's three internal topics, byte for byte those of Kafka 4.3 (`connect-mirror-client`).

Integers are big-endian; a string is its length in two bytes and UTF-8. All stand in partition 0 of a compacted topic.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ottla.base import Offset, TopicPartition

__all__ = ["Checkpoint", "Heartbeat", "OffsetSync", "RecordError"]

VERSION = 0


class RecordError(ValueError):
    """Bytes that are no record of the topic."""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """Where one record of an upstream partition lies downstream."""

    partition: TopicPartition
    """Of the source cluster."""
    upstream: Offset
    downstream: Offset

    def key(self) -> bytes:
        """Return the record's key."""
        return _text(self.partition.topic) + struct.pack(">i", self.partition.partition)

    def value(self) -> bytes:
        """Return the record's value."""
        return struct.pack(">qq", self.upstream, self.downstream)

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None) -> OffsetSync:
        """Return what a record says; raises RecordError."""
        found = _Reader(key)
        place = TopicPartition(found.text(), found.number(">i"))
        rest = _Reader(value)
        return cls(place, Offset(rest.number(">q")), Offset(rest.number(">q")))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a group has come of a partition, upstream and, translated, downstream."""

    group: str
    partition: TopicPartition
    """By its name on the target cluster."""
    upstream: Offset
    downstream: Offset
    metadata: str = ""

    def key(self) -> bytes:
        """Return the record's key."""
        return _text(self.group) + _text(self.partition.topic) + struct.pack(">i", self.partition.partition)

    def value(self) -> bytes:
        """Return the record's value."""
        return struct.pack(">hqq", VERSION, self.upstream, self.downstream) + _text(self.metadata)

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None) -> Checkpoint:
        """Return what a record says; raises RecordError."""
        found = _Reader(key)
        group, topic, number = found.text(), found.text(), found.number(">i")
        rest = _Reader(value)
        rest.version()
        upstream, downstream = rest.number(">q"), rest.number(">q")
        return cls(group, TopicPartition(topic, number), Offset(upstream), Offset(downstream), rest.text())


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """That records come from cluster `source` to cluster `target`, at a time in ms."""

    source: str
    target: str
    time_ms: int

    def key(self) -> bytes:
        """Return the record's key."""
        return _text(self.source) + _text(self.target)

    def value(self) -> bytes:
        """Return the record's value."""
        return struct.pack(">hq", VERSION, self.time_ms)

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None) -> Heartbeat:
        """Return what a record says; raises RecordError."""
        found, rest = _Reader(key), _Reader(value)
        rest.version()
        return cls(found.text(), found.text(), rest.number(">q"))


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


class _Reader:
    def __init__(self, data: bytes | None) -> None:
        if data is None:
            raise RecordError("a key and a value are expected")
        self._data, self._at = data, 0

    def number(self, form: str) -> int:
        try:
            [found] = struct.unpack_from(form, self._data, self._at)
        except struct.error:
            raise RecordError(f"{len(self._data)} bytes are too few") from None
        self._at += struct.calcsize(form)
        return int(found)

    def version(self) -> None:
        if (found := self.number(">h")) != VERSION:
            raise RecordError(f"version {found} is not known, {VERSION} is")

    def text(self) -> str:
        length = self.number(">h")
        data = self._data[self._at : self._at + length] if length >= 0 else None
        if data is None or len(data) < length:
            raise RecordError(f"a text of {length} bytes does not stand here")
        self._at += length
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise RecordError("a text is no UTF-8") from None
