"""The records of Connect's status topic, and their fold: states of connectors and tasks, and the topics that each uses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from immutables import Map

from ottla.connect.converters.json_text import parse_json
from ottla.connect.converters.json_write import write_plain
from ottla.connect.errors import DataError
from ottla.connect.storage.task_id import TaskId, parse_task_id

__all__ = ["State", "Status", "StatusState", "TopicUse", "apply_status", "encode_status", "encode_topic_use"]


class State(Enum):
    """What a connector or task does."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    DESTROYED = "DESTROYED"
    """Written in Kafka as a tombstone."""

    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class Status:
    """What a worker says of a connector (a name) or task."""

    of: str | TaskId
    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None
    restarts: int = 0
    """How often a task was started again by itself; Kafka has no such thing, and passes over it in a record."""


@dataclass(frozen=True, slots=True)
class TopicUse:
    """A connector has read or written a topic (KIP-558)."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


def _key(of: str | TaskId) -> str:
    return f"status-task-{of}" if isinstance(of, TaskId) else f"status-connector-{of}"


def encode_status(status: Status) -> tuple[str, bytes | None]:
    """Return the key and value of a status; DESTROYED is a tombstone."""
    if status.state is State.DESTROYED:
        return _key(status.of), None
    value: dict[str, Any] = {
        "state": status.state.value,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }
    if status.restarts:
        value["restarts"] = status.restarts
    return _key(status.of), write_plain(value).encode()


def encode_topic_use(use: TopicUse, *, removed: bool = False) -> tuple[str, bytes | None]:
    """Return the key and value that say that a connector uses a topic, or has been told to forget it."""
    key = f"status-topic-{use.topic}:connector-{use.connector}"
    value = {
        "name": use.topic,
        "connector": use.connector,
        "task": use.task,
        "discoverTimestamp": use.discovered_ms,
    }
    return key, None if removed else write_plain({"topic": value}).encode()


@dataclass(frozen=True, slots=True)
class StatusState:
    """Everything that the topic says."""

    statuses: Map[str | TaskId, Status] = field(default_factory=Map)
    topics: Map[str, Map[str, TopicUse]] = field(default_factory=Map)
    """Connector -> topic -> when and by whom it was seen first."""

    _of_tasks: dict[str, list[Status]] | None = field(default=None, init=False, repr=False, compare=False)
    """The tasks' states by connector, once they have been asked for: who asks for all connectors looks through them once."""

    def tasks(self, connector: str) -> list[Status]:
        """Return the states of a connector's tasks, by number."""
        if self._of_tasks is None:
            made: dict[str, list[Status]] = {}
            for of, status in self.statuses.items():
                if isinstance(of, TaskId):
                    made.setdefault(of.connector, []).append(status)
            object.__setattr__(self, "_of_tasks", made)
        return sorted((self._of_tasks or {}).get(connector, ()), key=lambda each: each.of[1])


def apply_status(state: StatusState, key: str, data: bytes | None) -> tuple[StatusState, str | None]:
    """Return the state behind one more record, and why the record was ignored, if it was."""
    if key.startswith("status-topic-"):
        return _apply_topic(state, key, data)
    if key.startswith("status-connector-"):
        of: str | TaskId | None = key.removeprefix("status-connector-") or None
    else:
        of = parse_task_id(key.removeprefix("status-task-")) if key.startswith("status-task-") else None
    if of is None:
        return state, f"Discarding record with invalid key {key}"
    if data is None:
        left = _without(state.statuses, of)
        for task in [each for each in left if isinstance(each, TaskId) and each.connector == of]:
            left = left.delete(task)
        return replace(state, statuses=left), None
    status = _decoded(of, data)
    if status is None:
        return state, f"Failed to parse status with key {key}"
    before = state.statuses.get(of)
    stale = isinstance(of, TaskId) and status.state is State.UNASSIGNED and before is not None
    if stale and before is not None and before.state is State.RUNNING and before.generation >= status.generation:
        return state, None  # of a worker that does not know yet that the task runs elsewhere
    return replace(state, statuses=state.statuses.set(of, status)), None


def _without(found: Map[Any, Any], key: object) -> Map[Any, Any]:
    return found.delete(key) if key in found else found


def _read(data: bytes) -> dict[str, Any]:
    try:
        value = parse_json(data)
    except DataError:
        return {}
    return value if isinstance(value, dict) else {}


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _decoded(of: str | TaskId, data: bytes) -> Status | None:
    value = _read(data)
    state, worker, generation = value.get("state"), value.get("worker_id"), value.get("generation")
    trace, version, restarts = value.get("trace"), value.get("version"), value.get("restarts")
    strings = all(each is None or isinstance(each, str) for each in (worker, trace, version))
    if not isinstance(state, str) or state not in State.__members__ or not strings or not _is_integer(generation):
        return None
    assert isinstance(generation, int)
    return Status(
        of, State[state], worker or "", generation, trace, version, restarts if isinstance(restarts, int) else 0
    )


def _apply_topic(state: StatusState, key: str, data: bytes | None) -> tuple[StatusState, str | None]:
    topic, separator, connector = key.removeprefix("status-topic-").partition(":connector-")
    if not separator or not topic or not connector:
        return state, f"Discarding record with invalid topic status key {key}"
    uses: Map[str, TopicUse] = state.topics.get(connector, Map())
    if data is None:
        return replace(state, topics=state.topics.set(connector, _without(uses, topic))), None
    found = _read(data).get("topic")
    inner = found if isinstance(found, dict) else {}
    task, discovered = inner.get("task"), inner.get("discoverTimestamp")
    if not _is_integer(task) or not _is_integer(discovered):
        return state, f"Failed to parse topic status with key {key}"
    use = TopicUse(str(inner.get("name")), str(inner.get("connector")), int(task or 0), int(discovered or 0))
    return replace(state, topics=state.topics.set(connector, uses.set(topic, use))), None
