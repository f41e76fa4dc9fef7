"""Spark's types, as values: what a column or a result of an expression is, and how Python holds it."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = [
    "BIGINT",
    "BINARY",
    "BOOLEAN",
    "DOUBLE",
    "FLOAT",
    "INT",
    "INTEGERS",
    "SMALLINT",
    "STRING",
    "TIMESTAMP",
    "TINYINT",
    "VOID",
    "Kind",
    "Refused",
    "array_of",
    "decimal",
]

PRECISION_MAX = 38


class Refused(ValueError):
    """An expression that cannot be evaluated without Spark; the message names what is not known here."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of Spark's.

    Python holds whole numbers as int, float and double as float (a float's value is rounded to 32 bits), decimals as Decimal
    with their scale, timestamps as microseconds since 1970 in UTC, arrays as lists and structs as dictionaries.
    """

    name: str
    precision: int = 0
    scale: int = 0
    element: Kind | None = None
    fields: tuple[tuple[str, Kind], ...] = ()
    held: str = ""
    """Where a value comes in another form than the above, which: `uuid`, `datetime`, `decimal`, `object` (of attributes)."""

    def __str__(self) -> str:
        """Return Spark's own short name."""
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.name == "array":
            return f"array<{self.element}>"
        if self.name == "struct":
            return f"struct<{','.join(f'{name}:{kind}' for name, kind in self.fields)}>"
        return self.name

    @property
    def plain(self) -> Kind:
        """The type alone, as results have it."""
        return replace(self, held="") if self.held and self.held != "object" else self


VOID = Kind("void")
BOOLEAN = Kind("boolean")
TINYINT, SMALLINT, INT, BIGINT = Kind("tinyint"), Kind("smallint"), Kind("int"), Kind("bigint")
FLOAT, DOUBLE = Kind("float"), Kind("double")
STRING, BINARY, TIMESTAMP = Kind("string"), Kind("binary"), Kind("timestamp")
INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)
"""The narrowest first."""


def decimal(precision: int, scale: int) -> Kind:
    """Return a decimal type."""
    return Kind("decimal", precision, scale)


def array_of(element: Kind) -> Kind:
    """Return a type of arrays."""
    return Kind("array", element=element)
