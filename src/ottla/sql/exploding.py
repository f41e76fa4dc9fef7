"""Table functions in a projection: each call becomes a column of its own, and one row a row for each of its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import zip_longest
from typing import Any, cast

from ottla.sql import functions
from ottla.sql.errors import SqlError
from ottla.sql.expressions import OnError, Row, Scope, compile_expression, type_of
from ottla.sql.tree import expressions as e
from ottla.sql.types import SqlType


@dataclass(frozen=True, slots=True)
class Exploded:
    """A call of a table function: the column that holds its values, what it is called with, and what a value is."""

    column: str
    function: str
    argument: e.Expression
    type: SqlType


def lifted(expression: e.Expression, scope: Scope, calls: list[Exploded]) -> e.Expression:
    """The expression with a column in the place of each call of a table function; the calls are added to `calls`."""
    return cast(e.Expression, _lifted(expression, scope, calls))


def _lifted(tree: object, scope: Scope, calls: list[Exploded]) -> object:
    if isinstance(tree, tuple):
        return tuple(_lifted(item, scope, calls) for item in tree)
    if not isinstance(tree, e.Expression):
        return tree
    if isinstance(tree, e.Call) and (function := functions.table(tree.name)) is not None:
        before = len(calls)
        arguments = [lifted(argument, scope, calls) for argument in tree.arguments]
        if len(calls) > before:
            raise SqlError(f"Table functions cannot be nested: {tree.name}")
        resolved = function.resolve([type_of(argument, scope) for argument in arguments])
        calls.append(Exploded(f"KSQL_SYNTH_{before}", function.name, arguments[0], resolved.returns))
        return e.Column(calls[-1].column)
    parts: dict[str, Any] = {each.name: _lifted(getattr(tree, each.name), scope, calls) for each in fields(tree)}
    return replace(tree, **parts)


def with_calls(scope: Scope, calls: Sequence[Exploded]) -> Scope:
    """The scope with a column for each call, behind all others."""
    added: dict[tuple[str | None, str], tuple[int, SqlType]] = {
        (None, call.column): (scope.width + at, call.type) for at, call in enumerate(calls)
    }
    return Scope({**scope.columns, **added}, scope.width + len(calls), scope.variables)


def exploder(calls: Sequence[Exploded], scope: Scope, on_error: OnError) -> Callable[[Row], list[Row]]:
    """The function that makes a row's rows: the values of several calls side by side, the shorter ones filled with null."""
    known = []
    for call in calls:
        function = functions.table(call.function)
        assert function is not None, call
        resolved = function.resolve([type_of(call.argument, scope)])
        known.append((resolved.call, compile_expression(call.argument, scope, on_error)))

    def rows(row: Row) -> list[Row]:
        values = [make(argument(row)) for make, argument in known]
        return [(*row, *each) for each in zip_longest(*values)]

    return rows
