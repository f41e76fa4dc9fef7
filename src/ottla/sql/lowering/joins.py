"""Joins as Streams' joins.

A stream that has not what is joined on as its key gets it, and goes through a repartition topic. A table's rows are kept
with their pseudo columns, so that a row that is looked up later says its own time, partition and offset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ottla.sql.catalogue import Layout
from ottla.sql.errors import SqlError
from ottla.sql.lowering.join_rows import JoinedRow, JoinKey
from ottla.sql.lowering.relations import Context, Relation, columns, lower, lowers
from ottla.sql.lowering.serdes import StateSerde, internal_layout, key_serde, value_serde
from ottla.sql.lowering.steps import TableRows, row_time
from ottla.sql.plan import Field, Join, Node, QueryPlan, ReadSource
from ottla.sql.planning.join_keys import is_keyed_by, keys_move
from ottla.sql.tree import expressions as e
from ottla.streams import (
    Joined,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Repartitioned,
    Serde,
    StreamJoined,
    TableJoined,
)

NAME = "Join"
SOURCE_STORES = ("KafkaTopic_Left-Reduce", "KafkaTopic_Right-Reduce")
OLD_WINDOWS = JoinWindows.of(0)
ROWS = StateSerde()
"""How rows of a join are kept and sent: no format of a user's has to be able to hold them."""


@lowers(Join)
def _join(node: Join, context: Context) -> Relation:
    _check_topics(context.plan)
    return _Lowered(node, context, "").relation()


def _check_topics(plan: QueryPlan) -> None:
    """Raise SqlError for a topic that several sources read, one of them as a table: Streams reads a topic once."""
    topics = [source.topic for source in plan.sources]
    for source in plan.sources:
        if source.kind == "TABLE" and topics.count(source.topic) > 1:
            raise SqlError(f"Invalid topology: Topic {source.topic} has already been registered by another source.")


@dataclass(frozen=True, slots=True)
class _Lowered:
    """A join on its way; `prefix` tells those of a chain apart: the joins to the left of the last one have an `L_` more."""

    node: Join
    context: Context
    prefix: str

    @property
    def name(self) -> str:
        return self.prefix + NAME

    def relation(self) -> Relation:
        """The joined rows."""
        node = self.node
        if node.foreign:
            return Relation(node, table=self._foreign())
        if node.kind == "TABLE":
            return Relation(node, table=self._tables())
        made = self._streams() if node.right.kind == "STREAM" else self._stream_and_table()
        return Relation(node, stream=made)

    # -- the four joins

    def _streams(self) -> KStream[Any, Any]:
        node = self.node
        within = node.within
        assert within is not None, node
        keys = self._keys()
        left = self._stream(node.left, node.left_key, keys, 0)
        right = self._stream(node.right, node.right_key, keys, 1)
        windows = replace(OLD_WINDOWS, before_ms=within.before.ms, after_ms=within.after.ms)
        if within.grace is not None:
            windows = JoinWindows(within.before.ms, within.after.ms, within.grace.ms)
        how = StreamJoined(keys, ROWS, ROWS, self.name, self.name)
        if node.join == "RIGHT":
            turned = replace(windows, before_ms=windows.after_ms, after_ms=windows.before_ms)
            return right.left_join(left, self._joiner(turned=True), turned, stream_joined=how)
        calls: dict[str, Callable[..., KStream[Any, Any]]] = {
            "INNER": left.join,
            "LEFT": left.left_join,
            "OUTER": left.outer_join,
        }
        return calls[node.join](right, self._joiner(), windows, stream_joined=how)

    def _stream_and_table(self) -> KStream[Any, Any]:
        node, keys = self.node, self._keys()
        left = self._stream(node.left, node.left_key, keys, 0)
        right = self._table(node.right, 1, keys)
        how = Joined(keys, ROWS, ROWS, self.name)
        call = left.join if node.join == "INNER" else left.left_join
        return call(right, self._joiner(), joined=how)

    def _tables(self) -> KTable[Any, Any]:
        node, keys = self.node, self._keys()
        left, right = self._table(node.left, 0, keys), self._table(node.right, 1, keys)
        if node.join == "RIGHT":
            return right.left_join(left, self._joiner(turned=True), name=self.name, value_serde=ROWS)
        calls: dict[str, Callable[..., KTable[Any, Any]]] = {
            "INNER": left.join,
            "LEFT": left.left_join,
            "OUTER": left.outer_join,
        }
        return calls[node.join](right, self._joiner(), name=self.name, value_serde=ROWS)

    def _foreign(self) -> KTable[Any, Any]:
        node = self.node
        left, right = self._table(node.left, 0, self._keys()), self._table(node.right, 1)
        foreign = JoinKey(node.left_key, node.left.fields, self.context.log)
        call = left.join if node.join == "INNER" else left.left_join
        return call(right, self._joiner(), foreign_key=foreign, value_serde=ROWS, table_joined=TableJoined(self.name))

    # -- their sides

    def _stream(self, side: Node, key: e.Expression, keys: Serde, place: int) -> KStream[Any, Any]:
        """A side's rows by what is joined on."""
        stream = self._side(side, place).settled(self.context)
        if not is_keyed_by(side, key):
            return stream.select_key(JoinKey(key, side.fields, self.context.log))
        if self._moves(place):
            topic = f"{self.name}-{'right' if place else 'left'}"
            return stream.repartition(repartitioned=Repartitioned(keys, ROWS, topic))
        return stream

    def _table(self, side: Node, place: int, keys: Serde | None = None) -> KTable[Any, Any]:
        """A side's rows, as they can be looked up by key."""
        if not isinstance(side, ReadSource):
            table = self._side(side, place).table
            assert table is not None, side
            return table
        source, log = side.source, self.context.log
        read = self.context.builder.table(
            source.topic,
            key_serde=key_serde(source, log),
            value_serde=value_serde(source, log),
            timestamp_extractor=row_time(
                source.schema, source.timestamp, source.timestamp_format, strict=self.context.plan.strict_times
            ),
        )
        store = self.prefix + SOURCE_STORES[place]
        if not self._moves(place):
            return read.process_values(TableRows(side), materialized=Materialized(store, keys, ROWS))
        assert keys is not None, side
        moved = read.process_values(TableRows(side), value_serde=ROWS).to_stream()
        topic = f"{self.name}-{'right' if place else 'left'}"
        return moved.repartition(repartitioned=Repartitioned(keys, ROWS, topic)).to_table(
            materialized=Materialized(store, keys, ROWS)
        )

    def _side(self, side: Node, place: int) -> Relation:
        if isinstance(side, Join):
            return _Lowered(side, self.context, ("R_" if place else "L_") + self.prefix).relation()
        return lower(side, self.context)

    # -- keys

    def _keys(self) -> Serde:
        """The serde of the keys of both sides: they have to be the same bytes, so that they are in the same partition."""
        made = columns(_key_fields(self.node), "key")
        return self.context.key_serde(made, internal_layout(_key_layout(self.node), made), self.node.window)

    def _moves(self, place: int) -> bool:
        """True where a side has the right key in another format, and so perhaps in another partition."""
        side, key = (self.node.right, self.node.right_key) if place else (self.node.left, self.node.left_key)
        if self.node.foreign or not is_keyed_by(side, key) or not isinstance(side, ReadSource):
            return False
        return keys_move(side.layout, _key_layout(self.node))

    def _joiner(self, *, turned: bool = False) -> JoinedRow:
        node = self.node
        made = None if node.made_key is None else (_key_of(node.left, node.left_key), node.right_key)
        return JoinedRow(node.left.fields, node.right.fields, made, turned, self.context.log)


def _key_layout(node: Node) -> Layout:
    """The format that a node's keys are in, by which they are in partitions.

    Of a join that of the joins before it, else a table's, else that of a stream that can stay where it is.
    """
    if not isinstance(node, Join):
        return node.layout
    left, right = node.left, node.right
    if node.foreign or (isinstance(left, Join) and is_keyed_by(left, node.left_key)):
        return _key_layout(left)
    if right.kind == "TABLE" and left.kind == "STREAM":
        return right.layout
    return right.layout if is_keyed_by(right, node.right_key) and not is_keyed_by(left, node.left_key) else left.layout


def _key_fields(node: Join) -> tuple[Field, ...]:
    """The key of a join's rows, under a name that does not depend on the projection: a left table's may have parts."""
    return node.key if len(node.key) > 1 else (replace(node.key[0], source=None, name="KEY"),)


def _key_of(side: Node, key: e.Expression) -> e.Expression:
    """What a side's key is: a key that was made for it, where there is one."""
    if isinstance(side, Join) and side.made_key is not None and is_keyed_by(side, key):
        return e.Column(side.made_key.name)
    return key
