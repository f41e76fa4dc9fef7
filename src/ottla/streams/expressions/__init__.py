"""Column expressions without Spark: Spark SQL text as functions of Python's values and of Arrow's columns.

    expression = compiled("value.amount * 2 > 10", {"value": kind_of(serde)})
    holds = expression.function(("value",))

The answers are Spark's in ANSI mode, types, nulls, overflows and errors included; whatever is not held against Spark is
refused by its name. Text is read by sqlglot (`parsing`), typed (`binding`, `operators`, `functions`) and made a function
(`evaluator`, `columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ottla.streams.expressions import kinds
from ottla.streams.expressions.binding import bound
from ottla.streams.expressions.bound import Bound
from ottla.streams.expressions.evaluator import function_of
from ottla.streams.expressions.functions import FUNCTIONS
from ottla.streams.expressions.held import kind_of
from ottla.streams.expressions.kinds import Kind, Refused
from ottla.streams.expressions.operators import OPERATORS
from ottla.streams.expressions.parsing import parsed
from ottla.streams.expressions.runtime import EvaluationError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "FUNCTIONS",
    "OPERATORS",
    "EvaluationError",
    "Expression",
    "Kind",
    "Refused",
    "columns_function",
    "compiled",
    "kind_of",
    "kinds",
]


@dataclass(frozen=True, slots=True)
class Expression:
    """A typed expression. `zone` is that of local times, Spark's `spark.sql.session.timeZone`."""

    bound: Bound
    zone: tzinfo = UTC

    @property
    def kind(self) -> Kind:
        """The type of its results."""
        return self.bound.kind

    def columns(self) -> frozenset[str]:
        """Return the names of the columns that it reads."""
        return self.bound.columns()

    def function(self, columns: tuple[str, ...]) -> Callable[..., Any]:
        """Return a function of these columns' values; it raises EvaluationError where Spark raises."""
        return function_of(self.bound, columns, self.zone)


def compiled(text: str, columns: Mapping[str, Kind], zone: tzinfo = UTC) -> Expression:
    """Return an expression over columns of these types; raises Refused, naming what cannot be evaluated here."""
    return _compiled(text, tuple(columns.items()), zone)


@lru_cache(512)
def _compiled(text: str, columns: tuple[tuple[str, Kind], ...], zone: tzinfo) -> Expression:
    return Expression(bound(parsed(text), dict(columns)), zone)


def columns_function(expression: Expression) -> Callable[[Mapping[str, pa.Array], int], pa.Array]:
    """Return an expression as a function of Arrow columns by name and their length."""
    from ottla.streams.expressions.columns import arrays_function

    return arrays_function(expression.bound, expression.zone)
