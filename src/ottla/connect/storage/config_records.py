"""The records of Connect's configuration topic: keys, JSON values, and what they mean; Kafka's, to the byte.

A value is what JsonConverter writes without envelope. What cannot be read is `Unreadable`: it is skipped with a line in
the log, as in Kafka, because one bad record must not stop a cluster.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ottla.connect.converters.json_text import parse_json
from ottla.connect.converters.json_write import write_plain
from ottla.connect.data.conversions import wrapped
from ottla.connect.errors import DataError
from ottla.connect.storage.task_id import TaskId, parse_task_id

__all__ = [
    "ConfigRecord",
    "ConnectorConfig",
    "LoggerLevel",
    "RestartRequest",
    "SessionKey",
    "TargetState",
    "TargetStateChange",
    "TaskConfig",
    "TaskCount",
    "TasksCommit",
    "Unreadable",
    "decode_config",
    "encode_config",
]


class TargetState(Enum):
    """What a connector is meant to do."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """A connector's configuration; None removes it."""

    connector: str
    config: Mapping[str, str | None] | None


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """A task's configuration, which holds from the next `TasksCommit` on."""

    task: TaskId
    config: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class TasksCommit:
    """The task configurations written before are complete: there are so many tasks."""

    connector: str
    tasks: int


@dataclass(frozen=True, slots=True)
class TargetStateChange:
    """What a connector is meant to do from now on; None for a removed one."""

    connector: str
    state: TargetState | None


@dataclass(frozen=True, slots=True)
class TaskCount:
    """So many tasks may have transactional producers: the fence for exactly-once sources (KIP-618)."""

    connector: str
    tasks: int


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key by which workers sign what they ask of each other (KIP-507)."""

    key: bytes
    algorithm: str
    created_ms: int

    def __repr__(self) -> str:
        return f"SessionKey([hidden], {self.algorithm}, {self.created_ms})"


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A connector, and by request its tasks, are to be restarted (KIP-745)."""

    connector: str
    only_failed: bool = False
    include_tasks: bool = False


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """Loggers below a name get a level on every worker (KIP-976)."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that says nothing, and why."""

    key: str
    reason: str
    garbled: bool = False
    """True where the value is not even JSON."""


ConfigRecord = (
    ConnectorConfig
    | TaskConfig
    | TasksCommit
    | TargetStateChange
    | TaskCount
    | SessionKey
    | RestartRequest
    | LoggerLevel
    | Unreadable
)


def encode_config(record: ConfigRecord) -> tuple[str, bytes | None]:
    """Return the key and value of a record."""
    key, value = _encoded(record)
    return key, None if value is None else write_plain(value).encode()


def _encoded(record: ConfigRecord) -> tuple[str, dict[str, Any] | None]:
    match record:
        case ConnectorConfig(connector, config):
            return f"connector-{connector}", None if config is None else {"properties": dict(config)}
        case TaskConfig(task, config):
            return f"task-{task}", {"properties": dict(config)}
        case TasksCommit(connector, tasks):
            return f"commit-{connector}", {"tasks": tasks}
        case TargetStateChange(connector, None):
            return f"target-state-{connector}", None
        case TargetStateChange(connector, state):
            assert state is not None
            # Workers before STOPPED was invented (KIP-875) read `state`, and take it for PAUSED.
            older = TargetState.PAUSED if state is TargetState.STOPPED else state
            return f"target-state-{connector}", {"state": older.value, "state.v2": state.value}
        case TaskCount(connector, tasks):
            return f"tasks-fencing-{connector}", {"task-count": tasks}
        case SessionKey(key, algorithm, created_ms):
            encoded = base64.b64encode(key).decode()
            return "session-key", {"key": encoded, "algorithm": algorithm, "creation-timestamp": created_ms}
        case RestartRequest(connector, only_failed, include_tasks):
            return f"restart-connector-{connector}", {"include-tasks": include_tasks, "only-failed": only_failed}
        case LoggerLevel(namespace, level):
            return f"logger-cluster-{namespace}", {"level": level}
    raise AssertionError(f"{record} is not written")


def decode_config(key: str, data: bytes | None) -> ConfigRecord:
    """Return what a record means."""
    try:
        value = None if data is None else parse_json(data)
    except DataError as error:
        return Unreadable(key, f"Failed to convert config data to Kafka Connect format: {error}", garbled=True)
    if key == "session-key":
        return _session_key(key, value)
    for prefix, read in _READERS:
        if key.startswith(prefix):
            return read(key, key[len(prefix) :], value)
    return Unreadable(key, "Discarding config update record with invalid key")


def _map(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _integer(value: Any) -> int | None:
    return int(wrapped(value, 32)) if isinstance(value, int) and not isinstance(value, bool) else None


def _properties(value: Any) -> dict[str, str | None] | None:
    inner = value.get("properties") if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else None


def _connector(key: str, name: str, value: Any) -> ConfigRecord:
    if value is None:
        return ConnectorConfig(name, None)
    properties = _properties(value)
    if properties is None:
        return Unreadable(key, f"Invalid data for config for connector '{name}': 'properties' field should be a Map")
    return ConnectorConfig(name, properties)


def _task(key: str, name: str, value: Any) -> ConfigRecord:
    task, properties = parse_task_id(name), _properties(value)
    if task is None:
        return Unreadable(key, "the key names no task")
    if properties is None:
        return Unreadable(key, f"Invalid data for config of task {task} 'properties' field should be a Map")
    return TaskConfig(task, properties)


def _commit(key: str, name: str, value: Any) -> ConfigRecord:
    tasks = _integer((_map(value) or {}).get("tasks"))
    if tasks is None:
        return Unreadable(
            key, f"Ignoring connector tasks configuration commit for connector '{name}': 'tasks' is no int"
        )
    return TasksCommit(name, tasks)


def _target_state(key: str, name: str, value: Any) -> ConfigRecord:
    if value is None:
        return TargetStateChange(name, None)
    found = _map(value) or {}
    state = found.get("state.v2")
    if not isinstance(state, str):
        state = found.get("state")
    if not isinstance(state, str) or state not in TargetState.__members__:
        return Unreadable(key, f"Invalid target state for connector '{name}': {state}")
    return TargetStateChange(name, TargetState[state])


def _task_count(key: str, name: str, value: Any) -> ConfigRecord:
    tasks = _integer((_map(value) or {}).get("task-count"))
    if tasks is None:
        return Unreadable(key, f"Ignoring task count record for connector '{name}' because it is in the wrong format")
    return TaskCount(name, tasks)


def _session_key(key: str, value: Any) -> ConfigRecord:
    found = _map(value) or {}
    text, algorithm, created = found.get("key"), found.get("algorithm"), found.get("creation-timestamp")
    if not isinstance(text, str) or not isinstance(algorithm, str) or not isinstance(created, int):
        return Unreadable(key, "Invalid data for session key")
    try:
        return SessionKey(base64.b64decode(text, validate=True), algorithm, created)
    except ValueError:
        return Unreadable(key, "Invalid data for session key: 'key' is not Base64")


def _restart(key: str, name: str, value: Any) -> ConfigRecord:
    found = _map(value)
    if found is None:
        return Unreadable(key, "Ignoring restart request because the value is not a Map")
    return RestartRequest(name, found.get("only-failed") is True, found.get("include-tasks") is True)


def _logger(key: str, name: str, value: Any) -> ConfigRecord:
    level = (_map(value) or {}).get("level")
    if not isinstance(level, str):
        return Unreadable(key, f"Invalid data for logging level key 'level' field with namespace {name}")
    return LoggerLevel(name, level)


_READERS: tuple[tuple[str, Callable[[str, str, Any], ConfigRecord]], ...] = (
    ("target-state-", _target_state),
    ("connector-", _connector),
    ("task-", _task),
    ("commit-", _commit),
    ("restart-connector-", _restart),
    ("tasks-fencing-", _task_count),
    ("logger-cluster-", _logger),
)
