"""Queries as frozen values: what is selected, from where, in which windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ottla.sql.tree.expressions import Expression
from ottla.sql.words import TIME_UNITS


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time as it was written: a count of a unit (its plural name)."""

    count: int
    unit: str

    @property
    def ms(self) -> int:
        """In milliseconds."""
        return self.count * TIME_UNITS[self.unit.removesuffix("S")]


@dataclass(frozen=True, slots=True)
class Window:
    """The windows of an aggregation: `size` is the gap of a session; `advance` is a hopping window's."""

    kind: Literal["TUMBLING", "HOPPING", "SESSION"]
    size: Duration
    advance: Duration | None = None
    retention: Duration | None = None
    grace: Duration | None = None


@dataclass(frozen=True, slots=True)
class Selected:
    """A selected expression, with the name that it is given."""

    expression: Expression
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class AllOf:
    """`*`, or `source.*`."""

    source: str | None = None


@dataclass(frozen=True, slots=True)
class AllFields:
    """`struct->*`."""

    base: Expression


SelectItem = Selected | AllOf | AllFields


@dataclass(frozen=True, slots=True)
class Source:
    """A stream or a table, under a name of its own in this query (`alias`; its own name where none is given)."""

    name: str
    alias: str


@dataclass(frozen=True, slots=True)
class Within:
    """How far in time two records of a join may be apart."""

    before: Duration
    after: Duration
    grace: Duration | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """One more source that is joined to those before it."""

    kind: Literal["INNER", "LEFT", "RIGHT", "OUTER"]
    right: Source
    on: Expression
    within: Within | None = None


@dataclass(frozen=True, slots=True)
class Ordered:
    """What rows are ordered by: an expression, or the number of a column from 1. Nulls are last, with DESC first."""

    expression: Expression
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT. `emit` is None for a pull query; `pull` says so."""

    select: tuple[SelectItem, ...]
    source: Source
    joins: tuple[Join, ...] = ()
    window: Window | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] | None = None
    partition_by: tuple[Expression, ...] | None = None
    having: Expression | None = None
    emit: Literal["CHANGES", "FINAL"] | None = None
    limit: int | None = None
    order_by: tuple[Ordered, ...] = ()
    """Of pull queries alone, and not ksqlDB's."""

    @property
    def pull(self) -> bool:
        """True for a query that ends: it says no EMIT."""
        return self.emit is None
