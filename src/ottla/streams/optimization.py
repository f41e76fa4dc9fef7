"""Kafka Streams' optimisations of a plan (`topology.optimization`)."""

from __future__ import annotations

from ottla.streams.errors import TopologyError
from ottla.streams.graph import Plan

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
