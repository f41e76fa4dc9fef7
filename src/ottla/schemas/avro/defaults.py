"""Whether the default of a field is a value of its type, and which value of that type it is."""

from __future__ import annotations

from ottla.java import float_text
from ottla.schemas.avro.types import Array, AvroType, Field, Kind, Map, Record, Union
from ottla.schemas.interface import InvalidSchemaError
from ottla.schemas.json_text import JsonValue, write_json

__all__ = ["DefaultsCheck", "settled_default"]

_SHOWN_MAX = 200
_STEPS_MAX = 500_000
_TEXTS = {Kind.STRING, Kind.BYTES, Kind.ENUM, Kind.FIXED}
_BITS = {Kind.INT: 31, Kind.LONG: 63}


class DefaultsCheck:
    """Looks at the defaults of fields, at all of one schema's in so many steps.

    A union takes what any of its branches takes, as Java's parser says since Avro 1.12.
    """

    def __init__(self, depth_max: int) -> None:
        self._depth_max = depth_max
        self._steps_left = _STEPS_MAX

    def check(self, field: Field) -> None:
        """Raise InvalidSchemaError where a default is no value of its field's type, or has no end."""
        if not self.fits(field.type, field.default, 0):
            shown = write_json(field.default)[:_SHOWN_MAX]
            raise InvalidSchemaError(f"Invalid default for field {field.name}: {shown} is no {field.type.kind}")

    def fits(self, kind: AvroType, value: JsonValue, depth: int) -> bool:
        """Return whether a value is one of a type."""
        self._steps_left -= 1
        if depth > self._depth_max or not self._steps_left:
            raise InvalidSchemaError("A field's default is too deep, or has no end")
        if isinstance(kind, Union):
            return any(self.fits(branch, value, depth + 1) for branch in kind.branches)
        if isinstance(kind, Array):
            return isinstance(value, list) and all(self.fits(kind.items, each, depth + 1) for each in value)
        if isinstance(kind, Map):
            return isinstance(value, dict) and all(self.fits(kind.values, each, depth + 1) for each in value.values())
        if isinstance(kind, Record):
            return isinstance(value, dict) and all(self._field_fits(each, value, depth) for each in kind.fields)
        return _fits_simply(kind.kind, value)

    def _field_fits(self, field: Field, value: dict[str, JsonValue], depth: int) -> bool:
        if field.name in value:
            return self.fits(field.type, value[field.name], depth + 1)
        return field.has_default and self.fits(field.type, field.default, depth + 1)


def _fits_simply(kind: Kind, value: JsonValue) -> bool:
    if kind in _TEXTS:
        return isinstance(value, str)
    if kind is Kind.NULL:
        return value is None
    if kind is Kind.BOOLEAN:
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if bits := _BITS.get(kind):
        return isinstance(value, int) and -(1 << bits) <= value < 1 << bits
    return isinstance(value, int | float)


def settled_default(kind: AvroType, value: JsonValue) -> JsonValue:
    """Return a default with numbers that `float` and `double` really hold, at whatever depth.

    A union's is one of its first branch. What does not fit its type there stays as it is.
    """
    if isinstance(kind, Union):
        return settled_default(kind.branches[0], value) if kind.branches else value
    if isinstance(kind, Array) and isinstance(value, list):
        return [settled_default(kind.items, each) for each in value]
    if isinstance(kind, Map) and isinstance(value, dict):
        return {key: settled_default(kind.values, each) for key, each in value.items()}
    if isinstance(kind, Record) and isinstance(value, dict):
        types = {field.name: field.type for field in kind.fields}
        return {key: settled_default(types[key], each) if key in types else each for key, each in value.items()}
    if isinstance(value, bool) or not isinstance(value, int | float) or kind.kind not in (Kind.FLOAT, Kind.DOUBLE):
        return value
    return float(float_text(_double(value))) if kind.kind is Kind.FLOAT else _double(value)


def _double(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
