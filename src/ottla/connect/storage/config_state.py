"""The fold of the configuration topic: what a herder knows of connectors and tasks, and what each record changes.

Task configurations take effect together, with their commit record. Where compaction has eaten some of them, the
connector is inconsistent: it shows no tasks until it is configured again (the leader sees to that).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from immutables import Map

from ottla.connect.storage.config_records import (
    ConfigRecord,
    ConnectorConfig,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    TargetState,
    TargetStateChange,
    TaskConfig,
    TaskCount,
    TasksCommit,
    Unreadable,
    decode_config,
)
from ottla.connect.storage.task_id import TaskId

__all__ = [
    "Change",
    "ConfigState",
    "ConnectorRemoved",
    "ConnectorUpdated",
    "TargetStateChanged",
    "TasksUpdated",
    "apply_config",
]

Properties = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ConnectorUpdated:
    """A connector is new or has another configuration."""

    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    """A connector is gone."""

    connector: str


@dataclass(frozen=True, slots=True)
class TasksUpdated:
    """A connector's tasks have been set anew."""

    connector: str
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """A connector is to be started, paused or stopped."""

    connector: str


Change = (
    ConnectorUpdated
    | ConnectorRemoved
    | TasksUpdated
    | TargetStateChanged
    | SessionKey
    | RestartRequest
    | LoggerLevel
    | Unreadable
)
"""What one record changes for a herder."""


@dataclass(frozen=True, slots=True)
class ConfigState:
    """Everything that the topic says up to (not including) `offset`."""

    offset: int = 0
    session_key: SessionKey | None = None
    configs: Map[str, Properties] = field(default_factory=Map)
    target_states: Map[str, TargetState] = field(default_factory=Map)
    task_counts: Map[str, int] = field(default_factory=Map)
    task_configs: Map[TaskId, Properties] = field(default_factory=Map)
    deferred: Map[str, Map[TaskId, Properties]] = field(default_factory=Map)
    """Task configurations that wait for their commit."""

    task_count_records: Map[str, int] = field(default_factory=Map)
    generations: Map[str, int] = field(default_factory=Map)
    """How often each connector's task configurations were set anew, from 0."""

    applied: Map[str, Properties] = field(default_factory=Map)
    """The connector's configuration that its tasks were made from."""

    of_connector: Map[str, frozenset[TaskId]] = field(default_factory=Map)
    """The tasks of each connector that have a configuration, also those that are one too many by now."""

    pending_fencing: frozenset[str] = frozenset()
    inconsistent: frozenset[str] = frozenset()

    def connectors(self) -> list[str]:
        """Return the names of all connectors, sorted."""
        return sorted(self.configs)

    def tasks(self, connector: str) -> tuple[TaskId, ...]:
        """Return a connector's tasks; none where it is inconsistent."""
        if connector in self.inconsistent:
            return ()
        return tuple(TaskId(connector, number) for number in range(self.task_counts.get(connector, 0)))

    def is_configured(self, of: str | TaskId) -> bool:
        """Whether there is such a connector, or such a task of one."""
        if isinstance(of, TaskId):
            known = of.connector in self.configs and of.connector not in self.inconsistent
            return known and 0 <= of.task < self.task_counts.get(of.connector, 0)
        return of in self.configs

    def target_state(self, connector: str) -> TargetState | None:
        """Return what a connector is meant to do."""
        return self.target_states.get(connector)


def apply_config(state: ConfigState, key: str, data: bytes | None, offset: int) -> tuple[ConfigState, Change | None]:
    """Return the state behind one more record of the topic, and what it changes for a herder."""
    record = decode_config(key, data)
    if isinstance(record, Unreadable) and record.garbled:
        return state, record  # its offset does not count either, as in Kafka
    found, change = _apply(state, record)
    return replace(found, offset=offset + 1), change


def _apply(state: ConfigState, record: ConfigRecord) -> tuple[ConfigState, Change | None]:
    match record:
        case ConnectorConfig(connector, None):
            return _removed(state, connector), ConnectorRemoved(connector)
        case ConnectorConfig(connector, config):
            assert config is not None
            targets = state.target_states
            if connector not in targets:
                targets = targets.set(connector, TargetState.STARTED)
            made = replace(state, configs=state.configs.set(connector, config), target_states=targets)
            return made, ConnectorUpdated(connector)
        case TaskConfig(task, config):
            waiting = state.deferred.get(task.connector, Map()).set(task, config)
            return replace(state, deferred=state.deferred.set(task.connector, waiting)), None
        case TasksCommit():
            return _committed(state, record)
        case TargetStateChange():
            return _target(state, record)
        case TaskCount(connector, tasks):
            counts = state.task_count_records.set(connector, tasks)
            return replace(state, task_count_records=counts, pending_fencing=state.pending_fencing - {connector}), None
        case SessionKey():
            return replace(state, session_key=record), record
        case RestartRequest() | LoggerLevel() | Unreadable():
            return state, record
    raise AssertionError(record)


def _without(found: Map[Any, Any], key: object) -> Map[Any, Any]:
    return found.delete(key) if key in found else found


def _removed(state: ConfigState, connector: str) -> ConfigState:
    tasks = state.task_configs
    for task in state.of_connector.get(connector, ()):
        tasks = tasks.delete(task)
    return replace(
        state,
        configs=_without(state.configs, connector),
        task_counts=_without(state.task_counts, connector),
        task_configs=tasks,
        deferred=_without(state.deferred, connector),
        applied=_without(state.applied, connector),
        of_connector=_without(state.of_connector, connector),
    )


def _target(state: ConfigState, record: TargetStateChange) -> tuple[ConfigState, Change | None]:
    connector, known = record.connector, record.connector in state.configs
    if record.state is None:
        targets = _without(state.target_states, connector)
        if known:
            targets = targets.set(connector, TargetState.STARTED)
        return replace(state, target_states=targets), None
    changed = state.target_states.get(connector) is not record.state
    made = replace(state, target_states=state.target_states.set(connector, record.state))
    return made, TargetStateChanged(connector) if changed and known else None


def _committed(state: ConfigState, record: TasksCommit) -> tuple[ConfigState, Change | None]:
    connector = record.connector
    applied = state.configs.get(connector)
    if applied is None:  # deleted before, and compaction has eaten its configuration
        return _removed(state, connector), None
    waiting = state.deferred.get(connector)
    numbers = {task.task for task in waiting or ()}
    updated: tuple[TaskId, ...] = ()
    made = replace(
        state,
        deferred=state.deferred if waiting is None else state.deferred.set(connector, Map()),
        task_counts=state.task_counts.set(connector, record.tasks),
        pending_fencing=state.pending_fencing | {connector},
    )
    if not numbers.issuperset(range(record.tasks)):
        return replace(made, inconsistent=state.inconsistent | {connector}), TasksUpdated(connector, ())
    if waiting is not None:
        updated = tuple(sorted(waiting))
        generation = state.generations.get(connector, -1) + 1
        made = replace(
            made,
            task_configs=state.task_configs.update(waiting),
            of_connector=state.of_connector.set(
                connector, state.of_connector.get(connector, frozenset()).union(waiting)
            ),
            generations=state.generations.set(connector, generation),
        )
    made = replace(made, inconsistent=state.inconsistent - {connector}, applied=state.applied.set(connector, applied))
    return made, TasksUpdated(connector, updated)
