"""Serdes that go by topics, as those of a schema registry do, are told which topic they write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ottla.streams.plan.nodes import Node, ProcessorNode, RepartitionTopic, SinkNode, StoreSpec
from ottla.streams.serdes.basic import of_topic

__all__ = ["with_topics"]

Parts = tuple[dict[str, Node], dict[str, StoreSpec], dict[str, RepartitionTopic]]


def with_topics(
    nodes: Mapping[str, Node],
    stores: Mapping[str, StoreSpec],
    topics: Mapping[str, RepartitionTopic],
    application_id: str,
) -> Parts | None:
    """Return a plan's parts with serdes that know their topics, named as Kafka names them; None where nothing changes."""
    found = (
        {name: _of_node(each, topics, application_id) for name, each in nodes.items()},
        {
            name: _sides(each, each.source_topic or f"{application_id}-{name}-changelog")
            for name, each in stores.items()
        },
        {name: _sides(each, f"{application_id}-{each.name}") for name, each in topics.items()},
    )
    return None if found == (dict(nodes), dict(stores), dict(topics)) else found


def _of_node(node: Node, topics: Mapping[str, RepartitionTopic], application_id: str) -> Node:
    if isinstance(node, ProcessorNode):
        return _of_operation(node, f"{application_id}-{node.name}")
    named: Any = node.topic if isinstance(node, SinkNode) else next(iter(node.topics), None)
    if not isinstance(named, str):
        return node  # a pattern's topics, which are read only, or what a function names
    found: Node = _sides(node, f"{application_id}-{topics[named].name}" if named in topics else named)
    return found


def _sides(given: Any, topic: str) -> Any:
    key = None if given.key is None else of_topic(given.key, topic, is_key=True)
    value = None if given.value is None else of_topic(given.value, topic, is_key=False)
    return given if key == given.key and value == given.value else replace(given, key=key, value=value)


def _of_operation(node: ProcessorNode, topic: str) -> ProcessorNode:
    """Return a step whose own serdes know a name: what they write stays within the step."""
    operation: Any = node.operation
    if not is_dataclass(operation) or isinstance(operation, type):
        return node
    found = {
        each.name: of_topic(value, topic, is_key="key" in each.name)
        for each in fields(operation)
        if (value := getattr(operation, each.name, None)) is not None
    }
    changed = {name: value for name, value in found.items() if value is not getattr(operation, name)}
    made: Any = replace(operation, **changed) if changed else operation
    return replace(node, operation=made) if changed else node
