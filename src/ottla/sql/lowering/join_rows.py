"""What joins do with rows, as values that travel: a row of two, and the key that a row is joined by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ottla.sql.expressions import Row, compile_expression
from ottla.sql.lowering.rows import Lazy, Line, told
from ottla.sql.plan import Field, scope_of
from ottla.sql.tree import expressions as e


@dataclass(frozen=True)
class JoinedRow(Lazy):
    """Makes a row of two: the left one's columns, the right one's, and a made key; nulls for a row that is not there.

    `made` are the expressions of the left and of the right row that the key is: the first row that is there has it.
    `turned` says that rows come right one first.
    """

    left: tuple[Field, ...]
    right: tuple[Field, ...]
    made: tuple[e.Expression, e.Expression] | None = None
    turned: bool = False
    log: Line | None = None

    @cached_property
    def _nulls(self) -> tuple[Row, Row]:
        return (None,) * len(self.left), (None,) * len(self.right)

    @cached_property
    def _keys(self) -> tuple[Callable[[Row], object], Callable[[Row], object]] | None:
        if self.made is None:
            return None
        on_error = told(self.log)
        left, right = self.made
        return (
            compile_expression(left, scope_of(self.left), on_error),
            compile_expression(right, scope_of(self.right), on_error),
        )

    def __call__(self, one: Any, other: Any) -> Any:
        """Return the row."""
        left, right = (other, one) if self.turned else (one, other)
        nulls = self._nulls
        row = (*(nulls[0] if left is None else left), *(nulls[1] if right is None else right))
        keys = self._keys
        if keys is None:
            return row
        return (*row, keys[0](left) if left is not None else keys[1](right))


@dataclass(frozen=True)
class JoinKey(Lazy):
    """Makes the key that a row of `fields` is joined by; None where that is null, or there is no row."""

    expression: e.Expression
    fields: tuple[Field, ...]
    log: Line | None = None

    @cached_property
    def _value(self) -> Callable[[Row], object]:
        return compile_expression(self.expression, scope_of(self.fields), told(self.log))

    def __call__(self, row: Any) -> Any:
        """Return the key, a tuple of one."""
        found = None if row is None else self._value(row)
        return None if found is None else (found,)
