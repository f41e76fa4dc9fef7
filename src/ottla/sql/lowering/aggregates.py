"""GROUP BY as Streams' aggregates: one fold holds the state of every call, by group and perhaps by window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ottla.sql import functions
from ottla.sql.expressions import type_of
from ottla.sql.functions import ResolvedAggregate
from ottla.sql.lowering.relations import Context, Relation, columns, lower, lowers
from ottla.sql.lowering.rows import Lazy, Regroup
from ottla.sql.lowering.serdes import StateSerde, internal_layout
from ottla.sql.lowering.steps import RowSteps
from ottla.sql.plan import AGGREGATE_STORE, Aggregate, AggregateCall, grace_ms
from ottla.sql.schema import SqlColumn
from ottla.sql.tree import expressions as e
from ottla.sql.types import SqlType
from ottla.streams import EmitStrategy, Grouped, KTable, Materialized, SessionWindows, TimeWindows

GROUP_BY = "Aggregate-GroupBy"


@dataclass(frozen=True, slots=True)
class Folded:
    """A call: the function, the types of its columns, the literals behind them, and where in the row the columns are."""

    function: str
    types: tuple[SqlType | None, ...]
    literals: tuple[object, ...]
    places: tuple[int, ...]
    limit: int | None = None

    def resolved(self) -> ResolvedAggregate:
        """The function."""
        found = functions.aggregate(self.function)
        assert found is not None, self
        return found.resolve(self.types, self.literals, self.limit)


@dataclass(frozen=True)
class Initial(Lazy):
    """An empty state of every call."""

    calls: tuple[Folded, ...]

    @cached_property
    def _made(self) -> list[Callable[[], object]]:
        return [call.resolved().initial for call in self.calls]

    def __call__(self) -> Any:
        """Return the states."""
        return tuple([make() for make in self._made])


@dataclass(frozen=True)
class Add(Lazy):
    """Adds a row to the state of every call; `undo` takes it out again."""

    calls: tuple[Folded, ...]
    undo: bool = False

    @cached_property
    def _steps(self) -> list[tuple[Callable[..., object], tuple[int, ...]]]:
        found = [(call.resolved(), call.places) for call in self.calls]
        return [(each.undo if self.undo else each.add, places) for each, places in found]  # type: ignore[misc]

    def __call__(self, key: Any, row: Any, states: Any) -> Any:
        """Return the new states."""
        return tuple(
            [
                step(state, *[row[at] for at in places])
                for (step, places), state in zip(self._steps, states, strict=True)
            ]
        )


@dataclass(frozen=True)
class Merge(Lazy):
    """Joins the states of two sessions."""

    calls: tuple[Folded, ...]

    @cached_property
    def _merges(self) -> list[Callable[..., object] | None]:
        return [call.resolved().merge for call in self.calls]

    def __call__(self, key: Any, one: Any, other: Any) -> Any:
        """Return the states of both."""
        return tuple(
            [merge(a, b) for merge, a, b in zip(self._merges, one, other, strict=True)]  # type: ignore[misc]
        )


@dataclass(frozen=True)
class Result(Lazy):
    """Makes the row of a group: its key, what every call is worth, and the bounds of its window."""

    calls: tuple[Folded, ...]
    windowed: bool

    @cached_property
    def _results(self) -> list[Callable[..., object]]:
        return [call.resolved().result for call in self.calls]

    def __call__(self, key: Any, states: Any) -> Any:
        """Return the row."""
        values = [result(state) for result, state in zip(self._results, states, strict=True)]
        if self.windowed:
            return (*key.key, *values, key.start_ms, key.end_ms)
        return (*key, *values)


@lowers(Aggregate)
def _aggregate(node: Aggregate, context: Context) -> Relation:
    below = lower(node.of, context)
    arguments = _arguments(node.calls)
    folded = tuple(_folded(call, arguments, node) for call in node.calls)
    key = columns(node.key, "key")
    layout = internal_layout(node.layout, key)
    value = tuple(
        SqlColumn(f"KSQL_INTERNAL_COL_{at}", type_)
        for at, each in enumerate(arguments)
        if (type_ := type_of(each, node.of.scope)) is not None
    )
    grouped = Grouped(context.key_serde(key, layout), context.value_serde(value, layout), GROUP_BY)
    if below.table is None:
        table = _of_stream(node, below, context, folded, grouped, arguments)
    else:
        group = tuple(each.expression for each in node.group)
        by_group = below.table.group_by(Regroup(group, arguments, node.of.fields, context.log), grouped=grouped)
        state = Materialized(AGGREGATE_STORE, grouped.key_serde, StateSerde())
        table = by_group.aggregate(Initial(folded), Add(folded), Add(folded, undo=True), materialized=state)
    return Relation(node, table=table.map_values(Result(folded, node.by is not None)))


def _arguments(calls: tuple[AggregateCall, ...]) -> tuple[e.Expression, ...]:
    """What all calls are called with, each once."""
    return tuple(dict.fromkeys(argument for call in calls for argument in call.arguments))


def _folded(call: AggregateCall, arguments: tuple[e.Expression, ...], node: Aggregate) -> Folded:
    places = tuple(arguments.index(each) for each in call.arguments)
    return Folded(
        call.function, tuple(type_of(each, node.of.scope) for each in call.arguments), call.literals, places, call.limit
    )


def _of_stream(
    node: Aggregate,
    below: Relation,
    context: Context,
    folded: tuple[Folded, ...],
    grouped: Grouped,
    arguments: tuple[e.Expression, ...],
) -> KTable[Any, Any]:
    """The aggregate of a stream: without a repartition topic where the group is the key that the records have."""
    group = tuple(each.expression for each in node.group)
    kept = node.of.window is None and group == tuple(e.Column(each.name, each.source) for each in node.of.key)
    steps = below.then(value=arguments, passes_nulls=False, key=None if kept else group, drops_null_key=not kept)
    assert steps.stream is not None and steps.program is not None
    program = RowSteps(steps.program, context.log)
    if kept:
        prepared = steps.stream.process_values(program, name="Aggregate-Prepare", value_serde=grouped.value_serde)
    else:
        prepared = steps.stream.process(
            program, name="Aggregate-Prepare", key_serde=grouped.key_serde, value_serde=grouped.value_serde
        )
    by_key = prepared.group_by_key(grouped=grouped)
    initial, add = Initial(folded), Add(folded)
    kept_ms = None if node.by is None or node.by.retention is None else node.by.retention.ms
    state = Materialized(AGGREGATE_STORE, grouped.key_serde, StateSerde(), retention=kept_ms)
    if node.by is None:
        return by_key.aggregate(initial, add, materialized=state)
    strategy = EmitStrategy.ON_WINDOW_CLOSE if node.final else EmitStrategy.ON_WINDOW_UPDATE
    if node.by.kind == "SESSION":
        sessions = by_key.windowed_by(SessionWindows(node.by.size.ms, grace_ms(node.by)))
        return sessions.emit_strategy(strategy).aggregate(initial, add, Merge(folded), materialized=state)
    size = node.by.size.ms
    advance = size if node.by.advance is None else node.by.advance.ms
    windows = by_key.windowed_by(TimeWindows(size, advance, grace_ms(node.by)))
    return windows.emit_strategy(strategy).aggregate(initial, add, materialized=state)
