"""The offsets of the three connectors: what a record's says, and what an operator may store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.base import ZERO_UUID, Uuid, parse_uuid, uuid_text
from ottla.connect import ConnectError

__all__ = ["read_topic_id", "same_offsets", "source_offset"]

Pairs = Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
TOPIC_ID = "topicId"
"""Which of the topics that have had a name an offset is of. Kafka's connector passes it over, and stores none."""


def source_offset(offset: int, topic_id: Uuid) -> dict[str, int | str]:
    """Return a record's offset as Connect keeps it; without the topic's id where that is zero."""
    return {"offset": offset} if topic_id == ZERO_UUID else {"offset": offset, TOPIC_ID: uuid_text(topic_id)}


def read_topic_id(stored: Mapping[str, Any]) -> Uuid:
    """Return the topic's id in a stored offset; zero where it says none that can be read."""
    try:
        return parse_uuid(stored[TOPIC_ID])
    except (KeyError, TypeError, ValueError, AttributeError):
        return ZERO_UUID


def same_offsets(pairs: Pairs, fields: Mapping[str, type], *, only_zero: bool = False) -> bool:
    """Return true; raises ConnectError for a partition without these fields, or an offset that is none."""
    for partition, offset in pairs:
        for name, kind in fields.items():
            if not isinstance(partition.get(name), kind) or isinstance(partition.get(name), bool):
                raise ConnectError(
                    f"A partition of this connector has {name}, {kind.__name__}; {dict(partition)} has not"
                )
        if kind_of := [name for name in partition if name not in fields]:
            raise ConnectError(f"A partition of this connector has no {', '.join(kind_of)}")
        if offset is None:
            continue
        found = offset.get("offset")
        if not isinstance(found, int) or isinstance(found, bool) or found < 0 or (only_zero and found != 0):
            words = '{"offset": 0}' if only_zero else '{"offset": a number from 0 on}'
            raise ConnectError(f"An offset of this connector is {words}, and {dict(offset)} is not")
    return True
