"""Joins of tables by primary key: a change of one meets the other's current row.

KTableKTableInnerJoin, -LeftJoin, -RightJoin, -OuterJoin and their merger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.engine.forwarding import table_writer
from ottla.streams.engine.interface import Change, Headers
from ottla.streams.engine.joins.calls import Joiner, joiner_of
from ottla.streams.engine.task import Getter, Node, Process, builds
from ottla.streams.plan import operations

__all__: list[str] = []


@builds(operations.TableJoin)
def _table_join(node: Node) -> Process:
    """One side of a join; the left side's lookup is the joined table's."""
    operation = node.operation
    join, kind, is_left = joiner_of(node, operation.joiner), operation.kind, operation.is_left
    own, other = node.getter(node.parents[0]), node.getter(operation.other)
    if is_left:
        node.provide_getter(_joined_getter(own, other, join, kind))
    side = kind if is_left or kind != "left" else "right"
    return _side(node, other, join if is_left else _turned(join), side)


def _turned(join: Joiner) -> Joiner:
    return lambda key, this, other: join(key, other, this)


def _side(node: Node, other: Getter, join: Joiner, side: str) -> Process:
    """Return the process of a side that needs a row of the other (inner, right), or of itself (left), or one of both."""
    task, forward = node.task, node.forward
    sends_old = node.sends_old or node.operation.send_old
    compute = _result_of(join, side)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            task.dropped_null_key += 1
            return
        if not value.latest:
            task.dropped_late += 1
            return
        found = other(key)
        if found is None:
            if side in ("inner", "right") or (value.new is None and value.old is None):
                if task.is_replaying and value.new is None:  # both rows may be gone, and nobody was told
                    forward(key, Change(None, None, value.latest), timestamp, headers)
                return
            row = None
        else:
            row = found[0]
            timestamp = max(timestamp, found[1])
        old = compute(key, value.old, row) if sends_old else None
        forward(key, Change(old, compute(key, value.new, row), value.latest), timestamp, headers)

    return process


def _result_of(join: Joiner, side: str) -> Joiner:
    """Return what computes the joined row of this side's row and the other's, either of which may be None."""
    if side in ("inner", "left"):
        return lambda key, this, other: None if this is None else join(key, this, other)
    if side == "outer":
        return lambda key, this, other: None if this is None and other is None else join(key, this, other)
    return join


def _joined_getter(left: Getter, right: Getter, join: Joiner, kind: str) -> Getter:
    """Return the lookup of a joined table that is not kept."""

    def get(key: Any) -> tuple[Any, int] | None:
        one = left(key)
        if one is None and kind != "outer":
            return None
        other = right(key)
        if (other is None and kind == "inner") or (one is None and other is None):
            return None
        value = join(key, None if one is None else one[0], None if other is None else other[0])
        times = [each[1] for each in (one, other) if each is not None]
        return None if value is None else (value, max(times))

    return get


@builds(operations.TableJoinMerge)
def _table_join_merge(node: Node) -> Process:
    """KTableKTableJoinMerger: both sides' results become one table, kept where it was asked for."""
    operation, forward = node.operation, node.forward
    sends_old = node.sends_old or operation.send_old
    if operation.store is None:
        node.provide_getter(node.getter(node.parents[0]))

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, value if sends_old else Change(None, value.new, value.latest), timestamp, headers)

        return process
    write: Callable[[Any, Any, Any, int, Headers], None] = table_writer(node, node.store(operation.store))

    def process_stored(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        write(key, value.new, value.old, timestamp, headers)

    return process_stored
