"""From a micro-batch of OUT rows into topics: what every Streams query does in `foreachBatch`, with one action.

At least once, each task sends its rows with an idempotent producer. Exactly once, each task writes one transaction:

1. it takes the transactional id `<application>-<query>-<task>` over, which fences whoever had it;
2. it reads which batch this task has delivered last, from the query's commits topic;
3. if that is this batch it sends nothing, though it still reads its rows, since the state behind them is saved by that;
4. else it sends the rows and the batch's number, and commits both together.

Spark repeats a batch with the offsets that its checkpoint holds, so a task's rows are the same ones as long as there are as
many tasks; another number of them is refused for a batch that may be half delivered.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Literal, Protocol

from ottla.base import ConfigError, KafkaError, Offset, TopicPartition
from ottla.client import BlockingClient, ConsumerGroupMetadata, TransactionalProducer
from ottla.spark.failpoints import failpoint
from ottla.spark.private_api.arrow_types import arrow_schema
from ottla.spark.private_api.batches import ARROW_OVERFLOWS, arrow_rdd, query_id, run_id, task_count
from ottla.spark.private_api.sessions import is_classic
from ottla.spark.source.client_pool import PooledClient, pooled_client
from ottla.spark.source.options import WriteOptions, write_options
from ottla.spark.source.positions import ids_of
from ottla.spark.source.sender import Sender
from ottla.spark.source.writer import check_schema
from ottla.spark.streams.batch_errors import BatchErrors
from ottla.spark.streams.commits import (
    TASKS_KEY,
    Commit,
    commits_topic,
    ensure_commits_topic,
    fence_tasks,
    read_commits,
    transactional_id,
)
from ottla.spark.streams.lowering.pushed import Steps, packed_steps, unpacked_steps
from ottla.spark.streams.planned import Reading, planned_stretches, readings
from ottla.spark.streams.state.positions import position_records
from ottla.wire import Record, build_batch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = [
    "Attempt",
    "Delivered",
    "Delivery",
    "FrameTasks",
    "Tasks",
    "Work",
    "deliver",
    "delivery_writer",
    "write_task",
]

log = logging.getLogger(__name__)
Guarantee = Literal["at_least_once", "exactly_once"]
TRANSACTION_TIMEOUT_MS_DEFAULT = 300_000
"""As long as a task may take to send its rows; and as long as an application that is not started again holds readers up."""
RESULT = "task int, rows bigint, skipped boolean"
ABORT_SECONDS_MAX = 5.0
ROWS_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True)
class Delivery:
    """How a query's rows are delivered; a value that travels to the tasks.

    `application` is the application id and `query` the name of the query in it; together they name the commits topic and
    the transactional ids. `options` are those of `format("ottla")` for writing. `task_partitions`, where it is given, is the
    number of tasks that every batch must have. `member` is the driver's place in the application's group: tasks commit only
    while it is that (`membership`).
    """

    application: str
    query: str
    options: Mapping[str, str]
    guarantee: Guarantee = "at_least_once"
    task_partitions: int | None = None
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS_DEFAULT
    member: ConsumerGroupMetadata | None = None
    own_topics: frozenset[str] = frozenset()
    """Topics that no other query of the application reads: tasks that know how far they come commit their offsets."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Ids of the topics that are read; of those that are not the query's own tasks note how far they come."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant; raises ConfigError."""
        if self.guarantee not in ("at_least_once", "exactly_once"):
            raise ConfigError("guarantee", self.guarantee, "at_least_once or exactly_once is expected")
        written = write_options(self.options)
        if self.guarantee == "exactly_once" and not written.idempotent:
            raise ConfigError("kafka.enable.idempotence", "false", "must be true where rows are delivered exactly once")


@dataclass(frozen=True)
class Delivered:
    """What became of a batch: rows that were sent, and tasks that had delivered it before."""

    rows: int
    tasks: int
    skipped: int
    read: int = 0
    """Records that tasks fetched by themselves (`direct`), and of those the ones that a handler left out."""
    left_out: int = 0


@dataclass(frozen=True)
class Work:
    """What a task has to know of its batch."""

    delivery: Delivery
    options: WriteOptions
    commit: Commit | None
    """What an exactly-once task writes down; None at least once."""
    is_new: bool = True
    """Whether no attempt was made at the batch before this one."""


@dataclass(frozen=True)
class Attempt:
    """Which task writes, and which attempt at it this is."""

    task: int = 0
    number: int = 0

    @staticmethod
    def current() -> Attempt:
        """Return what Spark says of the task that runs here."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "this function runs in Spark's tasks"
        return Attempt(context.partitionId(), context.attemptNumber())


class Tasks(Protocol):
    """A batch's tasks: those of its DataFrame, or others that make the same rows (`direct`)."""

    def count(self) -> int:
        """Return how many there are; the same whenever the batch is done again."""

    def run(self, work: Work) -> Delivered:
        """Let every task write its rows: the one action."""


def deliver(batch: DataFrame, batch_id: int, delivery: Delivery, tasks: Tasks | None = None) -> Delivered:
    """Write a micro-batch of OUT rows (columns as of `format("ottla")`); returns when all of it is in its topics.

    To be called once for a batch: exactly once, a second call would find the batch delivered, whatever its rows are.
    Raises ConfigError for a session or a number of tasks that exactly-once delivery does not go with, and what Spark raises
    where a task fails.
    """
    options = write_options(delivery.options)
    tasks = FrameTasks(batch) if tasks is None else tasks
    if isinstance(tasks, FrameTasks) and tasks.finish is None:
        check_schema(batch.schema, options)
    if delivery.guarantee == "at_least_once":
        return tasks.run(Work(delivery, options, None))
    _check_session(batch)
    commit = Commit(_known_query_id(batch), batch_id, tasks.count())
    if delivery.task_partitions not in (None, commit.tasks):
        raise ConfigError("task partitions", commit.tasks, f"query {delivery.query} has {delivery.task_partitions}")
    history = _history_of(batch, delivery, commit.query_id)
    is_new = history.begin(delivery, options, commit)
    done = tasks.run(Work(delivery, options, commit, is_new))
    history.delivered = batch_id
    failpoint("before Spark's own commit")
    return done


def delivery_writer(
    rows: DataFrame,
    delivery: Delivery,
    *,
    mode: str = "append",
    finish: Steps | None = None,
    is_stateless: bool = False,
    errors: BatchErrors | None = None,
) -> DataStreamWriter:
    """Return a stream writer whose every micro-batch is delivered; the checkpoint and the trigger are the caller's.

    `finish` makes the rows of topics, in the writing tasks, of what `rows` has. Raises TypeError where it cannot be sent.
    Exactly once, tasks of a query that `is_stateless`, of sources of ours alone, say how far they come in their input.
    `errors` gets what a batch fails with, of which Spark hears a line only.
    """
    packed = packed_steps(finish, delivery.query) if finish is not None else None

    def write(batch: DataFrame, batch_id: int) -> None:
        says = is_stateless and delivery.guarantee == "exactly_once"
        found = readings(planned_stretches(batch)) if says else ()
        deliver(batch, batch_id, delivery, FrameTasks(batch, packed, found))

    return rows.writeStream.outputMode(mode).foreachBatch((errors or BatchErrors()).kept(write))


# -- the driver's half


@dataclass(frozen=True)
class FrameTasks:
    """The tasks of a DataFrame, for `deliver`."""

    batch: DataFrame
    finish: str | None = None
    """Packed steps that make rows of what the DataFrame has."""
    readings: Sequence[Reading] = ()
    """How far each task comes in its input, where that is known."""

    def count(self) -> int:
        """Return how many tasks will write the batch; the plan is made, and kept for the action, but nothing runs."""
        return task_count(self.batch)

    def run(self, work: Work) -> Delivered:
        """Have the batch written by its tasks and return what they have counted."""
        if is_classic(self.batch):
            task = _WriteArrow(_arrow_schema(self.batch), self.finish, work, tuple(self.readings))
            with _room_in_batches(self.batch.sparkSession):
                found = arrow_rdd(self.batch).mapPartitions(task).collect()
        else:
            assert self.finish is None, "only a classic session finishes rows in its tasks"
            found = [tuple(row) for row in self.batch.mapInArrow(partial(_write_in_arrow, work), RESULT).collect()]
        return Delivered(sum(rows for _, rows, _ in found), len(found), sum(skipped for _, _, skipped in found))


@contextmanager
def _room_in_batches(session: SparkSession) -> Iterator[None]:
    """Name the setting to change where the rows of one Arrow batch are more bytes than Arrow, or the JVM, can hold.

    Of the ways by which rows come to Python, the one by `arrow_rdd` counts the rows of a batch only, and not its bytes.
    """
    try:
        yield
    except Exception as error:  # Spark's and Py4J's kinds, told apart by what they quote
        if not any(each in str(error) for each in ARROW_OVERFLOWS):
            raise
        most = session.conf.get(ROWS_SETTING)
        why = (
            "this many rows of a task's results are more bytes than one Arrow batch, or Spark's memory, can hold: lower it, "
            "or raise spark.driver.memory (spark.executor.memory on a cluster)"
        )
        raise ConfigError(ROWS_SETTING, most, why) from error


def _arrow_schema(batch: DataFrame) -> bytes:
    zone = str(batch.sparkSession.conf.get("spark.sql.session.timeZone"))
    return bytes(arrow_schema(batch.schema, timezone=zone).serialize())


def _check_session(batch: DataFrame) -> None:
    """Refuse what would run a task twice at once or change the number of tasks; raises ConfigError."""
    session = batch.sparkSession
    if not is_classic(batch):
        raise ConfigError("spark.master", "sc://…", "Spark Connect does not say by how many tasks a batch is written")
    if (text := session.sparkContext.getConf().get("spark.speculation", "false")) != "false":
        raise ConfigError("spark.speculation", text, "must be false where rows are delivered exactly once")
    if (text := str(session.conf.get("spark.sql.adaptive.enabled"))) != "false":
        raise ConfigError("spark.sql.adaptive.enabled", text, "must be false where rows are delivered exactly once")


def _known_query_id(batch: DataFrame) -> str:
    found = query_id(batch)
    if not found:
        raise ConfigError("guarantee", "exactly_once", "deliver is to be called by foreachBatch of a streaming query")
    return found


@dataclass
class _History:
    """What this process knows of a query's deliveries."""

    delivered: int | None = None
    """The batch that was delivered last; None where an attempt may have been left halfway."""
    tasks: int | None = None
    """By how many tasks, as the commits topic says."""

    def begin(self, delivery: Delivery, options: WriteOptions, commit: Commit) -> bool:
        """Note how many tasks deliver the batch, before any does; returns whether no attempt was made at it before.

        Raises ConfigError where an earlier attempt by another number of tasks may have delivered a part.
        """
        is_new = self.delivered is not None and commit.batch == self.delivered + 1
        self.delivered = None
        if is_new and commit.tasks == self.tasks:
            return True
        with pooled_client(options.connecting) as pooled:
            if not is_new:
                self.tasks = _resume(pooled.client, delivery, commit)
            if commit.tasks != self.tasks:
                record = commit.record(None, time.time_ns() // 1_000_000)
                _write_plan(pooled, delivery, options, record)
                self.tasks = commit.tasks
        return is_new


def _write_plan(pooled: PooledClient, delivery: Delivery, options: WriteOptions, record: Record) -> None:
    """Write who delivers by how many tasks; as the group's member, so that no driver does whom another has followed."""
    topic = commits_topic(delivery.application, delivery.query)
    if delivery.member is None:
        pooled.client.produce({topic: bytes(build_batch([record]))})
        return
    name = f"{delivery.application}-{delivery.query}-{TASKS_KEY}"
    producer = TransactionalProducer(pooled.client.client, name, timeout_ms=delivery.transaction_timeout_ms)
    pooled.client.run(producer.begin())
    sender = Sender(pooled, options, producer)
    try:
        sender.send_records(topic, [record])
        sender.finish()
        pooled.client.run(producer.commit_offsets({topic: Offset(0)}, delivery.member))
        pooled.client.run(producer.end(commit=True))
    except BaseException:
        sender.give_up()
        _abort(pooled.client, producer)
        raise


_histories: dict[tuple[object, ...], tuple[tuple[str, str | None], _History]] = {}
_histories_lock = threading.Lock()


def _history_of(batch: DataFrame, delivery: Delivery, query: str) -> _History:
    """Return what is known of this run of the query; before it, another process may have had the checkpoint."""
    key = (write_options(delivery.options).connecting.bootstrap, delivery.application, delivery.query)
    run = (query, run_id(batch))
    with _histories_lock:
        known = _histories.get(key)
        if known is None or known[0] != run:
            known = _histories[key] = run, _History()
        return known[1]


def _resume(client: BlockingClient, delivery: Delivery, commit: Commit) -> int | None:
    """Return the number of tasks that the commits topic knows; raises ConfigError where the batch cannot be repeated."""
    topic = commits_topic(delivery.application, delivery.query)
    ensure_commits_topic(client, topic.topic)
    found, _ = read_commits(client, topic)
    planned = found[TASKS_KEY].commit if TASKS_KEY in found else None
    if planned is None:
        return None
    if planned.query_id != commit.query_id and commit.batch:
        raise ConfigError(
            "checkpoint",
            f"batch {commit.batch}",
            f"{topic.topic} says that another checkpoint has delivered since: this one is behind it",
        )
    if (planned.query_id, planned.tasks) != (commit.query_id, commit.tasks):
        fence_tasks(client, delivery.application, delivery.query, planned.tasks)
        found, _ = read_commits(client, topic)
    for key, each in found.items():
        if key != TASKS_KEY:
            _check_repeatable(each.commit, commit, topic.topic)
    return planned.tasks if planned.query_id == commit.query_id else None


def _check_repeatable(found: Commit, wanted: Commit, topic: str) -> None:
    """Refuse a batch that other tasks have delivered a part of, or that was followed by others; raises ConfigError."""
    if found.query_id != wanted.query_id or found.batch < wanted.batch:
        return
    if found.batch > wanted.batch:
        raise ConfigError(
            "checkpoint",
            f"batch {wanted.batch}",
            f"{topic} says that batch {found.batch} was delivered: the checkpoint is an older copy",
        )
    if found.tasks != wanted.tasks:
        raise ConfigError(
            "task partitions",
            wanted.tasks,
            f"batch {wanted.batch} is delivered in part by {found.tasks} tasks, and must be ended by as many ({topic})",
        )


# -- a task's half


@dataclass(frozen=True)
class _WriteArrow:
    """Delivers a task's rows, given as serialized record batches of a serialized schema."""

    schema: bytes
    finish: str | None
    work: Work
    readings: Sequence[Reading] = ()

    def __call__(self, given: Iterable[bytes]) -> Iterator[tuple[int, int, bool]]:
        import pyarrow as pa

        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        batches: Iterator[pa.RecordBatch] = (pa.ipc.read_record_batch(pa.py_buffer(data), schema) for data in given)
        if self.finish is not None:
            batches = unpacked_steps(self.finish)(batches)
        attempt = Attempt.current()
        yield write_task(batches, self.work, attempt, self.readings[attempt.task] if self.readings else None)


def _write_in_arrow(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield _result(*write_task(batches, work, Attempt.current()))


def write_task(
    batches: Iterable[pa.RecordBatch], work: Work, attempt: Attempt, reading: Reading | None = None
) -> tuple[int, int, bool]:
    """Deliver one task's rows; returns (task, rows sent, whether they had been delivered before). Raises KafkaError.

    `reading` says how far into its input the task comes with these rows, where that is known. Exactly once that is part of
    the same transaction: committed for the group, of topics that nobody else in the application reads, else noted.
    """
    try:
        return _write(batches, work, attempt, reading or Reading())
    finally:
        if isinstance(batches, Generator):  # what it fetches by is closed here, and not where Python finds it left over
            batches.close()


def _write(batches: Iterable[pa.RecordBatch], work: Work, attempt: Attempt, reading: Reading) -> tuple[int, int, bool]:
    task = attempt.task
    found = (batch for batch in batches if batch.num_rows)
    first = next(found, None)
    rows = found if first is None else chain([first], found)
    is_idle = first is None and reading.branches == 1  # a branch is to be known to have come as far as the others
    if first is None and (work.commit is None or (is_idle and work.is_new and not attempt.number)):
        return task, 0, False
    with pooled_client(work.options.connecting) as pooled:
        if work.commit is None:
            sender = Sender(pooled, work.options)
            count = _send(sender, rows)
            sender.finish()
            return task, count, False
        sent = _write_once(pooled, rows, work, work.commit, task, reading)
    return task, sent or 0, sent is None


def _send(sender: Sender, rows: Iterable[pa.RecordBatch]) -> int:
    count = 0
    for batch in rows:
        sender.send(batch)
        count += batch.num_rows
    return count


def _write_once(
    pooled: PooledClient,
    rows: Iterable[pa.RecordBatch],
    work: Work,
    commit: Commit,
    task: int,
    reading: Reading,
) -> int | None:
    """Write one transaction with the rows and the batch's number; returns None where it was written before."""
    producer = _producer(pooled.client, work.delivery, task)
    pooled.client.run(producer.begin())
    failpoint("during init")
    is_delivered, end = _look_up(pooled, work.delivery, commit, task)
    if is_delivered:
        for _ in rows:  # the state behind them is saved by their being read
            pass
        return None
    sender = Sender(pooled, work.options, producer)
    try:
        count = _send(sender, rows)
        if count or reading.branches > 1:
            topic = commits_topic(work.delivery.application, work.delivery.query)
            own = work.delivery.own_topics if reading.branches == 1 else ()
            read = {each: offset for each, offset in reading.ends.items() if each.topic in own}
            others = {each: offset for each, offset in reading.ends.items() if each not in read}
            ids = {**work.delivery.topic_ids, **reading.topic_ids}
            notes = position_records(reading.branch, others, ids, branches=reading.branches)
            read = read if work.is_new else _still_there(pooled.client, read, reading.topic_ids)
            sender.send_records(topic, [commit.record(task, time.time_ns() // 1_000_000), *notes])
            sender.finish()
            if (member := work.delivery.member) is not None:  # the last before the end: it fails where another drives
                pooled.client.run(producer.commit_offsets(read or {topic: end}, member))
            failpoint("before EndTxn")
            pooled.client.run(producer.end(commit=True))
            failpoint("after EndTxn")
            pooled.hints[producer.transactional_id] = end
    except BaseException:
        sender.give_up()
        _abort(pooled.client, producer)
        raise
    return count


def _still_there(
    client: BlockingClient, read: Mapping[TopicPartition, Offset], ids: Mapping[str, str]
) -> dict[TopicPartition, Offset]:
    """Return the offsets in topics that were not made again since the batch was planned: the group knows topics by name."""
    now = ids_of(client.metadata({each.topic for each in read})) if read else {}
    return {
        each: offset
        for each, offset in read.items()
        if each.topic not in ids or now.get(each.topic, ids[each.topic]) == ids[each.topic]
    }


def _look_up(pooled: PooledClient, delivery: Delivery, commit: Commit, task: int) -> tuple[bool, Offset]:
    """Return whether the task has delivered this batch, and an offset that its next record is not before.

    Raises ConfigError where it cannot go on from what it has delivered.
    """
    topic = commits_topic(delivery.application, delivery.query)
    name = transactional_id(delivery.application, delivery.query, task)
    hint = pooled.hints.pop(name, None)
    commits, end = read_commits(pooled.client, topic, hint)
    if hint is not None and str(task) not in commits:
        commits, end = read_commits(pooled.client, topic)
    found = commits.get(str(task))
    if found is None:
        return False, end
    pooled.hints[name] = found.offset
    _check_repeatable(found.commit, commit, topic.topic)
    return (found.commit.query_id, found.commit.batch) == (commit.query_id, commit.batch), end


def _producer(client: BlockingClient, delivery: Delivery, task: int) -> TransactionalProducer:
    name = transactional_id(delivery.application, delivery.query, task)
    return TransactionalProducer(client.client, name, timeout_ms=delivery.transaction_timeout_ms)


def _abort(client: BlockingClient, producer: TransactionalProducer) -> None:
    """Abort what is open, so that readers need not wait; whoever takes the id over next would do it as well."""
    if not producer.is_open:
        return
    try:
        client.run(asyncio.wait_for(producer.end(commit=False), ABORT_SECONDS_MAX))
    except (KafkaError, TimeoutError) as error:
        log.warning("%s is not aborted now but by the next attempt: %s", producer.transactional_id, error)


def _result(task: int, rows: int, skipped: bool) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [pa.array([task], pa.int32()), pa.array([rows], pa.int64()), pa.array([skipped])], ["task", "rows", "skipped"]
    )
