"""How an aggregate changes with a value: every `Aggregator` as four calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.streams.dsl.aggregates import Average
from ottla.streams.engine.task import Node
from ottla.streams.plan.operations import Aggregator

__all__ = ["Accumulator", "accumulator"]


@dataclass(frozen=True, slots=True)
class Accumulator:
    """`initial()`, `add(key, value, aggregate)`, `subtract(key, value, aggregate)` and `merge(key, one, other)`.

    `is_reduce`: the first value is the aggregate, so that nothing stands for an empty one.
    """

    initial: Callable[[], Any]
    add: Callable[[Any, Any, Any], Any]
    subtract: Callable[[Any, Any, Any], Any]
    merge: Callable[[Any, Any, Any], Any]
    is_reduce: bool = False


def _nothing() -> Any:
    return None


def _refuse(step: str, what: str) -> Callable[[Any, Any, Any], Any]:
    def refuse(_key: Any, _one: Any, _other: Any) -> Any:
        raise TypeError(f"{step}: the aggregate has no {what}, which is needed here")

    return refuse


def accumulator(aggregator: Aggregator, node: Node) -> Accumulator:
    """Return an aggregator's calls; raises ValueError for a kind that is not known."""
    step = node.name
    if aggregator.kind == "count" and aggregator.argument is None:
        return Accumulator(int, lambda _k, _v, n: n + 1, lambda _k, _v, n: n - 1, lambda _k, n, m: n + m)
    if aggregator.kind == "reduce":
        return _reduce(aggregator, step)
    if aggregator.kind == "aggregate":
        assert aggregator.adder is not None
        return Accumulator(
            aggregator.initializer or _nothing,
            aggregator.adder,
            aggregator.subtractor or _refuse(step, "subtractor"),
            aggregator.merger or _refuse(step, "merger"),
        )
    return _declared(aggregator, node)


def _reduce(aggregator: Aggregator, step: str) -> Accumulator:
    adder, subtractor = aggregator.adder, aggregator.subtractor
    assert adder is not None

    def add(_key: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else adder(aggregate, value)

    def subtract(_key: Any, value: Any, aggregate: Any) -> Any:
        assert subtractor is not None
        return subtractor(aggregate, value)

    def merge(_key: Any, one: Any, other: Any) -> Any:
        return other if one is None else adder(one, other)

    return Accumulator(_nothing, add, subtract if subtractor else _refuse(step, "subtractor"), merge, is_reduce=True)


def _declared(aggregator: Aggregator, node: Node) -> Accumulator:
    """What is declared, over its argument; values that are None do not count."""
    if aggregator.kind not in _STEPS:
        raise ValueError(f"{node.name}: unknown aggregator {aggregator.kind!r}, expected one of {sorted(_STEPS)}")
    add_one, merge_two, subtract_one, initial = _STEPS[aggregator.kind]
    argument = node.call(aggregator.argument) if aggregator.argument is not None else None

    def add(key: Any, value: Any, aggregate: Any) -> Any:
        taken = value if argument is None else argument(key, value)
        return aggregate if taken is None else add_one(aggregate, taken)

    def subtract(key: Any, value: Any, aggregate: Any) -> Any:
        taken = value if argument is None else argument(key, value)
        return aggregate if taken is None else subtract_one(aggregate, taken)

    def merge(_key: Any, one: Any, other: Any) -> Any:
        return other if one is None else one if other is None else merge_two(one, other)

    return Accumulator(initial, add, subtract if subtract_one else _refuse(node.name, "subtractor"), merge)


def _without(values: list[Any], value: Any) -> list[Any]:
    at = values.index(value) if value in values else None
    return values if at is None else [*values[:at], *values[at + 1 :]]


def _averaged(one: Average | None, value: float) -> Average:
    return Average(value, 1) if one is None else one.added(value)


_STEPS: dict[str, tuple[Any, Any, Any, Callable[[], Any]]] = {
    "count": (lambda a, _v: a + 1, lambda a, b: a + b, lambda a, _v: a - 1, int),
    "avg": (_averaged, Average.joined, lambda a, v: a.taken(v), _nothing),
    "sum": (lambda a, v: v if a is None else a + v, lambda a, b: a + b, lambda a, v: a - v, _nothing),
    "min": (lambda a, v: v if a is None or v < a else a, min, None, _nothing),
    "max": (lambda a, v: v if a is None or v > a else a, max, None, _nothing),
    "first": (lambda a, v: v if a is None else a, lambda a, _b: a, None, _nothing),
    "last": (lambda _a, v: v, lambda _a, b: b, None, _nothing),
    "collect_list": (lambda a, v: [*a, v], lambda a, b: [*a, *b], _without, list),
    "collect_set": (
        lambda a, v: a if v in a else [*a, v],
        lambda a, b: [*a, *(each for each in b if each not in a)],
        None,
        list,
    ),
}
