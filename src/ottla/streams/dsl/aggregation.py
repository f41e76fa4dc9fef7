"""What aggregates have in common, grouped by key, by key and window, or of several streams: their steps and stores."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ottla.streams.dsl import aggregates
from ottla.streams.dsl.parameters import EmitStrategy, Materialized
from ottla.streams.dsl.steps import Place, repartition_names, repartition_step
from ottla.streams.dsl.tables import AggregateTable, Kept, materialization
from ottla.streams.errors import TopologyError
from ottla.streams.functions import positional, return_annotation
from ottla.streams.plan import operations as op
from ottla.streams.plan.graph import Plan, Step
from ottla.streams.plan.nodes import StoreSpec
from ottla.streams.plan.operations import Aggregator
from ottla.streams.plan.topology_builder import TopologyBuilder
from ottla.streams.serdes.basic import Serde
from ottla.streams.serdes.choice import serde_of_annotation
from ottla.streams.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde
from ottla.streams.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

__all__ = ["Aggregation", "counter", "folder", "reducer"]


@dataclass(frozen=True, slots=True)
class Constant:
    """An initializer that returns the same value each time."""

    value: Any

    def __call__(self) -> Any:
        return copy.copy(self.value)


@dataclass(frozen=True, slots=True)
class KeyDropped:
    """A function of (value, aggregate) where (key, value, aggregate) is called for; sessions' (one, other) likewise."""

    call: Callable[..., Any]

    def __call__(self, key: Any, one: Any, other: Any) -> Any:
        return self.call(one, other)


def counter() -> Aggregator:
    """Return the aggregator of `count()`."""
    return Aggregator("count")


def reducer(step: str, adder: object, subtractor: object | None = None) -> Aggregator:
    """Return the aggregator of `reduce(f)`: f(aggregate, value)."""
    return Aggregator(
        "reduce",
        adder=_checked(step, "the reducer", adder, 2, 2),
        subtractor=None if subtractor is None else _checked(step, "the subtractor", subtractor, 2, 2),
    )


def folder(
    step: str, initializer: object, adder: object, subtractor: object | None = None, merger: object | None = None
) -> Aggregator:
    """Return the aggregator of `aggregate(...)`: `initializer()`, `adder(key, value, aggregate)` and so on."""
    return Aggregator(
        "aggregate",
        initializer=_initializer(step, initializer),
        adder=_with_key(step, "the aggregator", adder),
        subtractor=None if subtractor is None else _with_key(step, "the subtractor", subtractor),
        merger=None if merger is None else _with_key(step, "the merger", merger),
    )


def _initializer(step: str, given: object) -> Callable[[], Any]:
    if callable(given):
        return given
    if given is None or isinstance(given, (int, float, str, bytes, tuple, frozenset)):
        return Constant(given)
    raise TopologyError(
        step, f"the initializer: expected a function without arguments or an immutable value, got {given!r}"
    )


def _checked(step: str, what: str, given: object, least: int, most: int) -> Callable[..., Any]:
    if not callable(given):
        raise TopologyError(step, f"{what}: expected a Python function, got {type(given).__name__}")
    needed = positional(given, least)
    if not least <= needed <= most:
        wanted = f"{least}" if least == most else f"{least} or {most}"
        raise TopologyError(step, f"{what}: expected a function of {wanted} arguments, got one of {needed}")
    return given


def _with_key(step: str, what: str, given: object) -> Callable[..., Any]:
    call = _checked(step, what, given, 2, 3)
    return call if positional(call, 2) == 3 else KeyDropped(call)


def result_of(aggregator: Aggregator, value: Serde | None) -> Serde | None:
    """Return the serde of an aggregate's result, as far as kind, annotation and initial value tell."""
    if aggregator.kind == "reduce":
        return value
    if aggregator.kind != "aggregate":
        return aggregates.result_serde(aggregator, value)
    adder = aggregator.adder.call if isinstance(aggregator.adder, KeyDropped) else aggregator.adder
    found = serde_of_annotation(return_annotation(adder)) if adder is not None else None
    if found is not None or aggregator.initializer is None:
        return found
    if isinstance(aggregator.initializer, Constant):
        kind: object = type(aggregator.initializer.value)
        return None if kind in (tuple, frozenset, type(None)) else serde_of_annotation(kind)
    return serde_of_annotation(return_annotation(aggregator.initializer))


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One grouping, perhaps by window: makes the step and the table of an aggregate."""

    place: Place
    repartition_name: str | None
    windows: Windows | None = None
    emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
    shared: dict[str, Step] | None = None
    """The repartition step that a group with a name uses for all its aggregates."""

    def build(
        self, aggregator: Aggregator, prefix: str, name: str | None, materialized: Materialized | str | None
    ) -> tuple[Place, AggregateTable]:
        """Add the aggregate; `prefix` is that of its generated names."""
        plan = self.place.plan
        kept = self.kept(plan, aggregator, prefix, name, materialized)
        assert kept.name is not None
        step = plan.names.given_or(name, prefix)
        behind = self._repartitioned(kept)
        table = AggregateTable(kept.name, kept.queryable_name)
        added = plan.add(behind.step, self.step(step, aggregator, kept, table))
        key = windowed_serde(kept.key, self.windows)
        return replace(behind, step=added, name=step, key=key, value=kept.value, rekeyed=False), table

    def kept(
        self, plan: Plan, aggregator: Aggregator, prefix: str, name: str | None, materialized: Materialized | str | None
    ) -> Kept:
        """Return the store: the key's serde is the group's, the value's the result's, unless they are given."""
        step = name or prefix.rstrip("-")
        made = materialization(plan, step, materialized, prefix)
        kept = replace(
            made,
            key=made.key or self.place.key,
            value=made.value or result_of(aggregator, self.place.value),
        )
        self._check_store(step, kept)
        return kept

    def step(self, name: str, aggregator: Aggregator, kept: Kept, table: AggregateTable) -> Step:
        """Return the step that aggregates into a store."""

        stored = replace(kept, value=aggregates.stored_serde(aggregator, kept.value))

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_operation(name, self._operation(aggregator, table), parents)
            topology.add_state_store(self._spec(topology, name, stored), name)

        return Step(name, write, versioned=kept.is_versioned and self.windows is None, grace_ms=_grace_ms(self.windows))

    def _operation(self, aggregator: Aggregator, table: AggregateTable) -> op.Operation:
        on_close = self.emit is EmitStrategy.ON_WINDOW_CLOSE
        if self.windows is None:
            return op.StreamAggregate(table.store, aggregator, table.sends_old)
        if isinstance(self.windows, SessionWindows):
            return op.SessionAggregate(table.store, aggregator, self.windows, on_close, table.sends_old)
        return op.WindowAggregate(table.store, aggregator, self.windows, on_close, table.sends_old)

    def _repartitioned(self, kept: Kept) -> Place:
        place = self.place
        if not place.rekeyed:
            return place
        assert kept.name is not None
        names = repartition_names(place.plan, self.repartition_name or kept.name)
        known = None if self.shared is None or self.repartition_name is None else self.shared.get("step")
        step = known or repartition_step(names, place.key, place.value)
        if self.shared is not None:
            self.shared["step"] = step
        place.plan.add(place.step, step)
        return replace(place, step=step, name=names.source, sources=frozenset({names.source}), rekeyed=False)

    def _check_store(self, step: str, kept: Kept) -> None:
        wanted = (
            "key_value" if self.windows is None else "session" if isinstance(self.windows, SessionWindows) else "window"
        )
        kinds = ("key_value", "versioned") if self.windows is None else (wanted,)
        if kept.supplier is not None and kept.supplier.kind not in kinds:
            raise TopologyError(step, f"store {kept.name}: expected a {wanted} store, got a {kept.supplier.kind} store")
        least = retention_ms(self.windows)
        if kept.retention_ms is not None and self.windows is None:
            raise TopologyError(step, "retention is for windowed tables")
        if kept.retention_ms is not None and kept.retention_ms < least:
            raise TopologyError(
                step, f"store {kept.name}: expected a retention of at least {least} ms, got {kept.retention_ms}"
            )

    def _spec(self, topology: TopologyBuilder, step: str, kept: Kept) -> StoreSpec:
        spec = kept.spec(topology, step)
        if self.windows is None:
            return spec
        retention = kept.retention_ms if kept.retention_ms is not None else retention_ms(self.windows)
        if kept.supplier is not None:
            retention = kept.supplier.retention_ms
        is_session = isinstance(self.windows, SessionWindows)
        size = -1 if isinstance(self.windows, SessionWindows) else window_size_ms(self.windows)
        return replace(
            spec, kind="session" if is_session else "timestamped_window", retention_ms=retention, window_size_ms=size
        )


def windowed_serde(key: Serde | None, windows: Windows | None) -> Serde | None:
    """Return the serde of keys within windows."""
    if key is None or windows is None:
        return key if windows is None else None
    return (
        SessionWindowedSerde(key)
        if isinstance(windows, SessionWindows)
        else TimeWindowedSerde(key, window_size_ms(windows))
    )


def window_size_ms(windows: TimeWindows | SlidingWindows | UnlimitedWindows) -> int:
    """Return how far a window's end is from its start."""
    if isinstance(windows, TimeWindows):
        return windows.size_ms
    return windows.difference_ms if isinstance(windows, SlidingWindows) else 2**63 - 1


def retention_ms(windows: Windows | None) -> int:
    """Return how long a window's result must be kept at least."""
    if windows is None or isinstance(windows, UnlimitedWindows):
        return 2**63 - 1 if windows is not None else -1
    if isinstance(windows, TimeWindows):
        return windows.size_ms + windows.grace_ms
    return windows.grace_ms + (windows.gap_ms if isinstance(windows, SessionWindows) else 2 * windows.difference_ms)


def _grace_ms(windows: Windows | None) -> int | None:
    """Return how long after a window's end a record may still change it."""
    if windows is None:
        return None
    if isinstance(windows, UnlimitedWindows):
        return 0
    return windows.grace_ms + (windows.gap_ms if isinstance(windows, SessionWindows) else 0)
