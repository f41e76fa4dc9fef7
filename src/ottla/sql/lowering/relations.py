"""Plans' nodes as streams and tables of rows: each kind of node has a function that lowers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ottla.sql.catalogue import Layout
from ottla.sql.lowering.rows import Holds
from ottla.sql.lowering.serdes import Line, RowSerde, StateSerde, key_serde, value_serde, windowed
from ottla.sql.lowering.steps import RowProgram, RowSteps, TableRows, row_time
from ottla.sql.plan import SOURCE_STORE, Explode, Field, Node, QueryPlan, ReadSource, Where
from ottla.sql.schema import SqlColumn, WindowInfo
from ottla.streams import KStream, KTable, Materialized, Serde, StreamsBuilder


@dataclass(frozen=True, slots=True)
class Context:
    """What lowering has at hand."""

    builder: StreamsBuilder
    plan: QueryPlan
    log: Line | None = None

    def key_serde(self, columns: tuple[SqlColumn, ...], layout: Layout, window: WindowInfo | None = None) -> Serde:
        """The serde of keys of internal topics and stores."""
        return windowed(RowSerde(layout, columns, "key", self.log), window)

    def value_serde(self, columns: tuple[SqlColumn, ...], layout: Layout) -> Serde:
        """The serde of rows in internal topics and stores."""
        return RowSerde(layout, columns, "value", self.log)


@dataclass(frozen=True, slots=True)
class Relation:
    """A node lowered. Records are (key tuple, perhaps within a window, or None; row of the node's fields, or None).

    A stream's last steps wait in `program`, so that one processor runs them with those that come: `settled` adds it.
    """

    node: Node
    stream: KStream[Any, Any] | None = None
    table: KTable[Any, Any] | None = None
    program: RowProgram | None = None

    def settled(self, context: Context, *, name: str | None = None) -> KStream[Any, Any]:
        """The stream behind its last steps, the key as it was."""
        assert self.stream is not None, "a table is no stream"
        if self.program is None:
            return self.stream
        return self.stream.process_values(RowSteps(self.program, context.log), name=name)

    def then(self, **steps: Any) -> Relation:
        """The stream with more steps."""
        program = self.program or RowProgram(self.node.fields)
        return replace(self, program=program.with_steps(**steps))


Lower = Callable[[Any, Context], Relation]
_LOWERED: dict[type[object], Lower] = {}


def lowers(kind: type[object]) -> Callable[[Lower], Lower]:
    """Register the function that lowers nodes of a kind."""

    def register(function: Lower) -> Lower:
        _LOWERED[kind] = function
        return function

    return register


def lower(node: Node, context: Context) -> Relation:
    """Lower a node and all below it."""
    return _LOWERED[type(node)](node, context)


@lowers(ReadSource)
def _read(node: ReadSource, context: Context, store: str = SOURCE_STORE) -> Relation:
    source = node.source
    keys, values = key_serde(source, context.log), value_serde(source, context.log)
    extractor = row_time(source.schema, source.timestamp, source.timestamp_format, strict=context.plan.strict_times)
    if source.kind == "STREAM":
        stream = context.builder.stream(source.topic, key_serde=keys, value_serde=values, timestamp_extractor=extractor)
        return Relation(node, stream=stream, program=RowProgram(node.fields, reads=node))
    kept = Materialized(store, keys, values)  # a row's headers are in no value: rows with them are kept beside it
    table = context.builder.table(
        source.topic, key_serde=keys, value_serde=values, timestamp_extractor=extractor, materialized=kept
    )
    has_headers = context.plan.keeps_headers
    with_headers = Materialized(f"{store}-Rows", keys, StateSerde()) if has_headers and source.schema.headers else None
    return Relation(node, table=table.process_values(TableRows(node, has_headers), materialized=with_headers))


@lowers(Where)
def _where(node: Where, context: Context) -> Relation:
    below = lower(node.of, context)
    if below.table is not None:
        return Relation(node, table=below.table.filter(Holds(node.condition, node.fields, context.log)))
    return replace(below.then(condition=node.condition), node=node)


@lowers(Explode)
def _explode(node: Explode, context: Context) -> Relation:
    below = lower(node.of, context)
    return replace(below.then(calls=node.calls), node=node)


def columns(fields: tuple[Field, ...], place: Any = "value") -> tuple[SqlColumn, ...]:
    """Fields as columns of an internal topic: under their names, or numbered where two have one name."""
    names = [field.name for field in fields]
    return tuple(
        SqlColumn(field.name if names.count(field.name) == 1 else f"{field.source}_{field.name}", field.type, place)
        for field in fields
    )
