"""Joins of a stream with a table, by its own key, and with a global table, by any: KStreamKTableJoinProcessor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.engine.interface import Headers, Record
from ottla.streams.engine.joins.buffer import JoinBuffer
from ottla.streams.engine.joins.calls import joiner_of
from ottla.streams.engine.task import Node, Process, builds
from ottla.streams.engine.versioned import is_versioned
from ottla.streams.plan import operations

__all__: list[str] = []

Lookup = Callable[[Any, int], "tuple[Any, int] | None"]


@builds(operations.StreamTableJoin)
def _stream_table_join(node: Node) -> Process:
    """A record meets its key's row: the current one, or a versioned table's of the record's time."""
    operation = node.operation
    get = node.getter(operation.table)
    meet = _join(node, get if is_versioned(node.task.topology, operation.table) else lambda key, timestamp: get(key))
    accepts = _accepts(node)
    if operation.buffer_store is None:

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if accepts(key, key, value):
                meet(key, key, value, timestamp, headers)

        return process
    return _waiting(node, node.store(operation.buffer_store), accepts, meet)


@builds(operations.StreamGlobalJoin)
def _stream_global_join(node: Node) -> Process:
    """The mapper makes the global table's key of a record."""
    mapper, get = node.call(node.operation.key_mapper), node.store(node.operation.store).get
    accepts, meet = _accepts(node), _join(node, lambda key, timestamp: get(key))

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        looked_up = mapper(key, value)
        if accepts(looked_up, key, value):
            meet(looked_up, key, value, timestamp, headers)

    return process


def _accepts(node: Node) -> Callable[[Any, Any, Any], bool]:
    """Return what drops and counts records that can meet no row; a left join keeps those without key."""
    task, is_left = node.task, node.operation.kind == "left"

    def accepts(looked_up: Any, key: Any, value: Any) -> bool:
        if value is None or (looked_up is None and not is_left):
            task.dropped_null_key += 1
            return False
        return True

    return accepts


def _join(node: Node, lookup: Lookup) -> Callable[[Any, Any, Any, int, Headers], None]:
    forward, join, is_left = node.forward, joiner_of(node, node.operation.joiner), node.operation.kind == "left"

    def meet(looked_up: Any, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        found = None if looked_up is None else lookup(looked_up, timestamp)
        if found is not None or is_left:
            forward(key, join(key, value, None if found is None else found[0]), timestamp, headers)

    return meet


def _waiting(
    node: Node,
    buffer: JoinBuffer,
    accepts: Callable[[Any, Any, Any], bool],
    meet: Callable[[Any, Any, Any, int, Headers], None],
) -> Process:
    """Return the process of a join with grace (KIP-923): records wait for the table to catch up."""
    task = node.task

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if not accepts(key, key, value):
            return
        if key is None:
            meet(key, key, value, timestamp, headers)
            return
        if not buffer.put(Record(key, value, timestamp, headers, *task.record[4:])):
            meet(key, key, value, timestamp, headers)
            return
        current = task.record
        for record in buffer.due():
            task.record = record
            meet(record.key, record.key, record.value, record.timestamp, record.headers)
        task.record = current

    return process
