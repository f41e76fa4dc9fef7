"""Table functions: one row becomes several, a value of each in the place of the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from ottla.sql.errors import SqlError
from ottla.sql.functions.registry import check_size
from ottla.sql.functions.signatures import ArgumentType
from ottla.sql.types import ArrayType, SqlType

COMBINATIONS_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class ResolvedTable:
    """A table function for some types: what each of its values is, and the values of one row."""

    returns: SqlType
    call: Callable[[object], list[object]]


@dataclass(frozen=True, slots=True)
class TableFunction:
    """A function that makes several values of one; `many` gives a type's function, None for a type that it does not take."""

    name: str
    description: str
    many: Callable[[ArgumentType], ResolvedTable | None]

    def resolve(self, types: Sequence[ArgumentType]) -> ResolvedTable:
        """The function for arguments of these types; raises SqlError in ksqlDB's words."""
        found = self.many(types[0]) if len(types) == 1 else None
        if found is None:
            given = ", ".join("null" if each is None else str(each) for each in types)
            raise SqlError(
                f"Function '{self.name.lower()}' does not accept parameters ({given}).\nValid alternatives are:\n"
                f"{self.name}(ARRAY<T>)\nFor detailed information on a function run: "
                "DESCRIBE FUNCTION <Function-Name>;"
            )
        return found


def _explode(type_: ArgumentType) -> ResolvedTable | None:
    if not isinstance(type_, ArrayType):
        return None
    return ResolvedTable(type_.item, lambda items: list(items) if isinstance(items, list) else [])


def _cube(type_: ArgumentType) -> ResolvedTable | None:
    return ResolvedTable(type_, _combinations) if isinstance(type_, ArrayType) else None


def _combinations(items: object) -> list[object]:
    """Every array in which each element is itself or null, the one of nulls alone first."""
    if not isinstance(items, list):
        return []
    doubled = sum(item is not None for item in items)
    check_size("CUBE_EXPLODE", 1 << min(doubled, 64), COMBINATIONS_MAX)
    choices = [(None,) if item is None else (None, item) for item in items]
    return [list(each) for each in product(*choices)]


TABLE_FUNCTIONS = {
    "EXPLODE": TableFunction("EXPLODE", "A row for each element of an array.", _explode),
    "CUBE_EXPLODE": TableFunction(
        "CUBE_EXPLODE", "A row for each combination of an array's elements and nulls.", _cube
    ),
}
