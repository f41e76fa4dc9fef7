"""Table processors: sources, filters and maps of tables, re-grouping, aggregation with adder and subtractor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.engine.accumulators import Accumulator, accumulator
from ottla.streams.engine.forwarding import table_writer
from ottla.streams.engine.interface import Change, Headers
from ottla.streams.engine.stores import KeyValueStore
from ottla.streams.engine.task import Getter, Node, Process, builds
from ottla.streams.engine.values import is_fixed
from ottla.streams.engine.versioned import is_versioned
from ottla.streams.plan import operations

__all__ = ["derived_table"]

Compute = Callable[[Any, Any], Any]


@builds(operations.TableSource)
@builds(operations.StreamToTable)
def _table_source(node: Node) -> Process:
    """KTableSource: a record is its key's new value, None deletes it; records without key are dropped."""
    task, forward = node.task, node.forward
    if node.operation.store is None:

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                task.dropped_null_key += 1
                return
            forward(key, Change(None, value), timestamp, headers)

        return process
    store: KeyValueStore = node.store(node.operation.store)
    write, get, looks_up = table_writer(node, store), store.get, node.sends_old and not (node.caches and store.caches)

    def process_stored(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            task.dropped_null_key += 1
            return
        found = get(key) if looks_up else None
        write(key, value, None if found is None else found[0], timestamp, headers)

    return process_stored


def derived_table(node: Node, compute: Compute, *, skips_nothing: bool = False) -> Process:
    """Return the process of a table computed row by row from another: KTableFilter, KTableMapValues, KTableTransformValues.

    `skips_nothing`: where old values are known, what was not there and is not there now need not be told.
    """
    task, forward, sends_old = node.task, node.forward, node.sends_old
    if node.operation.store is None:
        node.provide_getter(_computed_getter(node, compute))

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            new = compute(key, value.new)
            old = compute(key, value.old) if sends_old else None
            if skips_nothing and sends_old and old is None and new is None and not task.is_replaying:
                return
            forward(key, Change(old, new, value.latest), timestamp, headers)

        return process
    store: KeyValueStore = node.store(node.operation.store)
    write = table_writer(node, store)

    def process_stored(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        new = compute(key, value.new)
        old = None
        if sends_old:
            found = store.get(key)
            old = None if found is None else found[0]
            if skips_nothing and old is None and new is None and not task.is_replaying:
                return
        write(key, new, old, timestamp, headers)

    return process_stored


def _computed_getter(node: Node, compute: Compute) -> Getter:
    """Return the lookup of a table that is not kept: the parent's row, computed again."""
    parent = node.getter(node.parents[0])

    def get(key: Any, *as_of: int) -> tuple[Any, int] | None:
        found = parent(key, *as_of)
        if found is None:
            return None
        value = compute(key, found[0])
        return None if value is None else (value, found[1])

    return get


@builds(operations.TableFilter)
def _table_filter(node: Node) -> Process:
    """KTableFilter."""
    holds, negate = node.call(node.operation.predicate), node.operation.negate

    def compute(key: Any, value: Any) -> Any:
        return value if value is not None and bool(holds(key, value)) is not negate else None

    return derived_table(node, compute, skips_nothing=not is_versioned(node.task.topology, node.parents[0]))


@builds(operations.TableMapValues)
def _table_map_values(node: Node) -> Process:
    """KTableMapValues."""
    mapper = node.call(node.operation.mapper)

    def compute(key: Any, value: Any) -> Any:
        return None if value is None else mapper(key, value)

    return derived_table(node, compute)


@builds(operations.TablePassThrough)
def _table_pass_through(node: Node) -> Process:
    """KTablePassThrough: the table of a cogroup's aggregates."""
    store = node.store(node.operation.store)
    node.provide_getter(store.get)
    return node.forward


@builds(operations.TableToStream)
def _table_to_stream(node: Node) -> Process:
    """KTable.toStream: the new value, None for a deletion."""
    forward = node.forward

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        forward(key, value.new, timestamp, headers)

    return process


@builds(operations.TableRegroup)
def _table_regroup(node: Node) -> Process:
    """KTableRepartitionMap: to the old row's new key its subtraction, to the new row's its addition."""
    forward, mapper, name = node.forward, node.call(node.operation.mapper), node.name
    key_mapper = node.call(node.operation.key_mapper) if node.operation.key_mapper is not None else None

    def pair(key: Any, value: Any) -> tuple[Any, Any]:
        if value is None:
            return None, None
        found = mapper(key, value) if key_mapper is None else (key_mapper(key, value), mapper(key, value))
        return (None, None) if found is None or found[0] is None or found[1] is None else (found[0], found[1])

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            raise ValueError(f"{name}: a table's row without a key cannot be grouped")
        if not value.latest:
            return  # without being counted, as in Kafka
        new_key, new = pair(key, value.new)
        old_key, old = pair(key, value.old)
        if old is not None and new is not None and old_key == new_key:
            forward(old_key, Change(old, new, value.latest), timestamp, headers)
            return
        if old is not None:
            forward(old_key, Change(old, None, value.latest), timestamp, headers)
        if new is not None:
            forward(new_key, Change(None, new, value.latest), timestamp, headers)

    return process


@builds(operations.TableAggregate)
def _table_aggregate(node: Node) -> Process:
    """KTableAggregate and KTableReduce: take the old value out, put the new one in."""
    store: KeyValueStore = node.store(node.operation.store)
    how, name = accumulator(node.operation.aggregator, node), node.name
    write, get = table_writer(node, store), store.get
    apply = _reduced if how.is_reduce else _aggregated

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            raise ValueError(f"{name}: a row to aggregate has no key")
        found = get(key)
        aggregate, before = (None, timestamp) if found is None else found
        old = aggregate if is_fixed(aggregate) or not node.sends_old else get(key)[0]  # type: ignore[index]
        new, touched = apply(how, key, value, aggregate)
        write(key, new, old, max(timestamp, before) if touched else timestamp, headers)

    return process


def _aggregated(how: Accumulator, key: Any, change: Change, aggregate: Any) -> tuple[Any, bool]:
    """Return the new aggregate, and whether the old one's timestamp counts."""
    touched = False
    if change.old is not None and aggregate is not None:
        aggregate, touched = how.subtract(key, change.old, aggregate), True
    if change.new is not None:
        return how.add(key, change.new, how.initial() if aggregate is None else aggregate), True
    return aggregate, touched


def _reduced(how: Accumulator, key: Any, change: Change, aggregate: Any) -> tuple[Any, bool]:
    """The same for a reduce: a first value is the aggregate, with its own timestamp."""
    touched = False
    if change.old is not None and aggregate is not None:
        aggregate, touched = how.subtract(key, change.old, aggregate), True
    if change.new is not None:
        if aggregate is None:
            return change.new, touched
        return how.add(key, change.new, aggregate), True
    return aggregate, touched
