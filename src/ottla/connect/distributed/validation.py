"""What only a distributed worker checks of a connector's configuration: groups that clash, and exactly-once support."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.config import hidden_text
from ottla.connect.api import SourceConnector
from ottla.connect.plugins import Plugins
from ottla.connect.storage import sink_group

__all__ = ["further_errors", "with_errors"]

Properties = Mapping[str, str | None]
_GROUP, _SERVERS = "consumer.override.group.id", "producer.override.bootstrap.servers"


def further_errors(
    config: Properties, plugins: Plugins, *, is_sink: bool, group_id: str, exactly_once: bool, bootstrap: str = ""
) -> dict[str, str]:
    """Return what is wrong by key; `config` has its placeholders replaced. A connector's own code is asked.

    `bootstrap` is where the worker's cluster is.
    """
    if is_sink:
        return _group_errors(config, group_id)
    connector = plugins.connector((config.get("connector.class") or "").strip()).cls()
    given = {key: value for key, value in config.items() if value is not None}
    found = {}
    servers = given.get(_SERVERS)
    if exactly_once and servers is not None and _addresses(servers) != _addresses(bootstrap):
        found[_SERVERS] = (
            "Under exactly.once.source.support=enabled a source writes to its worker's cluster only, where the leader "
            "fences older tasks and the offsets are. Remove the setting, or use a worker of the other cluster."
        )
    if given.get("exactly.once.support", "").strip().lower() == "required":
        words = _support_error(connector, given, exactly_once=exactly_once)
        if words:
            found["exactly.once.support"] = words
    if given.get("transaction.boundary", "").strip().lower() == "connector":
        words = _boundary_error(connector, given)
        if words:
            found["transaction.boundary"] = words
    return found


def _addresses(text: str) -> set[str]:
    return {each.strip() for each in text.split(",")}


def _group_errors(config: Properties, group_id: str) -> dict[str, str]:
    own = config.get(_GROUP)
    if own is not None:
        words = f"Consumer group {own} conflicts with Connect worker group {group_id}"
        return {_GROUP: words} if own == group_id else {}
    name = config.get("name") or ""
    words = f"Consumer group for sink connector named {name} conflicts with Connect worker group {group_id}"
    return {"name": words} if sink_group(name) == group_id else {}


def _support_error(connector: SourceConnector, config: Mapping[str, str], *, exactly_once: bool) -> str | None:
    if not exactly_once:
        return "This worker does not have exactly-once source support enabled."
    try:
        support = connector.exactly_once_support(config)
    except Exception as error:  # a plugin may raise anything
        return f"An unexpected error occurred during validation: {error}"
    if support is None:
        return (
            "The connector does not implement the API required for preflight validation of exactly-once source support. "
            "Please consult the documentation for the connector to determine whether it supports exactly-once semantics, "
            'and then consider reconfiguring the connector to use the value "requested" for this property (which will '
            "disable this preflight check and allow the connector to be created)."
        )
    return None if support else "The connector does not support exactly-once semantics with the provided configuration."


def _boundary_error(connector: SourceConnector, config: Mapping[str, str]) -> str | None:
    try:
        possible = connector.can_define_transactions(config)
    except Exception as error:  # a plugin may raise anything
        return f"An unexpected error occurred during validation: {error}"
    if possible:
        return None
    return (
        "The connector does not support connector-defined transaction boundaries with the given configuration. Please "
        "reconfigure it to use a different transaction boundary definition."
    )


def with_errors(infos: dict[str, Any], errors: Mapping[str, str]) -> dict[str, Any]:
    """Return a validation with further errors in their places."""
    errors = {name: hidden_text(words) for name, words in errors.items()}
    configs = [
        {**each, "value": {**each["value"], "errors": [*each["value"]["errors"], errors[each["value"]["name"]]]}}
        if each["value"] and each["value"]["name"] in errors
        else each
        for each in infos["configs"]
    ]
    known = {each["value"]["name"] for each in infos["configs"] if each["value"]}
    configs += [
        {
            "definition": None,
            "value": {"name": name, "value": None, "recommended_values": [], "errors": [words], "visible": True},
        }
        for name, words in errors.items()
        if name not in known
    ]
    return {**infos, "configs": configs, "error_count": infos["error_count"] + len(errors)}
