"""Several distributed workers in one event loop, with real REST and a real broker, and tasks that only say that they run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.client import Client, Limits
from ottla.connect import TaskOwner, TaskStart, discover
from ottla.connect.distributed import DistributedHerder, DistributedSettings, StorageTopic
from ottla.connect.rest import RestService, RestSettings, forward_by_http
from ottla.connect.rest.settings import Address
from ottla.connect.storage import State, Status, TargetState, TaskId
from tests.connect.rest.worker import FileStreamSink, FileStreamSource, Groups, Secretive
from tests.ports import free_port
from tests.waiting import until_async

__all__ = ["SETTINGS", "Cluster", "FakeRunner", "Worker"]

JSON = "org.apache.kafka.connect.json.JsonConverter"
SETTINGS = DistributedSettings(
    group_id="connect-cluster",
    config_topic=StorageTopic(
        "connect-config", 1, 1, setting="config.storage.topic", purpose="connector configurations"
    ),
    offset_topic=StorageTopic(
        "connect-offset", 3, 1, setting="offset.storage.topic", purpose="source connector offsets"
    ),
    status_topic=StorageTopic("connect-status", 2, 1, setting="status.storage.topic", purpose="states"),
    session_timeout_ms=1_000,
    heartbeat_interval_ms=50,
    rebalance_delay_ms=100,
)
LIMITS = Limits(call_s=5, unreachable_s=1)
BROKER = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100", "offsets.topic.num.partitions=1")
"""What makes a broker's groups quick."""


@dataclass
class FakeRunner:
    """Says of tasks that they run, pause and end, at once."""

    owner: TaskOwner
    tasks: dict[TaskId, TaskStart] = field(default_factory=dict)
    starts: int = 0

    def say(self, task: TaskId, state: State, trace: str | None = None) -> None:
        assert isinstance(self.owner, DistributedHerder)
        generation = self.tasks[task].generation if task in self.tasks else 0
        self.owner.on_status(Status(task, state, self.owner.worker_id, generation, trace, "4.3.0"))

    async def start(self, tasks: Sequence[TaskStart]) -> None:
        for each in tasks:
            assert each.task not in self.tasks, f"{each.task} runs twice on a worker"
            if each.transactional_id is not None:
                await self.owner.confirm(each.task)
            self.tasks[each.task] = each
            self.starts += 1
            self.say(each.task, State.PAUSED if each.target is TargetState.PAUSED else State.RUNNING)

    async def stop(self, tasks: Collection[TaskId]) -> None:
        for task in tasks:
            self.tasks.pop(task, None)

    def progress(self) -> Mapping[TaskId, Mapping[str, Any]]:
        return {}

    async def pause_or_resume(self, tasks: Collection[TaskId], target: TargetState) -> None:
        for task in [each for each in tasks if each in self.tasks]:
            self.tasks[task] = replace(self.tasks[task], target=target)
            self.say(task, State.PAUSED if target is TargetState.PAUSED else State.RUNNING)


@dataclass
class Worker:
    """A worker and what it runs."""

    herder: DistributedHerder
    runner: FakeRunner
    service: RestService
    port: int

    @property
    def leads(self) -> bool:
        """Whether it takes itself for the leader."""
        return self.herder.group.is_leader

    @property
    def connectors(self) -> set[str]:
        """The connectors that it runs."""
        return set(self.herder.work.connectors)

    @property
    def settled(self) -> bool:
        """Whether it has done what is asked of it."""
        return self.herder.group.settled.is_set()

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Ask its REST interface; returns status and body."""
        data = b"" if body is None else json.dumps(body).encode()
        reply = await forward_by_http(
            method, f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}
        )
        return reply.status, json.loads(reply.body) if reply.body else None

    async def die(self) -> None:
        """End without a word to anybody."""
        self.runner.tasks.clear()
        await self.service.close()
        await self.herder.close(leave=False)

    async def close(self) -> None:
        """End in good order."""
        await self.service.close()
        await self.herder.close()


class Cluster:
    """Workers of one group."""

    def __init__(self, bootstrap: str, settings: DistributedSettings = SETTINGS) -> None:
        self.bootstrap, self.settings = bootstrap, settings
        self.workers: list[Worker] = []

    async def add(self, **changes: Any) -> Worker:
        """Start a worker."""
        runners: list[FakeRunner] = []

        def make(owner: TaskOwner) -> FakeRunner:
            runners.append(FakeRunner(owner))
            return runners[0]

        port = free_port()
        herder = DistributedHerder(
            discover(more=[FileStreamSource, FileStreamSink, Secretive]),
            replace(self.settings, **changes),
            url=f"http://127.0.0.1:{port}/",
            make_client=lambda name: Client(self.bootstrap, client_id=f"connect-{name}", limits=LIMITS),
            make_runner=make,
            groups=Groups(),
            ask=forward_by_http,
            worker=dict.fromkeys(("key.converter", "value.converter"), JSON),
        )
        service = RestService(herder, RestSettings(listeners=(Address("127.0.0.1", port),)))
        await service.listen()
        try:
            await herder.start()
        except BaseException:
            await service.close()
            await herder.close()
            raise
        worker = Worker(herder, runners[0], service, port)
        self.workers.append(worker)
        return worker

    async def grown(self, count: int) -> list[Worker]:
        """Start so many workers, and return when they are one group."""
        for _ in range(count):
            await self.add()
        await self.together()
        return self.workers

    async def together(self) -> None:
        """Return when all workers are settled under one leader."""
        await until_async(
            lambda: all(each.settled for each in self.workers) and sum(each.leads for each in self.workers) == 1
        )

    @property
    def leader(self) -> Worker:
        """The worker that leads."""
        return next(each for each in self.workers if each.leads)

    @property
    def follower(self) -> Worker:
        """A worker that does not."""
        return next(each for each in self.workers if not each.leads)

    def running(self) -> list[TaskId]:
        """Return the tasks that run, each as often as it does."""
        return sorted(task for each in self.workers for task in each.runner.tasks)

    def hosting(self) -> list[str]:
        """Return the connectors that run, each as often as it does."""
        return sorted(name for each in self.workers for name in each.connectors)

    async def kill(self, worker: Worker) -> None:
        """Let a worker die."""
        self.workers.remove(worker)
        await worker.die()

    async def close(self) -> None:
        """End all workers."""
        await asyncio.gather(*(each.close() for each in self.workers))


@asynccontextmanager
async def cluster_at(bootstrap: str, settings: DistributedSettings = SETTINGS) -> AsyncIterator[Cluster]:
    """Have workers at a broker until the block ends."""
    cluster = Cluster(bootstrap, settings)
    try:
        yield cluster
    finally:
        await cluster.close()
