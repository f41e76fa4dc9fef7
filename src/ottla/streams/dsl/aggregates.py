"""Declared aggregates: `agg.count()`, `agg.sum("value.amount")`. Spark computes them natively where it can; Python can too.

The argument says over what: a path (`"value.amount"`), any other Spark SQL text or Column (native only), a Python function
of the value or of key and value; without one it is the value itself.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from ottla.streams.errors import SerializationError
from ottla.streams.functions import Function
from ottla.streams.plan.operations import Aggregator
from ottla.streams.serdes.basic import Serde
from ottla.streams.serdes.choice import Serdes

__all__ = [
    "Average",
    "AverageSerde",
    "avg",
    "collect_list",
    "collect_set",
    "count",
    "first",
    "last",
    "max",
    "min",
    "result_serde",
    "stored_serde",
    "sum",
]


def _over(kind: str, argument: object | None) -> Aggregator:
    return Aggregator(kind, None if argument is None else Function.of(argument))


def count(argument: object | None = None) -> Aggregator:
    """How many records; with an argument, how many of which it is not null."""
    return _over("count", argument)


def sum(argument: object | None = None) -> Aggregator:
    """The sum of numbers, nulls left out; null where there is none."""
    return _over("sum", argument)


def min(argument: object | None = None) -> Aggregator:
    """The smallest, nulls left out."""
    return _over("min", argument)


def max(argument: object | None = None) -> Aggregator:
    """The largest, nulls left out."""
    return _over("max", argument)


def avg(argument: object | None = None) -> Aggregator:
    """The mean of numbers, nulls left out. Its state is a sum and a count, its result a float."""
    return _over("avg", argument)


def first(argument: object | None = None) -> Aggregator:
    """That of the first record in the topic's order."""
    return _over("first", argument)


def last(argument: object | None = None) -> Aggregator:
    """That of the latest record in the topic's order."""
    return _over("last", argument)


def collect_list(argument: object | None = None) -> Aggregator:
    """All, in the topic's order, nulls left out."""
    return _over("collect_list", argument)


def collect_set(argument: object | None = None) -> Aggregator:
    """All that differ, in the order in which they came first, nulls left out."""
    return _over("collect_set", argument)


class Average(float):
    """A mean that knows of how many, so that it can go on: a float to all others."""

    __slots__ = ("count", "total")
    total: float
    count: int

    def __new__(cls, total: float, count: int) -> Average:
        """Make it of a sum and a count."""
        made = super().__new__(cls, total / count)
        made.total, made.count = total, count
        return made

    def __reduce__(self) -> tuple[type[Average], tuple[float, int]]:
        return Average, (self.total, self.count)

    def added(self, value: float) -> Average:
        """Return the mean with one more."""
        return Average(self.total + value, self.count + 1)

    def taken(self, value: float) -> Average | None:
        """Return the mean with one less; None where none is left."""
        return Average(self.total - value, self.count - 1) if self.count > 1 else None

    def joined(self, other: Average) -> Average:
        """Return the mean of both."""
        return Average(self.total + other.total, self.count + other.count)


@dataclass(frozen=True, slots=True)
class AverageSerde:
    """How a store keeps an average: the sum (8 bytes, double) and the count (8 bytes)."""

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return "average"

    @property
    def sql_type(self) -> str | None:
        """None: only stores hold it."""
        return None

    def serialize(self, value: Any) -> bytes | None:
        """Return an average's bytes."""
        return None if value is None else struct.pack(">dq", value.total, value.count)

    def deserialize(self, data: bytes | None) -> Average | None:
        """Return the average of bytes."""
        if data is None:
            return None
        if len(data) != 16:
            raise SerializationError(f"average: expected 16 bytes, got {len(data)}")
        return Average(*struct.unpack(">dq", data))

    def sql_decode(self, column: str) -> str:
        """Refuse: only stores hold it."""
        raise SerializationError("average: only Python can decode it")

    def sql_encode(self, column: str) -> str:
        """Refuse: only stores hold it."""
        raise SerializationError("average: only Python can encode it")


def stored_serde(aggregator: Aggregator, result: Serde | None) -> Serde | None:
    """Return the serde of what a store keeps for an aggregate: its result, but for an average."""
    return AverageSerde() if aggregator.kind == "avg" else result


def result_serde(aggregator: Aggregator, value: Serde | None) -> Serde | None:
    """Return the serde of a declared aggregate's result where it follows from the kind and the value; else None."""
    if aggregator.kind == "count":
        return Serdes.long()
    if aggregator.kind == "avg":
        return Serdes.double()
    if aggregator.kind in ("collect_list", "collect_set"):
        return Serdes.json()
    return value if aggregator.argument is None else _of_argument(aggregator.argument, value)


def _of_argument(argument: Function, value: Serde | None) -> Serde | None:
    """Return the serde of what an argument picks: a function's annotation, or a field of a typed dataclass."""
    from ottla.streams.serdes.choice import serde_of_annotation

    if argument.call is not None:
        return serde_of_annotation(argument.returns)
    kind: Any = getattr(value, "type", None)
    parts = str(argument.expression).split(".")
    if parts[0] != "value" or not all(each.isidentifier() for each in parts):
        return None
    if len(parts) == 1:
        return value
    import typing

    for part in parts[1:]:
        if not isinstance(kind, type):
            return None
        kind = typing.get_type_hints(kind).get(part)
    return serde_of_annotation(kind)
