"""Topologies put together node by node, as with Kafka Streams' `Topology` class; the DSL builds on it too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ottla.java import PatternError, compile_java
from ottla.streams.errors import TopologyError
from ottla.streams.plan.names import validated
from ottla.streams.plan.nodes import (
    Node,
    ProcessorNode,
    RepartitionTopic,
    SinkNode,
    SourceNode,
    StoreSpec,
    pattern_text,
)
from ottla.streams.plan.operations import Operation, Process
from ottla.streams.plan.topology import Topology
from ottla.streams.serdes.basic import Serde
from ottla.streams.serdes.choice import SerdeLike, serde_of
from ottla.streams.stores import StoreBuilder

__all__ = ["TopologyBuilder"]


class TopologyBuilder:
    """Collects nodes and stores; `build()` returns the immutable plan. Every method returns the builder.

    `default_key_serde` and `default_value_serde` stand in wherever a node is given none.
    """

    def __init__(
        self, *, default_key_serde: SerdeLike | None = None, default_value_serde: SerdeLike | None = None
    ) -> None:
        self._defaults = tuple(
            None if each is None else serde_of(each, "default serde")
            for each in (default_key_serde, default_value_serde)
        )
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, StoreSpec] = {}
        self._topics: dict[str, RepartitionTopic] = {}
        self._copartitioned: list[frozenset[str]] = []

    def add_source(
        self,
        name: str,
        *topics: str,
        pattern: str | re.Pattern[str] | None = None,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        timestamp_extractor: Any = None,
        offset_reset: str | None = None,
    ) -> TopologyBuilder:
        """Read topics, or all whose names match a pattern."""
        self._new(name)
        text = pattern_text(pattern) if isinstance(pattern, re.Pattern) else pattern
        if text is not None:
            try:
                compile_java(text)
            except PatternError as error:
                raise TopologyError(name, f"the pattern of topics cannot be used: {error}") from error
        if (not topics) == (text is None):
            raise TopologyError(name, "expected topics or a pattern")
        self._check_topics(name, topics, text)
        self._nodes[name] = SourceNode(
            name,
            topics,
            text,
            self.key_serde(key_serde, name),
            self.value_serde(value_serde, name),
            timestamp_extractor,
            offset_reset,
        )
        return self

    def add_processor(
        self,
        name: str,
        supplier: Callable[[], Any],
        *parents: str,
        stores: Iterable[str] = (),
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> TopologyBuilder:
        """Add a processor of one's own: a class of `Processor`, or a function that makes one for each task.

        `stores` are names of stores that were added before; those that the class names in `stores()` are added here.
        """
        return self.add_operation(name, processor(name, supplier, key_serde, value_serde), parents, stores)

    def add_operation(
        self, name: str, operation: Operation, parents: Iterable[str], stores: Iterable[str] = ()
    ) -> TopologyBuilder:
        """Add a processor by what it does; stores that a `Process` brings along are added too."""
        self._new(name)
        given = self._parents(name, tuple(parents))
        self._nodes[name] = ProcessorNode(name, operation, given)
        for store in _own_stores(operation):
            self.add_state_store(store, name)
        return self.connect_processor_and_state_stores(name, *stores)

    def add_sink(
        self,
        name: str,
        topic: str | Callable[..., str],
        *parents: str,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        partitioner: Callable[[str, Any, Any, int], int | None] | None = None,
    ) -> TopologyBuilder:
        """Write to a topic: its name, or a function (key, value, record context) → name."""
        self._new(name)
        if not callable(topic) and (not isinstance(topic, str) or not topic):
            raise TopologyError(name, f"expected a topic's name or a function that returns it, got {topic!r}")
        self._nodes[name] = SinkNode(
            name,
            topic,
            self._parents(name, parents),
            self.key_serde(key_serde, name),
            self.value_serde(value_serde, name),
            partitioner,
        )
        return self

    def add_state_store(self, store: StoreBuilder | StoreSpec, *processors: str) -> TopologyBuilder:
        """Add a store and connect processors to it; they run in one task per partition with all who share it."""
        spec = store.spec() if isinstance(store, StoreBuilder) else store
        if self._stores.get(spec.name, spec) != spec:
            raise TopologyError(f"store {spec.name}", "a different store of this name has been added")
        self._stores[spec.name] = spec
        for each in processors:
            self.connect_processor_and_state_stores(each, spec.name)
        return self

    def add_global_store(
        self,
        store: StoreBuilder | StoreSpec,
        source: str,
        topic: str,
        processor_name: str,
        supplier: Callable[[], Any] | Operation,
        *,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        timestamp_extractor: Any = None,
    ) -> TopologyBuilder:
        """Add a store that every instance fills from the whole topic, by a processor of its own."""
        spec = store.spec(is_global=True) if isinstance(store, StoreBuilder) else store
        if spec.name in self._stores:
            raise TopologyError(f"store {spec.name}", "a different store of this name has been added")
        self._new(source)
        self._check_topics(source, (topic,), None)
        keys, values = self.key_serde(key_serde, source), self.value_serde(value_serde, source)
        self._nodes[source] = SourceNode(
            source, (topic,), None, keys, values, timestamp_extractor, None, is_global=True
        )
        self._stores[spec.name] = replace(spec, is_global=True, logged=False, source_topic=topic)
        self._new(processor_name)
        operation = processor(processor_name, supplier) if callable(supplier) else supplier
        self._nodes[processor_name] = ProcessorNode(processor_name, operation, (source,), (spec.name,))
        return self

    def connect_processor_and_state_stores(self, name: str, *stores: str) -> TopologyBuilder:
        """Let a processor use stores that have been added."""
        node = self._nodes.get(name)
        if not isinstance(node, ProcessorNode):
            raise TopologyError(name, "expected a processor to connect stores to" if node else "no such processor")
        for store in stores:
            if store not in self._stores:
                raise TopologyError(name, f"store {store!r} has not been added")
            if self._stores[store].is_global:
                raise TopologyError(name, f"global store {store!r} need not be connected: every processor may read it")
        self._nodes[name] = replace(node, stores=tuple(dict.fromkeys((*node.stores, *stores))))
        return self

    def add_internal_topic(self, topic: RepartitionTopic) -> TopologyBuilder:
        """Add a topic that the application makes for itself; sources and sinks use its name."""
        self._topics[topic.name] = topic
        return self

    def copartition(self, sources: Iterable[str]) -> TopologyBuilder:
        """Demand that the topics of these sources have as many partitions as one another."""
        topics: set[str] = set()
        for name in sources:
            node = self._nodes.get(name)
            if isinstance(node, SourceNode):
                topics.update(node.topics)
        if len(topics) > 1:
            self._copartitioned.append(frozenset(topics))
        return self

    def build(self) -> Topology:
        """Return the plan; raises TopologyError where copartitioned topics were given different numbers of partitions."""
        for store in self._stores.values():
            if store.is_global and any(
                isinstance(node, SourceNode) and store.source_topic in node.topics and not node.is_global
                for node in self._nodes.values()
            ):
                raise TopologyError(f"store {store.name}", f"topic {store.source_topic} is read by another source too")
        groups = _closed(self._copartitioned)
        for group in groups:
            fixed = {name: self._topics[name].partitions for name in sorted(group) if name in self._topics}
            if set(fixed) == group and None not in fixed.values() and len(set(fixed.values())) > 1:
                raise TopologyError("copartitioning", f"topics must have the same number of partitions, got {fixed}")
        return Topology(dict(self._nodes), dict(self._stores), dict(self._topics), groups)

    def key_serde(self, given: SerdeLike | None, step: str) -> Serde:
        """Return the key's serde at a step: the given one or the default."""
        return self._serde(given, step, "key", self._defaults[0])

    def value_serde(self, given: SerdeLike | None, step: str) -> Serde:
        """Return the value's serde at a step: the given one or the default."""
        return self._serde(given, step, "value", self._defaults[1])

    def _serde(self, given: SerdeLike | None, step: str, what: str, default: Serde | None) -> Serde:
        if given is not None:
            return serde_of(given, step)
        if default is None:
            raise TopologyError(
                step,
                f"the {what}'s serde is unknown: give {what}_serde= here or where the {what} is made, annotate what the"
                f" function returns, or set the default (default_{what}_serde=, default.{what}.serde)",
            )
        return default

    def store_named(self, name: str) -> StoreSpec | None:
        """Return a store that has been added."""
        return self._stores.get(name)

    def _new(self, name: str) -> None:
        if validated(name) in self._nodes:
            raise TopologyError(name, "a node of this name has been added")

    def _parents(self, name: str, parents: tuple[str, ...]) -> tuple[str, ...]:
        if not parents:
            raise TopologyError(name, "expected at least one parent")
        for each in parents:
            if each not in self._nodes:
                raise TopologyError(name, f"parent {each!r} is unknown")
            if isinstance(self._nodes[each], SinkNode):
                raise TopologyError(name, f"parent {each!r} is a sink: it forwards nothing")
        return tuple(dict.fromkeys(parents))

    def _check_topics(self, name: str, topics: tuple[str, ...], pattern: str | None) -> None:
        for node in self._nodes.values():
            if not isinstance(node, SourceNode):
                continue
            shared = set(topics) & set(node.topics)
            if node.pattern is not None:
                shared |= {each for each in topics if compile_java(node.pattern).fullmatch(each)}
            if pattern is not None:
                shared |= {each for each in node.topics if compile_java(pattern).fullmatch(each)}
            if shared:
                raise TopologyError(
                    name, f"topic {min(shared)} is read by {node.name} already; read it once and use it twice"
                )


def processor(
    name: str,
    supplier: Callable[[], Any],
    key_serde: SerdeLike | None = None,
    value_serde: SerdeLike | None = None,
    *,
    fixed_key: bool = False,
    method: str = "process",
) -> Process:
    """Return the operation of a processor of one's own; raises TopologyError where it is none."""
    if not callable(supplier):
        raise TopologyError(name, f"expected a Processor class or a function that makes one, got {supplier!r}")
    if isinstance(supplier, type) and not callable(getattr(supplier, method, None)):
        raise TopologyError(name, f"expected a class with a method {method}(...), got {supplier.__name__}")
    keys = None if key_serde is None else serde_of(key_serde, name)
    return Process(supplier, fixed_key, keys, None if value_serde is None else serde_of(value_serde, name))


def _own_stores(operation: Operation) -> list[StoreBuilder]:
    """Return the stores that a processor's supplier brings along (Kafka's ConnectedStoreProvider)."""
    provide = getattr(getattr(operation, "supplier", None), "stores", None)
    if provide is None or not callable(provide):
        return []
    return list(provide() or ())


def _closed(groups: Iterable[frozenset[str]]) -> tuple[frozenset[str], ...]:
    """Return groups with those that share a topic made one."""
    found: list[set[str]] = []
    for group in groups:
        touching = [each for each in found if each & group]
        merged = set(group).union(*touching)
        found = [each for each in found if not each & group] + [merged]
    return tuple(frozenset(each) for each in found)
