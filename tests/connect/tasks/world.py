"""A runner of tasks with an owner that keeps what it is told; its tasks are functions in threads, over the real channel."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ottla.connect import ConnectError, TaskStart, discover
from ottla.connect.storage import (
    OffsetState,
    State,
    Status,
    TargetState,
    TaskId,
    TopicUse,
    apply_offset,
    encode_offset,
)
from ottla.connect.tasks.interface import TaskPort, TaskSpec
from ottla.spark import SparkTaskRunner, ThreadJobs
from ottla.spark.connect.executor import run_here
from tests.waiting import until_async

WAIT_S = 20.0
Work = Callable[[TaskSpec, TaskPort], None]


@dataclass
class Owner:
    """A worker that remembers."""

    told: list[Status] = field(default_factory=list)
    topics: list[TopicUse] = field(default_factory=list)
    offsets: OffsetState = field(default_factory=OffsetState)
    refuses: bool = False

    def on_status(self, status: Status) -> None:
        self.told.append(status)

    def on_topic(self, use: TopicUse) -> None:
        self.topics.append(use)

    async def stored_offsets(self, connector: str) -> OffsetState:
        return self.offsets

    async def store_offsets(self, connector: str, offsets: Sequence[tuple[Mapping[str, Any], Any]]) -> None:
        if self.refuses:
            raise ConnectError("the disk is full")
        for partition, offset in offsets:
            self.offsets, _ = apply_offset(self.offsets, *encode_offset(self.offsets, connector, partition, offset))

    async def confirm(self, task: TaskId) -> None:
        if self.refuses:
            raise ConnectError("not yours any more")

    def states(self, task: int = 0) -> list[State]:
        return [each.state for each in self.told if isinstance(each.of, TaskId) and each.of.task == task]


def task_start(number: int = 0, target: TargetState = TargetState.STARTED, **config: str) -> TaskStart:
    return TaskStart(TaskId("lines", number), {"name": "lines", **config}, dict(config), target, 3)


def obedient(spec: TaskSpec, port: TaskPort) -> None:
    """Do what the worker wants, and nothing else."""
    said = None
    while port.target is not TargetState.STOPPED:
        state = State.PAUSED if port.target is TargetState.PAUSED else State.RUNNING
        if state is not said:
            port.tell(state)
            said = state
        port.wait(WAIT_S)
    port.tell(State.UNASSIGNED)


@dataclass
class Bench:
    owner: Owner
    runner: SparkTaskRunner
    jobs: ThreadJobs

    async def until(self, *states: State, task: int = 0) -> None:
        """Return when these were the last states told of a task."""
        await until_async(lambda: self.owner.states(task)[-len(states) :] == [*states], lambda: self.owner.states(task))


@asynccontextmanager
async def bench(work: Work = obedient, *, slots: int = 8, **worker: str) -> AsyncIterator[Bench]:
    """Open a runner whose tasks are `work`; with `spark.master` it takes them for a cluster's."""
    jobs = ThreadJobs(slots=slots, plugins=discover())
    jobs.local = "spark.master" not in worker
    jobs.runs = lambda *args, **more: run_here(*args, **more, run=_run(work))
    owner = Owner()
    runner = SparkTaskRunner(owner, worker_id="WORKER", worker=worker, plugins=discover(), jobs=jobs)
    await runner.open()
    try:
        yield Bench(owner, runner, jobs)
    finally:
        await runner.close()


def _run(work: Work) -> Callable[..., State]:
    def run(spec: TaskSpec, port: TaskPort, *, plugins: Any) -> State:
        work(spec, port)
        return State.UNASSIGNED

    return run
