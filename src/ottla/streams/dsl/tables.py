"""What a table keeps, and what it tells those behind it: known only when everything that uses it is there.

A table is looked up through these (Kafka's value getters) by joins, which makes sources upstream keep a store; and it is
asked to send old values along by whatever must take away before it adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from ottla.streams.dsl.parameters import Materialized
from ottla.streams.durations import milliseconds
from ottla.streams.errors import TopologyError
from ottla.streams.plan.graph import Plan
from ottla.streams.plan.nodes import StoreSpec
from ottla.streams.plan.operations import Operation
from ottla.streams.plan.topology_builder import TopologyBuilder
from ottla.streams.serdes.basic import Serde
from ottla.streams.serdes.choice import serde_of
from ottla.streams.stores import StoreSupplier

__all__ = ["AggregateTable", "DerivedTable", "Kept", "SourceTable", "Table", "materialization"]


@dataclass(frozen=True, slots=True)
class Kept:
    """A table's store as it was asked for. `queryable`: it was named, so it is kept in any case."""

    name: str | None
    queryable: bool
    key: Serde | None = None
    value: Serde | None = None
    retention_ms: int | None = None
    supplier: StoreSupplier | None = None
    logged: bool = True
    cached: bool = True
    changelog_config: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_versioned(self) -> bool:
        """True for a store that remembers older values."""
        return self.supplier is not None and self.supplier.kind == "versioned"

    @property
    def queryable_name(self) -> str | None:
        """The name under which it can be asked, or None."""
        return self.name if self.queryable else None

    def spec(self, topology: TopologyBuilder, step: str, *, is_global: bool = False) -> StoreSpec:
        """Return a key-value table's store in a topology."""
        assert self.name is not None
        return StoreSpec(
            self.name,
            "versioned" if self.is_versioned else "timestamped_key_value",
            topology.key_serde(self.key, step),
            topology.value_serde(self.value, step),
            retention_ms=self.supplier.retention_ms if self.supplier is not None else -1,
            logged=self.logged,
            cached=self.cached and not self.is_versioned,
            changelog_config=self.changelog_config,
            queryable=self.queryable,
            is_global=is_global,
        )


def materialization(plan: Plan, step: str, given: Materialized | str | None, prefix: str | None) -> Kept:
    """Return what was asked for; without a name the store gets a generated one, if a prefix for it is given."""
    made = Materialized(given) if isinstance(given, str) else given or Materialized()
    if not isinstance(made, Materialized):
        raise TopologyError(step, f"materialized: expected a Materialized or a store's name, got {made!r}")
    name = made.store_name
    if name is not None:
        plan.check_store_name(name, step)
    return Kept(
        name if name is not None or prefix is None else plan.names.store(prefix),
        name is not None,
        None if made.key_serde is None else serde_of(made.key_serde, step),
        None if made.value_serde is None else serde_of(made.value_serde, step),
        None if made.retention is None else milliseconds(made.retention, f"{step}: retention"),
        made.store,
        made.logging,
        made.caching,
        dict(made.changelog_config),
    )


class Table(Protocol):
    """A table as others see it."""

    @property
    def queryable(self) -> str | None:
        """The store's name where it was given."""

    def lookup(self) -> tuple[str, ...]:
        """Return the stores that a look-up in it reads, and see to it that they are kept."""

    def send_old(self, *, force: bool) -> bool:
        """Ask for old values; True where they come. Without `force`, nothing is kept only for that."""


@dataclass(slots=True)
class SourceTable:
    """A topic, or a stream, as a table: kept only if it was named or somebody needs it."""

    name: str
    kept: Kept
    sends_old: bool = False
    needed: bool = False

    def __post_init__(self) -> None:
        self.needed = self.kept.queryable

    @property
    def queryable(self) -> str | None:
        """The store's name where it was given."""
        return self.kept.queryable_name

    @property
    def stored(self) -> str | None:
        """The store's name, if there is to be one."""
        return self.kept.name if self.needed else None

    def lookup(self) -> tuple[str, ...]:
        """Return the stores that a look-up reads."""
        self.needed = True
        assert self.kept.name is not None
        return (self.kept.name,)

    def send_old(self, *, force: bool) -> bool:
        """Ask for old values."""
        if not force and not self.needed:
            return False
        self.needed = self.sends_old = True
        return True

    def write(
        self, topology: TopologyBuilder, parents: tuple[str, ...], operation: Operation, reused_topic: str | None = None
    ) -> None:
        """Add the processor, and the store where it is needed; `reused_topic` is its changelog, if any."""
        topology.add_operation(self.name, operation, parents)
        if self.needed:
            spec = self.kept.spec(topology, self.name)
            if reused_topic is not None:
                spec = replace(spec, logged=False, source_topic=reused_topic)
            topology.add_state_store(spec, self.name)


@dataclass(slots=True)
class AggregateTable:
    """An aggregate's table: always kept. `sources` are the aggregates of a cogroup that share the store."""

    store: str
    queryable: str | None = None
    sends_old: bool = False

    def lookup(self) -> tuple[str, ...]:
        """Return the stores that a look-up reads."""
        return (self.store,)

    def send_old(self, *, force: bool) -> bool:
        """Ask for old values."""
        self.sends_old = True
        return True


@dataclass(slots=True)
class DerivedTable:
    """A table made of others: filtered, mapped, joined, held back. Kept where it was named, else looked up in its parents.

    `joined` ones demand old values of their parents in any case.
    """

    parents: tuple[Table, ...]
    store: str | None = None
    joined: bool = False
    queryable: str | None = None
    own_stores: tuple[str, ...] = ()
    """Stores that a look-up reads besides the parents': a buffer of what is held back."""
    sends_old: bool = False

    def lookup(self) -> tuple[str, ...]:
        """Return the stores that a look-up reads."""
        if self.store is not None:
            return (self.store,)
        found = list(self.own_stores)
        for each in self.parents:
            found.extend(each.lookup())
        return tuple(dict.fromkeys(found))

    def send_old(self, *, force: bool) -> bool:
        """Ask for old values."""
        if self.joined:
            for each in self.parents:
                each.send_old(force=True)
            self.sends_old = True
        elif self.store is not None or all(each.send_old(force=force) for each in self.parents):
            self.sends_old = True
        return self.sends_old
