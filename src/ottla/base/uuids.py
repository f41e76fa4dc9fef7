"""Kafka's ids of sixteen bytes: made at random, as text and back."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

from ottla.base.ids import Uuid
from ottla.base.seams import Rng

__all__ = ["parse_uuid", "random_uuid", "uuid_text"]

RESERVED_IDS = 100
"""Ids below this number mean something of their own (KIP-858: directories that are lost, migrating, unassigned; a topic)."""
DASH = 62
"""The six bits that URL-safe base64 writes as a dash."""


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
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raw = b""
    if len(raw) != 16 or len(text.rstrip("=")) != 22:
        raise ValueError(f"{text!r} is not a UUID: 22 characters of URL-safe base64 are expected")
    return Uuid(raw)
