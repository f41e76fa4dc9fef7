"""Identifiers, as distinct types so that an offset is never passed where an epoch is meant."""

from __future__ import annotations

from typing import NamedTuple, NewType

__all__ = [
    "ZERO_UUID",
    "LeaderEpoch",
    "Millis",
    "NodeId",
    "Offset",
    "OffsetRange",
    "ProducerEpoch",
    "ProducerId",
    "TopicPartition",
    "Uuid",
]

Offset = NewType("Offset", int)
"""Position of a record in a partition, from 0."""
LeaderEpoch = NewType("LeaderEpoch", int)
"""Counts a partition's (or the quorum's) leaders."""
NodeId = NewType("NodeId", int)
"""`node.id` of a broker or controller."""
ProducerId = NewType("ProducerId", int)
"""Identity of an idempotent producer (KIP-98)."""
ProducerEpoch = NewType("ProducerEpoch", int)
"""Fences a producer's earlier incarnations (KIP-98)."""
Millis = NewType("Millis", int)
"""Milliseconds since the Unix epoch, or a duration in milliseconds where the name says so."""
Uuid = NewType("Uuid", bytes)
"""Sixteen raw bytes, as on the wire; `uuid_text` gives Kafka's text form."""

ZERO_UUID = Uuid(bytes(16))
"""The id that means "none" in every message."""


class TopicPartition(NamedTuple):
    """A partition's name: its topic and its index."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetRange(NamedTuple):
    """Records of one partition, by offset; `end` is not included."""

    partition: TopicPartition
    start: Offset
    end: Offset
