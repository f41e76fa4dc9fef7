"""Kafka Streams' optimisations of a plan (`topology.optimization`).

`reuse.ktable.source.topics`: a table's topic is its changelog. `merge.repartition.topics`: one topic behind a change of
key, where each of those who work by key had one. `single.store.self.join` is accepted and changes nothing: a stream that
is joined with itself keeps its records twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.streams.dsl.steps import repartition_names, repartition_step
from ottla.streams.errors import TopologyError
from ottla.streams.plan.graph import Plan, Step

__all__ = ["optimize"]

REUSE = "reuse.ktable.source.topics"
MERGE = "merge.repartition.topics"
SELF_JOIN = "single.store.self.join"
_ALL = (REUSE, MERGE, SELF_JOIN)


def optimize(plan: Plan, asked: str) -> None:
    """Change the plan as was asked: `none`, `all`, or a list of rules."""
    rules = _rules(asked)
    for step in plan.steps():
        if step.is_table_source:
            step.reused_topic = step.source_topics[0] if REUSE in rules else None
    if MERGE in rules:
        for change in _changes(plan):
            _merge(plan, change)


def _rules(asked: str) -> tuple[str, ...]:
    words = tuple(each.strip() for each in asked.split(",") if each.strip())
    if words in ((), ("none",)):
        return ()
    if words == ("all",):
        return _ALL
    unknown = [each for each in words if each not in _ALL]
    if unknown:
        raise TopologyError("topology.optimization", f"expected none, all, or some of {', '.join(_ALL)}, got {asked!r}")
    return words


@dataclass(slots=True, eq=False)
class _Change:
    """A step that changes keys (or merges streams whose keys have changed), and the repartition steps behind it."""

    step: Step
    repartitions: list[Step]


def _changes(plan: Plan) -> list[_Change]:
    """Return the changes of key with what each is followed by, in the order in which they were added."""
    ordered = sorted(plan.steps(), key=lambda step: step.priority)
    changes = [_Change(step, []) for step in ordered if step.changes_key]
    of = {id(each.step): each for each in changes}
    for step in ordered:
        if step.repartition is not None and step.repartition.optimizable:
            before = _match(step, lambda each: each.changes_key or each.changes_value)
            if before is not None and before is _match(step, lambda each: each.changes_key):
                of[id(before)].repartitions.append(step)
    for merge in [step for step in ordered if step.merges]:
        changes = _behind_merge(merge, changes)
    return [each for each in changes if each.repartitions]


def _behind_merge(merge: Step, changes: list[_Change]) -> list[_Change]:
    """Put the changes of key that flow into a merge, and are repartitioned only behind it, together under the merge."""
    upstream = [
        each
        for each in changes
        if all(_match(step, lambda node: merge in node.parents) is not None for step in each.repartitions)
        and _match(merge, lambda node, step=each.step: step in node.parents) is not None  # type: ignore[misc]
    ]
    together = list(dict.fromkeys(step for each in upstream for step in each.repartitions))
    return [each for each in changes if each not in upstream] + [_Change(merge, together)]


def _match(step: Step, holds: Callable[[Step], bool]) -> Step | None:
    """Return the first step at or above this one for which it holds, depth first."""
    if holds(step):
        return step
    for parent in step.parents:
        if holds(parent):
            return parent
        found = _match(parent, holds)
        if found is not None:
            return found
    return None


def _merge(plan: Plan, change: _Change) -> None:
    """Put one repartition step right behind the change of key, and take away those that it stands for."""
    states = [step.repartition for step in change.repartitions if step.repartition is not None]
    key = next((each.key for each in states if each.key is not None), None)
    value = next((each.value for each in states if each.value is not None), None)
    single = repartition_step(repartition_names(plan, states[0].topic), key, value)
    assert single.repartition is not None
    single.repartition.optimizable = False
    single.priority = change.step.priority
    for step in change.repartitions:
        below = _match(step, lambda node: change.step in node.parents)
        assert below is not None
        single.add_child(below)
        change.step.remove_child(below)
        for parent in list(step.parents):
            for child in step.children:
                parent.add_child(child)
        for parent in list(step.parents):
            parent.remove_child(step)
        for child in list(step.children):
            step.remove_child(child)
        for group in plan.copartitioned:
            if step.name in group:
                group.remove(step.name)
                group.add(single.name)
    change.step.add_child(single)
