"""CogroupedKStream (KIP-150): several grouped streams in one aggregate, each with an adder of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.streams.dsl.aggregation import Aggregation, folder, result_of, windowed_serde
from ottla.streams.dsl.grouped import KGroupedStream
from ottla.streams.dsl.parameters import Materialized
from ottla.streams.dsl.steps import Place, repartition_names, repartition_step
from ottla.streams.dsl.tables import AggregateTable, Kept, materialization
from ottla.streams.errors import TopologyError
from ottla.streams.plan import operations as op
from ottla.streams.plan.graph import Plan, Step
from ottla.streams.plan.operations import Aggregator
from ottla.streams.plan.topology_builder import TopologyBuilder
from ottla.streams.serdes.basic import Serde
from ottla.streams.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windowed, Windows

if TYPE_CHECKING:
    from ottla.streams.dsl.ktable import KTable

__all__ = ["CogroupedKStream", "WindowedCogroupedKStream"]

K = TypeVar("K")
A = TypeVar("A")
_AGGREGATE = "COGROUPKSTREAM-AGGREGATE-"


class CogroupedKStream(Generic[K, A]):
    """Grouped streams with one kind of key that are folded into one aggregate by key."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._groups: dict[KGroupedStream[K, Any], Any] = {}
        self._behind: dict[KGroupedStream[K, Any], Place] = {}

    def cogroup(
        self, grouped: KGroupedStream[K, Any], adder: Callable[[K, Any, A], A] | Callable[[Any, A], A]
    ) -> CogroupedKStream[K, A]:
        """Add a grouped stream and its `adder(key, value, aggregate)`."""
        if not isinstance(grouped, KGroupedStream):
            raise TopologyError("cogroup", f"expected a grouped stream, got {type(grouped).__name__}")
        self._groups[grouped] = adder
        return self

    def aggregate(
        self,
        initializer: Callable[[], A] | A,
        *,
        name: str | None = None,
        materialized: Materialized | str | None = None,
    ) -> KTable[K, A]:
        """Fold all streams' values by key."""
        return self._table(None, initializer, None, name, materialized)

    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows
    ) -> WindowedCogroupedKStream[K, A]:
        """Fold by window of event time."""
        if not isinstance(windows, (TimeWindows, SlidingWindows, SessionWindows, UnlimitedWindows)):
            raise TopologyError("windowed_by", f"expected windows, got {windows!r}")
        return WindowedCogroupedKStream(self, windows)

    def _table(
        self,
        windows: Windows | None,
        initializer: object,
        merger: object,
        name: str | None,
        materialized: Materialized | str | None,
    ) -> KTable[Any, Any]:
        from ottla.streams.dsl.ktable import KTable

        label = name or "cogroup"
        kept = materialization(self._plan, label, materialized, _AGGREGATE)
        folds = {group: folder(label, initializer, adder, merger=merger) for group, adder in self._groups.items()}
        first = next(iter(self._groups))._aggregation.place
        kept = replace(kept, key=kept.key or first.key, value=kept.value or _value_of(folds.values()))
        assert kept.name is not None
        behind = self._repartitioned(kept)
        sources = self._plan.copartition(*(each.sources for each in behind))
        table = AggregateTable(kept.name, kept.queryable_name)
        steps = []
        for index, (place, made) in enumerate(zip(behind, folds.values(), strict=True)):
            step = self._plan.names.suffixed_or(name, suffix=f"-cogroup-agg-{index}", prefix=_AGGREGATE)
            one = Aggregation(place, None, windows).step(step, made, kept, table)
            steps.append(self._plan.add(place.step, one))
        merged = self._plan.names.suffixed_or(name, suffix="-cogroup-merge", prefix="COGROUPKSTREAM-MERGE-")

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_operation(merged, op.TablePassThrough(table.store), parents)

        added = self._plan.add(steps, Step(merged, write))
        key = windowed_serde(kept.key, windows)
        place = Place(self._plan, added, merged, key, kept.value, sources)
        return KTable(place, table)

    def _repartitioned(self, kept: Kept) -> list[Place]:
        """Return each group's place, behind a repartition topic where its key has changed."""
        assert kept.name is not None
        for group in self._groups:
            aggregation = group._aggregation
            place = aggregation.place
            if not place.rekeyed:
                self._behind[group] = place
                continue
            names = repartition_names(self._plan, aggregation.repartition_name or kept.name)
            if group not in self._behind:
                added = self._plan.add(place.step, repartition_step(names, place.key, place.value))
                sources = frozenset({names.source})
                self._behind[group] = replace(place, step=added, name=names.source, sources=sources, rekeyed=False)
        return [self._behind[group] for group in self._groups]


class WindowedCogroupedKStream(Generic[K, A]):
    """Cogrouped streams by window."""

    def __init__(self, cogrouped: CogroupedKStream[K, A], windows: Windows) -> None:
        self._cogrouped = cogrouped
        self._windows = windows

    def aggregate(
        self,
        initializer: Callable[[], A] | A,
        merger: Callable[[K, A, A], A] | Callable[[A, A], A] | None = None,
        *,
        name: str | None = None,
        materialized: Materialized | str | None = None,
    ) -> KTable[Windowed[K], A]:
        """Fold all streams' values by key and window; sessions need a `merger(key, one, other)`."""
        if isinstance(self._windows, SessionWindows) != (merger is not None):
            raise TopologyError(
                name or "cogroup", "expected a merger(key, one, other) for sessions, and for nothing else"
            )
        return self._cogrouped._table(self._windows, initializer, merger, name, materialized)


def _value_of(folds: Any) -> Serde | None:
    """Return the first serde that an adder or the initial value tells."""
    found: list[Aggregator] = list(folds)
    return next((serde for each in found if (serde := result_of(each, None)) is not None), None)
