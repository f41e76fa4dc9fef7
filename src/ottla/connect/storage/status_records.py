"""The records of Connect's status topic, and their fold: states of connectors and tasks, and the topics that each uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from immutables import Map

from ottla.connect.converters.json_text import parse_json
from ottla.connect.converters.json_write import write_plain
from ottla.connect.errors import DataError
from ottla.connect.storage.task_id import TaskId, parse_task_id

__all__ = [
    "State",
    "Status",
    "StatusState",
    "TopicUse",
    "apply_status",
    "encode_status",
    "encode_topic_use",
    "status_of",
]


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

    _of_tasks: Map[str, Map[TaskId, Status]] | None = field(default=None, init=False, repr=False, compare=False)
    """The tasks' states by connector, once they were asked for: all are looked through once, not for each record."""

    def tasks(self, connector: str) -> list[Status]:
        """Return the states of a connector's tasks, by number."""
        found = self._by_connector().get(connector)
        return [] if found is None else [found[of] for of in sorted(found)]

    def _by_connector(self) -> Map[str, Map[TaskId, Status]]:
        if self._of_tasks is None:
            made: dict[str, dict[TaskId, Status]] = {}
            for of, status in self.statuses.items():
                if isinstance(of, TaskId):
                    made.setdefault(of.connector, {})[of] = status
            self._know(Map((name, Map(of.items())) for name, of in made.items()))
        assert self._of_tasks is not None
        return self._of_tasks

    def _know(self, of_tasks: Map[str, Map[TaskId, Status]] | None) -> StatusState:
        object.__setattr__(self, "_of_tasks", of_tasks)
        return self

    def having(self, status: Status) -> StatusState:
        """Return this with one more state, in the place of what was said of the same connector or task."""
        of, known = status.of, self._of_tasks
        if known is not None and isinstance(of, TaskId):
            known = known.set(of.connector, known.get(of.connector, Map()).set(of, status))
        return StatusState(self.statuses.set(of, status), self.topics)._know(known)

    def without(self, of: str | TaskId) -> StatusState:
        """Return this without the state of a task, or those of a connector and its tasks."""
        known = self._by_connector()
        left = _without(self.statuses, of)
        if isinstance(of, TaskId):
            mine = _without(known.get(of.connector, Map()), of)
            known = known.set(of.connector, mine) if mine else _without(known, of.connector)
        else:
            for task in known.get(of, Map()):
                left = left.delete(task)
            known = _without(known, of)
        return StatusState(left, self.topics)._know(known)

    def using(self, connector: str, uses: Map[str, TopicUse]) -> StatusState:
        """Return this with the topics that a connector uses."""
        return StatusState(self.statuses, self.topics.set(connector, uses))._know(self._of_tasks)


def status_of(key: str) -> str | TaskId | None:
    """Return the connector or task that a record's key says something of, None where it does not."""
    if key.startswith("status-connector-"):
        return key.removeprefix("status-connector-") or None
    return parse_task_id(key.removeprefix("status-task-")) if key.startswith("status-task-") else None


def apply_status(state: StatusState, key: str, data: bytes | None) -> tuple[StatusState, str | None]:
    """Return the state behind one more record, and why the record was ignored, if it was."""
    if key.startswith("status-topic-"):
        return _apply_topic(state, key, data)
    of = status_of(key)
    if of is None:
        return state, f"Discarding record with invalid key {key}"
    if data is None:
        return state.without(of), None
    status = _decoded(of, data)
    if status is None:
        return state, f"Failed to parse status with key {key}"
    before = state.statuses.get(of)
    stale = isinstance(of, TaskId) and status.state is State.UNASSIGNED and before is not None
    if stale and before is not None and before.state is State.RUNNING and before.generation >= status.generation:
        return state, None  # of a worker that does not know yet that the task runs elsewhere
    return state.having(status), None


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
        return state.using(connector, _without(uses, topic)), None
    found = _read(data).get("topic")
    inner = found if isinstance(found, dict) else {}
    task, discovered = inner.get("task"), inner.get("discoverTimestamp")
    if not _is_integer(task) or not _is_integer(discovered):
        return state, f"Failed to parse topic status with key {key}"
    use = TopicUse(str(inner.get("name")), str(inner.get("connector")), int(task or 0), int(discovered or 0))
    return state.using(connector, uses.set(topic, use)), None
