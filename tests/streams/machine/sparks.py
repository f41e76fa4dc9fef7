"""Spark, as far as a query's delivery knows it: a checkpoint, batches that are planned, done and committed, tasks' attempts.

What Spark does is modelled here; what is ours runs as it is: the source's planning and reading, the tasks' work, state and
its rebuilding, delivery. A batch whose offsets are in the checkpoint and that is not committed is done again with them;
where it is the first one, the source is asked anew where it begins, as Spark does.
"""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from ottla.base import Offset
from ottla.client import BlockingClient
from ottla.connect.testing import Fault, Killed, Life
from ottla.connect.testing.cluster import TIME
from ottla.spark.private_api.batches import QUERY_ID_PROPERTY, RUN_ID_PROPERTY
from ottla.spark.source.columns import SCHEMA
from ottla.spark.source.options import read_options
from ottla.spark.source.positions import Stretch, offsets_of_json
from ottla.spark.source.reader import OttlaStreamReader, records
from ottla.spark.streams import delivery as deliveries
from ottla.spark.streams.commits import commits_topic
from ottla.spark.streams.launch import SparkLauncher
from ottla.spark.streams.lowering import direct as directs
from ottla.spark.streams.lowering.pushed import shared_out
from ottla.spark.streams.lowering.python import ENTRY_SCHEMA, OUT_SCHEMA
from ottla.spark.streams.lowering.topics import TopicRead
from ottla.spark.streams.planned import readings
from ottla.spark.streams.preparation import topics_of
from ottla.spark.streams.progress import BatchProgress
from ottla.spark.streams.state import task as state_task
from ottla.spark.streams.state.chunks import fold_entries
from ottla.spark.streams.state.groups import group_of, task_of
from ottla.spark.streams.state.operator import task_plan
from ottla.spark.streams.state.positions import read_positions
from ottla.spark.streams.state.rebuild import _restorer, changelogs_of
from ottla.streams import Stage

__all__ = ["Failed", "ModelLauncher"]

TASK_FAULTS = frozenset({Fault.RETRIABLE, Fault.FATAL, Fault.STOP, Fault.FENCED, Fault.KILL_BEFORE, Fault.KILL_AFTER})
SHUFFLED = 2
"""Tasks behind a shuffle of Spark's own."""
DISK_FAULTS = TASK_FAULTS - {Fault.FATAL}


class Failed(Exception):
    """What Spark says of a query that has ended."""


def step(life: Life, name: str, work: Callable[[], Any], kinds: frozenset[Fault] = TASK_FAULTS) -> Any:
    """Take a step of a life around its work; raises what was injected."""
    life.check()
    fault = life.world.step(name, life, kinds=kinds)
    if fault is Fault.RETRIABLE:
        raise RuntimeError(f"injected at {name}")
    if fault is Fault.FATAL:
        from ottla.streams import Origin, ProcessingFailed

        raise ProcessingFailed(name, Origin("in", 0, 0), "injected")
    if fault is Fault.KILL_BEFORE:
        life.kill()
    life.check()
    done = work()
    if fault is Fault.KILL_AFTER:
        life.kill()
    life.check()
    return done


class ModelLauncher(SparkLauncher):
    """Starts stages on the model; the rest is the launcher's own."""

    def __init__(
        self, prepared: Any, settings: Any, member: Any, life: Life, *, branches: Sequence[str], attempts: int
    ) -> None:
        """`branches` are the topics of a plan without state that goes through Spark; none where its tasks fetch."""
        self._prepared, self._settings, self._member = prepared, settings, member
        self._own, self._spark = False, None  # type: ignore[assignment]
        self.life, self.branches, self.attempts = life, branches, attempts

    def start(self, stage: Stage) -> Any:
        """See `SparkLauncher`."""
        self.life.check()
        return _Query(self, stage)


class _Query:
    """A query as the supervisor has it; each look at it is a trigger."""

    def __init__(self, launcher: ModelLauncher, stage: Stage) -> None:
        settings, prepared = launcher._settings, launcher._prepared
        self._launcher, self._stage, self._life = launcher, stage, launcher.life
        self._folder = Path(prepared.checkpoint.of_stage(stage.name))
        self._delivery = launcher.delivery(stage)
        self._run, self._failure = uuid.uuid4().hex, None  # type: str, str | None
        for kind in ("offsets", "commits", "state"):
            (self._folder / kind).mkdir(parents=True, exist_ok=True)
        identity = self._folder / "metadata"
        if not identity.exists():
            identity.write_text(json.dumps({"id": str(uuid.uuid4())}))
        self._id = json.loads(identity.read_text())["id"]
        topics = launcher.topics(stage)
        wanted = TopicRead("source", tuple(topics_of(stage, settings, prepared.counts)))
        self._options = read_options(topics.options(wanted), streaming=True)
        self._initial: dict[int, dict[str, bytes]] = {}
        if stage.kind == "stateful":
            self._plan_state()

    # -- as the supervisor sees it

    def poll(self) -> Sequence[BatchProgress]:
        """Do the next batch, if there is something to do."""
        self._life.check()
        if self._failure is not None:
            return []
        try:
            made = self._trigger()
        except Killed:
            raise
        except Exception as error:
            self._life.check()
            self._failure = f"Traceback (most recent call last):\n{type(error).__name__}: {error}"
            return []
        return [] if made is None else [made]

    def failure(self) -> str | None:
        """Return how it ended."""
        return self._failure

    def stop(self, patience_s: float) -> None:
        """A query is between two batches whenever this can be called."""

    # -- batches

    def _numbers(self, kind: str) -> list[int]:
        return sorted(int(each.name) for each in (self._folder / kind).iterdir())

    def _offsets(self, batch: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._folder / "offsets" / str(batch)).read_text().splitlines()[-1])
        return found

    def _trigger(self) -> BatchProgress | None:
        reader = OttlaStreamReader(SCHEMA, self._options)
        try:
            done = self._numbers("commits")
            batch = done[-1] + 1 if done else 0
            start = self._offsets(batch - 1) if batch else reader.initialOffset()
            if batch in self._numbers("offsets"):
                end = self._offsets(batch)
            else:
                end = reader.latestOffset(start, reader.getDefaultReadLimit())
                if end == start:
                    return None
                self._write("plan", "offsets", batch, f"v1\n{{}}\n{json.dumps(end)}".encode())
            stretches = [each.offsets for each in reader.partitions(start, end) if each.offsets is not None]
            self._deliver(batch, stretches)
        finally:
            reader.stop()
        self._write("Spark's own commit", "commits", batch, b"")
        ends = offsets_of_json(end)
        return BatchProgress(batch, 1, 0.0, ends, ends)

    def _write(self, name: str, kind: str, batch: int, data: bytes) -> None:
        step(self._life, name, lambda: (self._folder / kind / str(batch)).write_bytes(data), DISK_FAULTS)

    def _deliver(self, batch: int, stretches: list[Stretch]) -> None:
        properties = {QUERY_ID_PROPERTY: self._id, RUN_ID_PROPERTY: self._run}
        off = SimpleNamespace(get=lambda *_: "false")
        context = SimpleNamespace(getConf=lambda: off, getLocalProperty=properties.get)
        frame: Any = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context, conf=off))
        if self._stage.kind == "stateful":
            tasks: Any = _Stateful(self, batch, stretches)
        elif self._stage.kind == "native":
            tasks = _Native(self, batch, stretches)
        elif not self._launcher.branches:
            tasks = _Direct(self, stretches)
        else:
            tasks = _Frame(self, stretches, self._launcher.branches)
        deliveries.deliver(frame, batch, self._delivery, tasks)

    # -- tasks

    def attempts(self, task: int, work: Callable[[deliveries.Attempt], Any]) -> Any:
        """Do a task, as often as Spark would."""
        for number in range(self._launcher.attempts):
            try:
                self._life.check()
                done = work(deliveries.Attempt(task, number))
                self._life.check()
                return done
            except Exception:
                self._life.check()
                if number + 1 == self._launcher.attempts:
                    raise
        raise AssertionError

    def compute(self, batches: Iterable[pa.RecordBatch], topic: str = "out") -> Iterator[pa.RecordBatch]:
        """The query's steps: records in capitals."""
        for each in batches:
            values = [each.decode().upper().encode() for each in each.column("_value").to_pylist()]
            rows = pa.RecordBatch.from_arrays(
                [
                    pa.repeat(pa.scalar(topic), each.num_rows),
                    each.column("_key"),
                    pa.array(values, pa.binary()),
                    each.column("timestamp"),
                    pa.nulls(each.num_rows, OUT_SCHEMA.field("headers").type),
                    pa.nulls(each.num_rows, pa.int32()),
                ],
                schema=OUT_SCHEMA,
            )
            yield step(self._life, "compute", lambda rows=rows: rows)

    def counted(self, counts: Mapping[bytes, int]) -> pa.RecordBatch:
        """Return the rows of a native count: results, and its changelog."""
        application = self._launcher._settings.application_id
        rows = [
            {"topic": topic, "key": key, "value": str(count).encode(), "timestamp": TIME}
            for topic in ("counts-out", f"{application}-counts-changelog")
            for key, count in counts.items()
        ]
        return pa.RecordBatch.from_pylist(rows, schema=OUT_SCHEMA)

    # -- state

    def _plan_state(self) -> None:
        launcher, stage = self._launcher, self._stage
        settings, prepared = launcher._settings, launcher._prepared
        application = settings.application_id
        noted = commits_topic(application, stage.name).topic if settings.exactly_once else ""
        tasks = max(prepared.partitions.stores.values())
        plan = task_plan(
            stage, application_id=application, tasks=tasks, commits_topic=noted, topic_ids=prepared.topic_ids
        )
        if stage.name in prepared.rebuilt and not launcher._has_begun(stage):
            self._initial, known = self._rebuilt(plan)
            plan = replace(plan, known=known)
        self._plan = plan
        self._processor = state_task.TaskProcessor(uuid.uuid4().hex, b"")
        state_task._plans[self._processor._start] = plan  # as a worker has it that was sent it

    def _rebuilt(self, plan: Any) -> tuple[dict[int, dict[str, bytes]], Any]:
        settings = self._launcher._settings
        topics = changelogs_of(self._stage.topology, settings.application_id)
        isolation = "read_committed" if settings.exactly_once else "read_uncommitted"
        options = {"kafka.bootstrap.servers": settings.bootstrap_servers, "kafka.isolation.level": isolation}
        with BlockingClient(settings.bootstrap_servers) as client:
            known = read_positions(client, settings.application_id, self._stage.name) if settings.exactly_once else {}
            places = [each for name in topics.values() for each in client.metadata([name]).partitions_of(name)]
        broker = self._life.world.broker  # type: ignore[attr-defined]
        found: dict[int, dict[str, bytes]] = {}
        restore = _restorer(cloudpickle.dumps(plan), topics)  # type: ignore[no-untyped-call]
        wanted = read_options({**options, "subscribe": ",".join(topics.values())}, streaming=False)
        for place in places:
            stretch = Stretch(place, Offset(0), Offset(broker.logs[place].end))
            if stretch.end == 0:
                continue
            rows = [batch.rename_columns([*_NAMES]) for batch in records([stretch], wanted)]
            if not rows:
                continue
            table = restore(pa.Table.from_batches(rows))
            found[place.partition] = dict(
                zip(table.column("name").to_pylist(), table.column("data").to_pylist(), strict=True)
            )
        return found, known

    def entries(self, stretches: list[Stretch], tasks: int) -> dict[int, list[bytes]]:
        """Return the chunks of each task: the map side, and the shuffle."""
        found: dict[int, list[bytes]] = {task: [] for task in range(tasks)}
        for batch in records(stretches, self._options):
            count, zeros = batch.num_rows, pa.array([0] * batch.num_rows, pa.int32())
            partitions = batch.column("partition")
            rows = pa.RecordBatch.from_arrays(
                [
                    partitions,
                    zeros,
                    batch.column("_key"),
                    batch.column("_value"),
                    batch.column("timestamp"),
                    pa.nulls(count, ENTRY_SCHEMA.field("headers").type),
                    batch.column("topic"),
                    partitions,
                    batch.column("offset"),
                    zeros,
                ],
                schema=ENTRY_SCHEMA,
            )
            for folded in fold_entries([step(self._life, "compute", lambda rows=rows: rows)]):
                for group, chunk in zip(*(each.to_pylist() for each in folded.columns), strict=True):
                    found[task_of(group)].append(chunk)
        return found

    def state(self, task: int, batch: int) -> dict[str, bytes]:
        """Return a task's blobs as of a batch; before the first, what was rebuilt."""
        place = self._folder / "state" / f"{task * 1000 + batch}"
        while batch >= 0 and not place.exists():
            batch -= 1
            place = self._folder / "state" / f"{task * 1000 + batch}"
        return dict(pickle.loads(place.read_bytes())) if batch >= 0 else dict(self._initial.get(task, {}))

    def keep(self, task: int, batch: int, blobs: Mapping[str, bytes]) -> None:
        """Commit a task's state."""
        self._write("commit state", "state", task * 1000 + batch, pickle.dumps(dict(blobs)))


_NAMES = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


class _Direct:
    """Tasks that fetch, work and produce."""

    def __init__(self, query: _Query, stretches: list[Stretch]) -> None:
        self._query, self._shared = query, shared_out(stretches)

    def count(self) -> int:
        """See `Tasks`."""
        return len(self._shared)

    def run(self, work: deliveries.Work) -> deliveries.Delivered:
        """See `Tasks`."""
        query = self._query
        directs._known_steps[query._run] = query.compute  # type: ignore[assignment]
        task = directs._Task(query._options, query._run, b"", work)
        for number, mine in enumerate(self._shared):
            query.attempts(number, lambda attempt, mine=mine: task.write([mine], attempt))
        return deliveries.Delivered(0, len(self._shared), 0)


class _Frame:
    """Tasks of a DataFrame without state: one for each stretch, and each branch of the plan."""

    def __init__(self, query: _Query, stretches: list[Stretch], branches: Sequence[str]) -> None:
        self._query = query
        self._tasks = [(branch, each) for branch in branches for each in stretches]

    def count(self) -> int:
        """See `Tasks`."""
        return len(self._tasks)

    def run(self, work: deliveries.Work) -> deliveries.Delivered:
        """See `Tasks`."""
        query = self._query
        reading = readings([[each] for _, each in self._tasks])

        def write(attempt: deliveries.Attempt) -> Any:
            topic, each = self._tasks[attempt.task]
            rows = query.compute(records([each], query._options), topic)
            return deliveries.write_task(rows, work, attempt, reading[attempt.task])

        for number in range(len(self._tasks)):
            query.attempts(number, write)
        return deliveries.Delivered(0, len(self._tasks), 0)


class _Stateful:
    """Tasks with state: one for each of the stage's."""

    def __init__(self, query: _Query, batch: int, stretches: list[Stretch]) -> None:
        self._query, self._batch = query, batch
        self._stretches, self._count = stretches, query._plan.tasks

    def count(self) -> int:
        """See `Tasks`."""
        return int(self._count)

    def run(self, work: deliveries.Work) -> deliveries.Delivered:
        """See `Tasks`."""
        query = self._query
        chunks = query.attempts(0, lambda _: query.entries(self._stretches, self._count))
        for task in range(self._count):
            query.attempts(task, lambda attempt, task=task: self._task(work, attempt, chunks[task]))
        return deliveries.Delivered(0, self._count, 0)

    def _task(self, work: deliveries.Work, attempt: deliveries.Attempt, chunks: list[bytes]) -> None:
        query, task = self._query, attempt.task
        blobs = query.state(task, self._batch - 1)
        if not chunks:
            query.keep(task, self._batch, blobs)  # each batch has its state, whatever an attempt at it has left
            deliveries.write_task([], work, attempt)
            return
        query._processor._state = _Map(blobs)

        def rows() -> Iterator[pa.RecordBatch]:
            for row in query._processor._work(group_of(task), chunks, None):
                if row.chunk is not None:
                    yield from pa.ipc.open_stream(row.chunk).read_all().to_batches()
            query.keep(task, self._batch, blobs)  # when its last row was taken, as Spark has it

        deliveries.write_task(rows(), work, attempt)


class _Native:
    """Tasks of Spark's own aggregate, which counts records by key."""

    def __init__(self, query: _Query, batch: int, stretches: list[Stretch]) -> None:
        self._query, self._batch, self._stretches = query, batch, stretches

    def count(self) -> int:
        """See `Tasks`."""
        return SHUFFLED

    def run(self, work: deliveries.Work) -> deliveries.Delivered:
        """See `Tasks`."""
        query = self._query
        keys = query.attempts(0, lambda _: [key for each in self._read() for key in each.column("_key").to_pylist()])
        for task in range(SHUFFLED):
            mine = [key for key in keys if key[-1] % SHUFFLED == task]
            query.attempts(task, lambda attempt, mine=mine: self._task(work, attempt, mine))
        return deliveries.Delivered(0, SHUFFLED, 0)

    def _read(self) -> Iterator[pa.RecordBatch]:
        for each in records(self._stretches, self._query._options):
            yield step(self._query._life, "compute", lambda each=each: each)

    def _task(self, work: deliveries.Work, attempt: deliveries.Attempt, keys: list[bytes]) -> None:
        query = self._query
        state: dict[Any, Any] = query.state(attempt.task, self._batch - 1)

        def rows() -> Iterator[pa.RecordBatch]:
            for key in keys:
                state[key] = state.get(key, 0) + 1
            yield query.counted({key: state[key] for key in dict.fromkeys(keys)})
            query.keep(attempt.task, self._batch, state)

        deliveries.write_task(rows(), work, attempt)


class _Map:
    """Spark's MapState over a dictionary."""

    def __init__(self, blobs: dict[str, bytes]) -> None:
        self._blobs = blobs

    def getValue(self, key: tuple[str]) -> tuple[bytes] | None:
        found = self._blobs.get(key[0])
        return None if found is None else (found,)

    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None:
        self._blobs[key[0]] = value[0]

    def removeKey(self, key: tuple[str]) -> None:
        self._blobs.pop(key[0], None)
