"""Where records enter and leave: serdes at sources and sinks, topic names, partitioners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.engine.changed import changed_decoder, changed_encoder
from ottla.streams.engine.interface import Change, Headers, Output
from ottla.streams.engine.task import Process, Task
from ottla.streams.extractors import WallclockTimestampExtractor
from ottla.streams.plan import operations
from ottla.streams.plan.nodes import ProcessorNode, SinkNode, SourceNode

__all__ = ["extractor_of", "full_name", "sink", "source_decoder"]


def _same(value: Any) -> Any:
    return value


def source_decoder(source: SourceNode, task: Task) -> tuple[Callable[[Any], Any], Callable[[Any], Any]] | None:
    """Return what decodes keys and values at a source, or None where they come decoded."""
    if source.key is None and source.value is None:
        return None
    key = _same if source.key is None else source.key.deserialize
    value: Callable[[Any], Any] = _same if source.value is None else source.value.deserialize
    if source.value is not None and _feeds_a_table_aggregate(source, task):
        value = changed_decoder(source.value)
    return key, value


def extractor_of(source: SourceNode, task: Task) -> Callable[[Any, int], int]:
    """Return a source's `extract(record, partition_time)`; one that wants a clock gets the task's."""
    extractor = source.extractor
    if isinstance(extractor, WallclockTimestampExtractor) and extractor.clock is None:
        return lambda _record, _time: task.wall_clock_ms
    extract: Callable[[Any, int], int] = extractor.extract
    return extract


def _feeds_a_table_aggregate(source: SourceNode, task: Task) -> bool:
    """True behind the repartition topic of a re-grouped table, which carries changes."""
    nodes = (task.topology.nodes[name] for name in task.topology.children(source.name))
    return any(
        isinstance(each, ProcessorNode) and isinstance(each.operation, operations.TableAggregate) for each in nodes
    )


def sink(node: SinkNode, task: Task) -> Process:
    """Return the process that hands records to the outside."""
    name, append, new = (
        node.name,
        task.outputs.append,
        tuple.__new__,
    )  # a named tuple's own constructor takes twice as long
    key_bytes: Callable[[Any], Any] = _same if node.key is None else node.key.serialize
    value_bytes: Callable[[Any], Any] = _same if node.value is None else node.value.serialize
    changed = changed_encoder(value_bytes)
    topic_of, partition_of = _topic(node, task), _partition(node, task)
    if topic_of is None and partition_of is None:
        topic = full_name(node.topic, task)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                data = changed(value) if type(value) is Change else value_bytes(value)
                raw = key_bytes(key)
            except Exception as error:  # a serde may raise anything
                task.unwritable(name, error)
                return
            append(new(Output, (name, topic, raw, data, timestamp, headers, None)))

        return process

    def process_chosen(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        topic = full_name(node.topic, task) if topic_of is None else topic_of(key, value)
        partition = None if partition_of is None else partition_of(topic, key, value)
        try:
            data = changed(value) if type(value) is Change else value_bytes(value)
            raw = key_bytes(key)
        except Exception as error:  # a serde may raise anything
            task.unwritable(name, error)
            return
        append(Output(name, topic, raw, data, timestamp, headers, partition))

    return process_chosen


def full_name(topic: str, task: Task) -> str:
    """Return a topic's name as the cluster knows it: internal ones begin with the application's."""
    return f"{task.application_id}-{topic}" if topic in task.topology.repartition_topics else topic


def _topic(node: SinkNode, task: Task) -> Callable[[Any, Any], str] | None:
    """Return what chooses a record's topic, or None for a sink of one topic."""
    choose = node.topic
    return None if isinstance(choose, str) else lambda key, value: choose(key, value, task.record)


def _partition(node: SinkNode, task: Task) -> Callable[[str, Any, Any], int | None] | None:
    choose, counts = node.partitioner, task.settings.partition_counts
    if choose is None:
        return None
    return lambda topic, key, value: choose(topic, key, value, counts.get(topic, 1))
