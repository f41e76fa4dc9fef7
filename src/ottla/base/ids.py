"""Identifiers, as distinct types so that an offset is never passed where an epoch is meant."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, NamedTuple, NewType

if TYPE_CHECKING:
    from ottla.base.seams import Rng

__all__ = [
    "ZERO_UUID",
    "LeaderEpoch",
    "Millis",
    "NodeId",
    "Offset",
    "ProducerEpoch",
    "ProducerId",
    "TopicPartition",
    "Uuid",
    "parse_uuid",
    "random_uuid",
    "uuid_text",
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

RESERVED_IDS = 100
"""Ids below this number mean something of their own (KIP-858: directories that are lost, migrating, unassigned; a topic)."""
DASH = 62
"""The six bits that URL-safe base64 writes as a dash."""
ZERO_UUID = Uuid(bytes(16))
"""The id that means "none" in every message."""


class TopicPartition(NamedTuple):
    """A partition's name: its topic and its index."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def random_uuid(rng: Rng) -> Uuid:
    """Return a new id, none of the first hundred, which are reserved, and none whose text begins with a dash.

    A command would take that for an option (as org.apache.kafka.common.Uuid.randomUuid has it).
    """
    while True:
        found = rng.randbytes(16)
        if int.from_bytes(found, "big") >= RESERVED_IDS and found[0] >> 2 != DASH:
            return Uuid(found)


def uuid_text(uuid: Uuid) -> str:
    """Return Kafka's text form: 22 characters of unpadded URL-safe base64."""
    return urlsafe_b64encode(uuid).decode().rstrip("=")


def parse_uuid(text: str) -> Uuid:
    """Return the id written as 22 characters of unpadded URL-safe base64; raises ValueError on anything else."""
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16 or len(text.rstrip("=")) != 22:
        raise ValueError(f"{text!r} is not a UUID: 22 characters of URL-safe base64 are expected")
    return Uuid(raw)
