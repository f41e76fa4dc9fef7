"""StreamsBuilder: where a plan begins. Topics become streams and tables; `build()` returns the immutable topology."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ottla.streams.dsl.global_table import GlobalKTable
from ottla.streams.dsl.kstream import KStream
from ottla.streams.dsl.ktable import KTable
from ottla.streams.dsl.parameters import Consumed, Materialized
from ottla.streams.dsl.steps import Place, chosen
from ottla.streams.dsl.tables import SourceTable, materialization
from ottla.streams.errors import TopologyError
from ottla.streams.extractors import check_extractor
from ottla.streams.plan import operations as op
from ottla.streams.plan.graph import Plan, Step
from ottla.streams.plan.nodes import pattern_text
from ottla.streams.plan.optimization import optimize
from ottla.streams.plan.topology import Topology
from ottla.streams.plan.topology_builder import TopologyBuilder, processor
from ottla.streams.serdes.choice import SerdeLike, serde_of
from ottla.streams.stores import StoreBuilder

__all__ = ["StreamsBuilder"]

_RESETS = ("earliest", "latest", "none")


class StreamsBuilder:
    """Makes a plan, step by step.

    `default_key_serde` and `default_value_serde` (Kafka's `default.key.serde`, `default.value.serde`) stand in where nothing
    else says how keys and values are written.
    """

    def __init__(
        self, *, default_key_serde: SerdeLike | None = None, default_value_serde: SerdeLike | None = None
    ) -> None:
        self._plan = Plan()
        self._defaults = [
            None if each is None else serde_of(each, "default serde")
            for each in (default_key_serde, default_value_serde)
        ]

    def stream(
        self,
        topics: str | Iterable[str] | re.Pattern[str],
        *more: str,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        timestamp_extractor: Any = None,
        offset_reset: str | None = None,
        name: str | None = None,
        consumed: Consumed | None = None,
    ) -> KStream[Any, Any]:
        """Read topics as a stream: one, several, or all whose names match a compiled pattern."""
        given = consumed or Consumed(key_serde, value_serde, timestamp_extractor, offset_reset, name)
        step = self._plan.names.given_or(given.name, "KSTREAM-SOURCE-")
        pattern = pattern_text(topics) if isinstance(topics, re.Pattern) else None
        names: tuple[str, ...] = () if pattern is not None else _topic_names(step, topics, more)
        _check(step, given)
        key, value = chosen(step, given.key_serde), chosen(step, given.value_serde)

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_source(
                step,
                *names,
                pattern=pattern,
                key_serde=key,
                value_serde=value,
                timestamp_extractor=given.timestamp_extractor,
                offset_reset=given.offset_reset,
            )

        made = Step(
            step,
            write,
            source_topics=names,
            source_pattern=pattern,
            offset_reset=given.offset_reset,
            is_stream_source=True,
        )
        added = self._plan.add(self._plan.root, made)
        return KStream(Place(self._plan, added, step, key, value, frozenset({step})))

    def table(
        self,
        topic: str,
        *,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        timestamp_extractor: Any = None,
        offset_reset: str | None = None,
        name: str | None = None,
        consumed: Consumed | None = None,
        materialized: Materialized | str | None = None,
    ) -> KTable[Any, Any]:
        """Read a topic as a table: the latest value of each key; null deletes. Named (`materialized=`), it can be asked."""
        given = consumed or Consumed(key_serde, value_serde, timestamp_extractor, offset_reset, name)
        kept = materialization(self._plan, topic, materialized, topic + "-")
        source = self._plan.names.suffixed_or(given.name, suffix="-source", prefix="KSTREAM-SOURCE-")
        step = self._plan.names.given_or(given.name, "KTABLE-SOURCE-")
        _check(step, given)
        (name_of_topic,) = _topic_names(step, topic, ())
        key, value = chosen(step, given.key_serde) or kept.key, chosen(step, given.value_serde) or kept.value
        table = SourceTable(step, replace(kept, key=key, value=value))
        made = Step(step, lambda topology, parents: None, is_table_source=True, versioned=kept.is_versioned)

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_source(
                source,
                name_of_topic,
                key_serde=key,
                value_serde=value,
                timestamp_extractor=given.timestamp_extractor,
                offset_reset=given.offset_reset,
            )
            table.write(topology, (source,), op.TableSource(table.stored, table.sends_old), made.reused_topic)

        made.write = write
        made.source_topics = (name_of_topic,)
        added = self._plan.add(self._plan.root, made)
        return KTable(Place(self._plan, added, step, key, value, frozenset({source})), table)

    def global_table(
        self,
        topic: str,
        *,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        timestamp_extractor: Any = None,
        name: str | None = None,
        consumed: Consumed | None = None,
        materialized: Materialized | str | None = None,
    ) -> GlobalKTable[Any, Any]:
        """Read a topic as a table that every instance holds whole."""
        given = consumed or Consumed(key_serde, value_serde, timestamp_extractor, None, name)
        kept = materialization(self._plan, topic, materialized, topic + "-")
        source = self._plan.names.suffixed_or(given.name, suffix="-source", prefix="KSTREAM-SOURCE-")
        step = self._plan.names.given_or(given.name, "KTABLE-SOURCE-")
        _check(step, given)
        if kept.is_versioned:
            raise TopologyError(step, "a global table cannot be versioned")
        key, value = chosen(step, given.key_serde) or kept.key, chosen(step, given.value_serde) or kept.value
        queryable = materialized is None or kept.queryable
        kept = replace(kept, key=key, value=value, queryable=queryable, logged=False)
        store = kept.name
        assert store is not None

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_global_store(
                kept.spec(topology, step, is_global=True),
                source,
                topic,
                step,
                op.TableSource(store),
                key_serde=key,
                value_serde=value,
                timestamp_extractor=given.timestamp_extractor,
            )

        self._plan.add(self._plan.root, Step(step, write))
        return GlobalKTable(store=store, queryable=queryable, key_serde=key, value_serde=value)

    def add_state_store(self, store: StoreBuilder) -> StreamsBuilder:
        """Add a store that processors use by its name."""
        if not isinstance(store, StoreBuilder):
            raise TopologyError("add_state_store", f"expected a StoreBuilder (see Stores), got {store!r}")
        self._plan.check_store_name(store.name, "add_state_store")

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_state_store(store)

        self._plan.add(self._plan.root, Step(store.name, write))
        return self

    def add_global_store(
        self,
        store: StoreBuilder,
        topic: str,
        supplier: Callable[[], Any],
        *,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        timestamp_extractor: Any = None,
        name: str | None = None,
        consumed: Consumed | None = None,
    ) -> StreamsBuilder:
        """Add a store that every instance fills from the whole topic by a `Processor` of one's own."""
        given = consumed or Consumed(key_serde, value_serde, timestamp_extractor, None, name)
        source = self._plan.names.suffixed_or(given.name, suffix="-source", prefix="KSTREAM-SOURCE-")
        step = self._plan.names.given_or(given.name, "KTABLE-SOURCE-")
        self._plan.check_store_name(store.name, step)
        made = processor(step, supplier)

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_global_store(
                store,
                source,
                topic,
                step,
                made,
                key_serde=given.key_serde,
                value_serde=given.value_serde,
                timestamp_extractor=given.timestamp_extractor,
            )

        self._plan.add(self._plan.root, Step(step, write))
        return self

    def build(self, settings: Mapping[str, Any] | None = None) -> Topology:
        """Return the plan; raises TopologyError where it could not run.

        Of the application's settings `default.key.serde`, `default.value.serde` and `topology.optimization` (none, all, or
        some of reuse.ktable.source.topics, merge.repartition.topics, single.store.self.join) are heeded.
        """
        given = settings or {}
        key = self._defaults[0] or given.get("default.key.serde")
        value = self._defaults[1] or given.get("default.value.serde")
        topology = TopologyBuilder(default_key_serde=key, default_value_serde=value)
        self._plan.prepare()
        optimize(self._plan, str(given.get("topology.optimization") or "none"))
        return self._plan.write(topology)


def _topic_names(step: str, topics: object, more: tuple[str, ...]) -> tuple[str, ...]:
    given = [topics] if isinstance(topics, str) else list(topics) if isinstance(topics, Iterable) else []
    names = (*given, *more)
    if not names or not all(isinstance(each, str) and each for each in names):
        raise TopologyError(step, f"expected topics' names or a compiled pattern, got {topics!r}")
    return names


def _check(step: str, given: Consumed) -> None:
    reset = given.offset_reset
    if reset is not None and reset not in _RESETS and not reset.startswith("by_duration:"):
        raise TopologyError(
            step, f"offset_reset: expected {', '.join(_RESETS)} or by_duration:<duration>, got {reset!r}"
        )
    check_extractor(step, given.timestamp_extractor)
