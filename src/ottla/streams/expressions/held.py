"""What the values of a serde are in expressions: their type, and in which form Python holds them."""

from __future__ import annotations

import dataclasses
import types
import typing
from datetime import datetime
from decimal import Decimal
from typing import Any, Union, get_args, get_origin
from uuid import UUID

from ottla.streams.expressions.kinds import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    VOID,
    Kind,
    Refused,
    array_of,
)
from ottla.streams.serdes.basic import Serde, UuidSerde
from ottla.streams.serdes.json import JsonSerde
from ottla.streams.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde

__all__ = ["kind_of"]

_NAMED = {
    "string": STRING,
    "bytes": BINARY,
    "boolean": BOOLEAN,
    "short": SMALLINT,
    "int": INT,
    "long": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "void": VOID,
}
_HINTS: dict[Any, Kind] = {
    str: STRING,
    int: BIGINT,
    float: DOUBLE,
    bool: BOOLEAN,
    bytes: BINARY,
    datetime: Kind("timestamp", held="datetime"),
    Decimal: Kind("decimal", 38, 18, held="decimal"),
    UUID: Kind("string", held="uuid"),
}


def kind_of(serde: Serde | None) -> Kind:
    """Return the type of a serde's values; raises Refused for those that are Python's alone."""
    if serde is None:
        raise Refused("a value without serde is not known here: give its serde or type")
    if isinstance(serde, JsonSerde):
        return Kind("variant") if serde.type is None else _of_hint(serde.type)
    if isinstance(serde, TimeWindowedSerde | SessionWindowedSerde):
        fields = (("key", kind_of(serde.inner)), ("start_ms", BIGINT), ("end_ms", BIGINT))
        return Kind("struct", fields=fields, held="object")
    if isinstance(serde, UuidSerde):
        return Kind("string", held="uuid")
    if serde.name not in _NAMED or serde.sql_type is None:
        raise Refused(f"serde {serde.name} is for Python only")
    return _NAMED[serde.name]


def _of_hint(hint: Any) -> Kind:
    """Return an annotated type's; what is not known is a variant, of which nothing can be asked."""
    if hint in _HINTS:
        return _HINTS[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        return _of_hint(arguments[0])
    if origin in (Union, types.UnionType):
        others = [each for each in arguments if each is not type(None)]
        return _of_hint(others[0]) if len(others) == 1 else Kind("variant")
    if origin is list:
        element = _of_hint(arguments[0])
        return Kind("variant") if element.held or element.name == "variant" else array_of(element)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _of_dataclass(hint, ())
    return Kind("variant")


def _of_dataclass(hint: type, above: tuple[type, ...]) -> Kind:
    hints = typing.get_type_hints(hint)
    fields = []
    for each in dataclasses.fields(hint):
        if each.init:
            nested = hints[each.name]
            inside = isinstance(nested, type) and dataclasses.is_dataclass(nested)
            if inside and nested in (*above, hint):
                fields.append((each.name, Kind("variant")))
            else:
                fields.append((each.name, _of_dataclass(nested, (*above, hint)) if inside else _of_hint(nested)))
    return Kind("struct", fields=tuple(fields), held="object")
