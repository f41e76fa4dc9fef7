"""A standalone worker of Ottla with file connectors that have Kafka's names, and tasks that only say that they run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.base import TopicPartition
from ottla.config import ConfigType
from ottla.connect import (
    ConfigDef,
    ConnectError,
    Importance,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
    discover,
)
from ottla.connect.herder import GroupBusyError, TaskOwner, TaskStart
from ottla.connect.offset_file import OffsetFile
from ottla.connect.rest import RestService, RestSettings
from ottla.connect.rest.settings import Address
from ottla.connect.standalone import StandaloneHerder
from ottla.connect.storage import State, Status, TargetState, TaskId
from ottla.connect.validators import NonEmptyString

FILE = "org.apache.kafka.connect.file.FileStream"


class FileStreamSourceTask(SourceTask):
    java_name = FILE + "SourceTask"


class FileStreamSource(SourceConnector):
    java_name = FILE + "SourceConnector"
    version = "4.3.0"
    task_class = FileStreamSourceTask
    config_def = (
        ConfigDef()
        .define(
            "file",
            ConfigType.STRING,
            None,
            importance=Importance.HIGH,
            doc="Source filename. If not specified, the standard input will be used",
        )
        .define(
            "topic",
            ConfigType.STRING,
            importance=Importance.HIGH,
            doc="The topic to publish data to",
            validator=NonEmptyString(),
        )
        .define(
            "batch.size",
            ConfigType.INT,
            2000,
            importance=Importance.LOW,
            doc="The maximum number of records the source task can read from the file each time it is polled",
        )
    )

    def alter_offsets(self, props: Mapping[str, str], offsets: Sequence[Any]) -> bool:
        for _, offset in offsets:
            if offset is not None and not isinstance(offset.get("position"), int):
                raise ConnectError("The value for the 'position' key in the offset is expected to be a Long value")
        return True


class FileStreamSinkTask(SinkTask):
    java_name = FILE + "SinkTask"


class FileStreamSink(SinkConnector):
    java_name = FILE + "SinkConnector"
    version = "4.3.0"
    task_class = FileStreamSinkTask
    config_def = ConfigDef().define(
        "file",
        ConfigType.STRING,
        None,
        importance=Importance.HIGH,
        doc="Destination filename. If not specified, the standard output will be used",
    )

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        return [self.props] * tasks_max

    def alter_offsets(self, props: Mapping[str, str], offsets: Any) -> bool:
        return True


class Secretive(SourceConnector):
    """A connector with a password, which fails to start where it is told to."""

    version = "1.0"
    java_name = "tests.Secretive"
    task_class = FileStreamSourceTask
    config_def = ConfigDef().define("key.of.door", ConfigType.PASSWORD, None, importance=Importance.HIGH, doc="")

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        if props.get("fail"):
            raise RuntimeError("the door is shut")

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        return [self.props] * int(self.props.get("tasks", "1"))


@dataclass
class Running:
    """Says of tasks that they run, pause and end, at once."""

    tell: Callable[[Status], None]
    tasks: dict[TaskId, TaskStart] = field(default_factory=dict)
    told: dict[TaskId, Mapping[str, Any]] = field(default_factory=dict)
    """What is shown of tasks' progress."""

    def say(self, task: TaskId, state: State, trace: str | None = None) -> None:
        self.tell(Status(task, state, "WORKER", 0, trace, "4.3.0"))

    async def start(self, tasks: Sequence[TaskStart]) -> None:
        for each in tasks:
            self.tasks[each.task] = each
            self.say(each.task, State.PAUSED if each.target is TargetState.PAUSED else State.RUNNING)

    async def stop(self, tasks: Collection[TaskId]) -> None:
        for task in tasks:
            if self.tasks.pop(task, None) is not None:
                self.say(task, State.UNASSIGNED)

    def progress(self) -> Mapping[TaskId, Mapping[str, Any]]:
        return self.told

    async def pause_or_resume(self, tasks: Collection[TaskId], target: TargetState) -> None:
        for task in tasks:
            self.say(task, State.PAUSED if target is TargetState.PAUSED else State.RUNNING)


@dataclass
class Groups:
    """Consumer groups in memory, of topics that exist; `busy` ones have members."""

    topics: set[str] = field(default_factory=set)
    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)

    async def committed(self, group: str) -> Mapping[TopicPartition, int]:
        return dict(self.offsets.get(group, {}))

    async def alter(self, group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        if group in self.busy:
            raise GroupBusyError(group)
        if any(each.topic not in self.topics for each in offsets):
            raise ConnectError("there is no such topic")
        kept = {**self.offsets.get(group, {}), **offsets}
        self.offsets[group] = {each: offset for each, offset in kept.items() if offset is not None}

    async def delete(self, group: str) -> None:
        if group in self.busy:
            raise GroupBusyError(group)
        self.offsets.pop(group, None)


@dataclass
class Worker:
    port: int
    herder: StandaloneHerder
    runner: Running
    groups: Groups
    loop: asyncio.AbstractEventLoop
    ports: list[int]

    def call(self, work: Any) -> Any:
        """Run a coroutine on the worker's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)


async def _opened(settings: RestSettings, offsets: Path | None) -> Worker:
    runners: list[Running] = []

    def make(owner: TaskOwner) -> Running:
        runners.append(Running(owner.on_status))
        return runners[0]

    groups = Groups()
    herder = StandaloneHerder(
        discover(more=[FileStreamSource, FileStreamSink, Secretive]),
        worker_id="WORKER",
        cluster_id="CLUSTER",
        make_runner=make,
        offsets=OffsetFile(offsets),
        groups=groups,
        worker=dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.json.JsonConverter"),
    )
    service = RestService(herder, settings)
    ports = await service.listen()
    await herder.start()
    herder.service = service  # type: ignore[attr-defined]
    return Worker(ports[0], herder, runners[0], groups, asyncio.get_running_loop(), ports)


@contextmanager
def running_worker(*, offsets: Path | None = None, **settings: Any) -> Iterator[Worker]:
    """Run a worker in a thread of its own; it answers on loopback until the block ends."""
    chosen = RestSettings(**{"listeners": (Address("127.0.0.1", 0),), **settings})
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    worker = asyncio.run_coroutine_threadsafe(_opened(chosen, offsets), loop).result(20)
    try:
        yield worker
    finally:
        worker.call(worker.herder.service.close())  # type: ignore[attr-defined]
        worker.call(worker.herder.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
