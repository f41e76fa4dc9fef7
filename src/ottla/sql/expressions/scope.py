"""Which columns an expression may name, and where each of them is in a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.sql.errors import SqlError
from ottla.sql.tree.expressions import Column, Expression, Place, Rules
from ottla.sql.types import SqlType


def at_text(place: Place | None) -> str:
    """Where something stands in its statement, as ksqlDB begins a message with it; nothing where it is not known."""
    return "" if place is None else f"Line: {place[0]}, Col: {place[1]}: "


@dataclass(frozen=True, slots=True)
class Scope:
    """Columns as (source or None, name) → (place in the row, type), and a lambda's parameters, which stand behind them."""

    columns: dict[tuple[str | None, str], tuple[int, SqlType]]
    width: int
    variables: dict[str, tuple[int, SqlType | None]] = field(default_factory=dict)
    on_error: Callable[[Exception], None] | None = field(default=None, compare=False)
    """What is told of a part of an expression that failed and is null, while the rest goes on."""
    rules: Rules = field(default_factory=Rules)
    """How parts are computed here."""
    sources: dict[str, list[str | None]] = field(default_factory=dict, compare=False, repr=False)
    """By name, whose columns have it, in the order of the row."""
    parts: dict[int, tuple[Expression, Any]] | None = field(default=None, compare=False, repr=False)
    """While an expression is compiled: what its parts are compiled to, by identity; none of them is compiled again."""

    def __post_init__(self) -> None:
        """Sort the columns by name, unless that is known."""
        if not self.sources:
            for source, name in self.columns:
                self.sources.setdefault(name, []).append(source)

    @classmethod
    def of(cls, columns: Iterable[tuple[str | None, str, SqlType]]) -> Scope:
        """Make the scope of rows whose values are these columns, in this order: (source or None, name, type)."""
        listed = list(columns)
        return cls({(source, name): (at, type_) for at, (source, name, type_) in enumerate(listed)}, len(listed))

    def find(self, column: Column) -> tuple[int, SqlType]:
        """The place and the type of a column; raises SqlError where there is none, or where several may be meant."""
        found = self.columns.get((column.source, column.name))
        if found is not None:
            return found
        if column.source is None:
            places = {source: self.columns[source, column.name] for source in self.sources.get(column.name, ())}
            if len(places) == 1:
                return next(iter(places.values()))
            if places:
                could = [f"{source}.{column.name}" for source in places]
                listed = " or ".join((", ".join(could[:-1]), could[-1]))
                raise SqlError(f"{at_text(column.at)}Column '{column.name}' is ambiguous. Could be {listed}.")
        else:
            found = self.columns.get((None, column.name))
            if found is not None:
                return found
        name = column.name if column.source is None else f"{column.source}.{column.name}"
        raise SqlError(f"{at_text(column.at)}Unknown column {name}.")

    def with_variables(self, variables: Iterable[tuple[str, SqlType | None]]) -> Scope:
        """The scope in a lambda: its arguments are appended to the row."""
        listed = list(variables)
        named = {name: (self.width + at, type_) for at, (name, type_) in enumerate(listed)}
        return replace(self, width=self.width + len(listed), variables={**self.variables, **named}, parts={})

    def under(self, rules: Rules | None) -> Scope:
        """The scope in which parts are computed by rules, as here where there are none."""
        return self if rules is None or rules == self.rules else replace(self, rules=rules, parts={})

    def telling(self, on_error: Callable[[Exception], None] | None) -> Scope:
        """The scope with what is told of parts that fail."""
        return self if on_error is None else replace(self, on_error=on_error, parts=None)
