"""SQL's types as values, and their texts.

A row's value is, by its type: bool, int (INTEGER, BIGINT, DATE as days, TIME and TIMESTAMP as milliseconds), float,
`decimal.Decimal` with its scale, str, bytes, list, dict (maps), and dict by field name (structs).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ottla.sql.errors import SqlError

Base = Literal[
    "BOOLEAN",
    "INTEGER",
    "BIGINT",
    "DECIMAL",
    "DOUBLE",
    "STRING",
    "BYTES",
    "TIME",
    "DATE",
    "TIMESTAMP",
    "ARRAY",
    "MAP",
    "STRUCT",
]
Quote = Callable[[str], str]


def backticked(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type that has no parts; `base` is its name."""

    base: Base

    def __str__(self) -> str:
        return self.base

    def text(self, quote: Quote) -> str:
        """The type as SQL; names inside are written by `quote`."""
        return self.base


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A number of `precision` digits, of which `scale` stand behind the point."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        """Refuse what no DECIMAL can be, in ksqlDB's words."""
        if self.precision < 1:
            raise SqlError(f"DECIMAL precision must be >= 1: DECIMAL({self.precision},{self.scale})")
        if self.scale < 0:
            raise SqlError(f"DECIMAL scale must be >= 0: DECIMAL({self.precision},{self.scale})")
        if self.precision < self.scale:
            raise SqlError(f"DECIMAL precision must be >= scale: DECIMAL({self.precision},{self.scale})")

    @property
    def base(self) -> Base:
        """DECIMAL."""
        return "DECIMAL"

    def __str__(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"

    def text(self, quote: Quote) -> str:
        """The type as SQL."""
        return str(self)


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of `item`s."""

    item: SqlType

    @property
    def base(self) -> Base:
        """ARRAY."""
        return "ARRAY"

    def __str__(self) -> str:
        return self.text(backticked)

    def text(self, quote: Quote) -> str:
        """The type as SQL; names inside are written by `quote`."""
        return f"ARRAY<{self.item.text(quote)}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """Values by key."""

    key: SqlType
    value: SqlType

    @property
    def base(self) -> Base:
        """MAP."""
        return "MAP"

    def __str__(self) -> str:
        return self.text(backticked)

    def text(self, quote: Quote) -> str:
        """The type as SQL; names inside are written by `quote`."""
        return f"MAP<{self.key.text(quote)}, {self.value.text(quote)}>"


@dataclass(frozen=True, slots=True)
class StructType:
    """Named fields, in their order."""

    fields: tuple[tuple[str, SqlType], ...]

    def __post_init__(self) -> None:
        """Refuse two fields of one name."""
        twice = sorted(name for name, count in Counter(name for name, _ in self.fields).items() if count > 1)
        if twice:
            raise SqlError(f"Duplicate field names found in STRUCT: {', '.join(backticked(name) for name in twice)}")

    @property
    def base(self) -> Base:
        """STRUCT."""
        return "STRUCT"

    def __str__(self) -> str:
        return self.text(backticked)

    def text(self, quote: Quote) -> str:
        """The type as SQL; field names are written by `quote`."""
        inner = ", ".join(f"{quote(name)} {type_.text(quote)}" for name, type_ in self.fields)
        return f"STRUCT<{inner}{' ' if not inner else ''}>"

    def field(self, name: str) -> SqlType | None:
        """The type of a field, None where there is none of this name."""
        return next((type_ for each, type_ in self.fields if each == name), None)


@dataclass(frozen=True, slots=True)
class NamedType:
    """A type that `CREATE TYPE` has to have told of; it is gone when a statement's types are resolved."""

    name: str

    @property
    def base(self) -> Base:
        """None of the base types: nothing may ask."""
        raise AssertionError(f"the type {self.name} is not resolved")

    def __str__(self) -> str:
        return self.name

    def text(self, quote: Quote) -> str:
        """The type as SQL; its name is written by `quote`."""
        return quote(self.name)


SqlType = Primitive | DecimalType | ArrayType | MapType | StructType | NamedType

BOOLEAN = Primitive("BOOLEAN")
INTEGER = Primitive("INTEGER")
BIGINT = Primitive("BIGINT")
DOUBLE = Primitive("DOUBLE")
STRING = Primitive("STRING")
BYTES = Primitive("BYTES")
TIME = Primitive("TIME")
DATE = Primitive("DATE")
TIMESTAMP = Primitive("TIMESTAMP")

PRIMITIVES: dict[str, Primitive] = {
    **{type_.base: type_ for type_ in (BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING, BYTES, TIME, DATE, TIMESTAMP)},
    "INT": INTEGER,
    "VARCHAR": STRING,
}
"""Every name of a type without parts."""

NUMBERS: tuple[Base, ...] = ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE")
"""The numeric types, each wider than those before it."""


def is_number(type_: SqlType) -> bool:
    """True for the numeric types."""
    return type_.base in NUMBERS


def is_time(type_: SqlType) -> bool:
    """True for DATE, TIME and TIMESTAMP."""
    return type_.base in ("DATE", "TIME", "TIMESTAMP")


def implicitly_casts(given: SqlType, wanted: SqlType) -> bool:
    """True where a value of a type is taken for one of another unasked, as ksqlDB does between base types.

    A number becomes a wider one, whatever its digits; a decimal one with as many on both sides of the point; a text a
    time, a date, a timestamp or bytes. What has parts does so part by part.
    """
    if given == wanted:
        return True
    if isinstance(given, DecimalType) and isinstance(wanted, DecimalType):
        whole = given.precision - given.scale
        return given.scale <= wanted.scale and whole <= wanted.precision - wanted.scale
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return implicitly_casts(given.item, wanted.item)
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        return implicitly_casts(given.key, wanted.key) and implicitly_casts(given.value, wanted.value)
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        pairs = [(of, wanted.field(name)) for name, of in given.fields]
        return all(other is not None and implicitly_casts(of, other) for of, other in pairs)
    if given == STRING:
        return is_time(wanted) or wanted == BYTES
    return is_number(given) and is_number(wanted) and NUMBERS.index(given.base) <= NUMBERS.index(wanted.base)
