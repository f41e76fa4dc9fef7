"""One task's work inside Spark's stateful operator, in the Python worker: state in, records in, results out, state back.

State is a map of blobs by name (`ottla.streams.engine.blocks`) in one MapState. Beside them lies `KEEPER`: the shape of the
state, and a random token that is drawn anew by every attempt that writes. Blobs and token are committed together, so whoever
finds the token that it wrote finds its own blobs: only then is an executor of an earlier batch used again, with all that it
holds in memory, and nothing but the token is read. Which worker a task gets is Spark's choice, so this saves work where it
can and is never relied on.

A batch that is done again (a failed task, a killed query) begins from the same state with the same records in the same
order, and so leaves the same results.
"""

from __future__ import annotations

import gc
import marshal
import os
import pickle
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from ottla.base import ErrorCode, KafkaError
from ottla.spark.streams.state.chunks import blocks_of, finished_apart, fold_results, runs_of
from ottla.spark.streams.state.groups import task_of
from ottla.spark.streams.state.positions import Positions, beyond, position_outputs, seen
from ottla.streams import EngineSettings, Executor, Progress, StoreChange, Topology

__all__ = ["KEEPER", "RESULTS", "StateMismatch", "TaskPlan", "TaskProcessor"]

KEEPER = "/"
"""The name of the blob that says what the others are; no store's blob is called so."""
FORMAT = 1
RESULTS = "chunk binary, processed bigint, late bigint, null_keys bigint, poison bigint, stream_time bigint"
"""What the operator yields (Spark DDL): chunks of OUT rows, and once per task and batch what was counted."""
COLLECT_AFTER = 1_000_000
WARM_TASKS = 64
"""Executors that a worker keeps for later batches, of all queries."""
# types spelt out: Spark would have the JVM parse DDL text anew for each task of each batch
_NAME = StructType([StructField("name", StringType())])
_DATA = StructType([StructField("data", BinaryType())])


class StateMismatch(KafkaError):
    """State that was kept for another shape of the application: what differs, and what can be done."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)

    def __reduce__(self) -> tuple[type[KafkaError], tuple[object, ...]]:
        return StateMismatch, (self.message,)


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What every task of a stage does."""

    stage: str
    topology: Topology
    entries: tuple[str, ...]
    """The node at which records of each edge enter."""
    global_edges: frozenset[int]
    """Edges whose records go before all others: global tables."""
    tasks: int
    application_id: str
    settings: EngineSettings
    changelogs: dict[str, str]
    """The changelog topic of each logged store."""
    wall_clock: bool = False
    clock: str = ""
    """A file that says what time it is, in milliseconds, for tests; empty is Spark's processing time."""
    commits_topic: str = ""
    """Where it is noted how far each batch has come (`state_positions`); empty where it is not."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """By topic of the input, to be noted with it."""
    known: Mapping[int, Positions] = field(default_factory=dict)
    """By task, what rebuilt state already contains: records before it are passed over."""


class Blobs:
    """A task's blobs in Spark's state: reads as they come, writes at the end."""

    def __init__(self, state: Any) -> None:
        self.state = state
        self._written: dict[str, bytes | None] = {}

    def get(self, blob: str) -> bytes | None:
        """Return a blob as of the last batch, or as it was put since."""
        if blob in self._written:
            return self._written[blob]
        found = self.state.getValue((blob,))
        return None if found is None else bytes(found[0])

    def put(self, blob: str, data: bytes | None) -> None:
        """Set a blob; None removes it."""
        self._written[blob] = data

    def write(self) -> None:
        """Hand to Spark what was put; it is committed when the task ends well."""
        for blob, data in self._written.items():
            if data is None:
                self.state.removeKey((blob,))
            else:
                self.state.updateValue((blob,), (data,))
        self._written.clear()


@dataclass(slots=True)
class _Warm:
    """An executor as a batch left it, good for a state whose token is this one."""

    token: bytes
    executor: Executor
    blobs: Blobs


_warm: OrderedDict[tuple[str, int], _Warm] = OrderedDict()
_plans: OrderedDict[str, TaskPlan] = OrderedDict()
"""Plans by the start of a query that they belong to: unpickled once per worker, not for each batch."""
PLANS_KEPT = 32


def _plan(start: str, data: bytes) -> TaskPlan:
    found = _plans.get(start)
    if found is None:
        found = _plans[start] = pickle.loads(data)
        while len(_plans) > PLANS_KEPT:
            _plans.popitem(last=False)
    return found


class TaskProcessor(StatefulProcessor):
    """Spark's view of it: a processor whose groups are tasks."""

    def __init__(self, start: str, plan: bytes) -> None:
        """`start` is unique to this start of the query; `plan` is a pickled TaskPlan."""
        self._start = start
        self._data = plan

    def init(self, handle: Any) -> None:
        """Declare the state: on the driver once, and in each task of each batch."""
        self._handle = handle
        self._state = handle.getMapState("blobs", _NAME, _DATA)
        self._done: set[int] = set()

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Take in a blob that was rebuilt from changelogs."""
        self._state.updateValue((initialState.name,), (bytes(initialState.data),))

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Row]:
        """Process what came for a task."""
        self._done.add(key[0])
        chunks = [row.chunk for row in rows if row.chunk is not None]
        yield from self._work(key[0], chunks, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Let time pass for a task for which nothing came."""
        if key[0] not in self._done:
            yield from self._work(key[0], [], timerValues)

    def close(self) -> None:
        """Nothing is held open."""

    def _work(self, group: int, chunks: list[bytes], timers: Any) -> Iterator[Row]:
        plan, task = _plan(self._start, self._data), task_of(group)
        now_ms = _now_ms(plan, timers) if plan.wall_clock else 0
        with _rare_collections():
            executor, blobs = self._executor(plan, task, now_ms)
            chunks, finished = finished_apart(chunks)
            if task in plan.known:
                chunks = list(beyond(chunks, plan.known[task], plan.global_edges))
            work(executor, plan, chunks)
            if plan.wall_clock:
                executor.advance_wall_clock(now_ms)
                if (due_ms := executor.wall_clock_due_ms) is not None:
                    # Spark forgets timers of before the batch; a test's clock is looked at in every batch
                    spark_ms = timers.getCurrentProcessingTimeInMs()
                    self._handle.registerTimer(spark_ms + 1 if plan.clock else max(due_ms, spark_ms + 1))
            outputs, changes, progress = executor.finish_batch()
            if plan.commits_topic:
                positions = seen(chunks, plan.global_edges)
                outputs += position_outputs(plan.commits_topic, task, positions, plan.topic_ids)
            token = os.urandom(16)
            blobs.put(KEEPER, keeper(plan.tasks, token))
            blobs.write()
            self._keep(task, _Warm(token, executor, blobs))
            folded = fold_results(outputs, changes, task=task, changelogs=plan.changelogs)
            results = list(_results(chain(finished, folded), progress))
        yield from results

    def _executor(self, plan: TaskPlan, task: int, now_ms: int) -> tuple[Executor, Blobs]:
        """Return an executor that is at the state's version: the last batch's if this worker did it, or a new one."""
        warm = _warm.pop((self._start, task), None)
        blobs = Blobs(self._state)
        token = check_keeper(blobs.get(KEEPER), plan, task)
        if warm is not None and warm.token == token:
            warm.blobs.state = self._state
            return warm.executor, warm.blobs
        executor = Executor(
            plan.topology,
            tuple(plan.topology.nodes),
            blobs,
            task=task,
            settings=plan.settings,
            application_id=plan.application_id,
            wall_clock_ms=now_ms,
        )
        return executor, blobs

    def _keep(self, task: int, warm: _Warm) -> None:
        _warm[self._start, task] = warm
        while len(_warm) > WARM_TASKS:
            _warm.popitem(last=False)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Have Python look for cycles after a million new objects, not 700: a batch's records are many and have none.

    Measured at 100,000 records counted by key: 0.85 s as Python has it, 0.43 s so.
    """
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _now_ms(plan: TaskPlan, timers: Any) -> int:
    if not plan.clock:
        return int(timers.getCurrentProcessingTimeInMs())
    with open(plan.clock) as file:
        return int(file.read())


def work(executor: Executor, plan: TaskPlan, chunks: list[bytes]) -> None:
    """Have an executor process a batch's records in Kafka's order, those of global tables first."""
    if plan.settings.column_rows_min and not plan.global_edges:
        for edge, block in blocks_of(chunks):
            executor.process_block(plan.entries[edge], block)
        return
    if not plan.global_edges:
        for edge, records in runs_of(chunks):
            executor.process(plan.entries[edge], records)
        return
    later = []
    for edge, records in runs_of(chunks):
        if edge in plan.global_edges:
            executor.process(plan.entries[edge], records)
        else:
            later.append((plan.entries[edge], records))
    for entry, records in later:
        executor.process(entry, records)


def keeper(tasks: int, token: bytes) -> bytes:
    """Return the blob that says what the others are."""
    return marshal.dumps((FORMAT, tasks, token), 2)


def check_keeper(data: bytes | None, plan: TaskPlan, task: int) -> bytes | None:
    """Return the state's token, None for a new state; raises StateMismatch where the state is another plan's."""
    if not 0 <= task < plan.tasks:
        raise StateMismatch(f"{plan.stage} has {plan.tasks} tasks, and a record or state came for task {task}")
    if data is None:
        return None
    written, tasks, token = marshal.loads(data)
    if written != FORMAT:
        raise StateMismatch(f"the state of {plan.stage} has format {written}, and this version reads {FORMAT}")
    if tasks != plan.tasks:
        raise StateMismatch(
            f"the state of {plan.stage} was kept for {tasks} tasks (partitions of its input) and there are {plan.tasks} "
            "now: keys would be looked for in the wrong task. Give the topics their old number of partitions, or drop the "
            "state with `ottla streams reset`"
        )
    found: bytes = token
    return found


def _results(chunks: Iterable[bytes], progress: Progress) -> Iterator[Row]:
    counts = {
        "processed": progress.processed,
        "late": progress.dropped_late,
        "null_keys": progress.dropped_null_key,
        "poison": progress.skipped_poison,
        "stream_time": progress.stream_time,
    }
    nothing = dict.fromkeys(counts, None)
    yield Row(chunk=None, **counts)
    for chunk in chunks:
        yield Row(chunk=chunk, **nothing)


def rebuilt(plan: TaskPlan, task: int, changes: Iterable[StoreChange]) -> dict[str, bytes]:
    """Return the blobs of a task whose stores hold what changelogs say; `changes` in the order of their topics."""
    blobs: dict[str, bytes] = {}
    backend = _Memory(blobs)
    executor = Executor(
        plan.topology,
        tuple(plan.topology.nodes),
        backend,
        task=task,
        settings=plan.settings,
        application_id=plan.application_id,
    )
    executor.restore(changes)
    executor.finish_batch()
    blobs[KEEPER] = keeper(plan.tasks, os.urandom(16))
    return blobs


class _Memory:
    """Blobs in a dictionary."""

    def __init__(self, blobs: dict[str, bytes]) -> None:
        self._blobs = blobs

    def get(self, blob: str) -> bytes | None:
        return self._blobs.get(blob)

    def put(self, blob: str, data: bytes | None) -> None:
        if data is None:
            self._blobs.pop(blob, None)
        else:
            self._blobs[blob] = data
