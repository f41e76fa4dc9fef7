"""What all steps of the DSL share: where they stand, which serdes flow there, and how what the user gave is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, get_args, get_origin, runtime_checkable

from ottla.streams.errors import TopologyError
from ottla.streams.functions import Function, positional
from ottla.streams.plan.graph import Plan, Repartition, Step
from ottla.streams.plan.nodes import RepartitionTopic
from ottla.streams.plan.operations import NotNullKey
from ottla.streams.plan.topology_builder import TopologyBuilder
from ottla.streams.serdes.basic import Serde
from ottla.streams.serdes.choice import SerdeLike, serde_of, serde_of_annotation

__all__ = [
    "Column",
    "Expression",
    "Place",
    "chosen",
    "element_of",
    "function",
    "part_of",
    "repartition_names",
    "repartition_step",
]


@runtime_checkable
class Column(Protocol):
    """PySpark's Column, as far as types need to know it."""

    def alias(self, *alias: str, **kwargs: Any) -> Any:
        """Name the column."""

    def isNotNull(self) -> Any:
        """Say whether it has a value."""


Expression = str | Column
"""Spark SQL text or a PySpark Column over key, value, timestamp, headers, topic, partition and offset."""


@dataclass(frozen=True, slots=True)
class Place:
    """A point in the plan: the node that forwards, the serdes of what it forwards, and the sources it comes from."""

    plan: Plan
    step: Step
    name: str
    key: Serde | None
    value: Serde | None
    sources: frozenset[str]
    rekeyed: bool = False
    """The key has changed, so that records must go through a repartition topic before they meet by key."""


def function(step: str, given: object, what: str, place: Place | None, *, arguments: int = 1) -> Function:
    """Return a step's function; raises TopologyError where what was given cannot be one there.

    `arguments` is the smallest number that it is called with; with one more, the key comes first.
    """
    try:
        made = Function.of(given, arguments=arguments)
    except TypeError as problem:
        raise TopologyError(step, f"{what}: {problem}") from None
    if made.call is not None:
        needed = positional(made.call, arguments)
        if not arguments <= needed <= arguments + 1 and not made.vectorised:
            raise TopologyError(
                step, f"{what}: expected a function of {arguments} or {arguments + 1} arguments, got one of {needed}"
            )
    elif place is not None:
        for each, part in ((place.key, "key"), (place.value, "value")):
            if each is not None and each.sql_type is None and _mentions(made.expression, part):
                raise TopologyError(
                    step, f"{what}: the {part}'s serde {each.name} is for Python only: expected a Python function"
                )
    return made


def _mentions(expression: object, word: str) -> bool:
    return word in str(expression)


def chosen(step: str, given: SerdeLike | None, kind: object | None = None) -> Serde | None:
    """Return the serde of what a step makes: the given one, else that of an annotated type, else None."""
    return serde_of(given, step) if given is not None else serde_of_annotation(kind)


def part_of(kind: object | None, index: int) -> object | None:
    """Return the type of one part of an annotated pair: `tuple[str, Order]`."""
    arguments = get_args(kind)
    return arguments[index] if get_origin(kind) is tuple and len(arguments) == 2 and arguments[1] is not ... else None


def element_of(kind: object | None) -> object | None:
    """Return the type of the elements of an annotated iterable: `list[str]`, `Iterator[tuple[str, int]]`."""
    arguments = get_args(kind)
    return arguments[0] if arguments and get_origin(kind) is not dict else None


REPARTITION = "-repartition"


@dataclass(frozen=True, slots=True)
class RepartitionNames:
    """The three nodes and the topic between a change of key and what works by key."""

    topic: str
    filter: str
    sink: str
    source: str


def repartition_names(plan: Plan, prefix: str) -> RepartitionNames:
    """Name a repartition topic and its nodes; three numbers are used up, whether they are needed or not."""
    topic = prefix if prefix.endswith(REPARTITION) else prefix + REPARTITION
    sink = plan.names.processor("KSTREAM-SINK-")
    keep = plan.names.processor("KSTREAM-FILTER-")
    source = plan.names.processor("KSTREAM-SOURCE-")
    if prefix.startswith("KSTREAM") and _numbered(prefix):
        return RepartitionNames(topic, keep, sink, source)
    return RepartitionNames(topic, topic + "-filter", topic + "-sink", topic + "-source")


def _numbered(name: str) -> bool:
    return len(name) > 11 and name[-11] == "-" and name[-10:].isdigit()


def repartition_step(
    names: RepartitionNames,
    key: Serde | None,
    value: Serde | None,
    *,
    partitions: int | None = None,
    partitioner: Callable[[str, Any, Any, int], int | None] | None = None,
    optimizable: bool = True,
) -> Step:
    """Return the step that sends records through a repartition topic; it is named after the source behind the topic."""
    state = Repartition(names.topic, key, value, optimizable)

    def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
        keys, values = topology.key_serde(state.key, names.sink), topology.value_serde(state.value, names.sink)
        topology.add_internal_topic(RepartitionTopic(state.topic, partitions, keys, values))
        topology.add_operation(names.filter, NotNullKey(state.drops_null_keys), parents)
        topology.add_sink(
            names.sink, state.topic, names.filter, key_serde=keys, value_serde=values, partitioner=partitioner
        )
        topology.add_source(names.source, state.topic, key_serde=keys, value_serde=values)

    return Step(names.source, write, repartition=state)
