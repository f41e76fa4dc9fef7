"""Stateful stages fed from files: each file of ENTRY rows is a micro-batch; what leaves is gathered in a list."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.spark.streams.lowering.rows import ENTRY
from ottla.spark.streams.state.operator import progress_of, stateful
from ottla.streams import EngineSettings, Executor, Progress, Record, Topology
from tests.streams.engine.plans import Backend

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.spark.streams.state.task import TaskPlan


class In(NamedTuple):
    """A record on its way to a task, by one of its edges."""

    task: int
    record: Record
    edge: int = 0
    step: int = 0


class Out(NamedTuple):
    """An OUT row."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None


def write_batch(folder: Path, number: int, rows: Iterable[In]) -> None:
    """Write a micro-batch's ENTRY rows as one file."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(exist_ok=True)
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    columns: dict[str, tuple[Any, Callable[[In], Any]]] = {
        "task": (pa.int32(), lambda row: row.task),
        "edge": (pa.int32(), lambda row: row.edge),
        "key": (pa.binary(), lambda row: row.record.key),
        "value": (pa.binary(), lambda row: row.record.value),
        "timestamp": (pa.int64(), lambda row: row.record.timestamp),
        "headers": (pa.list_(header), lambda row: [{"key": key, "value": value} for key, value in row.record.headers]),
        "topic": (pa.string(), lambda row: row.record.topic),
        "partition": (pa.int32(), lambda row: row.record.partition),
        "offset": (pa.int64(), lambda row: row.record.offset),
        "step": (pa.int32(), lambda row: row.step),
    }
    rows = list(rows)
    table = pa.table({name: pa.array(map(get, rows), kind, size=len(rows)) for name, (kind, get) in columns.items()})
    place = folder / f"{number:05}.parquet"
    hidden = folder / f"_{number:05}"
    parquet.write_table(table, hidden)
    # the file source takes files by their time
    os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
    hidden.rename(place)


@dataclass
class Stage:
    """A stage between files and a list, with a checkpoint: `go` does what is there, as often as one likes."""

    spark: SparkSession
    folder: Path
    plan: TaskPlan
    initial: DataFrame | None = None
    batches: list[list[Out]] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    written: int = 0

    def add(self, *batches: Iterable[In]) -> Stage:
        for rows in batches:
            write_batch(self.folder / "in", self.written, rows)
            self.written += 1
        return self

    def rows(self) -> DataFrame:
        reader = self.spark.readStream.schema(ENTRY).option("maxFilesPerTrigger", 1)
        return stateful(reader.parquet(str(self.folder / "in")), self.plan, initial=self.initial)

    def start(self, sink: Callable[[DataFrame, int], None], **trigger: Any) -> StreamingQuery:
        writer = self.rows().writeStream.outputMode("append").foreachBatch(sink)
        return writer.option("checkpointLocation", str(self.folder / "checkpoint")).trigger(**trigger).start()

    def keep(self, batch: DataFrame, number: int) -> None:
        del self.batches[number:]
        self.batches.append([_out(row) for row in batch.collect()])

    def go(self) -> Stage:
        """Run until every file is done; raises what the query failed with."""
        query = self.start(self.keep, availableNow=True)
        query.awaitTermination()
        self.progress += [progress_of(each) for each in query.recentProgress if each["numInputRows"]]
        return self


def _out(row: Any) -> Out:
    headers = tuple(
        (each["key"], None if each["value"] is None else bytes(each["value"])) for each in row.headers or ()
    )
    key, value = (None if each is None else bytes(each) for each in (row.key, row.value))
    return Out(row.topic, key, value, row.timestamp, headers, row.partition)


class Alone:
    """The same plan's executors without Spark: what the stage has to equal."""

    def __init__(self, plan: TaskPlan) -> None:
        self.plan = plan
        self.backends = [Backend() for _ in range(plan.tasks)]

    def batch(self, rows: Sequence[In]) -> list[Out]:
        """Return what a batch leaves, task by task."""
        found: list[Out] = []
        for task in range(self.plan.tasks):
            own = [row for row in rows if row.task == task]
            if own:
                found += self._task(task, own)
        return found

    def _task(self, task: int, rows: Sequence[In]) -> list[Out]:
        executor = new_executor(self.plan, task, self.backends[task])
        entries: dict[str, list[Record]] = {name: [] for name in self.plan.entries}
        for row in rows:
            entries[self.plan.entries[row.edge]].append(row.record)
        executor.process_merged({name: records for name, records in entries.items() if records})
        outputs, changes, _ = executor.finish_batch()
        changelogs = self.plan.changelogs
        return [
            *(Out(each.topic, each.key, each.value, each.timestamp, each.headers, each.partition) for each in outputs),
            *(Out(changelogs[each.store], each.key, each.value, each.timestamp, (), task) for each in changes),
        ]


def new_executor(plan: TaskPlan, task: int, backend: Backend) -> Executor:
    return Executor(
        plan.topology,
        tuple(plan.topology.nodes),
        backend,
        task=task,
        settings=plan.settings,
        application_id=plan.application_id,
    )


def plan_of(topology: Topology, *entries: str, tasks: int = 2, **settings: Any) -> TaskPlan:
    """Return the plan of a stage that does a whole topology."""
    from ottla.spark.streams.state.task import TaskPlan

    return TaskPlan(
        stage="stateful-0",
        topology=topology,
        entries=entries or ("source",),
        global_edges=frozenset(),
        tasks=tasks,
        application_id="app",
        settings=EngineSettings(**settings),
        changelogs={name: f"app-{name}-changelog" for name, store in topology.stores.items() if store.logged},
    )


def with_tasks(plan: TaskPlan, tasks: int) -> TaskPlan:
    return replace(plan, tasks=tasks)
