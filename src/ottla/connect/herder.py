"""What the REST interface asks of a worker, and what a worker and whoever runs its tasks ask of each other: protocols."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.base import TopicPartition
from ottla.connect.decisions import Signature, View
from ottla.connect.decisions.offsets import Pair
from ottla.connect.errors import ConnectError
from ottla.connect.logger_levels import LoggerLevels
from ottla.connect.plugins import Plugins
from ottla.connect.storage import OffsetState, RestartRequest, Status, TargetState, TaskId, TopicUse

__all__ = [
    "Created",
    "ElsewhereError",
    "GroupBusyError",
    "Herder",
    "SinkGroups",
    "TaskOwner",
    "TaskRunner",
    "TaskStart",
]

Properties = Mapping[str, str | None]


class ElsewhereError(ConnectError):
    """Another worker has to do this: the leader, or the one that the connector or task runs on.

    `url` is where it answers, None while that is not known.
    """

    def __init__(self, message: str, url: str | None) -> None:
        super().__init__(message)
        self.url = url


class GroupBusyError(ConnectError):
    """A consumer group's offsets cannot be changed, because it has members."""


@dataclass(frozen=True, slots=True)
class Created:
    """A connector as it stands after a put, and whether it is new."""

    info: dict[str, Any]
    created: bool


class Herder(Protocol):
    """A worker as the REST interface sees it. Every method raises the errors of `ottla.connect.errors`."""

    plugins: Plugins
    loggers: LoggerLevels

    @property
    def ready(self) -> bool:
        """Whether the worker has started."""
        ...

    @property
    def doing(self) -> str | None:
        """What the worker is at, in words for who has waited too long ("The worker is currently …"), None for nothing."""
        ...

    @property
    def cluster_id(self) -> str | None:
        """The Kafka cluster's id."""
        ...

    async def health(self) -> None:
        """Return when the worker does what it is asked."""
        ...

    async def view(self, *, settled: bool = False) -> View:
        """Return what the worker knows; `settled` raises RebalanceNeededError where that is about to change."""
        ...

    async def validate(self, config: Properties) -> dict[str, Any]:
        """Return the validation of a connector's configuration."""
        ...

    async def put_connector(
        self, name: str, config: Properties, *, target: TargetState | None = None, may_replace: bool
    ) -> Created:
        """Create a connector or replace its configuration."""
        ...

    async def patch_connector(self, name: str, patch: Properties) -> Created:
        """Change some keys of a connector's configuration."""
        ...

    async def delete_connector(self, name: str) -> None:
        """Remove a connector and its tasks."""
        ...

    async def pause_or_resume(self, name: str, target: TargetState) -> None:
        """Pause or resume a connector; returns before its tasks have."""
        ...

    async def stop_connector(self, name: str) -> None:
        """Stop a connector and remove its tasks."""
        ...

    async def restart_connector(self, name: str) -> None:
        """Restart the connector alone, without its tasks."""
        ...

    async def restart(self, request: RestartRequest) -> dict[str, Any]:
        """Restart what is asked, and return the status in which that is RESTARTING."""
        ...

    async def restart_task(self, task: TaskId) -> None:
        """Restart one task."""
        ...

    async def offsets(self, name: str) -> dict[str, Any]:
        """Return a connector's offsets."""
        ...

    async def alter_offsets(self, name: str, pairs: Sequence[Pair] | None) -> dict[str, str]:
        """Alter a stopped connector's offsets, or reset them all where None."""
        ...

    async def reset_topics(self, name: str) -> None:
        """Forget which topics a connector has used."""
        ...

    async def put_tasks(
        self, name: str, configs: Sequence[Properties], *, body: bytes, signature: Signature | None
    ) -> None:
        """Take task configurations from another worker."""
        ...

    async def fence(self, name: str, *, body: bytes, signature: Signature | None) -> None:
        """Fence older producers of a source connector's tasks, for another worker (KIP-618)."""
        ...

    async def set_cluster_level(self, namespace: str, level: str) -> None:
        """Set a level of loggers on every worker (KIP-976)."""
        ...


@dataclass(frozen=True, slots=True)
class TaskStart:
    """A task that is to run; placeholders are resolved."""

    task: TaskId
    connector_config: Properties
    config: Properties
    target: TargetState
    generation: int
    """Goes into the task's `Status`: the group's generation, or the task configurations' where there is no group."""

    transactional_id: str | None = None
    """Of a source task under exactly once (KIP-618), None otherwise."""

    offsets_topic: str | None = None
    """Where a source task under exactly once writes its offsets, in its own transactions; None otherwise."""


class TaskOwner(Protocol):
    """What a runner tells and asks of the worker that it runs tasks for; a herder is one. For the event loop's thread."""

    def on_status(self, status: Status) -> None:
        """Called when a task's state changes."""
        ...

    def on_topic(self, use: TopicUse) -> None:
        """Called when a task has used a topic (KIP-558)."""
        ...

    async def stored_offsets(self, connector: str) -> OffsetState:
        """Return a state that holds every offset of a source connector stored before; raises ConnectError."""
        ...

    async def store_offsets(
        self, connector: str, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> None:
        """Store a source connector's offsets; they are durable when this returns. Raises ConnectError."""
        ...

    async def confirm(self, task: TaskId) -> None:
        """Raise ConnectError where a started task is not this worker's any more, or has been configured anew since.

        A source task under exactly once asks when its producer has taken the transactional id, and writes nothing before.
        """
        ...


class TaskRunner(Protocol):
    """Runs tasks. It tells their states to the `TaskOwner` that it is made with."""

    async def start(self, tasks: Sequence[TaskStart]) -> None:
        """Begin to run tasks; what goes wrong later is told as FAILED. Raises ConnectError where none can be started."""
        ...

    async def stop(self, tasks: Collection[TaskId]) -> None:
        """End tasks and return when their offsets are stored; those that do not run are passed over."""
        ...

    async def pause_or_resume(self, tasks: Collection[TaskId], target: TargetState) -> None:
        """Make tasks pause or go on."""
        ...

    def progress(self) -> Mapping[TaskId, Mapping[str, Any]]:
        """Return what is shown of the progress of each task that has told of it; see `decisions.shown_progress`."""
        ...


class SinkGroups(Protocol):
    """The consumer groups of sinks, whose committed offsets are the sinks' offsets."""

    async def committed(self, group: str) -> Mapping[TopicPartition, int]:
        """Return a group's offsets; empty where there is no such group."""
        ...

    async def alter(self, group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set offsets, or forget those that are None; raises GroupBusyError where the group has members."""
        ...

    async def delete(self, group: str) -> None:
        """Remove a group, if it exists; raises GroupBusyError where it has members."""
        ...

    def elsewhere(self, bootstrap: str, security: Mapping[str, str]) -> AbstractAsyncContextManager[SinkGroups]:
        """Return the groups of another cluster, or as somebody else sees them, for an `async with` block.

        `security` are `security.protocol`, `ssl.…` and `sasl.…`.
        """
        ...
