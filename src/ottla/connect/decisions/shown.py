"""What the REST interface shows of connectors, tasks and plugins: Kafka's shapes, with the secrets left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.config import HIDDEN, hidden_text, kept_secrets, moved, put_back
from ottla.connect.config_def import ConfigDef, key_info
from ottla.connect.connector_config import connector_def, enriched_def
from ottla.connect.decisions.changes import View, patched
from ottla.connect.error_policy.secrets import masked
from ottla.connect.errors import BadRequestError, ConnectError, NotFoundError
from ottla.connect.plugins import PluginKind, Plugins
from ottla.connect.storage import ConfigState, Status, TaskId

__all__ = [
    "completed",
    "connector_info",
    "connector_status",
    "connector_type",
    "plugin_keys",
    "shown_config",
    "task_infos",
    "task_status",
    "topics_of",
]

Properties = Mapping[str, str | None]


def connector_type(config: Properties | None, plugins: Plugins) -> str:
    """Return `source` or `sink`, and `unknown` where the class is not installed here."""
    try:
        return plugins.connector((config or {}).get("connector.class") or "").kind.value
    except ConnectError:
        return "unknown"


def _definition(config: Properties, plugins: Plugins) -> ConfigDef | None:
    """Return all keys that a configuration may have, None where its class is not installed here."""
    try:
        plugin = plugins.connector((config.get("connector.class") or "").strip())
    except ConnectError:
        return None
    found = enriched_def(connector_def(sink=plugin.kind is PluginKind.SINK), config, plugins)
    found.keys |= plugin.cls.config_def.keys
    return found


def shown_config(config: Properties, plugins: Plugins) -> dict[str, str | None]:
    """Return a configuration without its passwords. Kafka shows them; `error_policy` says which keys are meant."""
    return masked(config, _definition(config, plugins))


def completed(
    state: ConfigState, name: str, given: Properties, plugins: Plugins, *, is_patch: bool = False
) -> dict[str, str | None]:
    """Return the configuration that a request means: what it was shown as hidden is what is stored.

    Who reads a configuration, changes a key and puts it back has never seen its secrets. Raises BadRequestError where one of
    them would be shown, or sent elsewhere, and was not given anew; NotFoundError for a patch of no connector.
    """
    stored = state.configs.get(name, {})
    seen = shown_config(stored, plugins)
    whole, wrong = put_back(given, stored, seen)
    if wrong:
        raise BadRequestError(
            f"{', '.join(wrong)}: {HIDDEN} does not stand for what is stored here: give the secret itself"
        )
    if is_patch:
        whole = patched(state, name, whole)
    kept = kept_secrets(given, stored, whole, seen)
    _refuse_revealing(kept, stored, whole, plugins)
    changed = moved(stored, whole)
    if kept and changed:
        raise BadRequestError(
            f"The stored values of {', '.join(kept)} are hidden, and {', '.join(changed)} may have them sent elsewhere: "
            "give them anew with this change, or leave them out"
        )
    return whole


def _refuse_revealing(kept: Sequence[str], stored: Properties, whole: Properties, plugins: Plugins) -> None:
    """Raise BadRequestError where a stored secret that nobody has given anew would be shown from now on.

    Another class may know the same key and not call it a password: who may change a configuration could read it so.
    """
    shown = shown_config(whole, plugins)
    revealed = [key for key in kept if shown[key] == stored[key]]
    if revealed:
        raise BadRequestError(
            f"The stored values of {', '.join(revealed)} are hidden, and this configuration would show them, since "
            f"{whole.get('connector.class')} does not know them as passwords: give them anew, or leave them out"
        )


def connector_info(view: View, name: str, plugins: Plugins) -> dict[str, Any]:
    """Return the answer of `/connectors/{name}`; raises NotFoundError."""
    config = view.config.configs.get(name)
    if config is None:
        raise NotFoundError(f"Connector {name} not found")
    return {
        "name": name,
        "config": shown_config(config, plugins),
        "tasks": [{"connector": task.connector, "task": task.task} for task in view.config.tasks(name)],
        "type": connector_type(config, plugins),
    }


def task_infos(view: View, name: str, plugins: Plugins) -> list[dict[str, Any]]:
    """Return the answer of `/connectors/{name}/tasks`; raises NotFoundError."""
    config = view.config.configs.get(name)
    if config is None:
        raise NotFoundError(f"Connector {name} not found")
    definition = _definition(config, plugins)
    found = []
    for task in view.config.tasks(name):
        own = view.config.task_configs[task]
        shown = masked(own, definition)
        found.append({"id": {"connector": task.connector, "task": task.task}, "config": shown})
    return found


def _state(status: Status) -> dict[str, Any]:
    shown = {"state": status.state.value, "worker_id": status.worker_id}
    optional: dict[str, Any] = {
        "trace": None if status.trace is None else hidden_text(status.trace),
        "version": status.version if status.version != "undefined" else None,
    }
    optional["restarts"] = status.restarts
    return {**shown, **{key: value for key, value in optional.items() if value}}


def task_status(view: View, task: TaskId) -> dict[str, Any]:
    """Return the answer of `/connectors/{name}/tasks/{n}/status`; raises NotFoundError."""
    status = view.statuses.statuses.get(task)
    if status is None:
        raise NotFoundError(f"No status found for task {task}")
    return {"id": task.task, **_state(status)}


def connector_status(view: View, name: str, plugins: Plugins) -> dict[str, Any]:
    """Return the answer of `/connectors/{name}/status`; raises NotFoundError."""
    status = view.statuses.statuses.get(name)
    if status is None:
        raise NotFoundError(f"No status found for connector {name}")
    tasks = [each.of for each in view.statuses.tasks(name) if isinstance(each.of, TaskId)]
    shown = {
        "name": name,
        "connector": _state(status),
        "tasks": [task_status(view, task) for task in tasks],
        "type": connector_type(view.config.configs.get(name), plugins),
    }
    if not tasks and name in view.idle:
        shown["no_tasks"] = hidden_text(view.idle[name])
    progress = [{"task": task.task, **_without_secrets(view.progress[task])} for task in tasks if task in view.progress]
    return {**shown, "progress": progress} if progress else shown


def _without_secrets(told: Any) -> Any:
    """Return what a task has told with no login or password in any of its texts, as in traces."""
    if isinstance(told, str):
        return hidden_text(told)
    if isinstance(told, Mapping):
        return {key: _without_secrets(each) for key, each in told.items()}
    return [_without_secrets(each) for each in told] if isinstance(told, list | tuple) else told


def topics_of(view: View, name: str) -> list[str]:
    """Return the topics that a connector has used since it was created or last reset, sorted."""
    return sorted(view.statuses.topics.get(name, {}))


def plugin_keys(plugins: Plugins, name: str) -> list[dict[str, Any]]:
    """Return the answer of `/connector-plugins/{name}/config`; raises NotFoundError."""
    plugin = plugins.any_kind(name)
    if plugin is None:
        raise NotFoundError(f"Unknown plugin {name}.")
    own: ConfigDef | None = getattr(plugin.cls, "config_def", None)
    if own is None:
        raise BadRequestError(f"{plugin.name}.config() must return a ConfigDef that is not null.")
    keys = dict(own.keys)
    if plugin.kind in (PluginKind.SINK, PluginKind.SOURCE):
        defaults = {"connector.plugin.version": str(plugin.version)}
        common = connector_def(sink=plugin.kind is PluginKind.SINK, plugins=plugins, defaults=defaults)
        keys |= {each: key for each, key in common.keys.items() if each not in keys}
    return [key_info(key) for key in keys.values()]
