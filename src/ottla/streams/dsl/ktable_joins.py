"""Joins of tables: by primary key (inner, left, outer), and by a foreign key of the left one (inner, left; KIP-213)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.streams.dsl.foreign_key import ForeignKeyJoin
from ottla.streams.dsl.parameters import Materialized, TableJoined
from ottla.streams.dsl.steps import Expression, Place, chosen, function
from ottla.streams.dsl.tables import DerivedTable, Table, materialization
from ottla.streams.errors import TopologyError
from ottla.streams.functions import Function
from ottla.streams.plan import operations as op
from ottla.streams.plan.graph import Step
from ottla.streams.plan.names import Names
from ottla.streams.plan.topology_builder import TopologyBuilder
from ottla.streams.serdes.basic import Serde
from ottla.streams.serdes.choice import SerdeLike

if TYPE_CHECKING:
    from ottla.streams.dsl.ktable import KTable

__all__ = ["KTableJoins"]

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
R = TypeVar("R")


class KTableJoins(Generic[K, V]):
    """What a `KTable` can be joined with."""

    def __init__(self, place: Place, table: Table) -> None:
        self._place = place
        self._table = table

    @property
    def name(self) -> str:
        """The name of the node that forwards the table's changes."""
        return self._place.name

    @property
    def queryable_store_name(self) -> str | None:
        """The store's name where it was given, so that it can be asked; else None."""
        return self._table.queryable

    @property
    def key_serde(self) -> Serde | None:
        """The keys' serde; None is the application's default."""
        return self._place.key

    @property
    def value_serde(self) -> Serde | None:
        """The values' serde; None is the application's default."""
        return self._place.value

    @property
    def _names(self) -> Names:
        return self._place.plan.names

    def join(
        self,
        other: KTable[K2, V2],
        joiner: Callable[[V, V2], R] | Expression,
        *,
        foreign_key: Callable[[V], K2] | Callable[[K, V], K2] | Expression | None = None,
        name: str | None = None,
        value_serde: SerdeLike | None = None,
        materialized: Materialized | str | None = None,
        table_joined: TableJoined | None = None,
    ) -> KTable[K, R]:
        """Inner join by key; with `foreign_key`, which makes the other table's key of a row, by that."""
        return self._join("inner", other, joiner, foreign_key, name, value_serde, materialized, table_joined)

    def left_join(
        self,
        other: KTable[K2, V2],
        joiner: Callable[[V, V2 | None], R] | Expression,
        *,
        foreign_key: Callable[[V], K2] | Callable[[K, V], K2] | Expression | None = None,
        name: str | None = None,
        value_serde: SerdeLike | None = None,
        materialized: Materialized | str | None = None,
        table_joined: TableJoined | None = None,
    ) -> KTable[K, R]:
        """Left join by key or foreign key: this table's rows stay without a partner, with None for the other."""
        return self._join("left", other, joiner, foreign_key, name, value_serde, materialized, table_joined)

    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V | None, V2 | None], R] | Expression,
        *,
        name: str | None = None,
        value_serde: SerdeLike | None = None,
        materialized: Materialized | str | None = None,
    ) -> KTable[K, R]:
        """Outer join by key: rows of both tables stay without a partner."""
        return self._join("outer", other, joiner, None, name, value_serde, materialized, None)

    def _join(
        self,
        kind: str,
        other: Any,
        joiner: object,
        foreign_key: object,
        name: str | None,
        value_serde: SerdeLike | None,
        materialized: Materialized | str | None,
        table_joined: TableJoined | None,
    ) -> KTable[Any, Any]:
        from ottla.streams.dsl.ktable import KTable

        step = name or f"{kind} join of {self.name}"
        if not isinstance(other, KTableJoins):
            raise TopologyError(step, f"expected a KTable, got {type(other).__name__}")
        made = function(step, joiner, "the joiner", None, arguments=2)
        if foreign_key is not None:
            given = table_joined or TableJoined(name)
            foreign = ForeignKeyJoin(kind, made, function(step, foreign_key, "foreign_key", self._place), given)
            place, table = foreign.join(self._place, self._table, other._place, other._table, value_serde, materialized)
            return KTable(place, table)
        if made.call is not None and made.with_key:
            raise TopologyError(step, "the joiner: expected a function of (left, right)")
        if table_joined is not None:
            raise TopologyError(step, "a join by key takes no table_joined=")
        return self._by_key(kind, other, made, name, value_serde, materialized)

    def _by_key(
        self,
        kind: str,
        other: KTableJoins[Any, Any],
        joiner: Function,
        name: str | None,
        value_serde: SerdeLike | None,
        materialized: Materialized | str | None,
    ) -> KTable[Any, Any]:
        from ottla.streams.dsl.ktable import KTable

        plan, one, two = self._place.plan, self._place, other._place
        label = name or f"{kind} join of {one.name}"
        prefix = "KTABLE-MERGE-" if materialized is not None else None
        kept = materialization(plan, label, materialized, prefix)
        merged = plan.names.given_or(name, "KTABLE-MERGE-")
        if one.key is not None and two.key is not None and one.key != two.key:
            raise TopologyError(merged, f"the keys' serdes differ: {one.key.name} and {two.key.name}")
        sources = plan.copartition(one.sources, two.sources)
        if kind != "inner":
            self._table.send_old(force=True)
        if kind == "outer":
            other._table.send_old(force=True)
        value = chosen(merged, value_serde) or kept.value or chosen(merged, None, joiner.returns)
        kept = replace(kept, key=kept.key or one.key or two.key, value=value)
        table = DerivedTable((self._table, other._table), kept.name, joined=True, queryable=kept.queryable_name)
        this_name = plan.names.suffixed_or(name, suffix="-join-this", prefix="KTABLE-JOINTHIS-")
        other_name = plan.names.suffixed_or(name, suffix="-join-other", prefix="KTABLE-JOINOTHER-")
        this_stores, other_stores = self._table.lookup(), other._table.lookup()

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            old = table.sends_old
            topology.add_operation(this_name, op.TableJoin(two.name, joiner, kind, True, old), (one.name,))
            topology.add_operation(other_name, op.TableJoin(one.name, joiner, kind, False, old), (two.name,))
            topology.add_operation(merged, op.TableJoinMerge(table.store, old), (this_name, other_name))
            if kept.name is not None:
                topology.add_state_store(kept.spec(topology, merged), merged)
            topology.connect_processor_and_state_stores(this_name, *other_stores)
            topology.connect_processor_and_state_stores(other_name, *this_stores)

        versioned = kept.is_versioned
        added = plan.add(one.step, Step(merged, write, versioned=versioned))
        plan.add(two.step, added)
        return KTable(replace(one, step=added, name=merged, key=kept.key, value=value, sources=sources), table)
