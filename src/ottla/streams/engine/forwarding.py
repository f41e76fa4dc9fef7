"""How a materialised table's updates reach its children: at once, or coalesced at the end of the batch.

Kafka's TimestampedTupleForwarder and the flush listener of its caching stores. A flush goes through the keys in the order of
their last update; the old value is the one before the batch; what came and went within it is not told to anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.engine.interface import Change, Headers
from ottla.streams.engine.stores import KeyValueStore
from ottla.streams.engine.task import Node

__all__ = ["Writer", "table_writer"]

Writer = Callable[[Any, Any, Any, int, Headers], None]


def table_writer(node: Node, store: KeyValueStore) -> Writer:
    """Make a processor the writer of a store; return `write(key, new, old, timestamp, headers)`.

    The processor offers lookups in the store and forwards its updates: each, or those of a batch in `on_flush`.
    """
    node.provide_getter(store.get)
    put, forward, sends_old = store.put, node.forward, node.sends_old
    if node.caches and store.caches:
        node.on_flush(lambda: _flush(node, store))

        def write(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
            put(key, new, timestamp, headers)

        return write

    def write_through(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
        put(key, new, timestamp, headers)
        forward(key, Change(old if sends_old else None, new), timestamp, headers)

    return write_through


def _flush(node: Node, store: KeyValueStore) -> None:
    """Forward a batch's updates; CachingKeyValueStore.putAndMaybeForward."""
    forward, sends_old = node.forward, node.sends_old
    for entry in store.updated():
        if entry[0] is None and entry[2] is None:
            continue
        old = store.before(entry) if sends_old else None
        forward(entry[4], Change(old, store.value_of(entry)), entry[1], entry[5])
