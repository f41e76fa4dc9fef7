"""The words by which unions and enums are told where `generalized.sum.type.support` is set: the same for every format."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.connect.data.schema import Schema, SchemaType

__all__ = ["ENUM", "UNION", "enum_parameters", "is_union", "symbols_of", "union_field", "union_name"]

UNION = "org.apache.kafka.connect.data.Union"
"""The parameter of structs that stand for a union: of their fields one is set."""
ENUM = "org.apache.kafka.connect.data.Enum"
"""The parameter with an enum's name; each symbol is a parameter behind it, with its place."""
_PREFIX = "connect_union_"


def union_name(index: int) -> str:
    """Return the name of a schema's union, by which one it is."""
    return f"{_PREFIX}{index}"


def union_field(index: int) -> str:
    """Return the name of a union's field, by which of its types it is."""
    return f"{_PREFIX}field_{index}"


def is_union(schema: Schema, *own: str) -> bool:
    """Return whether a struct stands for a union: by its parameter, or by a name that a format has for them."""
    return schema.type is SchemaType.STRUCT and (schema.name in own or schema.parameter(UNION) is not None)


def enum_parameters(name: str, symbols: Iterable[str]) -> dict[str, str]:
    """Return the parameters of an enum's schema."""
    return {ENUM: name, **{f"{ENUM}.{symbol}": str(place) for place, symbol in enumerate(symbols)}}


def symbols_of(schema: Schema, *words: str) -> list[str] | None:
    """Return the symbols of an enum's schema by one of the words for it, in their order; None where it is no enum."""
    word = next((each for each in words if schema.parameter(each) is not None), None)
    if word is None or schema.parameters is None:
        return None
    return [key[len(word) + 1 :] for key in schema.parameters if key.startswith(f"{word}.")]
