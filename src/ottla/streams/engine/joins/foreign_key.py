"""Joins of tables by a foreign key of the left one (KIP-213): questions to the foreign key's partition, and answers.

SubscriptionSend-, SubscriptionReceive-, SubscriptionJoin-, ForeignTableJoin- and ResponseJoinProcessor of Kafka Streams 4.3.

An answer about a left row that has changed since is let go by, as in Kafka, for the newer question is on its way. But an
inner join's question has no answer where the right row is gone, or had it before that older answer came, from another
partition; a row that only the older answer would have removed stayed for good. So whoever lets an answer go by that says
that there is no right row asks again, and is answered whatever there is. Where nothing is let go by, results are Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.engine.interface import Change, Headers
from ottla.streams.engine.joins.calls import joiner_of
from ottla.streams.engine.joins.murmur3 import hash128
from ottla.streams.engine.task import Node, Process, builds
from ottla.streams.plan import operations
from ottla.streams.plan.nodes import SinkNode, SourceNode
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
TOLD = 2
TOLD_MAX = 32
"""Keys that are noted: they stand beside a committed offset, where there is little room."""
_NAME_BYTES = 8
"""Of a key's hash."""


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
        if value.old is None and value.new is None and not task.is_replaying:
            return
        old = None if value.old is None else extract(key, value.old)
        new = None if value.new is None else extract(key, value.new)
        digest = None if value.new is None else hash128(value_serde.serialize(value.new))

        def ask(foreign_key: Any, instruction: int) -> None:
            question = Subscription(key, instruction, digest, task.record.partition)
            forward(foreign_key, question, timestamp, headers)

        if value.new is not None and new is None and operation.kind != "left":
            task.dropped_null_key += 1
        if task.is_replaying:
            _replayed_questions(old, new, same, ask)
        else:
            instruct(old, new, same, ask)

    def ask_again(key: Any, row: Any, timestamp: int, headers: Headers) -> bool:
        foreign_key = None if row is None else extract(key, row)
        if foreign_key is None:
            return False
        digest = hash128(value_serde.serialize(row))
        question = Subscription(key, PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE, digest, task.record.partition)
        forward(foreign_key, question, timestamp, headers)
        return True

    task.askers[node.name] = ask_again
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


def _replayed_questions(old: Any, new: Any, same: Callable[[Any, Any], bool], ask: Ask) -> None:
    """The old row may be one of later, and an earlier question lost: whatever the new one is, an answer has to come."""
    if old is not None and (new is None or not same(old, new)):
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
    """A question meets the right table's current row.

    One that is processed again may have been answered with a row that is gone by now, and whoever had asked is not told that
    it is: the row's deletion came before the question this time. So it is answered whatever there is.
    """
    task, forward, get = node.task, node.forward, node.getter(node.operation.right)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        question: Subscription = value.new
        found = None if key.foreign_key is None else get(key.foreign_key)
        if found is not None:
            timestamp = max(timestamp, found[1])
        if question.instruction == DELETE_KEY_NO_PROPAGATE:
            return
        if question.instruction == PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE and found is None and not task.is_replaying:
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
    askers, told = task.askers, _Told(node)
    task.replays.append(told.forget)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        found = get(key)
        row = None if found is None else found[0]
        digest = None if row is None else hash128(value_serde.serialize(row))
        if value.hash != digest:
            task.dropped_late += 1
            if value.value is None and not is_left and not askers[operation.register](key, row, timestamp, headers):
                forward(key, None, timestamp, headers)  # nobody else may say so any more
                if not task.is_replaying:
                    told.note(key)
            return
        if told.take(key) and value.value is None:
            return
        nothing = value.value is None and (not is_left or row is None)
        forward(key, None if nothing else join(key, row, value.value), timestamp, headers)

    return process


class _Told:
    """Keys of rows of which was told at once that they are gone, so that nobody need be told again.

    Of too many, and of what may be processed again, nothing is noted: that they are gone is told twice then.
    """

    def __init__(self, node: Node) -> None:
        found = (node.task.topology.nodes[name] for name in node.parents)
        self._serde = next((each.key for each in found if isinstance(each, SourceNode)), None)
        self._noted = node.memory
        for name in [name for name, mark in self._noted.items() if mark != TOLD]:
            del self._noted[name]  # what earlier versions noted besides

    def forget(self) -> None:
        """Forget all: what was told may have been joined again since, and nobody remembers."""
        self._noted.clear()

    def note(self, key: Any) -> None:
        """Note a key."""
        if len(self._noted) < TOLD_MAX:
            self._noted[self._name(key)] = TOLD

    def take(self, key: Any) -> bool:
        """Return whether a key was noted, and forget it."""
        return bool(self._noted) and self._noted.pop(self._name(key), 0) == TOLD

    def _name(self, key: Any) -> str:
        raw = key if self._serde is None else self._serde.serialize(key)
        return hash128(raw)[:_NAME_BYTES].hex() if isinstance(raw, bytes) else repr(raw)
