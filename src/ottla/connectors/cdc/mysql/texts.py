"""Rows as queries print them: what is asked for, and the values that it means. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ottla.connect import DataError
from ottla.connectors.cdc.mysql.kinds import value_of_text
from ottla.connectors.cdc.mysql.server import quoted
from ottla.connectors.cdc.mysql.tables import SqlTable, SqlType

__all__ = ["row_reader", "selected"]


def selected(table: SqlTable) -> list[str]:
    """Return what is selected for each column: a number that would lose digits in print, as a plain double."""
    return [f"({quoted(each.name)} + 0.0e0)" if _is_cut(each.type) else quoted(each.name) for each in table.columns]


def _is_cut(type_: SqlType) -> bool:
    return type_.name == "FLOAT" or (type_.name == "DOUBLE" and type_.scale is not None)


def row_reader(table: SqlTable) -> Callable[[Iterable[Any]], Sequence[Any]]:
    """Return what makes values of a row that was printed; it raises DataError."""
    reads = [value_of_text(each.type) for each in table.columns]

    def read(row: Iterable[Any]) -> Sequence[Any]:
        return [_read(parse, value, table, at) for at, (parse, value) in enumerate(zip(reads, row, strict=True))]

    return read


def _read(parse: Callable[[Any], Any], value: Any, table: SqlTable, at: int) -> Any:
    if value is None:
        return None
    try:
        return parse(value)
    except (DataError, ValueError, ArithmeticError) as error:
        raise DataError(f"Column {table.id}.{table.columns[at].name} cannot be read: {error}") from error
