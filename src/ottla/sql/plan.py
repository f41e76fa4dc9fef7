"""Queries as plans: a tree of frozen nodes over sources, and on top of it what is written.

A node says which columns its rows have (`fields`, in the order of the row's tuple), which of them are the key, and in which
windows the keys are. Plans are values: no closures, so they travel to where they run. `lowering` makes topologies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Literal

from ottla.sql import rules
from ottla.sql.catalogue import Layout, Source
from ottla.sql.expressions import Scope
from ottla.sql.schema import PSEUDO_COLUMNS, WINDOW_BOUNDS, WindowInfo
from ottla.sql.tree import expressions as e
from ottla.sql.tree.queries import Window, Within
from ottla.sql.tree.statements import SourceKind
from ottla.sql.types import BIGINT, SqlType

AGGREGATE_STORE = "Aggregate-Aggregate-Materialize"
SOURCE_STORE = "KsqlTopic-Reduce"
GRACE_MS = 86_400_000
"""How long windows take late records where nothing is said, from their start on."""


def grace_ms(window: Window) -> int:
    """How long after a window's end late records count: what is said, else until a day from the window's start."""
    return max(GRACE_MS - window.size.ms, 0) if window.grace is None else window.grace.ms


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a row inside a query: of which source (None: made by the query), its name and type."""

    source: str | None
    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class Named:
    """A column that is made: its name, of what, and its type."""

    name: str
    expression: e.Expression
    type: SqlType


@dataclass(frozen=True, slots=True)
class TableCall:
    """A call of a table function: the column that holds its values, what it is called with, and what a value is."""

    column: str
    function: str
    argument: e.Expression
    type: SqlType


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of an aggregate function: the column that holds its result, its columns, the literals behind them, its type."""

    column: str
    function: str
    arguments: tuple[e.Expression, ...]
    literals: tuple[object, ...]
    type: SqlType
    limit: int | None = None
    """How many values it collects at most, where settings say so."""


def scope_of(fields: tuple[Field, ...]) -> Scope:
    """The scope of expressions over rows of these fields."""
    return Scope.of([(field.source, field.name, field.type) for field in fields])


class WorkedOutOnce:
    """Rows whose columns are worked out once, however many expressions ask; a plan travels without them."""

    def __getstate__(self) -> dict[str, object]:
        """Return what was given."""
        return {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class ReadSource(WorkedOutOnce):
    """The rows of a source: its columns as they were declared, then the pseudo columns, then the bounds of windowed keys."""

    source: Source
    alias: str

    @cached_property
    def scope(self) -> Scope:
        """Where in a row each column is."""
        return scope_of(self.fields)

    @property
    def kind(self) -> SourceKind:
        """STREAM or TABLE."""
        return self.source.kind

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns of a row."""
        columns = [(column.name, column.type) for column in self.source.schema.columns]
        bounds = WINDOW_BOUNDS if self.source.window is not None else ()
        return tuple(Field(self.alias, name, type_) for name, type_ in (*columns, *PSEUDO_COLUMNS, *bounds))

    @property
    def key(self) -> tuple[Field, ...]:
        """The key's columns."""
        return tuple(Field(self.alias, column.name, column.type) for column in self.source.schema.key)

    @property
    def window(self) -> WindowInfo | None:
        """The windows that the keys are within."""
        return self.source.window

    @property
    def layout(self) -> Layout:
        """The formats of internal topics below."""
        return self.source.layout


@dataclass(frozen=True)
class Join(WorkedOutOnce):
    """Two relations joined; rows have the fields of the left one, of the right one, and perhaps a key made for the join."""

    left: Node
    right: Node
    join: Literal["INNER", "LEFT", "RIGHT", "OUTER"]
    left_key: e.Expression
    right_key: e.Expression
    within: Within | None
    made_key: Field | None
    """A key that is no source's column: ROWKEY."""
    key: tuple[Field, ...]
    viable: tuple[Field, ...]
    """The columns any of which may be the key: a projection has to name one of them. None for a made or a foreign key."""
    foreign: bool
    """Tables by a foreign key: the right key is looked up by an expression of the left row, whose key stays."""

    @cached_property
    def scope(self) -> Scope:
        """Where in a row each column is."""
        return scope_of(self.fields)

    @property
    def kind(self) -> SourceKind:
        """STREAM where a stream takes part, else TABLE."""
        return "TABLE" if self.left.kind == self.right.kind == "TABLE" else "STREAM"

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns of a row."""
        made = () if self.made_key is None else (self.made_key,)
        return (*self.left.fields, *self.right.fields, *made)

    @property
    def window(self) -> WindowInfo | None:
        """The windows that the keys are within."""
        return self.left.window

    @property
    def layout(self) -> Layout:
        """The formats of internal topics below."""
        return self.left.layout


@dataclass(frozen=True)
class Gathered(WorkedOutOnce):
    """Rows of several tables as they are now, joined, for a query that ends: their time, then the fields of each table."""

    read: tuple[ReadSource, ...]

    @cached_property
    def scope(self) -> Scope:
        """Where in a row each column is."""
        return scope_of(self.fields)

    @property
    def kind(self) -> SourceKind:
        """A STREAM: each row counts once, and none is undone."""
        return "STREAM"

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns of a row."""
        return (Field(None, "ROWTIME", BIGINT), *(field for each in self.read for field in each.fields))

    @property
    def key(self) -> tuple[Field, ...]:
        """No column."""
        return ()

    @property
    def window(self) -> WindowInfo | None:
        """None."""
        return None

    @property
    def layout(self) -> Layout:
        """Any: nothing is written."""
        return Layout("NONE", "JSON")


@dataclass(frozen=True)
class Where(WorkedOutOnce):
    """The rows for which a condition holds: others are left out of a stream and deleted from a table."""

    of: Node
    condition: e.Expression
    having: bool = False

    @cached_property
    def scope(self) -> Scope:
        """Where in a row each column is."""
        return scope_of(self.fields)

    @property
    def kind(self) -> SourceKind:
        """As below."""
        return self.of.kind

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """As below."""
        return self.of.fields

    @property
    def key(self) -> tuple[Field, ...]:
        """As below."""
        return self.of.key

    @property
    def window(self) -> WindowInfo | None:
        """As below."""
        return self.of.window

    @property
    def layout(self) -> Layout:
        """As below."""
        return self.of.layout


@dataclass(frozen=True)
class Explode(WorkedOutOnce):
    """A row for each value of its calls of table functions; the values stand behind the other columns."""

    of: Node
    calls: tuple[TableCall, ...]

    @cached_property
    def scope(self) -> Scope:
        """Where in a row each column is."""
        return scope_of(self.fields)

    @property
    def kind(self) -> SourceKind:
        """As below: a STREAM."""
        return self.of.kind

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns of a row."""
        return (*self.of.fields, *(Field(None, call.column, call.type) for call in self.calls))

    @property
    def key(self) -> tuple[Field, ...]:
        """As below."""
        return self.of.key

    @property
    def window(self) -> WindowInfo | None:
        """As below."""
        return self.of.window

    @property
    def layout(self) -> Layout:
        """As below."""
        return self.of.layout


@dataclass(frozen=True)
class Aggregate(WorkedOutOnce):
    """A table of aggregates by `group`, and by window; rows: the group, then the results, then the bounds of the window."""

    of: Node
    group: tuple[Named, ...]
    calls: tuple[AggregateCall, ...]
    by: Window | None = None
    final: bool = False

    @cached_property
    def scope(self) -> Scope:
        """Where in a row each column is."""
        return scope_of(self.fields)

    @property
    def kind(self) -> SourceKind:
        """TABLE."""
        return "TABLE"

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns of a row."""
        made = [(each.name, each.type) for each in self.group]
        results = [(call.column, call.type) for call in self.calls]
        bounds = WINDOW_BOUNDS if self.window is not None else ()
        return tuple(Field(None, name, type_) for name, type_ in (*made, *results, *bounds))

    @property
    def key(self) -> tuple[Field, ...]:
        """The group's columns."""
        return tuple(Field(None, each.name, each.type) for each in self.group)

    @property
    def window(self) -> WindowInfo | None:
        """The windows that are aggregated over, else those of the keys below."""
        if self.by is None:
            return None
        return WindowInfo(self.by.kind, None if self.by.kind == "SESSION" else self.by.size.ms)

    @property
    def layout(self) -> Layout:
        """The formats of internal topics."""
        return self.of.layout


Node = ReadSource | Join | Gathered | Where | Explode | Aggregate


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """A query's store that pull queries may ask: its name, its kind, and the layout of what it holds."""

    name: str
    kind: Literal["key_value", "window", "session"]


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A query: its rows, what it makes of each of them, and where to.

    `rekeyed`: the key is made anew (PARTITION BY); else it is the record's as it is, renamed perhaps.
    """

    id: str
    root: Node
    key: tuple[Named, ...]
    value: tuple[Named, ...]
    sink: Source
    rekeyed: bool = False
    strict_times: bool = False
    """Whether a row whose time cannot be taken from its column ends the query."""
    keeps_headers: bool = field(default_factory=lambda: rules.hold(rules.STRICT))
    """Whether tables' rows are kept with their headers; queries of the first rules have no such state, and no headers."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """What is read, each source once, from left to right."""
        return tuple(dict.fromkeys(node.source for node in nodes(self.root) if isinstance(node, ReadSource)))

    @property
    def store(self) -> StoreInfo | None:
        """The store whose rows are the query's results, None for a stream, for joined tables and for those with headers."""
        found = next((node for node in nodes(self.root) if isinstance(node, Aggregate)), None)
        if found is not None:
            kind: Literal["key_value", "window", "session"] = "key_value"
            if found.by is not None:
                kind = "session" if found.by.kind == "SESSION" else "window"
            return StoreInfo(AGGREGATE_STORE, kind)
        if self.root.kind == "STREAM" or any(isinstance(node, Join) for node in nodes(self.root)):
            return None  # a joined row is made of its sides' when it is asked for: only the sink's topic has it whole
        if any(source.schema.headers for source in self.sources):
            return None  # and so it is with headers, which no value holds
        return StoreInfo(SOURCE_STORE, "key_value")


def nodes(root: Node) -> Iterator[Node]:
    """Every node of a plan, from the top, left before right."""
    yield root
    if isinstance(root, Join):
        yield from nodes(root.left)
        yield from nodes(root.right)
    elif isinstance(root, Gathered):
        yield from root.read
    elif not isinstance(root, ReadSource):
        yield from nodes(root.of)
