"""How a materialised table's updates reach its children: at once, or coalesced at the end of the batch.

Kafka's TimestampedTupleForwarder and the flush listener of its caching stores. A flush goes through the keys in the order of
their last update; the old value is the one before the batch; what came and went within it is not told to anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.engine.interface import Change, Headers
from ottla.streams.engine.rows import Rows
from ottla.streams.engine.stores import KeyValueStore
from ottla.streams.engine.task import Node
from ottla.streams.engine.values import SCALARS
from ottla.streams.engine.versioned import NOT_PUT, VersionedStore

__all__ = ["Writer", "flush_once", "table_writer"]

Writer = Callable[[Any, Any, Any, int, Headers], None]


def table_writer(node: Node, store: KeyValueStore | VersionedStore) -> Writer:
    """Make a processor the writer of a store; return `write(key, new, old, timestamp, headers)`.

    The processor offers lookups in the store and forwards its updates: each, or those of a batch in `on_flush`.
    """
    node.provide_getter(store.get)
    if isinstance(store, VersionedStore):
        return _versioned_writer(node, store)
    put, forward, sends_old = store.put, node.forward, node.sends_old
    if node.caches and store.caches:
        flush_once(node, store)

        def write(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
            put(key, new, timestamp, headers)

        return write

    def write_through(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
        put(key, new, timestamp, headers)
        forward(key, Change(old if sends_old else None, new), timestamp, headers)

    return write_through


def _versioned_writer(node: Node, store: VersionedStore) -> Writer:
    """Return the writer of a versioned table: what comes after a newer version is told as not the latest."""
    forward, sends_old = node.forward, node.sends_old

    def write(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
        until = store.put(key, new, timestamp)
        if until != NOT_PUT:
            forward(key, Change(old if sends_old else None, new, until is None), timestamp, headers)

    return write


def flush_once(node: Node, table: KeyValueStore | Rows, key_of: Callable[[list[Any]], Any] | None = None) -> None:
    """Have a store's updates forwarded by this processor at the end of each batch (putAndMaybeForward).

    Where several processors write a store (cogroup), one forwards: they have the same child. `key_of` makes the key that is
    forwarded of an entry; without it that is the entry's own.
    """
    if table.flushed:
        return
    table.flushed = True
    forward, sends_old, new = node.forward, node.sends_old, tuple.__new__

    columns_of, task = node.task.column_flushes.get, node.task

    def flush() -> None:
        columns = columns_of(node.name)
        if columns is not None and columns():
            return
        for entry in table.updated():
            if entry[0] is None and entry[2] is None and not task.is_replaying:
                continue
            old = table.before(entry) if sends_old else None
            key = entry[4] if key_of is None else key_of(entry)
            value = entry[0]
            now = value if type(value) in SCALARS else table.value_of(entry)
            forward(key, new(Change, (old, now, True)), entry[1], entry[5])

    node.on_flush(flush)
