"""State from changelogs: what a stage's tasks begin with where its checkpoint is lost.

The changelogs of a stage's stores are read up to their end, each partition by the task that wrote it, and become the blobs
that an executor would have left (`Executor.restore`). They are the initial state of the first batch of a new checkpoint.
What of the input they contain is read beside them (`state_positions`), exactly once. Stores without a changelog begin
empty, and so does what a task remembers besides stores (its stream time), as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.spark.private_api.workers import pickled
from ottla.spark.streams.internal_topics import changelog_topic
from ottla.spark.streams.secured import told_to_spark
from ottla.streams import StreamsSettings, Topology

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from ottla.client import BlockingClient
    from ottla.spark.streams.preparation import Prepared
    from ottla.spark.streams.state.positions import Positions
    from ottla.spark.streams.state.task import TaskPlan
    from ottla.streams import Stage

__all__ = ["BLOBS", "Initial", "changelogs_of", "initial_state", "rebuild_state"]

BLOBS = "`group` int, name string, data binary"
"""Rows of initial state (Spark DDL): a task's blobs."""


@dataclass(frozen=True)
class Initial:
    """What a stage begins with."""

    blobs: DataFrame
    """Rows of `BLOBS`."""
    known: Mapping[int, Positions]
    """By task, up to where the input is in them already."""


def changelogs_of(topology: Topology, application_id: str) -> dict[str, str]:
    """Return the topic that each store is rebuilt from: its changelog, or the source topic that serves as one."""
    stores = topology.stores
    return {
        name: store.source_topic or changelog_topic(application_id, name)
        for name, store in stores.items()
        if (store.logged or store.source_topic) and not store.is_global
    }


def rebuild_state(
    spark: SparkSession, client: BlockingClient, stage: Stage, settings: StreamsSettings, prepared: Prepared
) -> Initial | None:
    """Return a stage's state as its changelogs have it now, for `plan_query`; None where it has no changelogs.

    The blobs are computed when the query's first batch is; no other process writes the changelogs any more by then.
    """
    from ottla.spark.streams.state.operator import task_plan
    from ottla.spark.streams.state.positions import read_positions

    topics = changelogs_of(stage.topology, settings.application_id)
    if not topics:
        return None
    tasks = max(prepared.partitions.stores.get(store, 0) for store in topics)
    options = {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        **told_to_spark(settings),
        "subscribe": ",".join(sorted(set(topics.values()))),
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed" if settings.exactly_once else "read_uncommitted",
    }
    records = spark.read.format("ottla").options(**options).load()
    blobs = initial_state(records, task_plan(stage, application_id=settings.application_id, tasks=tasks))
    return Initial(blobs, read_positions(client, settings.application_id, stage.name) if settings.exactly_once else {})


def initial_state(records: DataFrame, plan: TaskPlan) -> DataFrame:
    """Return the blobs of all tasks, from records of changelogs with Kafka's columns."""
    from pyspark.sql import functions as f

    topics = changelogs_of(plan.topology, plan.application_id)
    # microseconds of Spark's timestamp; a cast to a number would go through seconds as a double
    timestamp = f.unix_millis("timestamp") if dict(records.dtypes)["timestamp"] == "timestamp" else f.col("timestamp")
    columns = records.select("topic", "partition", "offset", "key", "value", timestamp.alias("timestamp"), "headers")
    return columns.groupBy("partition").applyInArrow(_restorer(pickled(plan), topics), BLOBS)


def _restorer(plan: bytes, topics: dict[str, str]) -> Callable[[pyarrow.Table], pyarrow.Table]:
    stores: dict[str, list[str]] = {}
    for store, topic in topics.items():
        stores.setdefault(topic, []).append(store)

    def restore(records: pyarrow.Table) -> pyarrow.Table:
        import pickle

        import pyarrow

        from ottla.spark.streams.state.groups import group_of
        from ottla.spark.streams.state.task import rebuilt

        task = records.column("partition")[0].as_py()
        ordered = records.sort_by([("topic", "ascending"), ("offset", "ascending")])
        blobs = rebuilt(pickle.loads(plan), task, _changes(ordered, stores))
        return pyarrow.table(
            {
                "group": pyarrow.array([group_of(task)] * len(blobs), pyarrow.int32()),
                "name": pyarrow.array(list(blobs), pyarrow.string()),
                "data": pyarrow.array(list(blobs.values()), pyarrow.binary()),
            }
        )

    return restore


def _changes(records: pyarrow.Table, stores: dict[str, list[str]]) -> Any:
    """Yield what each record says of the stores that its topic stands for."""
    from ottla.spark.streams.state.chunks import headers_of
    from ottla.streams import StoreChange

    for batch in records.to_batches():
        rows = zip(
            *(batch.column(name).to_pylist() for name in ("topic", "key", "value", "timestamp")),
            headers_of(batch.column("headers")),
            strict=True,
        )
        for topic, key, value, timestamp, headers in rows:
            if key is not None:
                for store in stores[topic]:
                    yield StoreChange(store, key, value, timestamp, headers)
