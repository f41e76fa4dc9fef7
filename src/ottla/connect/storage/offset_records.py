"""Where source connectors have come to: keys `["name",{partition}]`, values `{offset}`, and their fold.

The same bytes are the records of the offsets topic and the entries of a standalone worker's file. A partition is found
again whatever order its fields were written in, and is then written under the key that it already has, so that
compaction sees one key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from immutables import Map

from ottla.connect.converters.json_read import read_plain
from ottla.connect.converters.json_text import parse_json
from ottla.connect.converters.json_write import write_plain
from ottla.connect.data.java_text import java_class
from ottla.connect.data.schema import SchemaType
from ottla.connect.data.struct import schema_type_of
from ottla.connect.errors import DataError

__all__ = ["OffsetState", "StoredOffset", "apply_offset", "check_offset", "encode_offset"]


def check_offset(value: Any) -> None:
    """Raise DataError where a source partition or offset is more than a flat map of plain values."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise DataError("Offsets must be specified as a Map")
    for key, each in value.items():
        if not isinstance(key, str):
            raise DataError("Offsets may only use String keys")
        type_ = None if each is None else schema_type_of(each)
        if each is None or (type_ is not None and type_.primitive):
            continue
        found: SchemaType | str = java_class(each) if type_ is None else type_
        raise DataError(f"Offsets may only contain primitive types as values, but field {key} contains {found}")


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """An offset as it stands in the store."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any]
    key: bytes
    """The key it was written under."""


Name = tuple[str, str]
"""A connector, and its source partition in one order of fields."""


@dataclass(frozen=True, slots=True)
class OffsetState:
    """Every source partition's last offset."""

    stored: Map[Name, StoredOffset] = field(default_factory=Map)

    def offset(self, connector: str, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the last offset of a partition."""
        found = self.stored.get(_name(connector, partition))
        return None if found is None else found.offset

    def of_connector(self, connector: str) -> list[StoredOffset]:
        """Return all partitions of a connector, in a steady order."""
        return [self.stored[name] for name in sorted(self.stored) if name[0] == connector]


def _name(connector: str, partition: Mapping[str, Any]) -> Name:
    """Return a name that holds for every order of fields, by way of what JSON keeps of the values."""
    kept = parse_json(write_plain(dict(partition)).encode())
    return connector, json.dumps(kept, sort_keys=True, default=str)


def encode_offset(
    state: OffsetState, connector: str, partition: Mapping[str, Any], offset: Mapping[str, Any] | None
) -> tuple[bytes, bytes | None]:
    """Return the key and value that store an offset, or forget it where None; raises DataError."""
    check_offset(partition)
    check_offset(offset)
    found = state.stored.get(_name(connector, partition))
    key = write_plain([connector, dict(partition)]).encode() if found is None else found.key
    return key, None if offset is None else write_plain(dict(offset)).encode()


def apply_offset(state: OffsetState, key: bytes | None, data: bytes | None) -> tuple[OffsetState, str | None]:
    """Return the state behind one more record, and why the record was ignored, if it was."""
    if key is None:
        return state, "Ignoring offset partition key with an unexpected null value"
    try:
        named = read_plain(parse_json(key))
        value = None if data is None else read_plain(parse_json(data))
    except DataError:
        return state, "Ignoring offset partition key with unknown serialization. Expected json."
    match named:
        case [str(connector), dict(partition)]:
            name = _name(connector, partition)
        case _:
            return state, "Ignoring offset partition key with an unexpected format"
    if value is None:
        return OffsetState(state.stored.delete(name)) if name in state.stored else state, None
    if not isinstance(value, dict):
        return state, "Ignoring offset of an unexpected format"
    return OffsetState(state.stored.set(name, StoredOffset(partition, value, key))), None
