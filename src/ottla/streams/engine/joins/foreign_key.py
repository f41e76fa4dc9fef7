"""Joins of tables by a foreign key of the left one (KIP-213): questions to the foreign key's partition, and answers.

SubscriptionSend-, SubscriptionReceive-, SubscriptionJoin-, ForeignTableJoin- and ResponseJoinProcessor of Kafka Streams 4.3.

An answer about a left row that has changed since is let go by, as in Kafka, for the newer question is on its way. But an
inner join's question has no answer there where the right row is gone, so that a row that only the older answer would have
removed stays for good. Here such a question is answered by a reminder, and who has let an answer go by that said that there
is no right row goes by that. Where nothing was let go by, a reminder does nothing, so that the results are Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.engine.interface import Change, Headers
from ottla.streams.engine.joins.calls import joiner_of
from ottla.streams.engine.joins.murmur3 import hash128
from ottla.streams.engine.task import Node, Process, builds
from ottla.streams.plan import operations
from ottla.streams.plan.nodes import ProcessorNode, SinkNode, SourceNode
from ottla.streams.serdes.internal import (
    DELETE_KEY_AND_PROPAGATE,
    DELETE_KEY_NO_PROPAGATE,
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE,
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE,
    CombinedKey,
    Response,
    Subscription,
)

__all__: list[str] = []

Ask = Callable[[Any, int], None]
MISSED, TOLD = 1, 2
"""A row may be there that is to go; none is, since its end was told at once."""
MISSED_MAX = 32
"""Keys that are noted one by one: they stand beside a committed offset, where there is little room."""
MANY = "many"
"""Noted where there were more."""
_NAME_BYTES = 8
"""Of a key's hash; two keys of one name cost a tombstone that nobody needs."""


@builds(operations.ForeignKeyRegister)
def _register(node: Node) -> Process:
    """The left table's change: take back the question about the old foreign key, ask about the new one."""
    task, forward, operation = node.task, node.forward, node.operation
    extract, value_serde, same = node.call(operation.extractor), operation.value, _same_key(node)
    instruct = _left_questions if operation.kind == "left" else _inner_questions

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if not value.latest:
            task.dropped_late += 1
            return
        if value.old is None and value.new is None:
            return
        old = None if value.old is None else extract(key, value.old)
        new = None if value.new is None else extract(key, value.new)
        digest = None if value.new is None else hash128(value_serde.serialize(value.new))

        def ask(foreign_key: Any, instruction: int) -> None:
            question = Subscription(key, instruction, digest, task.record.partition)
            forward(foreign_key, question, timestamp, headers)

        if value.new is not None and new is None and operation.kind != "left":
            task.dropped_null_key += 1
        instruct(old, new, same, ask)

    return process


def _same_key(node: Node) -> Callable[[Any, Any], bool]:
    """Return whether two foreign keys have the same bytes."""
    found = (node.task.topology.nodes[name] for name in node.task.topology.children(node.name))
    serde = next((each.key for each in found if isinstance(each, SinkNode)), None)
    if serde is None:
        return lambda one, other: bool(one == other)
    return lambda one, other: serde.serialize(one) == serde.serialize(other)


def _left_questions(old: Any, new: Any, same: Callable[[Any, Any], bool], ask: Ask) -> None:
    """A left join always wants an answer, also about no foreign key at all."""
    if old is not None and not same(old, new):
        ask(old, DELETE_KEY_NO_PROPAGATE)
    ask(new, PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE)


def _inner_questions(old: Any, new: Any, same: Callable[[Any, Any], bool], ask: Ask) -> None:
    """An inner join wants an answer where there may be a row, or where there may have been one."""
    if new is None:
        if old is not None:
            ask(old, DELETE_KEY_AND_PROPAGATE)
    elif old is None or same(old, new):
        ask(new, PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE)
    else:
        ask(old, DELETE_KEY_NO_PROPAGATE)
        ask(new, PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE)


@builds(operations.ForeignKeyReceive)
def _receive(node: Node) -> Process:
    """A question at its foreign key's partition: noted, or forgotten."""
    task, forward, store = node.task, node.forward, node.store(node.operation.subscriptions)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            if value.instruction != PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE:
                task.dropped_null_key += 1
                return
        elif value.instruction in (DELETE_KEY_AND_PROPAGATE, DELETE_KEY_NO_PROPAGATE):
            store.put(key, value.primary_key, None, timestamp)
        else:
            store.put(key, value.primary_key, value, timestamp)
        forward(CombinedKey(key, value.primary_key), Change(None, value), timestamp, headers)

    return process


@builds(operations.ForeignKeyRespond)
def _respond(node: Node) -> Process:
    """A question meets the right table's current row."""
    forward, get = node.forward, node.getter(node.operation.right)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        question: Subscription = value.new
        found = None if key.foreign_key is None else get(key.foreign_key)
        if found is not None:
            timestamp = max(timestamp, found[1])
        if question.instruction == DELETE_KEY_NO_PROPAGATE:
            return
        if question.instruction == PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE and found is None:
            reminder = Response.reminder(question.hash, question.primary_partition)
            forward(key.primary_key, reminder, timestamp, headers)
            return
        row = None if found is None or question.instruction == DELETE_KEY_AND_PROPAGATE else found[0]
        forward(key.primary_key, Response(question.hash, row, question.primary_partition), timestamp, headers)

    return process


@builds(operations.ForeignKeyRightChanged)
def _right_changed(node: Node) -> Process:
    """The right table's change goes to all who asked about its key."""
    task, forward, store = node.task, node.forward, node.store(node.operation.subscriptions)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            task.dropped_null_key += 1
            return
        if not value.latest:
            task.dropped_late += 1
            return
        for question in store.of(key):
            answer = Response(question.hash, value.new, question.primary_partition)
            forward(question.primary_key, answer, timestamp, headers)

    return process


@builds(operations.ForeignKeyResolve)
def _resolve(node: Node) -> Process:
    """An answer meets the left row that asked; if that has changed since, its newer question is still on its way."""
    task, forward, operation = node.task, node.forward, node.operation
    get, join = node.getter(operation.left), joiner_of(node, operation.joiner)
    value_serde, is_left = operation.value, operation.kind == "left"
    missed, asks = _Missed(node), _asks(node)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        found = get(key)
        row = None if found is None else found[0]
        digest = None if row is None else hash128(value_serde.serialize(row))
        if value.hash != digest:
            if value.is_reminder:
                return
            task.dropped_late += 1
            if value.value is None and not is_left:
                is_asked = asks(key, row)
                if not is_asked:  # perhaps nobody answers any more
                    forward(key, None, timestamp, headers)
                missed.note(key, MISSED if is_asked else TOLD)
            return
        mark = missed.take(key)
        if value.value is None and not is_left and (mark == TOLD or (value.is_reminder and mark != MISSED)):
            return
        nothing = value.value is None and (not is_left or row is None)
        forward(key, None if nothing else join(key, row, value.value), timestamp, headers)

    return process


def _asks(node: Node) -> Callable[[Any, Any], bool]:
    """Return whether a left row has a foreign key, so that a question of it is on its way."""
    register = node.task.topology.nodes.get(node.operation.register)
    if not isinstance(register, ProcessorNode) or not isinstance(register.operation, operations.ForeignKeyRegister):
        return lambda key, row: row is not None
    extract = node.call(register.operation.extractor)
    return lambda key, row: row is not None and extract(key, row) is not None


class _Missed:
    """Keys of left rows about which an answer was let go by that said that there is no right row, and what came of it."""

    def __init__(self, node: Node) -> None:
        nodes = node.task.topology.nodes
        own = nodes[node.name]
        parents = [nodes[each] for each in own.parents] if isinstance(own, ProcessorNode) else []
        self._serde = next((each.key for each in parents if isinstance(each, SourceNode)), None)
        self._noted = node.memory

    def note(self, key: Any, mark: int) -> None:
        """Note a key; of too many that there are some, so that every reminder counts."""
        name = self._name(key)
        if name in self._noted or len(self._noted) < MISSED_MAX:
            self._noted[name] = max(mark, self._noted.get(name, mark))
        else:
            self._noted[MANY] = MISSED

    def take(self, key: Any) -> int:
        """Return how a key was noted, and forget it; 0 where it was not."""
        if not self._noted:
            return 0
        return self._noted.pop(self._name(key), 0) or self._noted.get(MANY, 0)

    def _name(self, key: Any) -> str:
        raw = key if self._serde is None else self._serde.serialize(key)
        return hash128(raw)[:_NAME_BYTES].hex() if isinstance(raw, bytes) else repr(raw)
