"""What a task on an executor knows and may ask: its `TaskSpec`, and the `TaskPort` to the worker that started it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from ottla.connect import storage
from ottla.connect.decisions import Progress

__all__ = ["TaskPort", "TaskSpec", "WorkerClients"]


@dataclass(frozen=True, slots=True)
class WorkerClients:
    """How a task reaches the cluster: Kafka's client properties, with prefixes and overrides already applied."""

    bootstrap: str
    producer: Mapping[str, str] = field(default_factory=dict)
    consumer: Mapping[str, str] = field(default_factory=dict)
    admin: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task to run; it travels to the executor over the control channel, as JSON."""

    task: storage.TaskId
    connector_config: Mapping[str, str | None]
    config: Mapping[str, str | None]
    worker: Mapping[str, str]
    """The worker's properties: converters, offset flush times, topic creation."""

    clients: WorkerClients
    target: storage.TargetState
    generation: int
    plugin_path: tuple[str, ...] = ()
    offsets_topic: str | None = None
    """Where source offsets go in a transaction, None where the worker stores them (no exactly once)."""

    transactional_id: str | None = None
    """Of a source task under exactly once."""

    def to_message(self) -> dict[str, Any]:
        """Return what JSON can hold of it: all."""
        return asdict(self) | {"task": list(self.task), "target": self.target.name}

    @classmethod
    def of_message(cls, message: Mapping[str, Any]) -> TaskSpec:
        """Return what `to_message` was given; raises KeyError or TypeError for anything else."""
        given = dict(message)
        return cls(
            task=storage.TaskId(*given.pop("task")),
            target=storage.TargetState[given.pop("target")],
            clients=WorkerClients(**given.pop("clients")),
            plugin_path=tuple(given.pop("plugin_path")),
            **given,
        )


class TaskPort(Protocol):
    """The way from a task to its worker, for any thread; calls raise ConnectionError once the worker is gone."""

    def tell(self, state: storage.State, trace: str | None = None) -> None:
        """Say what the task does now: RUNNING, PAUSED, FAILED with a trace."""
        ...

    @property
    def target(self) -> storage.TargetState:
        """What the worker wants by now; STOPPED asks the task to end."""
        ...

    def wait(self, seconds: float) -> None:
        """Sleep, but return at once when `target` changes."""
        ...

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Return the stored offset of each source partition, None where there is none."""
        ...

    def store_offsets(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> None:
        """Store source offsets; returns when they are durable, raises ConnectError where they cannot be."""
        ...

    def confirm(self) -> None:
        """Raise ConnectError where the task is not this worker's any more; see `TaskOwner.confirm`."""
        ...

    def used(self, topic: str) -> None:
        """Say that the task has read or written a topic (KIP-558)."""
        ...

    def report(self, metrics: Mapping[str, float]) -> None:
        """Hand over the task's metrics, by Kafka's names without their group (`source-record-poll-total`)."""
        ...

    def progress(self, told: Progress) -> None:
        """Say how far the task is, and whether anything waits."""
        ...
