"""Which values may be kept as they are, and which could be changed under a store's hands by the functions that see them.

Kafka Streams hands every reader a value of its own, because its stores hold bytes. A store here keeps Python values for the
length of a batch. Where a value's type cannot change, that is the same; where it can (lists, dictionaries, objects), a
store keeps the bytes of what was put and reads a new value from them for each reader.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import struct
import uuid
from typing import Any

from ottla.streams.serdes.basic import FixedSerde, Serde

__all__ = ["SCALARS", "Raw", "is_fixed", "serialize_all"]

_FIXED: dict[type, bool] = dict.fromkeys(
    (
        *(int, float, str, bytes, bool, complex, type(None), decimal.Decimal, uuid.UUID),
        *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta),
    ),
    True,
)
SCALARS = frozenset(_FIXED)
"""Types whose values nobody can change, for loops that ask themselves."""


class Raw(bytes):
    """A value as its serde's bytes, not decoded yet."""

    __slots__ = ()


def is_fixed(value: Any) -> bool:
    """Return whether nobody can change this value in place."""
    found = _FIXED.get(type(value))
    if found is None:
        return (isinstance(value, tuple) and all(is_fixed(each) for each in value)) or _is_frozen(value)
    return found


def _is_frozen(value: Any) -> bool:
    """True for frozen dataclasses all of whose fields are fixed."""
    parameters = getattr(type(value), "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        return False
    return all(is_fixed(getattr(value, each.name)) for each in dataclasses.fields(value))


def serialize_all(serde: Serde, values: list[Any]) -> list[bytes | None]:
    """Return many values' bytes, those of `Raw` as they are; raises what the serde raises."""
    types = set(map(type, values))
    if isinstance(serde, FixedSerde) and types <= {int, float}:
        try:
            return list(map(struct.Struct(serde.form).pack, values))
        except (struct.error, OverflowError):
            pass  # the serde says which
    if Raw not in types:
        return list(map(serde.serialize, values))
    return [bytes(each) if type(each) is Raw else serde.serialize(each) for each in values]
