"""A stage with state on Spark: rows for its tasks in, rows for topics out, state in Spark's RocksDB store.

::

    ENTRY rows → fold → shuffle by task → one executor per task and batch (`state_task`) → unfold → OUT rows

The operator is `transformWithState`, one group per task, in append mode, so that it needs no watermark: time is the task's
own (`ottla.streams.engine`). `settings()` are Spark's settings that go with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.spark.private_api.checkpoints import BY_FILE_SYSTEM, FILES_BY
from ottla.spark.private_api.workers import pickled
from ottla.spark.streams.lowering.rows import OUT
from ottla.spark.streams.state.chunks import CHUNKS, fold_entries, unfold
from ottla.streams import EngineSettings, Progress, Stage, operations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.spark.streams.state.positions import Positions
    from ottla.spark.streams.state.task import TaskPlan

__all__ = ["LOCAL_SETTINGS", "PROGRESS", "STATE_SETTINGS", "progress_of", "stateful", "task_plan", "uses_wall_clock"]

PROGRESS = "ottla-state"
"""The name under which a query's progress has the tasks' counts (`observedMetrics`)."""

_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"
STATE_SETTINGS: Mapping[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{_ROCKSDB}.changelogCheckpointing.enabled": "true",
    # One bound for all stores of an executor, block cache and memtables together.
    f"{_ROCKSDB}.boundedMemoryUsage": "true",
    f"{_ROCKSDB}.maxMemoryUsageMB": "512",
    # Counting rows costs a read per write.
    f"{_ROCKSDB}.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.minBatchesToRetain": "20",
}
"""Spark's settings for state: RocksDB, a batch's changes written as a small file, snapshots in the background."""
LOCAL_SETTINGS: Mapping[str, str] = {
    FILES_BY: BY_FILE_SYSTEM,
}
"""Settings for checkpoints on disks of this machine: measured, 60 ms less of each micro-batch.

Both of Spark's ways write a file under a name of its own and rename it, which a local file system does at once, so a
process may be killed at any place: a file is whole or not there. Checksum files beside it are renamed by themselves; where a
batch is done again over files of an attempt before, a kill in between leaves a pair that does not match. Nobody reads it,
since the batch that wrote it was not finished and is done again over it. Neither way calls fsync: when the machine loses
power, both may lose the last batches' files, and then the state is rebuilt from changelogs (`state_rebuild`). Not for HDFS,
where renaming over a file is the other way's strength.
"""


def task_plan(
    stage: Stage,
    *,
    application_id: str,
    tasks: int,
    settings: EngineSettings | None = None,
    clock: str = "",
    commits_topic: str = "",
    known: Mapping[int, Positions] | None = None,
    topic_ids: Mapping[str, str] | None = None,
) -> TaskPlan:
    """Return what the tasks of a stage do; `tasks` is the number of partitions of its input."""
    from ottla.spark.streams.internal_topics import changelog_topic
    from ottla.spark.streams.state.task import TaskPlan

    stores = stage.topology.stores
    return TaskPlan(
        stage=stage.name,
        topology=stage.topology,
        entries=tuple(each.node for each in stage.entries),
        global_edges=frozenset(place for place, each in enumerate(stage.entries) if each.is_global),
        tasks=tasks,
        application_id=application_id,
        settings=settings or EngineSettings(),
        changelogs={name: changelog_topic(application_id, name) for name, each in stores.items() if each.logged},
        wall_clock=uses_wall_clock(stage),
        clock=clock,
        commits_topic=commits_topic,
        known=known or {},
        topic_ids=topic_ids or {},
    )


def uses_wall_clock(stage: Stage) -> bool:
    """True where a step may act on the wall clock without a record: batches are run for it even where nothing came.

    Such a query has a batch at every trigger, and with `availableNow` it does not end.
    """
    acting = (operations.Process, operations.TableProcess)
    return any(isinstance(getattr(each, "operation", None), acting) for each in stage.topology.nodes.values())


def stateful(rows: DataFrame, plan: TaskPlan, *, initial: DataFrame | None = None) -> DataFrame:
    """Return the OUT rows of a stage whose tasks get `rows`: ENTRY rows, or what `fold_entries` has made of them.

    `initial` is state for the first batch of a new checkpoint (`state_rebuild.rebuild_state`). Each result of a batch must
    be used by one action only. Batches fail with StateMismatch (its text) where the checkpoint holds another plan's state.
    """
    from pyspark.sql import functions as f

    from ottla.spark.streams.state.task import RESULTS, TaskProcessor

    if "chunk" not in rows.columns:
        rows = rows.mapInArrow(partial(fold_entries, wake=plan.tasks if plan.wall_clock else 0), CHUNKS)
    try:
        plan_bytes = pickled(plan)
    except Exception as error:  # pickle raises whatever an object's own methods raise
        raise TypeError(f"{plan.stage}: a function or serde cannot be sent to Spark's workers: {error}") from error
    processor = TaskProcessor(uuid.uuid4().hex, plan_bytes)
    results = rows.groupBy("group").transformWithState(
        statefulProcessor=processor,
        outputStructType=RESULTS,
        outputMode="append",
        timeMode="ProcessingTime" if plan.wall_clock else "None",
        initialState=None if initial is None else initial.groupBy("group"),
    )
    counts = (f.sum(name).alias(name) for name in ("processed", "late", "null_keys", "poison"))
    observed = results.observe(PROGRESS, *counts, f.max("stream_time").alias("stream_time"))
    return observed.select("chunk").mapInArrow(unfold, OUT)


def progress_of(progress: Any) -> Progress:
    """Return what a batch's tasks counted, from a query's progress; zeros where it has no such stage."""
    row = progress["observedMetrics"].get(PROGRESS)
    if row is None:
        return Progress()
    found = row.asDict() if hasattr(row, "asDict") else dict(row)
    return Progress(
        processed=int(found["processed"] or 0),
        dropped_late=int(found["late"] or 0),
        dropped_null_key=int(found["null_keys"] or 0),
        skipped_poison=int(found["poison"] or 0),
        stream_time=-1 if found["stream_time"] is None else int(found["stream_time"]),
    )
