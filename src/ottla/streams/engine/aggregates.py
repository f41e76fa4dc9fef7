"""KStreamAggregate and KStreamReduce: the hot loops of unwindowed aggregation."""

from __future__ import annotations

from typing import Any

from ottla.streams.engine.accumulators import Accumulator, accumulator
from ottla.streams.engine.forwarding import Writer, table_writer
from ottla.streams.engine.fused import Direct
from ottla.streams.engine.interface import Headers
from ottla.streams.engine.stores import KeyValueStore
from ottla.streams.engine.task import Node, Process, builds
from ottla.streams.engine.values import Raw, is_fixed
from ottla.streams.plan import operations

__all__: list[str] = []


@builds(operations.StreamAggregate)
def _stream_aggregate(node: Node) -> Process:
    """Records without key or value are dropped and counted."""
    store: KeyValueStore = node.store(node.operation.store)
    write = table_writer(node, store)
    how = accumulator(node.operation.aggregator, node)
    if not (node.caches and store.caches):
        return _each(node, store, how, write)
    aggregator = node.operation.aggregator
    if aggregator.kind == "count" and aggregator.argument is None:
        node.task.direct[node.name] = Direct(store, None)
        return _coalesced_count(node, store)
    node.task.direct[node.name] = Direct(store, how.add)
    return _coalesced(node, store, how)


def _coalesced_count(node: Node, store: KeyValueStore) -> Process:
    """Counting, updates forwarded at the end of the batch."""
    task, live, entry_of, turn, serialize = node.task, store.live, store.entry, store.turn, store.serialize_key

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            task.dropped_null_key += 1
            return
        raw: bytes = serialize(key)  # type: ignore[assignment]
        entry = live.get(raw)
        if entry is None:
            entry = entry_of(raw, key)
        number = entry[0]
        if number is None:
            entry[0] = 1
            entry[1] = timestamp
        else:
            entry[0] = number + 1
            if timestamp > entry[1]:
                entry[1] = timestamp
        entry[3] = turn()
        entry[5] = headers

    return process


def _coalesced(node: Node, store: KeyValueStore, how: Accumulator) -> Process:
    """Any aggregate, updates forwarded at the end of the batch."""
    task, live, entry_of, turn, serialize = node.task, store.live, store.entry, store.turn, store.serialize_key
    initial, add, deserialize = how.initial, how.add, store.deserialize

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            task.dropped_null_key += 1
            return
        raw: bytes = serialize(key)  # type: ignore[assignment]
        entry = live.get(raw)
        if entry is None:
            entry = entry_of(raw, key)
        aggregate = entry[0]
        latest = entry[1] if entry[1] > timestamp else timestamp
        if aggregate.__class__ is Raw:
            aggregate = deserialize(bytes(aggregate))
        if aggregate is None:
            aggregate, latest = initial(), timestamp
        entry[0] = add(key, value, aggregate)
        entry[1] = latest
        entry[3] = turn()
        entry[5] = headers

    return process


def _each(node: Node, store: KeyValueStore, how: Accumulator, write: Writer) -> Process:
    """Any aggregate, every update forwarded."""
    task, sends_old, initial, add = node.task, node.sends_old, how.initial, how.add

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            task.dropped_null_key += 1
            return
        found = store.get(key)
        if found is None:
            aggregate = initial()
        else:
            aggregate, before = found
            timestamp = max(timestamp, before)
        old = aggregate
        if sends_old and not is_fixed(aggregate):
            old = store.deserialize(store.serialize(aggregate))
        new = add(key, value, aggregate)
        write(key, new, old, timestamp, headers)

    return process
