"""What a herder writes for each request about connectors and tasks, and what it refuses, in Kafka's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.config import placeholders
from ottla.connect.errors import AlreadyExistsError, BadRequestError, NotFoundError
from ottla.connect.storage import (
    ConfigState,
    ConnectorConfig,
    RestartRequest,
    State,
    Status,
    StatusState,
    TargetState,
    TargetStateChange,
    TaskConfig,
    TaskId,
    TasksCommit,
)
from ottla.connect.storage.config_records import ConfigRecord

__all__ = [
    "PATCH_TRIES",
    "ConnectorChange",
    "RestartPlan",
    "View",
    "check_modifiable",
    "create_or_replace",
    "named_config",
    "patched",
    "pause_or_resume",
    "refuse_invalid",
    "remove",
    "restart_plan",
    "reversed_tasks",
    "set_tasks",
    "stop",
    "tasks_changed",
]

Properties = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class View:
    """What a herder knows at one moment."""

    config: ConfigState = field(default_factory=ConfigState)
    statuses: StatusState = field(default_factory=StatusState)
    progress: Mapping[TaskId, Mapping[str, Any]] = field(default_factory=dict)
    """What is shown of the progress of tasks, those of this worker."""

    idle: Mapping[str, str] = field(default_factory=dict)
    """Why connectors of this worker rightly want no task."""


@dataclass(frozen=True, slots=True)
class ConnectorChange:
    """A connector is created, or its configuration replaced."""

    records: tuple[ConfigRecord, ...]
    created: bool


def _known(state: ConfigState, connector: str, words: str) -> None:
    if connector not in state.configs:
        raise NotFoundError(words)


def named_config(name: str, config: Properties) -> dict[str, str | None]:
    """Return a configuration that carries its connector's name; raises BadRequestError where it carries another."""
    included = config.get("name")
    if included is not None and included != name:
        raise BadRequestError(
            f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})"
        )
    return {**config, "name": name}


PATCH_TRIES = 20
"""As often a patch is made anew of what others have configured while the last one was validated."""


def patched(state: ConfigState, name: str, patch: Properties) -> dict[str, str | None]:
    """Return a connector's configuration with a patch, whose nulls remove keys (KIP-477)."""
    _known(state, name, f"Connector {name} not found")
    merged = {**state.configs[name], **patch}
    return {key: value for key, value in merged.items() if key not in patch or value is not None}


def refuse_invalid(infos: Mapping[str, Any]) -> None:
    """Raise BadRequestError with all that validation found, if it found anything."""
    if not infos["error_count"]:
        return
    found = [error for each in infos["configs"] if each["value"] for error in each["value"]["errors"]]
    raise BadRequestError(
        "\n".join(
            (
                f"Connector configuration is invalid and contains the following {infos['error_count']} error(s):",
                *found,
                "You can also find the above list of errors at the endpoint "
                "`/connector-plugins/{connectorType}/config/validate`",
            )
        )
    )


def create_or_replace(
    state: ConfigState, name: str, config: Properties, *, target: TargetState | None, may_replace: bool
) -> ConnectorChange:
    """Return the records of a connector's new configuration; raises AlreadyExistsError where it may not be replaced.

    The target state comes first, so that no worker starts a connector that is to be created stopped (KIP-980). A pause that
    has crossed the deletion of a connector of that name is not the new one's.
    """
    exists = name in state.configs
    if exists and not may_replace:
        raise AlreadyExistsError(f"Connector {name} already exists")
    if not exists and target is None and state.target_state(name) not in (None, TargetState.STARTED):
        target = TargetState.STARTED
    first: tuple[ConfigRecord, ...] = () if target is None else (TargetStateChange(name, target),)
    return ConnectorChange((*first, ConnectorConfig(name, dict(config))), not exists)


def remove(state: ConfigState, name: str) -> list[ConfigRecord]:
    """Return the records that remove a connector."""
    _known(state, name, f"Connector {name} not found")
    return [ConnectorConfig(name, None), TargetStateChange(name, None)]


def pause_or_resume(state: ConfigState, name: str, target: TargetState) -> list[ConfigRecord]:
    """Return the record that pauses or resumes a connector; the same once more changes nothing."""
    _known(state, name, f"Unknown connector {name}")
    return [TargetStateChange(name, target)]


def stop(state: ConfigState, name: str) -> list[ConfigRecord]:
    """Return the records that stop a connector (KIP-875).

    Its tasks go first: a running connector without tasks is healthy, a stopped one with tasks is not.
    """
    _known(state, name, f"Unknown connector {name}")
    return [TasksCommit(name, 0), TargetStateChange(name, TargetState.STOPPED)]


def reversed_tasks(raw: Properties, configs: Sequence[Properties]) -> list[dict[str, str | None]]:
    """Return task configurations with the connector's placeholders in place of what they stood for."""
    named = {key: value for key, value in raw.items() if placeholders({key: value})}
    return [{**config, **{key: value for key, value in named.items() if key in config}} for config in configs]


def tasks_changed(state: ConfigState, name: str, configs: Sequence[Properties]) -> bool:
    """Return whether tasks have to be set anew: other tasks, or a connector configured anew since they were made."""
    tasks = state.tasks(name)
    if len(tasks) != state.task_counts.get(name, 0) or len(tasks) != len(configs):
        return True
    if any(dict(state.task_configs[task]) != dict(config) for task, config in zip(tasks, configs, strict=True)):
        return True
    applied = state.applied.get(name)
    return applied is None or dict(applied) != dict(state.configs[name])


def set_tasks(state: ConfigState, name: str, configs: Sequence[Properties]) -> list[ConfigRecord]:
    """Return the records of a connector's new tasks, the commit last; raises for an unknown or a stopped connector."""
    _known(state, name, f"Connector {name} not found")
    if configs and state.target_state(name) is TargetState.STOPPED:
        raise BadRequestError(f"Cannot submit non-empty set of task configs for stopped connector {name}")
    records: list[ConfigRecord] = [
        TaskConfig(TaskId(name, number), dict(config)) for number, config in enumerate(configs)
    ]
    return [*records, TasksCommit(name, len(configs))]


def check_modifiable(state: ConfigState, name: str) -> None:
    """Raise where a connector's offsets may not be altered or reset now."""
    _known(state, name, f"Connector {name} not found")
    if state.target_state(name) is not TargetState.STOPPED or state.task_counts.get(name, 0):
        raise BadRequestError(
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
            f"specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
        )


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """What a restart touches (KIP-745), and the view in which that is RESTARTING already, as the answer shows it."""

    request: RestartRequest
    connector: bool
    tasks: tuple[TaskId, ...]
    view: View


def restart_plan(view: View, request: RestartRequest) -> RestartPlan:
    """Return the plan of a restart; raises NotFoundError for an unknown connector and one without a status."""
    name, only_failed = request.connector, request.only_failed
    _known(view.config, name, f"Unknown connector: {name}")
    status = view.statuses.statuses.get(name)
    if status is None:
        raise NotFoundError(f"Status for connector {name} not found")

    def wanted(found: Status) -> bool:
        return not only_failed or found.state is State.FAILED

    tasks = [each for each in view.statuses.tasks(name) if request.include_tasks and wanted(each)]
    marked = [*([status] if wanted(status) else []), *tasks]
    statuses = view.statuses.statuses.update({each.of: replace(each, state=State.RESTARTING) for each in marked})
    planned = View(view.config, replace(view.statuses, statuses=statuses))
    return RestartPlan(
        request, wanted(status), tuple(each.of for each in tasks if isinstance(each.of, TaskId)), planned
    )
