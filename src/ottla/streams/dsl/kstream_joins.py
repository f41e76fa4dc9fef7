"""Joins of a stream: with another stream within a window, with a table by key, with a global table by any key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.streams.dsl.parameters import Joined, StreamJoined
from ottla.streams.dsl.steps import Expression, Place, chosen, function, repartition_names, repartition_step
from ottla.streams.durations import Duration, milliseconds
from ottla.streams.errors import TopologyError
from ottla.streams.functions import Function
from ottla.streams.plan import operations as op
from ottla.streams.plan.graph import Step
from ottla.streams.plan.names import Names, validated
from ottla.streams.plan.nodes import StoreSpec
from ottla.streams.plan.topology_builder import TopologyBuilder
from ottla.streams.serdes.basic import Serde
from ottla.streams.serdes.choice import SerdeLike
from ottla.streams.stores import StoreSupplier
from ottla.streams.windows import JoinWindows

if TYPE_CHECKING:
    from ottla.streams.dsl.global_table import GlobalKTable
    from ottla.streams.dsl.kstream import KStream
    from ottla.streams.dsl.ktable import KTable

__all__ = ["KStreamJoins"]

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
R = TypeVar("R")


class KStreamJoins(Generic[K, V]):
    """What a `KStream` can be joined with."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._repartitioned: Step | None = None

    @property
    def name(self) -> str:
        """The name of the node that forwards these records."""
        return self._place.name

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
        other: KStream[K, V2] | KTable[K, V2] | GlobalKTable[K2, V2],
        joiner: Callable[[V, V2], R] | Callable[[K, V, V2], R] | Expression,
        windows: JoinWindows | None = None,
        *,
        key: Callable[[V], K2] | Callable[[K, V], K2] | Expression | None = None,
        name: str | None = None,
        value_serde: SerdeLike | None = None,
        grace: Duration | None = None,
        joined: Joined | None = None,
        stream_joined: StreamJoined | None = None,
    ) -> KStream[K, R]:
        """Inner join. With a stream give `windows`; with a global table `key`, which makes its key of the record.

        `value_serde` is the result's; `grace` (KIP-923) lets records wait for a versioned table. The joiner is called with
        (left, right) or (key, left, right); an expression is over the columns key, left and right.
        """
        return self._join("inner", other, joiner, windows, key, name, value_serde, grace, joined, stream_joined)

    def left_join(
        self,
        other: KStream[K, V2] | KTable[K, V2] | GlobalKTable[K2, V2],
        joiner: Callable[[V, V2 | None], R] | Callable[[K, V, V2 | None], R] | Expression,
        windows: JoinWindows | None = None,
        *,
        key: Callable[[V], K2] | Callable[[K, V], K2] | Expression | None = None,
        name: str | None = None,
        value_serde: SerdeLike | None = None,
        grace: Duration | None = None,
        joined: Joined | None = None,
        stream_joined: StreamJoined | None = None,
    ) -> KStream[K, R]:
        """Left join: this side's records stay without a partner, and None is joined (streams: when the window closes)."""
        return self._join("left", other, joiner, windows, key, name, value_serde, grace, joined, stream_joined)

    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V | None, V2 | None], R] | Callable[[K, V | None, V2 | None], R] | Expression,
        windows: JoinWindows,
        *,
        name: str | None = None,
        value_serde: SerdeLike | None = None,
        stream_joined: StreamJoined | None = None,
    ) -> KStream[K, R]:
        """Outer join of two streams: records of both sides stay without a partner, when the window closes."""
        return self._join("outer", other, joiner, windows, None, name, value_serde, None, None, stream_joined)

    def _join(
        self,
        kind: str,
        other: Any,
        joiner: object,
        windows: JoinWindows | None,
        key: object,
        name: str | None,
        value_serde: SerdeLike | None,
        grace: Duration | None,
        joined: Joined | None,
        stream_joined: StreamJoined | None,
    ) -> KStream[Any, Any]:
        from ottla.streams.dsl.global_table import GlobalKTable
        from ottla.streams.dsl.ktable import KTable

        step = f"{kind} join of {self.name}"
        made = function(step, joiner, "the joiner", None, arguments=2)
        if isinstance(other, KStreamJoins):
            if not isinstance(windows, JoinWindows):
                raise TopologyError(step, f"expected JoinWindows for a join of two streams, got {windows!r}")
            _refuse(step, "a join of two streams", key=key, grace=grace, joined=joined)
            result = _StreamStream(kind, made, windows, stream_joined or StreamJoined(name=name)).join(self, other)
        elif isinstance(other, KTable):
            _refuse(step, "a join with a table", windows=windows, key=key, stream_joined=stream_joined)
            if kind == "outer":
                raise TopologyError(step, "a stream has no outer join with a table")
            result = _stream_table(self, other, made, kind, joined or Joined(name=name, grace=grace))
        elif isinstance(other, GlobalKTable):
            _refuse(step, "a join with a global table", windows=windows, grace=grace, stream_joined=stream_joined)
            if key is None:
                raise TopologyError(step, "expected key=, which makes the global table's key of a record")
            given = name if joined is None else joined.name
            result = _stream_global(self, other, made, kind, key, given)
        else:
            raise TopologyError(step, f"expected a KStream, KTable or GlobalKTable, got {type(other).__name__}")
        value = chosen(result.name, value_serde, made.returns)
        return _stream(replace(result, value=value))

    def _repartition_for_join(self, prefix: str, key: Serde | None, value: Serde | None) -> Place:
        """Return the place behind a repartition topic; a stream that is joined twice by its own name uses one topic."""
        place = self._place
        keys, values = key or place.key, value or place.value
        names = repartition_names(place.plan, prefix)
        if self._repartitioned is None or place.name != prefix:
            self._repartitioned = place.plan.add(place.step, repartition_step(names, keys, values))
        added = self._repartitioned
        return replace(
            place,
            step=added,
            name=names.source,
            key=keys,
            value=values,
            sources=frozenset({names.source}),
            rekeyed=False,
        )


def _stream(place: Place) -> KStream[Any, Any]:
    from ottla.streams.dsl.kstream import KStream

    return KStream(place)


def _refuse(step: str, what: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise TopologyError(step, f"{what} takes no {name}=")


class _StreamStream:
    """A windowed join: each side notes its records in a window store, and looks into the other's."""

    def __init__(self, kind: str, joiner: Function, windows: JoinWindows, given: StreamJoined) -> None:
        self.kind, self.joiner, self.windows, self.given = kind, joiner, windows, given
        self.left_outer, self.right_outer = kind in ("left", "outer"), kind == "outer"

    def join(self, one: KStreamJoins[Any, Any], other: KStreamJoins[Any, Any]) -> Place:
        given, name = self.given, self.given.name
        step = name or f"{self.kind} join of {one.name}"
        key, left_value, right_value = (
            chosen(step, each) for each in (given.key_serde, given.value_serde, given.other_value_serde)
        )
        left, right = one._place, other._place
        if left.rekeyed:
            prefix = left.name if name is None else name + "-left"
            left = one._repartition_for_join(prefix, key, left_value)
        if right.rekeyed:
            prefix = right.name if name is None else name + "-right"
            right = other._repartition_for_join(prefix, key, right_value)
        sources = left.plan.copartition(left.sources, right.sources)
        left = replace(left, key=key or left.key or right.key, value=left_value or left.value)
        right = replace(right, key=key or right.key or left.key, value=right_value or right.value)
        if left.key != right.key:
            raise TopologyError(step, f"the keys' serdes differ: {_name(left.key)} and {_name(right.key)}")
        return self._added(left, right, sources)

    def _added(self, left: Place, right: Place, sources: frozenset[str]) -> Place:
        plan, names, name = left.plan, left.plan.names, self.given.name
        this_suffix = "-outer-this-join" if self.right_outer else "-this-join"
        other_suffix = "-outer-other-join" if self.left_outer else "-other-join"
        noted = [
            names.suffixed_or(name, suffix=suffix, prefix="KSTREAM-WINDOWED-")
            for suffix in ("-this-windowed", "-other-windowed")
        ]
        this_made = names.processor("KSTREAM-OUTERTHIS-" if self.right_outer else "KSTREAM-JOINTHIS-")
        other_made = names.processor("KSTREAM-OUTEROTHER-" if self.left_outer else "KSTREAM-JOINOTHER-")
        this_name, other_name = (
            (this_made, other_made) if name is None else (validated(name + this_suffix), validated(name + other_suffix))
        )
        merged = names.suffixed_or(name, suffix="-merge", prefix="KSTREAM-MERGE-")
        base = self.given.store_name
        stores = (
            self._store(self.given.this_store, this_made if base is None else base + this_suffix, left),
            self._store(self.given.other_store, other_made if base is None else base + other_suffix, right),
        )
        if stores[0].name == stores[1].name:
            raise TopologyError(merged, f"both sides' stores are called {stores[0].name!r}")
        for place, node, store in ((left, noted[0], stores[0]), (right, noted[1], stores[1])):
            plan.add(place.step, _note(node, store, place))
        waits = self.left_outer and not self.windows.unmatched_at_once
        shared = self._shared_store(this_made, left) if waits else None
        step = Step(merged, lambda topology, parents: None, takes_null_keys=self.left_outer or self.right_outer)
        step.write = self._writer(noted, (this_name, other_name, merged), stores, shared, left)
        plan.add([left.step, right.step], step)
        return replace(left, step=step, name=merged, sources=sources, value=None, rekeyed=False)

    def _writer(
        self,
        noted: list[str],
        nodes: tuple[str, str, str],
        stores: tuple[_Store, _Store],
        shared: str | None,
        left: Place,
    ) -> Callable[[TopologyBuilder, tuple[str, ...]], None]:
        this_name, other_name, merged = nodes

        def operation(is_left: bool) -> op.StreamStreamJoin:
            own, other = stores if is_left else stores[::-1]
            return op.StreamStreamJoin(own.name, other.name, self.joiner, self.windows, self.kind, is_left, shared)

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            if shared is not None:
                topology.add_state_store(self._shared_spec(topology, shared, left, merged))
            extra = () if shared is None else (shared,)
            topology.add_operation(this_name, operation(True), (noted[0],), (stores[1].name, *extra))
            topology.add_operation(other_name, operation(False), (noted[1],), (stores[0].name, *extra))
            topology.add_operation(merged, op.PassThrough(), (this_name, other_name))

        return write

    def _store(self, supplier: StoreSupplier | None, base: str, place: Place) -> _Store:
        size, retention = self.windows.size_ms, self.windows.size_ms + self.windows.grace_ms
        if supplier is None:
            return _Store(validated(base + "-store"), self)
        if supplier.kind != "window" or not supplier.retain_duplicates:
            raise TopologyError(base, f"store {supplier.name}: expected a window store that retains duplicates")
        if (supplier.window_size_ms, supplier.retention_ms) != (size, retention):
            raise TopologyError(
                base, f"store {supplier.name}: expected a window size of {size} ms and a retention of {retention} ms"
            )
        return _Store(supplier.name, self)

    def _shared_store(self, this_made: str, left: Place) -> str:
        suffix = "-outer-shared-join" if self.right_outer else "-left-shared-join"
        if self.given.this_store is not None:
            return validated(f"{self.given.this_store.name}{suffix}-store")
        if self.given.store_name is not None:
            return validated(f"{self.given.store_name}{suffix}-store")
        return f"KSTREAM-OUTERSHARED-{this_made[-10:]}-store"

    def _shared_spec(self, topology: TopologyBuilder, name: str, left: Place, step: str) -> StoreSpec:
        return StoreSpec(
            name,
            "outer_join",
            topology.key_serde(left.key, step),
            topology.value_serde(left.value, step),
            retention_ms=self.windows.size_ms + self.windows.grace_ms,
            window_size_ms=self.windows.size_ms,
            logged=self.given.logging,
            cached=False,
            changelog_config=dict(self.given.changelog_config),
            queryable=False,
        )


class _Store:
    """One side's window store."""

    def __init__(self, name: str, join: _StreamStream) -> None:
        self.name, self.join = name, join

    def spec(self, topology: TopologyBuilder, place: Place, step: str) -> StoreSpec:
        join = self.join
        return StoreSpec(
            self.name,
            "window",
            topology.key_serde(place.key, step),
            topology.value_serde(place.value, step),
            retention_ms=join.windows.size_ms + join.windows.grace_ms,
            window_size_ms=join.windows.size_ms,
            retain_duplicates=True,
            logged=join.given.logging,
            cached=False,
            changelog_config={**join.given.changelog_config, "cleanup.policy": "delete"},
            queryable=False,
        )


def _note(name: str, store: _Store, place: Place) -> Step:
    def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
        topology.add_operation(name, op.WindowStore(store.name), parents)
        topology.add_state_store(store.spec(topology, place, name), name)

    return Step(name, write)


def _name(serde: Serde | None) -> str:
    return "the default" if serde is None else serde.name


def _stream_table(
    stream: KStreamJoins[Any, Any], table: KTable[Any, Any], joiner: Function, kind: str, given: Joined
) -> Place:
    place, plan = stream._place, stream._place.plan
    step = given.name or f"{kind} join of {place.name}"
    key, left_value = chosen(step, given.key_serde), chosen(step, given.value_serde)
    if place.rekeyed:
        place = stream._repartition_for_join(given.name or place.name, key, left_value)
    other = table._place
    keys = key or place.key
    if keys is not None and other.key is not None and keys != other.key:
        raise TopologyError(step, f"the keys' serdes differ: {keys.name} and the table's {other.key.name}")
    sources = plan.copartition(place.sources, other.sources)
    name = plan.names.given_or(given.name, "KSTREAM-JOIN-" if kind == "inner" else "KSTREAM-LEFTJOIN-")
    grace = None if given.grace is None else milliseconds(given.grace, f"{name}: grace")
    if grace is not None and other.step.versioned is False:
        raise TopologyError(
            name, "expected a versioned table (Materialized(store=Stores.versioned(...))) for a join with grace"
        )
    buffer = None if grace is None else name + "-Buffer"
    stores = table._table.lookup()
    before = replace(place, key=keys, value=left_value or place.value)

    def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
        operation = op.StreamTableJoin(table.name, joiner, kind, grace, buffer)
        topology.add_operation(name, operation, parents)
        if buffer is not None:
            topology.add_state_store(_buffer(topology, buffer, before, name, grace or 0), name)
        topology.connect_processor_and_state_stores(name, *stores)
        _check_history(topology, name, stores, grace)

    added = plan.add(place.step, Step(name, write, takes_null_keys=kind == "left"))
    return replace(before, step=added, name=name, value=None, sources=sources)


def _buffer(topology: TopologyBuilder, name: str, place: Place, step: str, grace_ms: int) -> StoreSpec:
    keys, values = topology.key_serde(place.key, step), topology.value_serde(place.value, step)
    return StoreSpec(name, "join_buffer", keys, values, retention_ms=grace_ms, cached=False, queryable=False)


def _check_history(topology: TopologyBuilder, step: str, stores: tuple[str, ...], grace: int | None) -> None:
    if grace is None:
        return
    for store in stores:
        spec = topology.store_named(store)
        if spec is None or spec.kind != "versioned":
            raise TopologyError(
                step, "expected a versioned table (Materialized(store=Stores.versioned(...))) for a join with grace"
            )
        if grace > spec.retention_ms:
            raise TopologyError(
                step, f"store {store}: expected a history of at least the grace {grace} ms, got {spec.retention_ms}"
            )


def _stream_global(
    stream: KStreamJoins[Any, Any],
    table: GlobalKTable[Any, Any],
    joiner: Function,
    kind: str,
    key: object,
    given: str | None,
) -> Place:
    place = stream._place
    name = place.plan.names.given_or(given, "KSTREAM-LEFTJOIN-")
    mapper = function(name, key, "key", place)

    def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
        topology.add_operation(name, op.StreamGlobalJoin(table.store, mapper, joiner, kind), parents)

    added = place.plan.add(place.step, Step(name, write, takes_null_keys=kind == "left"))
    return replace(place, step=added, name=name, value=None)
