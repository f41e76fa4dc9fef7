"""Stream processors without state: filter, map, branch and their kind."""

from __future__ import annotations

from typing import Any

from ottla.streams.engine.interface import Headers
from ottla.streams.engine.task import Node, Process, builds
from ottla.streams.plan import operations

__all__: list[str] = []


@builds(operations.Filter)
def _filter(node: Node) -> Process:
    """KStreamFilter."""
    forward, holds = node.forward, node.call(node.operation.predicate)
    negate = node.operation.negate

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if bool(holds(key, value)) is not negate:
            forward(key, value, timestamp, headers)

    return process


@builds(operations.NotNullKey)
def _not_null_key(node: Node) -> Process:
    """What Kafka puts before a repartition topic; dropped without being counted, as there."""
    forward = node.forward
    if not node.operation.drop:
        return forward

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is not None:
            forward(key, value, timestamp, headers)

    return process


@builds(operations.MapValues)
def _map_values(node: Node) -> Process:
    """KStreamMapValues."""
    forward, mapper = node.forward, node.call(node.operation.mapper)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        forward(key, mapper(key, value), timestamp, headers)

    return process


@builds(operations.Map)
def _map(node: Node) -> Process:
    """KStreamMap: the mapper returns (key, value)."""
    forward, mapper, name = node.forward, node.call(node.operation.mapper), node.name
    key_mapper = node.call(node.operation.key_mapper) if node.operation.key_mapper is not None else None

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        pair = mapper(key, value)
        if type(pair) is not tuple or len(pair) != 2:
            raise TypeError(f"{name}: the mapper returned {pair!r}, expected a tuple (key, value)")
        forward(pair[0], pair[1], timestamp, headers)

    def process_by_two(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        assert key_mapper is not None
        forward(key_mapper(key, value), mapper(key, value), timestamp, headers)

    return process if key_mapper is None else process_by_two


@builds(operations.SelectKey)
def _select_key(node: Node) -> Process:
    """KStreamMap as selectKey makes it."""
    forward, mapper = node.forward, node.call(node.operation.mapper)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        forward(mapper(key, value), value, timestamp, headers)

    return process


@builds(operations.FlatMap)
def _flat_map(node: Node) -> Process:
    """KStreamFlatMap."""
    forward, mapper = node.forward, node.call(node.operation.mapper)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for new_key, new_value in mapper(key, value):
            forward(new_key, new_value, timestamp, headers)

    return process


@builds(operations.FlatMapValues)
def _flat_map_values(node: Node) -> Process:
    """KStreamFlatMapValues."""
    forward, mapper = node.forward, node.call(node.operation.mapper)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for each in mapper(key, value):
            forward(key, each, timestamp, headers)

    return process


@builds(operations.Peek)
def _peek(node: Node) -> Process:
    """KStreamPeek."""
    forward, action = node.forward, node.call(node.operation.action)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        action(key, value)
        forward(key, value, timestamp, headers)

    return process


@builds(operations.Foreach)
def _foreach(node: Node) -> Process:
    """ForeachProcessor."""
    action = node.call(node.operation.action)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        action(key, value)

    return process


@builds(operations.PassThrough)
def _pass_through(node: Node) -> Process:
    """PassThrough: merge and the like cost nothing."""
    return node.forward


@builds(operations.Branch)
def _branch(node: Node) -> Process:
    """KStreamBranch: the first predicate that holds."""
    cases = [
        (None if predicate is None else node.call(predicate), node.children.get(child))
        for predicate, child in zip(node.operation.predicates, node.operation.children, strict=True)
    ]

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for holds, child in cases:
            if holds is None or holds(key, value):
                if child is not None:
                    child(key, value, timestamp, headers)
                return

    return process
