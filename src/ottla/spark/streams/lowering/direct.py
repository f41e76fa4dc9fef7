"""Stages without state whose steps are Python's or Arrow's: each task fetches, works and delivers by itself.

::

    Spark plans the batch's offsets → one task for some stretches: fetch → columns → steps → record batches → produce

Spark keeps the offsets, the checkpoint and the tasks; the records never pass through the JVM, where a hop in and out of it
costs more than fetching and producing them (measured: 4.5 processor seconds for a million records of 100 bytes that way,
2.5 this way). A batch's stretches are those that Spark's source has planned for it, read from the plan, which is not run.
Stretches are put together into as few tasks as their records need, by offsets alone, so that a batch that is done again has
the same tasks.

With a local master, a batch of few records is worked on by the driver, as its only task would do it: to start a task takes
longer (measured: 50 ms) than to fetch and produce a hundred records.
"""

from __future__ import annotations

import pickle
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from ottla.spark.private_api.workers import pickled
from ottla.spark.source.options import ReadOptions
from ottla.spark.source.positions import Stretch
from ottla.spark.source.reader import records
from ottla.spark.streams.batch_errors import BatchErrors
from ottla.spark.streams.delivery import Attempt, Delivered, Delivery, Work, deliver, write_task
from ottla.spark.streams.lowering.pushed import shared_out
from ottla.spark.streams.planned import planned_stretches, reading_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ottla.spark.streams.lowering.python import SinkRows

__all__ = ["BatchCounts", "Direct", "direct_writer"]

STEPS_KEPT = 32
BATCHES_KEPT = 1000


@dataclass(frozen=True)
class Direct:
    """A stage's source, whose plan says what a batch reads, and what tasks do with the records."""

    rows: DataFrame
    options: ReadOptions
    steps: SinkRows


class BatchCounts:
    """What a query's batches have read and left out, which Spark does not see; for its progress."""

    def __init__(self) -> None:
        self._found: OrderedDict[int, Delivered] = OrderedDict()

    def add(self, batch_id: int, found: Delivered) -> None:
        """Note a batch."""
        self._found[batch_id] = found
        while len(self._found) > BATCHES_KEPT:
            self._found.popitem(last=False)

    def of(self, batch_id: int) -> Delivered | None:
        """Return what is known of a batch."""
        return self._found.get(batch_id)


def direct_writer(
    direct: Direct,
    delivery: Delivery,
    counts: BatchCounts,
    *,
    driver_records_max: int = 0,
    errors: BatchErrors | None = None,
) -> DataStreamWriter:
    """Return a stream writer whose every micro-batch is fetched, worked on and delivered by its tasks.

    A batch of at most `driver_records_max` records the driver works on by itself, if Spark's master is local. Raises
    TypeError for a function that cannot be sent to Spark's workers.
    """
    try:
        steps = pickled(direct.steps)
    except Exception as error:  # pickle raises whatever an object's own methods raise
        raise TypeError(f"{delivery.query}: a function or serde cannot be sent to Spark's workers: {error}") from error
    start = uuid.uuid4().hex

    def write(batch: DataFrame, batch_id: int) -> None:
        stretches = shared_out(list(chain.from_iterable(planned_stretches(batch))))
        is_local = str(batch.sparkSession.sparkContext.master).startswith("local")
        few = len(stretches) == 1 and sum(each.end - each.start for each in stretches[0]) <= driver_records_max
        tasks = _Tasks(batch, stretches, direct.options, start, steps, here=is_local and few)
        counts.add(batch_id, deliver(batch, batch_id, delivery, tasks))

    return direct.rows.writeStream.outputMode("append").foreachBatch((errors or BatchErrors()).kept(write))


# -- the driver's half


@dataclass(frozen=True)
class _Tasks:
    """A batch's tasks, for `deliver`."""

    batch: DataFrame
    stretches: list[list[Stretch]]
    options: ReadOptions
    start: str
    steps: bytes
    here: bool
    """Whether the only task is done in this process."""

    def count(self) -> int:
        return len(self.stretches)

    def run(self, work: Work) -> Delivered:
        if not self.stretches:
            return Delivered(0, 0, 0)
        task = _Task(self.options, self.start, self.steps, work)
        if self.here:
            sent, again, read, left_out = task.write(self.stretches, Attempt())
            return Delivered(sent, 1, again, read, left_out)
        context = self.batch.sparkSession.sparkContext
        rows = context.parallelize(self.stretches, len(self.stretches)).mapPartitions(task).collect()
        sent, again, read, left_out = (sum(each) for each in zip(*rows, strict=True))
        return Delivered(sent, len(rows), again, read, left_out)


# -- a task's half


@dataclass
class _Task:
    """Work of a task, in Spark's workers."""

    options: ReadOptions
    start: str
    steps: bytes
    work: Work

    def __call__(self, given: Iterable[list[Stretch]]) -> Iterator[tuple[int, int, int, int]]:
        """Deliver some stretches, in a task of Spark's; yields what `write` returns."""
        yield self.write(given, Attempt.current())

    def write(self, given: Iterable[list[Stretch]], attempt: Attempt) -> tuple[int, int, int, int]:
        """Deliver some stretches; returns (rows sent, 1 where they had been sent before, records read, left out)."""
        run, mine = _Run(self.options, _steps(self.start, self.steps)), list(given)
        rows = (batch for stretches in mine for batch in run.batches(stretches))
        reading = reading_of([each for stretches in mine for each in stretches])
        _, sent, again = write_task(rows, self.work, attempt, reading)
        return sent, int(again), run.read, run.left_out


_known_steps: OrderedDict[str, SinkRows] = OrderedDict()
"""Steps by the start of the query that they belong to: unpickled once per worker, not for each batch."""


def _steps(start: str, data: bytes) -> SinkRows:
    found = _known_steps.get(start)
    if found is None:
        found = _known_steps[start] = pickle.loads(data)
        while len(_known_steps) > STEPS_KEPT:
            _known_steps.popitem(last=False)
    return found


@dataclass
class _Run:
    """Fetches stretches and does the steps, counting."""

    options: ReadOptions
    steps: SinkRows
    read: int = 0
    left_out: int = 0

    def batches(self, stretches: Sequence[Stretch]) -> Iterator[pa.RecordBatch]:
        """Yield what leaves, as OUT rows."""
        for batch in self.steps(self._counted(records(stretches, self.options, self._skipped))):
            yield self._kept(batch)

    def _skipped(self, count: int) -> None:
        self.read += count
        self.left_out += count

    def _counted(self, found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in found:
            self.read += batch.num_rows
            yield batch

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take out rows without topic, which say how many records a handler has left out."""
        topics = batch.column(0)
        if not topics.null_count:
            return batch
        absent = topics.is_null()
        self.left_out += sum(batch.column("partition").filter(absent).to_pylist())
        return batch.filter(topics.is_valid())
