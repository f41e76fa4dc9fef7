"""A worker's tasks in the machine: they read their offsets, write numbers on from there, and store how far they have come.

The runner has `SparkTaskRunner`'s manners: a start returns at once, a pause is heard between two writes, and a stop waits
for the task's last offsets until its time is over; then the task is ended from outside, in the midst of whatever it does.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ottla.base import OttlaError, TopicPartition
from ottla.client import Isolation, TransactionalProducer, batch_of, partition_of
from ottla.connect import ConnectError, SourceConnector, SourceTask, TaskOwner, TaskStart
from ottla.connect.config_def import ConfigDef
from ottla.connect.storage import OffsetState, State, Status, TargetState, TaskId, TopicUse, apply_offset, encode_offset
from tests.connect.machine.cluster import Door, KafkaModel
from tests.connect.machine.ledger import Ledger, Life

__all__ = ["OUT", "PARTITIONS", "MachineRunner", "Numbers"]

OUT = "out"
PARTITIONS = 2
"""Source partitions of a connector, which its tasks share."""
GRACEFUL_SECONDS, CANCEL_SECONDS = 5.0, 10.0
RESTART_SECONDS = 2.0
"""Behind a failure a task begins again, as the runner of Spark's tasks has it."""
OFFSETS_TOPIC = "connect-offset"


class NumbersTask(SourceTask):
    """Stands for what runs as a `Source`."""

    java_name = "tests.NumbersTask"


class Numbers(SourceConnector):
    """A connector with so many tasks as its configuration says."""

    version = "1.0"
    java_name = "tests.Numbers"
    task_class = NumbersTask
    config_def = ConfigDef()

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """See `Connector`."""
        count = int(self.props["tasks"])
        return [{"of": str(count), "round": self.props["round"]} for _ in range(count)]


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, or so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class _Source:
    """One run of a task, from its start to its end."""

    def __init__(self, runner: MachineRunner, start: TaskStart, life: Life) -> None:
        self.runner, self.start, self.life = runner, start, life
        self.target = start.target
        self.changed = asyncio.Event()
        self.state = State.UNASSIGNED
        self._rng = runner.rng
        self._at: dict[int, int] = {}
        self._stored: dict[int, int] = {}
        self._producer: TransactionalProducer | None = None
        self._sequence: dict[TopicPartition, int] = {}
        self._epoch = -1
        self._offsets = OffsetState()

    async def run(self) -> None:
        """Run until the worker wants it to stop; raises what makes it fail."""
        task, config = self.start.task, self.start.config
        await asyncio.sleep(self._rng.choice((0.0, 0.001, 0.05, 1.0)))
        mine = [each for each in range(PARTITIONS) if each % int(config["of"] or 1) == task.task]
        if self.start.transactional_id is not None:
            await self._take_over(self.start.transactional_id)
        if self.target is TargetState.STOPPED:
            return
        state = self._offsets
        if self._producer is None:
            self.life.reads()
            state = await self.runner.owner.stored_offsets(task.connector)
        for each in mine:
            found = state.offset(task.connector, {"p": each})
            self._at[each] = int((found or {"at": 0})["at"])
        self._stored = dict(self._at)
        self.tell(State.PAUSED if self.target is TargetState.PAUSED else State.RUNNING)
        self.runner.owner.on_topic(TopicUse(OUT, task.connector, task.task, 1))
        await self._loop()

    async def _loop(self) -> None:
        store_in = self._rng.randint(1, 6)
        while self.target is not TargetState.STOPPED:
            if self.target is TargetState.PAUSED:
                self.tell(State.PAUSED)
                self.changed.clear()
                await self.changed.wait()
                continue
            self.tell(State.RUNNING)
            await self._poll()
            if self.target is not TargetState.STARTED:
                continue
            for each in self._at:
                self._at[each] += 1
            await self._write()
            store_in -= 1
            if store_in <= 0 and self._producer is None:
                store_in = self._rng.randint(1, 6)
                await self._store()
        if self._producer is None:
            await asyncio.sleep(self._rng.choice((0.0, 0.0, 0.01, 0.3, 3.0, 7.0)))
            await self._store()

    async def _poll(self) -> None:
        """Wait for what there is to write; the worker's wishes are heard behind it, or end it."""
        self.changed.clear()
        if self._rng.random() < 0.5:
            await _wait(self.changed, self._poll_s())
        else:
            await asyncio.sleep(self._poll_s())

    def _poll_s(self) -> float:
        return self._rng.choice((0.2, 0.5, 1.0, 2.0))

    def tell(self, state: State, trace: str | None = None) -> None:
        """Tell the worker what the task does."""
        if state is not self.state:
            self.state = state
            self.runner.tell(self.start, state, trace)

    def _records(self) -> list[tuple[bytes, bytes]]:
        connector = self.start.task.connector
        return [
            (
                json.dumps([connector, each]).encode(),
                json.dumps({"at": at, "life": self.life.number}).encode(),
            )
            for each, at in self._at.items()
        ]

    def _pairs(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return [
            ({"p": each}, {"at": at, "life": self.life.number})
            for each, at in self._at.items()
            if at != self._stored.get(each)
        ]

    async def _write(self) -> None:
        if not self._at:
            return
        records = self._records()
        if self._producer is None:
            await self.runner.door.produce({TopicPartition(OUT, 0): batch_of(records)})
            return
        offsets: dict[TopicPartition, list[tuple[bytes | None, bytes | None]]] = {}
        for partition, offset in self._pairs():
            key, value = encode_offset(self._offsets, self.start.task.connector, partition, offset)
            count = len([each for each in self.runner.kafka.logs if each.topic == OFFSETS_TOPIC])
            offsets.setdefault(TopicPartition(OFFSETS_TOPIC, partition_of(key, count)), []).append((key, value))
        producer = self._producer
        batches = {
            place: batch_of(
                found,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                sequence=self._next_sequence(place, len(found)),
            )
            for place, found in {TopicPartition(OUT, 0): records, **offsets}.items()
        }
        await producer.produce(batches)
        await producer.end(commit=True)
        self._stored = dict(self._at)

    def _next_sequence(self, place: TopicPartition, count: int) -> int:
        assert self._producer is not None
        if self._producer.epoch != self._epoch:
            self._epoch, self._sequence = self._producer.epoch, {}
        found = self._sequence.get(place, 0)
        self._sequence[place] = found + count
        return found

    async def _store(self) -> None:
        """Store offsets; what cannot be stored is stored the next time, as tasks do it."""
        pairs, at = self._pairs(), dict(self._at)
        if not pairs:
            return
        try:
            await self.runner.owner.store_offsets(self.start.task.connector, pairs)
        except ConnectError:
            return
        self._stored = at

    async def _take_over(self, transactional_id: str) -> None:
        """Become the one that writes under an id, and read the offsets behind that."""
        owner, door = self.runner.owner, self.runner.door
        await owner.confirm(self.start.task)
        self._producer = TransactionalProducer(door, transactional_id, timeout_ms=60_000)
        await self._producer.begin()
        await owner.confirm(self.start.task)
        while True:  # until nobody's transaction is open, as `OffsetsTopic` does
            self._offsets, is_whole = await self._read_offsets()
            if is_whole:
                return
            await asyncio.sleep(0.05)

    async def _read_offsets(self) -> tuple[OffsetState, bool]:
        """Return what the offsets topic says, and whether that is all."""
        kafka, state, is_whole = self.runner.kafka, OffsetState(), True
        await self.runner.door.metadata()
        self.life.reads()
        for place in sorted(each for each in kafka.logs if each.topic == OFFSETS_TOPIC):
            is_whole = is_whole and kafka.logs[place].stable == kafka.logs[place].end
            for key, value in kafka.readable(place, Isolation.READ_COMMITTED):
                state, _ = apply_offset(state, key, value)
        return state, is_whole


class MachineRunner:
    """See `TaskRunner`."""

    def __init__(
        self, owner: TaskOwner, worker_id: str, door: Door, kafka: KafkaModel, ledger: Ledger, rng: random.Random
    ) -> None:
        self.owner, self.worker_id, self.door, self.kafka, self.ledger, self.rng = (
            *(owner, worker_id, door, kafka),
            *(ledger, rng),
        )
        self.loop = asyncio.get_running_loop()
        self.running: dict[TaskId, tuple[_Source, asyncio.Task[None]]] = {}

    def progress(self) -> Mapping[TaskId, Mapping[str, Any]]:
        """See `TaskRunner`: whether tasks move is another test's matter."""
        return {}

    def tell(self, start: TaskStart, state: State, trace: str | None = None) -> None:
        """Tell the worker what a task does."""
        self.owner.on_status(Status(start.task, state, self.worker_id, start.generation, trace, "1.0"))

    async def start(self, tasks: Sequence[TaskStart]) -> None:
        """See `TaskRunner`."""
        await self.stop([each.task for each in tasks])
        for each in tasks:
            life = self.ledger.begin(each.task, self.worker_id, int(each.config["round"] or 0))
            source = _Source(self, each, life)
            self.running[each.task] = source, self.loop.create_task(self._look_after(source))

    async def _look_after(self, source: _Source) -> None:
        """Run a task, anew where it has failed, until it is to stop."""
        while source.target is not TargetState.STOPPED:
            try:
                await source.run()
                break
            except OttlaError as error:
                source.tell(State.FAILED, str(error))
            finally:
                source.life.ends()
            source.changed.clear()
            await _wait(source.changed, RESTART_SECONDS)
            if source.target is not TargetState.STOPPED:
                again = self.ledger.begin(source.start.task, self.worker_id, source.life.round)
                target, source = source.target, _Source(self, source.start, again)
                source.target = target
                self.running[source.start.task] = source, self.running[source.start.task][1]
        source.tell(State.UNASSIGNED)

    async def stop(self, tasks: Collection[TaskId]) -> None:
        """See `TaskRunner`."""
        found = [(task, self.running[task]) for task in tasks if task in self.running]
        for _, (source, _) in found:
            self._aim(source, TargetState.STOPPED)
        await asyncio.gather(*(self._end(*each) for _, each in found))
        for task, (_, work) in found:
            if task in self.running and self.running[task][1] is work:
                del self.running[task]

    async def _end(self, source: _Source, work: asyncio.Task[None]) -> None:
        """Wait for a task's end; one that takes too long is ended from outside."""
        await asyncio.wait([work], timeout=GRACEFUL_SECONDS)
        if not work.done():
            work.cancel()
            await asyncio.wait([work], timeout=CANCEL_SECONDS)
            source.tell(State.UNASSIGNED)

    def _aim(self, source: _Source, target: TargetState) -> None:
        source.target = target
        source.changed.set()

    async def pause_or_resume(self, tasks: Collection[TaskId], target: TargetState) -> None:
        """See `TaskRunner`."""
        for task in tasks:
            if task in self.running:
                self._aim(self.running[task][0], target)

    def states(self) -> dict[TaskId, State]:
        """Return what each task that runs here does."""
        return {task: source.state for task, (source, _) in self.running.items()}
