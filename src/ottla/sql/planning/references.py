"""Columns inside expressions: which there are, which a clause may name, and expressions that name them in one way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Protocol

from ottla.sql import functions
from ottla.sql.errors import SqlError
from ottla.sql.expressions import Scope
from ottla.sql.expressions.scope import at_text
from ottla.sql.plan import Field
from ottla.sql.tree import expressions as e
from ottla.sql.tree.changing import changed
from ottla.sql.tree.expression_text import expression_text


class Rows(Protocol):
    """Rows that expressions are over: a node's, or what an analysis adds to them."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of a row."""

    @property
    def scope(self) -> Scope:
        """Where in a row each column is."""


def parts_of(tree: object) -> Iterator[e.Expression]:
    """An expression and every expression inside it, from the outside in."""
    if isinstance(tree, tuple):
        for item in tree:
            yield from parts_of(item)
    elif isinstance(tree, e.Expression):
        yield tree
        for each in fields(tree):
            if each.name != "at":
                yield from parts_of(getattr(tree, each.name))


def columns_of(tree: e.Expression) -> Iterator[e.Column]:
    """The columns that an expression names."""
    return (each for each in parts_of(tree) if isinstance(each, e.Column))


def aggregates_of(tree: object) -> list[e.Call]:
    """The calls of aggregate functions in an expression, from the outside in."""
    return [each for each in parts_of(tree) if is_aggregate(each)]  # type: ignore[misc]


def is_aggregate(tree: object) -> bool:
    """True for a call of an aggregate function."""
    return isinstance(tree, e.Call) and functions.aggregate(tree.name) is not None


def check_columns(tree: e.Expression, scope: Scope, clause: str, why: str = "") -> None:
    """Raise SqlError for a column that a clause cannot name; `why` may say more than that it cannot be resolved."""
    for column in columns_of(tree):
        try:
            scope.find(column)
        except SqlError as error:
            if "is ambiguous. Could be" in str(error):
                raise
            name = column.name if column.source is None else f"{column.source}.{column.name}"
            more = why.format(name=name)
            raise SqlError(f"{at_text(column.at)}{clause} column '{name}' cannot be resolved.{more}") from None


def check_functions(tree: e.Expression) -> None:
    """Raise SqlError for a call of a function that there is none of."""
    for part in parts_of(tree):
        if isinstance(part, e.Call) and not any(
            find(part.name) for find in (functions.scalar, functions.aggregate, functions.table)
        ):
            raise SqlError(f"Can't find any functions with the name '{part.name}'")


def resolved(tree: e.Expression, node: Rows) -> e.Expression:
    """The expression with every column under the source of its field: two that mean the same are equal."""
    found = node.fields
    scope = node.scope

    def change(part: e.Expression) -> e.Expression | None:
        if not isinstance(part, e.Column):
            return None
        field = found[scope.find(part)[0]]
        return e.Column(field.name, field.source, part.at)

    return changed(tree, change)


def shown(tree: e.Expression) -> str:
    """An expression as messages about columns of one source show it: names alone."""
    return expression_text(changed(tree, lambda part: e.Column(part.name) if isinstance(part, e.Column) else None))
