"""Offsets that an operator reads, alters and resets (KIP-875): what is refused, what is stored, what is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.connect.converters.json_read import read_plain
from ottla.connect.converters.json_text import parse_json
from ottla.connect.converters.json_write import write_plain
from ottla.connect.errors import BadRequestError, DataError
from ottla.connect.storage import OffsetState, check_offset, encode_offset

__all__ = ["Pair", "altered", "check_pairs", "outcome", "plain_pairs", "reset_pairs", "source_offsets"]

Pair = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
"""A source partition or a sink's topic partition, and its offset; None forgets it."""


def check_pairs(body: Any) -> list[Pair]:
    """Return the pairs of a request's body; raises BadRequestError where it has another shape, or none."""
    offsets = body.get("offsets") if isinstance(body, Mapping) else None
    if not offsets:
        raise BadRequestError("Partitions / offsets need to be provided for an alter offsets request")
    return [_pair(each) for each in (offsets if isinstance(offsets, list) else [offsets])]


def _pair(found: Any) -> Pair:
    partition, offset = (found.get("partition"), found.get("offset")) if isinstance(found, dict) else ("", "")
    if isinstance(partition, dict | None) and isinstance(offset, dict | None):
        return partition, offset
    raise BadRequestError("Offsets have to be a list of objects with the objects 'partition' and 'offset'")


def plain_pairs(pairs: Sequence[Pair]) -> list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """Return pairs as a connector will read them from the store; raises BadRequestError for what is not flat."""
    found = []
    for partition, offset in pairs:
        try:
            check_offset(partition)
            check_offset(offset)
        except DataError as error:
            raise BadRequestError(str(error)) from error
        if partition is None:
            raise BadRequestError("The partition for a source connector offset cannot be null or missing")
        found.append((_stored(partition), None if offset is None else _stored(offset)))
    return found


def _stored(value: Mapping[str, Any]) -> Any:
    return read_plain(parse_json(write_plain(dict(value)).encode()))


def reset_pairs(state: OffsetState, connector: str) -> list[tuple[Mapping[str, Any], None]]:
    """Return pairs that forget all of a source connector's offsets."""
    return [(each.partition, None) for each in state.of_connector(connector)]


def altered(
    state: OffsetState, connector: str, pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
) -> list[tuple[bytes, bytes | None]]:
    """Return the records that store a source connector's offsets."""
    return [encode_offset(state, connector, partition, offset) for partition, offset in pairs]


def source_offsets(state: OffsetState, connector: str) -> dict[str, Any]:
    """Return a source connector's offsets as they are shown."""
    stored = state.of_connector(connector)
    return {"offsets": [{"partition": dict(each.partition), "offset": dict(each.offset)} for each in stored]}


def outcome(*, reset: bool, by_connector: bool) -> dict[str, str]:
    """Return the answer of an alteration; it says whether the connector has taken part."""
    word = "reset" if reset else "altered"
    if by_connector:
        return {"message": f"The offsets for this connector have been {word} successfully"}
    return {
        "message": f"The Connect framework-managed offsets for this connector have been {word} successfully. However, if "
        f"this connector manages offsets externally, they will need to be manually {word} in the system that the "
        "connector uses."
    }
