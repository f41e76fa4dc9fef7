"""Run a plan's stages over real topics, and return what they would write: for tests of the lowering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.base import Offset, TopicPartition
from ottla.client import BlockingClient
from ottla.spark.streams.lowering.stages import ClusterTopics, plan_query
from ottla.streams import Stages, StreamsSettings, Topology, cut
from ottla.wire import Record, build_batch
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

Given = tuple[str | bytes | None, str | bytes | None, int]
"""Key, value and time of a record."""


class Written(NamedTuple):
    """A row for the sink."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None


@dataclass
class Bench:
    """Spark, a broker, and a folder for checkpoints."""

    spark: SparkSession
    bootstrap: str
    client: BlockingClient
    folder: Path
    topics: dict[str, int] = field(default_factory=dict)
    progress: list[dict[str, Any]] = field(default_factory=list)

    def topic(self, name: str, partitions: int = 2) -> str:
        """Create a topic."""
        made = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        response = self.client.request(CreateTopicsRequest(topics=[made], timeout_ms=10_000))
        assert response.topics[0].error_code == 0, response.topics[0].error_message
        self.client.metadata([name])
        self.topics[name] = partitions
        return name

    def produce(self, topic: str, records: Sequence[Given], partition: int = 0) -> None:
        """Append records to a partition."""
        made = [
            Record(offset, time, _bytes(key), _bytes(value), ()) for offset, (key, value, time) in enumerate(records)
        ]
        self.client.produce({TopicPartition(topic, partition): build_batch(made)})

    def run(self, topology: Topology, stages: Stages | None = None, **settings: Any) -> list[Written]:
        """Run every stage over all that is there; rows for topics that a later stage reads are not brought there."""
        chosen = self.settings(settings)
        written: list[Written] = []
        for stage in (stages or cut(topology, stream_time=chosen["stream.time"])).stages:
            topics = ClusterTopics(chosen, self.topics, _from_zero(self.topics))
            query = plan_query(stage, self.spark, topics, chosen)

            def keep(batch: DataFrame, number: int) -> None:
                written.extend(map(_written, batch.collect()))

            writer = query.rows.writeStream.outputMode(query.mode).foreachBatch(keep)
            location = str(self.folder / f"{chosen.application_id}-{stage.name}")
            started = writer.option("checkpointLocation", location).trigger(availableNow=True).start()
            started.awaitTermination()
            self.progress = [_observed(each) for each in started.recentProgress]
        return written

    def settings(self, given: Mapping[str, Any]) -> StreamsSettings:
        """Return an application's settings for this broker."""
        chosen = {"default.key.serde": "string", "default.value.serde": "string", **given}
        return StreamsSettings.of({"application.id": "app", "bootstrap.servers": self.bootstrap, **chosen})


def _observed(progress: Any) -> dict[str, Any]:
    return {name: row.asDict() for name, row in progress["observedMetrics"].items()}


def _from_zero(topics: Mapping[str, int]) -> dict[TopicPartition, Offset]:
    return {TopicPartition(name, number): Offset(0) for name, count in topics.items() for number in range(count)}


def _bytes(given: str | bytes | None) -> bytes | None:
    return given.encode() if isinstance(given, str) else given


def _written(row: Any) -> Written:
    headers = tuple((each["key"], _plain(each["value"])) for each in row["headers"] or ())
    return Written(row["topic"], _plain(row["key"]), _plain(row["value"]), row["timestamp"], headers, row["partition"])


def _plain(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
