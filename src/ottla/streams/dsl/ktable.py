"""KTable: a topic, or an aggregate, as a table: the latest value of each key, and its changes.

What a table keeps is decided by its use: one that is named (`materialized="name"`) or looked up by a join has a store;
others only pass changes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ottla.streams.dsl.ktable_joins import KTableJoins
from ottla.streams.dsl.parameters import Grouped, Materialized, Suppressed
from ottla.streams.dsl.steps import Expression, Place, chosen, function, part_of
from ottla.streams.dsl.tables import DerivedTable, Kept, Table, materialization
from ottla.streams.durations import milliseconds
from ottla.streams.errors import TopologyError
from ottla.streams.functions import Function
from ottla.streams.plan import operations as op
from ottla.streams.plan.graph import Step
from ottla.streams.plan.names import validated
from ottla.streams.plan.nodes import StoreSpec
from ottla.streams.plan.topology_builder import TopologyBuilder, processor
from ottla.streams.serdes.basic import Serde
from ottla.streams.serdes.choice import SerdeLike

if TYPE_CHECKING:
    from ottla.streams.dsl.grouped_table import KGroupedTable
    from ottla.streams.dsl.kstream import KStream

__all__ = ["KTable"]

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class KTable(KTableJoins[K, V], Generic[K, V]):
    """A table with keys K and values V; immutable: each method returns what comes next."""

    def filter(
        self,
        predicate: Callable[[V], bool] | Callable[[K, V], bool] | Expression,
        *,
        name: str | None = None,
        materialized: Materialized | str | None = None,
    ) -> KTable[K, V]:
        """Keep the rows for which the predicate holds; rows for which it ceases to hold are deleted."""
        return self._filter(predicate, name, materialized, negate=False)

    def filter_not(
        self,
        predicate: Callable[[V], bool] | Callable[[K, V], bool] | Expression,
        *,
        name: str | None = None,
        materialized: Materialized | str | None = None,
    ) -> KTable[K, V]:
        """Keep the rows for which the predicate does not hold."""
        return self._filter(predicate, name, materialized, negate=True)

    @overload
    def map_values(
        self,
        mapper: Expression,
        *,
        name: str | None = ...,
        value_serde: SerdeLike | None = ...,
        materialized: Materialized | str | None = ...,
    ) -> KTable[K, Any]: ...

    @overload
    def map_values(
        self,
        mapper: Callable[[V], V2] | Callable[[K, V], V2],
        *,
        name: str | None = ...,
        value_serde: SerdeLike | None = ...,
        materialized: Materialized | str | None = ...,
    ) -> KTable[K, V2]: ...

    def map_values(
        self,
        mapper: Any,
        *,
        name: str | None = None,
        value_serde: SerdeLike | None = None,
        materialized: Materialized | str | None = None,
    ) -> KTable[K, Any]:
        """Replace each row's value. Its serde: the given one, else the function's return annotation, else the default."""
        made, step = self._derived(materialized, name, "KTABLE-MAPVALUES-")
        mapped = function(step, mapper, "the mapper", self._place)
        value = chosen(step, value_serde, None) or made.value or chosen(step, None, mapped.returns)
        table = DerivedTable((self._table,), made.queryable_name, queryable=made.queryable_name)

        def operation() -> op.Operation:
            return op.TableMapValues(mapped, table.store, value, table.sends_old)

        return self._then(step, operation, table, made, value)

    def process_values(
        self,
        supplier: Callable[[], Any],
        *stores: str,
        name: str | None = None,
        value_serde: SerdeLike | None = None,
        materialized: Materialized | str | None = None,
    ) -> KTable[K, Any]:
        """Replace each row's value by a `ValueTransformer` of one's own with stores: Kafka's `KTable.transformValues`."""
        made = materialization(self._place.plan, name or "process_values", materialized, None)
        step = self._names.given_or(name, "KTABLE-TRANSFORMVALUES-")
        given = processor(step, supplier, None, value_serde, fixed_key=True, method="transform")
        value = given.value or made.value
        table = DerivedTable((self._table,), made.queryable_name, queryable=made.queryable_name)

        def operation() -> op.Operation:
            return op.TableProcess(given.supplier, table.store, value, table.sends_old)

        return self._then(step, operation, table, made, value, stores)

    transform_values = process_values

    @overload
    def to_stream(self, key: None = ..., *, name: str | None = ...) -> KStream[K, V]: ...

    @overload
    def to_stream(
        self,
        key: Callable[[V], K2] | Callable[[K, V], K2],
        *,
        name: str | None = ...,
        key_serde: SerdeLike | None = ...,
    ) -> KStream[K2, V]: ...

    @overload
    def to_stream(
        self, key: Expression, *, name: str | None = ..., key_serde: SerdeLike | None = ...
    ) -> KStream[Any, V]: ...

    def to_stream(
        self, key: Any = None, *, name: str | None = None, key_serde: SerdeLike | None = None
    ) -> KStream[Any, V]:
        """Take the table's changes as records, deletions as null values; perhaps under another key."""
        from ottla.streams.dsl.kstream import KStream

        step = self._names.given_or(name, "KTABLE-TOSTREAM-")

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_operation(step, op.TableToStream(), parents)

        added = self._place.plan.add(self._place.step, Step(step, write, changes_value=False))
        stream: KStream[Any, V] = KStream(replace(self._place, step=added, name=step, rekeyed=False))
        return stream if key is None else stream.select_key(key, key_serde=key_serde)

    def suppress(self, suppressed: Suppressed) -> KTable[K, V]:
        """Hold changes back: until a window closes, or for a time (KIP-328)."""
        if not isinstance(suppressed, Suppressed):
            raise TopologyError("suppress", f"expected a Suppressed, got {suppressed!r}")
        if self._place.step.versioned:
            raise TopologyError("suppress", "expected a table that is not versioned")
        given = suppressed.name
        step = self._names.processor("KTABLE-SUPPRESS-") if given is None else validated(given)
        buffer = suppressed.buffer
        if suppressed.until == "window_close":
            wait = self._place.step.window_grace_ms()
        else:
            wait = milliseconds(suppressed.wait, f"{step}: wait")
        store = self._names.store("KTABLE-SUPPRESS-") if given is None else given + "-store"
        table = DerivedTable((self._table,), own_stores=(store,))
        self._table.send_old(force=True)
        place = self._place

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            if place.step.is_versioned():
                raise TopologyError(step, "expected a table that is not versioned, nor made of one")
            made = op.Suppress(suppressed.until, wait, buffer.max_records, buffer.max_bytes, buffer.on_full, store)
            topology.add_operation(step, made, parents)
            keys, values = topology.key_serde(place.key, step), topology.value_serde(place.value, step)
            topology.add_state_store(
                StoreSpec(
                    store,
                    "suppress_buffer",
                    keys,
                    values,
                    logged=buffer.logging,
                    cached=False,
                    changelog_config=dict(buffer.changelog_config),
                    queryable=False,
                ),
                step,
            )

        added = place.plan.add(place.step, Step(step, write, versioned=False, is_suppress=True))
        return KTable(replace(place, step=added, name=step), table)

    @overload
    def group_by(
        self,
        mapper: Callable[[V], tuple[K2, V2]] | Callable[[K, V], tuple[K2, V2]],
        *,
        key_serde: SerdeLike | None = ...,
        value_serde: SerdeLike | None = ...,
        name: str | None = ...,
        grouped: Grouped | None = ...,
    ) -> KGroupedTable[K2, V2]: ...

    @overload
    def group_by(
        self,
        mapper: Expression | None = ...,
        *,
        key: Expression,
        key_serde: SerdeLike | None = ...,
        value_serde: SerdeLike | None = ...,
        name: str | None = ...,
        grouped: Grouped | None = ...,
    ) -> KGroupedTable[Any, Any]: ...

    def group_by(
        self,
        mapper: Any = None,
        *,
        key: Expression | None = None,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        name: str | None = None,
        grouped: Grouped | None = None,
    ) -> KGroupedTable[Any, Any]:
        """Group by another key: a function that returns (key, value), or expressions: `group_by("value", key="value.city")`.

        A row that changes is taken away from its old group and added to its new one.
        """
        from ottla.streams.dsl.grouped_table import KGroupedTable

        given = grouped or Grouped(key_serde, value_serde, name)
        step = self._names.given_or(given.name, "KTABLE-SELECT-")
        made, key_made = self._selector(step, mapper, key)
        self._table.send_old(force=True)
        keys = chosen(step, given.key_serde) or chosen(step, None, part_of(made.returns, 0))
        values = chosen(step, given.value_serde) or chosen(step, None, part_of(made.returns, 1))
        if values is None and key_made is not None and (mapper is None or mapper == "value"):
            values = self._place.value

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_operation(step, op.TableRegroup(made, key_made, keys, values), parents)

        added = self._place.plan.add(self._place.step, Step(step, write))
        return KGroupedTable(replace(self._place, step=added, name=step, key=keys, value=values), given.name)

    def _selector(self, step: str, mapper: object, key: object) -> tuple[Function, Function | None]:
        if key is None:
            made = function(step, mapper, "the mapper", self._place)
            if made.is_native:
                raise TopologyError(step, "expected key= beside an expression, or a function that returns (key, value)")
            return made, None
        values = function(step, "value" if mapper is None else mapper, "the mapper", self._place)
        keys = function(step, key, "key", self._place)
        if not (values.is_native and keys.is_native):
            raise TopologyError(step, "expected two expressions, or one function that returns (key, value)")
        return values, keys

    def _derived(self, materialized: Materialized | str | None, name: str | None, prefix: str) -> tuple[Kept, str]:
        """Return what is to be kept and the step's name; a Materialized without a name uses a number up, as in Kafka."""
        made = materialization(self._place.plan, name or prefix.rstrip("-"), materialized, None)
        if materialized is not None and made.name is None:
            self._names.store(prefix)
        return made, self._names.given_or(name, prefix)

    def _filter(
        self, predicate: object, name: str | None, materialized: Materialized | str | None, *, negate: bool
    ) -> KTable[K, V]:
        made, step = self._derived(materialized, name, "KTABLE-FILTER-")
        holds = function(step, predicate, "the predicate", self._place)
        table = DerivedTable((self._table,), made.queryable_name, queryable=made.queryable_name)
        table.sends_old = self._table.send_old(force=False)

        def operation() -> op.Operation:
            return op.TableFilter(holds, negate, table.store, table.sends_old)

        return self._then(step, operation, table, made, made.value or self._place.value)

    def _then(
        self,
        name: str,
        operation: Callable[[], op.Operation],
        table: Table,
        kept: Kept,
        value: Serde | None,
        stores: tuple[str, ...] = (),
    ) -> KTable[K, Any]:
        """Add a step whose operation is settled when the plan is written, and its store where it has one."""
        place: Place = self._place
        key = kept.key or place.key

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_operation(name, operation(), parents)
            if kept.queryable:
                topology.add_state_store(replace(kept, key=key, value=value).spec(topology, name), name)
            topology.connect_processor_and_state_stores(name, *stores)

        versioned = None if kept.name is None else kept.is_versioned
        added = place.plan.add(place.step, Step(name, write, versioned=versioned))
        return KTable(replace(place, step=added, name=name, key=key, value=value), table)
