"""Which applications may go on in the other way of execution, micro-batches or continuous: where results must be the same.

What both keep is the group's offsets and the changelogs, in Kafka's format and by Kafka's partitioner. What one keeps and
the other does not know must not matter: a task's stream times and schedules, state of Spark's own aggregates, stores without
changelogs. So a plan is refused whose results may depend on any of these; who says yes must be able to prove it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla.streams.extractors import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    RecordMetadataTimestamp,
    WallclockTimestampExtractor,
)
from ottla.streams.plan.nodes import ProcessorNode, SinkNode, SourceNode
from ottla.streams.plan.operations import Process, TableProcess
from ottla.streams.plan.stages import Stages
from ottla.streams.plan.topology import Topology

__all__ = ["why_not_promoted"]

TIMELESS = frozenset({"key_value", "timestamped_key_value", "subscriptions"})
"""Kinds of stores that go by no stream time."""
TIMELESS_EXTRACTORS = (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    RecordMetadataTimestamp,
    WallclockTimestampExtractor,
)
"""Those that look at the record or the clock alone."""


def why_not_promoted(topology: Topology, stages: Stages, extractors: Mapping[str, object]) -> list[str]:
    """Return what stands against going on in the other way, each with its step or store; empty where nothing does.

    `stages` are those of its micro-batches; `extractors` are those of its sources by name, the application's default where
    they have none of their own.
    """
    return [*_of_stores(topology), *_of_nodes(topology, extractors), *_of_stages(stages)]


def _of_stores(topology: Topology) -> Iterator[str]:
    for store in topology.stores.values():
        if store.is_global:
            continue
        if store.kind not in TIMELESS:
            yield f"store {store.name} ({store.kind}) goes by stream time, which the other mode does not know"
        elif not store.logged and store.source_topic is None:
            yield f"store {store.name} has no changelog, and would begin empty"


def _of_nodes(topology: Topology, extractors: Mapping[str, object]) -> Iterator[str]:
    for node in topology.nodes.values():
        match node:
            case ProcessorNode(operation=Process() | TableProcess()):
                yield f"{node.name} runs a processor, whose schedules the other mode does not know"
            case SinkNode(partitioner=chosen) if chosen is not None and node.topic in topology.repartition_topics:
                yield f"{node.name} repartitions by a partitioner of its own, which micro-batches shuffle another way"
            case SourceNode(is_global=False):
                found = extractors.get(node.name)
                if found is not None and not isinstance(found, TIMELESS_EXTRACTORS):
                    yield f"{node.name} has an extractor that may go by the partition's time"


def _of_stages(stages: Stages) -> Iterator[str]:
    for stage in stages.stages:
        if stage.kind == "native":
            yield f"{stage.name} is an aggregate of Spark's own, whose state is in no changelog's format"
