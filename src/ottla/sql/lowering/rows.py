"""Functions of rows, as values: what they need is compiled where they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import fields as fields_of
from functools import cached_property
from typing import Any

from ottla.sql.catalogue import Source
from ottla.sql.expressions import OnError, Row, compile_condition, compile_expression
from ottla.sql.plan import Field, scope_of
from ottla.sql.tree import expressions as e

Line = Callable[[str], None]


def told(log: Line | None) -> OnError | None:
    """What takes the errors of values that were lost."""
    return None if log is None else lambda error: log(f"{type(error).__name__}: {error}")


def row_maker(
    expressions: tuple[e.Expression, ...], fields: tuple[Field, ...], log: Line | None
) -> Callable[[Row], Row]:
    """The function that makes a row of another: a value of each expression."""
    scope, on_error = scope_of(fields), told(log)
    made = [compile_expression(each, scope, on_error) for each in expressions]
    return lambda row: tuple([make(row) for make in made])


class Lazy:
    """A value whose functions are compiled where it is first called; what travels are its fields."""

    def __reduce__(self) -> tuple[type[object], tuple[object, ...]]:
        return type(self), tuple(getattr(self, each.name) for each in fields_of(self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class RowMapper(Lazy):
    """Makes a row of a row of `fields`: a value of each expression."""

    expressions: tuple[e.Expression, ...]
    fields: tuple[Field, ...]
    log: Line | None = None

    @cached_property
    def _make(self) -> Callable[[Row], Row]:
        return row_maker(self.expressions, self.fields, self.log)

    def __call__(self, row: Any) -> Any:
        """Return the new row."""
        return self._make(row)


@dataclass(frozen=True)
class Holds(Lazy):
    """Says whether a condition holds for a row of `fields`."""

    condition: e.Expression
    fields: tuple[Field, ...]
    log: Line | None = None

    @cached_property
    def _holds(self) -> Callable[[Row], bool]:
        return compile_condition(self.condition, scope_of(self.fields), told(self.log))

    def __call__(self, row: Any) -> bool:
        """Return whether it does."""
        return self._holds(row)


@dataclass(frozen=True)
class Regroup(Lazy):
    """A table's row under the key of its group, with what is aggregated of it; no key where a part of it is null."""

    group: tuple[e.Expression, ...]
    arguments: tuple[e.Expression, ...]
    fields: tuple[Field, ...]
    log: Line | None = None

    @cached_property
    def _both(self) -> tuple[Callable[[Row], Row], Callable[[Row], Row]]:
        return row_maker(self.group, self.fields, self.log), row_maker(self.arguments, self.fields, self.log)

    def __call__(self, key: Any, row: Any) -> Any:
        """Return (key of the group, arguments)."""
        group, arguments = self._both
        made = group(row)
        return None if None in made else made, arguments(row)


@dataclass(frozen=True, slots=True)
class RowReader:
    """Makes the row of a source's fields from a record's key, value, headers and place."""

    source: Source

    def reader(self) -> Callable[[Any, Any, int, Any, int, int], Row]:
        """The function of key, value (tuples or None), time, headers, partition and offset."""
        schema = self.source.schema
        order: list[tuple[str, int, str | None]] = []
        counts = {"key": 0, "value": 0, "headers": 0}
        for column in schema.columns:
            order.append((column.place, counts[column.place], column.header_key))
            counts[column.place] += 1
        no_key, no_value = (None,) * counts["key"], (None,) * counts["value"]
        windowed = self.source.window is not None

        def read(key: Any, value: Any, timestamp: int, headers: Any, partition: int, offset: int) -> Row:
            bounds: tuple[object, ...] = ()
            if windowed:
                bounds = (None, None) if key is None else (key.start_ms, key.end_ms)
                key = None if key is None else key.key
            keys = no_key if key is None else key
            values = no_value if value is None else value
            columns = [
                keys[at] if place == "key" else values[at] if place == "value" else _header(headers, name)
                for place, at, name in order
            ]
            return (*columns, timestamp, partition, offset, *bounds)

        return read


def _header(headers: Any, name: str | None) -> object:
    if name is None:
        return [{"KEY": key, "VALUE": value} for key, value in headers]
    return next((value for key, value in reversed(headers) if key == name), None)
