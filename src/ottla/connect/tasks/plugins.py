"""A task's plugins, made from its configuration: the task itself, its converters and its transformations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.base import ConfigError
from ottla.connect import Converter, HeaderConverter, InstalledPlugin, PluginKind, Plugins, Stage, chain_of
from ottla.connect.tasks.interface import TaskSpec

__all__ = ["TaskPlugins", "equip"]

HEADER_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


@dataclass(frozen=True, slots=True)
class TaskPlugins:
    """What a task works with besides itself."""

    connector: InstalledPlugin
    key: Converter
    value: Converter
    headers: HeaderConverter
    stages: tuple[Stage, ...]


def equip(spec: TaskSpec, plugins: Plugins) -> TaskPlugins:
    """Make a task's converters and transformations; raises ConnectError or ConfigError for what cannot be made."""
    props = spec.connector_config
    connector = plugins.connector(props.get("connector.class") or "")
    find = plugins.find
    stages = chain_of(
        props,
        lambda name: find(PluginKind.TRANSFORMATION, name.strip()),
        lambda name: find(PluginKind.PREDICATE, name.strip()),
    )
    return TaskPlugins(
        connector,
        _converter(spec, plugins, "key.converter"),
        _converter(spec, plugins, "value.converter"),
        _header_converter(spec, plugins),
        tuple(stages),
    )


def _chosen(spec: TaskSpec, key: str, default: str | None = None) -> tuple[str, dict[str, Any]]:
    """Return a converter's class name and settings: the connector's where it names one, else the worker's."""
    props: Mapping[str, str | None] = spec.connector_config if spec.connector_config.get(key) else spec.worker
    name = props.get(key) or default
    if not name:
        raise ConfigError(key, None, "the worker or the connector has to name a converter")
    prefix = f"{key}."
    return name.strip(), {each[len(prefix) :]: value for each, value in props.items() if each.startswith(prefix)}


def _converter(spec: TaskSpec, plugins: Plugins, key: str) -> Converter:
    name, settings = _chosen(spec, key)
    made: Converter = plugins.require(PluginKind.CONVERTER, name)()
    made.configure(settings, is_key=key.startswith("key."))
    return made


def _header_converter(spec: TaskSpec, plugins: Plugins) -> HeaderConverter:
    name, settings = _chosen(spec, "header.converter", HEADER_CONVERTER)
    made: HeaderConverter = plugins.require(PluginKind.HEADER_CONVERTER, name)()
    made.configure_header({**settings, "converter.type": "header"})
    return made
