"""Where a query's records come from: topics as streaming DataFrames, behind a protocol that a test driver has its own of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ottla.base import Offset, TopicPartition
from ottla.java import compile_java
from ottla.spark.source.positions import offsets_to_json
from ottla.spark.streams.lowering.pushed import Steps, packed_steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.streams import StreamsSettings

__all__ = ["ClusterTopics", "TopicRead", "Topics"]


from ottla.spark.streams.secured import told_to_spark


@dataclass(frozen=True, slots=True)
class TopicRead:
    """What one source node reads: full topic names, or all whose names match a pattern."""

    node: str
    topics: tuple[str, ...]
    pattern: str | None = None
    offset_reset: str | None = None
    """earliest or latest; None is the application's."""
    invalid_time: str = ""
    """What becomes of records with a negative time where they keep their own: `fail` or `skip`."""


class Topics(Protocol):
    """Gives a query its records."""

    def read(self, spark: SparkSession, wanted: TopicRead) -> DataFrame:
        """Return a streaming DataFrame with Kafka's columns: key, value, topic, partition, offset, timestamp, headers."""

    def partition_counts(self) -> Mapping[str, int]:
        """Return the number of partitions of the topics that the plan names: sources' and sinks', by full name."""

    def topic_ids(self) -> Mapping[str, str]:
        """Return topics' ids, by full name, where they are known."""


@dataclass(frozen=True)
class ClusterTopics:
    """Topics of a cluster, by `format("ottla")`."""

    settings: StreamsSettings
    counts: Mapping[str, int]
    starting: Mapping[TopicPartition, Offset] | None = None
    """Where a query without a checkpoint begins, by full topic name; topics that are not in it begin as is configured."""
    ids: Mapping[str, str] = field(default_factory=dict)
    gone: frozenset[str] | None = None
    """Ids of topics of which a planned batch may do without; None: of all (`Prepared.gone`)."""

    def read(self, spark: SparkSession, wanted: TopicRead) -> DataFrame:
        """Return the topics' records, from where the query is or begins."""
        schema = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
        headers = "headers array<struct<key: string, value: binary>>"
        return spark.readStream.format("ottla").schema(f"{schema}, {headers}").options(**self.options(wanted)).load()

    def read_through(self, spark: SparkSession, wanted: TopicRead, steps: Steps, schema: str) -> DataFrame:
        """Return what steps make of the topics' records where these are fetched."""
        options = {**self.options(wanted), "ottla.steps": packed_steps(steps, wanted.node)}
        return spark.readStream.format("ottla").schema(schema).options(**options).load()

    def options(self, wanted: TopicRead) -> dict[str, str]:
        """Return the options of `format("ottla")` for a source."""
        settings = self.settings
        options = {
            "kafka.bootstrap.servers": settings.bootstrap_servers,
            **told_to_spark(settings),
            "startingOffsets": self._starting(wanted),
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed" if settings.exactly_once else "read_uncommitted",
        }
        of = {each.topic for each in self._known(wanted)}
        options["ottla.ids"] = json.dumps({name: each for name, each in self.ids.items() if name in of})
        options["ottla.reset"] = wanted.offset_reset or settings.auto_offset_reset
        if self.gone is not None:
            options["ottla.gone"] = ",".join(sorted(self.gone))
        if wanted.invalid_time:
            options["ottla.invalidTimestamp"] = wanted.invalid_time
        if wanted.pattern is not None:
            options["subscribePattern"] = wanted.pattern
        else:
            options["subscribe"] = ",".join(wanted.topics)
        rows = settings["max.records.per.batch"]
        if rows is not None:
            options["maxOffsetsPerTrigger"] = str(rows)
        return options

    def partition_counts(self) -> Mapping[str, int]:
        """Return the counts that were given."""
        return self.counts

    def topic_ids(self) -> Mapping[str, str]:
        """Return the ids that were given."""
        return self.ids

    def _starting(self, wanted: TopicRead) -> str:
        known = self._known(wanted)
        if known:
            return json.dumps(offsets_to_json(known))
        reset = wanted.offset_reset or self.settings.auto_offset_reset
        return reset if reset in ("earliest", "latest") else "earliest"

    def _known(self, wanted: TopicRead) -> dict[TopicPartition, Offset]:
        names = self._names(wanted)
        return {each: offset for each, offset in (self.starting or {}).items() if each.topic in names}

    def _names(self, wanted: TopicRead) -> Sequence[str]:
        if wanted.pattern is None:
            return wanted.topics
        pattern = compile_java(wanted.pattern)
        return [each for each in self.counts if pattern.fullmatch(each)]
