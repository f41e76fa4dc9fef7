"""Functions of any values: nulls, the greatest and the least."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.sql.functions.java_order import key_of
from ottla.sql.functions.registry import scalar
from ottla.sql.functions.signatures import ArgumentType
from ottla.sql.types import DecimalType, SqlType

_ORDERED = tuple(
    f"{each}, {each}… -> {each}"
    for each in ("INTEGER", "BIGINT", "DOUBLE", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP")
)


@scalar("COALESCE", "T, T… -> T", nulls=True)
def coalesce(*values: object) -> object:
    """The first argument that is not null."""
    return next((value for value in values if value is not None), None)


@scalar("IFNULL", "T, T -> T", nulls=True)
def if_null(value: object, otherwise: object) -> object:
    """The first argument, or the second where it is null."""
    return otherwise if value is None else value


@scalar("NULLIF", "T, T -> T", nulls=True)
def null_if(value: object, other: object) -> object:
    """Null where both arguments are the same, else the first."""
    return None if value == other else value


@scalar("AS_VALUE", "T -> T", nulls=True)
def as_value(value: object) -> object:
    """A key's column as a value."""
    return value


def _widest(types: Sequence[ArgumentType]) -> SqlType:
    exact = [type_ for type_ in types if isinstance(type_, DecimalType)]
    scale = max(type_.scale for type_ in exact)
    return DecimalType(max(type_.precision - type_.scale for type_ in exact) + scale, scale)


@scalar("GREATEST", *_ORDERED, nulls=True)
@scalar("GREATEST", "DECIMAL, DECIMAL… -> DECIMAL", nulls=True, returns=_widest)
def greatest(*values: object) -> object:
    """The greatest argument; nulls are left out."""
    known: list[Any] = [value for value in values if value is not None]
    return max(known, key=key_of(known), default=None)


@scalar("LEAST", *_ORDERED, nulls=True)
@scalar("LEAST", "DECIMAL, DECIMAL… -> DECIMAL", nulls=True, returns=_widest)
def least(*values: object) -> object:
    """The least argument; nulls are left out."""
    known: list[Any] = [value for value in values if value is not None]
    return min(known, key=key_of(known), default=None)
