"""KGroupedTable: a table's rows by another key. A changed row is subtracted from its old group and added to its new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.streams.dsl.aggregates import stored_serde
from ottla.streams.dsl.aggregation import folder, reducer, result_of
from ottla.streams.dsl.parameters import Materialized
from ottla.streams.dsl.steps import REPARTITION, Place
from ottla.streams.dsl.tables import AggregateTable, materialization
from ottla.streams.plan import operations as op
from ottla.streams.plan.graph import Repartition, Step
from ottla.streams.plan.nodes import RepartitionTopic
from ottla.streams.plan.operations import Aggregator
from ottla.streams.plan.topology_builder import TopologyBuilder

if TYPE_CHECKING:
    from ottla.streams.dsl.ktable import KTable

__all__ = ["KGroupedTable"]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class KGroupedTable(Generic[K, V]):
    """A table by another key: count, reduce or aggregate it, with a function that takes away for each that adds."""

    def __init__(self, place: Place, repartition_name: str | None) -> None:
        self._place = place
        self._repartition_name = repartition_name
        self._repartition: Step | None = None

    def count(self, *, name: str | None = None, materialized: Materialized | str | None = None) -> KTable[K, int]:
        """Count the rows by key."""
        return self._table(Aggregator("count"), "KTABLE-AGGREGATE-", name, materialized)

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        *,
        name: str | None = None,
        materialized: Materialized | str | None = None,
    ) -> KTable[K, V]:
        """Put a group's values together by `adder(aggregate, value)`; `subtractor(aggregate, value)` is for what leaves."""
        return self._table(reducer(name or "reduce", adder, subtractor), "KTABLE-REDUCE-", name, materialized)

    def aggregate(
        self,
        initializer: Callable[[], A] | A | Aggregator,
        adder: Callable[[K, V, A], A] | Callable[[V, A], A] | None = None,
        subtractor: Callable[[K, V, A], A] | Callable[[V, A], A] | None = None,
        *,
        name: str | None = None,
        materialized: Materialized | str | None = None,
    ) -> KTable[K, A]:
        """Fold a group's values: `adder(key, value, aggregate)`, and `subtractor(key, value, aggregate)`.

        Of the declared aggregates those will do that can take away: count, sum and avg.
        """
        from ottla.streams.errors import TopologyError

        step = name or "aggregate"
        if isinstance(initializer, Aggregator):
            if initializer.kind not in ("count", "sum", "avg"):
                raise TopologyError(
                    step, f"{initializer.kind} cannot take away: expected count, sum or avg, or functions"
                )
            made = initializer
        elif subtractor is None:
            raise TopologyError(step, "expected a subtractor beside the adder: rows leave groups")
        else:
            made = folder(step, initializer, adder, subtractor)
        return self._table(made, "KTABLE-AGGREGATE-", name, materialized)

    def _table(
        self, aggregator: Aggregator, prefix: str, name: str | None, materialized: Materialized | str | None
    ) -> KTable[Any, Any]:
        from ottla.streams.dsl.ktable import KTable

        place, plan = self._place, self._place.plan
        kept = materialization(plan, name or prefix.rstrip("-"), materialized, "KTABLE-AGGREGATE-")
        sink = plan.names.suffixed_or(name, suffix="-sink", prefix="KSTREAM-SINK-")
        source = plan.names.suffixed_or(name, suffix="-source", prefix="KSTREAM-SOURCE-")
        step = plan.names.given_or(name, prefix)
        kept = replace(kept, key=kept.key or place.key, value=kept.value or result_of(aggregator, place.value))
        topic = (self._repartition_name or kept.name or "") + REPARTITION
        if self._repartition is None or self._repartition_name is None:
            self._repartition = _changes(place, topic, sink, source)
        plan.add(place.step, self._repartition)
        assert kept.name is not None
        stored = replace(kept, value=stored_serde(aggregator, kept.value))
        table = AggregateTable(kept.name, kept.queryable_name)

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_operation(step, op.TableAggregate(table.store, aggregator, table.sends_old), parents)
            topology.add_state_store(stored.spec(topology, step), step)

        added = plan.add(self._repartition, Step(step, write, versioned=kept.is_versioned))
        sources = frozenset({self._repartition.name})
        return KTable(replace(place, step=added, name=step, key=kept.key, value=kept.value, sources=sources), table)


def _changes(place: Place, topic: str, sink: str, source: str) -> Step:
    """Return the step that sends a table's changes through a repartition topic; the serde is that of their two values."""

    def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
        keys, values = topology.key_serde(place.key, sink), topology.value_serde(place.value, sink)
        topology.add_internal_topic(RepartitionTopic(topic, None, keys, values))
        topology.add_sink(sink, topic, *parents, key_serde=keys, value_serde=values)
        topology.add_source(source, topic, key_serde=keys, value_serde=values)

    return Step(source, write, repartition=Repartition(topic, place.key, place.value, optimizable=False))
