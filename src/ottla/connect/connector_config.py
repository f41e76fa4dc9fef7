"""A connector's configuration as a whole: the common keys, those of its transformations and predicates, and its own.

`validate_connector` is what `PUT /connector-plugins/{name}/config/validate` answers and what a herder asks before it
stores anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.base import ConfigError
from ottla.config import ConfigType
from ottla.connect.client_overrides import override_policy, override_values
from ottla.connect.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigValue,
    Importance,
    Recommender,
    Width,
    config_info,
    config_infos,
    text_of,
)
from ottla.connect.connector_keys import COMMON_KEYS, SINK_KEYS, SOURCE_KEYS, ConnectorKey
from ottla.connect.data.java_text import java_text
from ottla.connect.errors import BadRequestError, ConnectError
from ottla.connect.java_regex import PatternError, compile_java
from ottla.connect.plugins import InstalledPlugin, PluginKind, Plugins
from ottla.connect.validators import (
    CaseInsensitiveValidString,
    Composite,
    Lambda,
    NonEmptyString,
    NonEmptyText,
    NonNull,
    Range,
    Regex,
    Validator,
    ValidList,
    ValidString,
    invalid,
)

__all__ = ["connector_def", "enriched_def", "validate_connector"]

Properties = Mapping[str, str | None]


def _unique(name: str, value: Any) -> None:
    if len(set(value)) < len(value):
        raise invalid(name, value, "Duplicate alias provided.")


def _at_least_zero(name: str, value: Any) -> None:
    if value is not None:
        Range(least=0)(name, value)


def _aliases(kind: str) -> Validator:
    return Composite(NonNull(), Lambda(_unique, f"unique {kind} aliases"))


_VALIDATORS: dict[str, Validator] = {
    "name": NonEmptyText(),
    "tasks.max": Range(least=1),
    "transforms": _aliases("transformation"),
    "predicates": _aliases("predicate"),
    "config.action.reload": ValidString("none", "restart"),
    "errors.tolerance": ValidString("none", "all"),
    "topic.creation.groups": Composite(NonNull(), Lambda(_unique, "unique topic creation groups")),
    "exactly.once.support": CaseInsensitiveValidString("REQUIRED", "REQUESTED"),
    "transaction.boundary": CaseInsensitiveValidString("INTERVAL", "POLL", "CONNECTOR"),
    "transaction.boundary.interval.ms": Lambda(_at_least_zero, "[0,...]"),
    "offsets.storage.topic": NonEmptyString(),
    "topics": ValidList(),
    "topics.regex": Regex(),
}


class _OneOf:
    """Recommends the installed plugins of a kind."""

    def __init__(self, plugins: Plugins, kind: PluginKind) -> None:
        self._names = [each.name for each in plugins.of_kind(kind)]

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        """See `Recommender`."""
        return self._names

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """See `Recommender`."""
        return True


class _Versions:
    """Recommends the versions of the plugin that another key names; has no meaning where that is not set."""

    def __init__(self, plugins: Plugins | None, of: str) -> None:
        self._plugins, self._of = plugins, of

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        """See `Recommender`."""
        value = parsed.get(self._of)
        if self._plugins is None or value is None:
            return []
        named = value if isinstance(value, str) else text_of(value)
        plugin = self._plugins.any_kind(named or "")
        return [] if plugin is None else [plugin.version]

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """See `Recommender`."""
        return parsed.get(self._of) is not None


_CONVERTERS = {
    "key.converter": PluginKind.CONVERTER,
    "value.converter": PluginKind.CONVERTER,
    "header.converter": PluginKind.HEADER_CONVERTER,
}


def connector_def(
    *, sink: bool, plugins: Plugins | None = None, defaults: Mapping[str, str | None] | None = None
) -> ConfigDef:
    """Return the keys that every source or sink has; with plugins, converters are checked and recommended.

    `defaults` are those of this connector on this worker: its own version (KIP-891), the worker's converters.
    """
    found = ConfigDef() if plugins is None else ConfigDef(classes=plugins.class_of)
    own = defaults or {}
    for key in COMMON_KEYS + (SINK_KEYS if sink else SOURCE_KEYS):
        _define(found, key._replace(default=own[key.name]) if key.name in own else key, plugins)
    return found


def _define(found: ConfigDef, key: ConnectorKey, plugins: Plugins | None) -> None:
    found.define(
        key.name,
        ConfigType[key.type],
        REQUIRED if key.required else key.default,
        importance=Importance[key.importance],
        doc=key.doc,
        validator=_VALIDATORS.get(key.name),
        group=key.group,
        order=key.order,
        width=Width[key.width],
        display_name=key.display_name,
        recommender=_recommender(key.name, plugins),
    )


def _recommender(name: str, plugins: Plugins | None) -> Recommender | None:
    if name.endswith(".plugin.version"):
        of = name.removesuffix(".plugin.version")
        return _Versions(plugins, "connector.class" if of == "connector" else of)
    kind = _CONVERTERS.get(name)
    return _OneOf(plugins, kind) if plugins is not None and kind is not None else None


def enriched_def(base: ConfigDef, props: Properties, plugins: Plugins) -> ConfigDef:
    """Return the keys with those of the transformations and predicates that a configuration names."""
    found = base.copy()
    for name, kind in (("transforms", PluginKind.TRANSFORMATION), ("predicates", PluginKind.PREDICATE)):
        aliases = [each.strip() for each in (props.get(name) or "").split(",") if each.strip()]
        for alias in dict.fromkeys(aliases):
            _enrich(found, f"{name}.{alias}.", alias, kind, props, plugins)
    return found


def _enrich(found: ConfigDef, prefix: str, alias: str, kind: PluginKind, props: Properties, plugins: Plugins) -> None:
    transformation = kind is PluginKind.TRANSFORMATION
    word, group = ("Transformation", "Transforms") if transformation else ("Predicate", "Predicates")
    group = f"{group}: {alias}"
    cls = plugins.find(kind, (props.get(f"{prefix}type") or "").strip())

    def check(name: str, value: Any) -> None:
        if transformation and f"{prefix}negate" in props and f"{prefix}predicate" not in props:
            raise ConfigError(
                name,
                value,
                "",
                f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' defining a predicate "
                "to be negated.",
            )
        if value is not None and cls is None:
            raise invalid(name, value, f"Not a {word}")

    found.define(
        f"{prefix}type",
        ConfigType.CLASS,
        importance=Importance.HIGH,
        doc=f"Class for the '{alias}' {word.lower()}.",
        validator=Lambda(check, f"valid configs for {alias} {word.lower()}"),
        group=group,
        order=0,
        width=Width.LONG,
        display_name=f"{word} type for {alias}",
        recommender=_OneOf(plugins, kind),
    )
    found.define(
        f"{prefix}plugin.version",
        ConfigType.STRING,
        None if cls is None else str(cls.version),
        importance=Importance.HIGH,
        doc=f"Version of the '{alias}' {word.lower()}.",
        group=group,
        order=1,
        width=Width.LONG,
        display_name=f"{word} version for {alias}",
        recommender=_Versions(plugins, f"{prefix}type"),
    )
    if cls is not None:
        found.embed(prefix, group, _own_def(cls, transformation=transformation), order=2)


def _own_def(cls: type[Any], *, transformation: bool) -> ConfigDef:
    """Return the keys of a transformation, with what every one has, or those of a predicate."""
    own = ConfigDef()
    if transformation:
        predicate = "The alias of a predicate used to determine whether to apply this transformation."
        own.define("predicate", ConfigType.STRING, None, importance=Importance.MEDIUM, doc=predicate)
        negate = "Whether the configured predicate should be negated."
        own.define("negate", ConfigType.BOOLEAN, False, importance=Importance.MEDIUM, doc=negate)
    own.keys |= {name: key for name, key in cls.config_def.keys.items() if name not in own.keys}
    own.groups += cls.config_def.groups
    return own


def _converters(worker: Mapping[str, str], plugins: Plugins) -> dict[str, str | None]:
    """Return the worker's converters and their versions, which a connector without its own has."""
    found: dict[str, str | None] = {}
    for key in _CONVERTERS:
        plugin = plugins.any_kind(worker.get(key, ""))
        if plugin is not None:
            found |= {key: plugin.name, f"{key}.plugin.version": str(plugin.version)}
    return found


def validate_connector(props: Properties, plugins: Plugins, worker: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return everything that is wrong with a connector's configuration, in the shape of the validate endpoint.

    `worker` has the worker's converters, which are the connector's where it names none, and its policy of client overrides.

    Raises BadRequestError for a configuration without a `connector.class`, or with one that is not installed.
    """
    name = props.get("connector.class")
    if not name:
        raise BadRequestError(f"Connector config {_shown(props)} contains no connector type")
    try:
        plugin = plugins.connector(name.strip())
    except ConnectError as error:
        raise BadRequestError(str(error)) from error
    sink = plugin.kind is PluginKind.SINK
    defaults = {**_converters(worker or {}, plugins), "connector.plugin.version": str(plugin.version)}
    common = connector_def(sink=sink, plugins=plugins, defaults=defaults)
    definition = enriched_def(common, props, plugins)
    values = definition.validate(props)
    if sink:
        _check_topics(props, values)
    for key, value in props.items():
        if value is None:
            null = "Null value can not be supplied as the configuration value."
            values.setdefault(key, ConfigValue(key)).errors.append(null)
    infos = _merged(name, plugin, definition, values, props)
    policy = override_policy(worker or {})
    for override, found in override_values(props, sink=sink, policy=policy, worker=worker):
        infos["configs"].append(config_info(override, found))
        infos["error_count"] += len(found.errors)
    return infos


def _merged(
    name: str, plugin: InstalledPlugin, definition: ConfigDef, values: dict[str, ConfigValue], props: Properties
) -> dict[str, Any]:
    own: ConfigDef = plugin.cls.config_def
    found = plugin.cls().validate(props)
    keys = {**definition.keys, **own.keys}
    groups = list(dict.fromkeys((*definition.groups, *own.groups)))
    for key, value in found.items():
        before = values.get(key)
        if before is not None:  # of both the connector and the worker: nothing that either found is lost
            value.errors = list(dict.fromkeys((*before.errors, *value.errors)))
    return config_infos(name, keys, {**values, **found}, groups)


def _shown(props: Properties) -> str:
    return "{" + ", ".join(f"{key}" for key in props) + "}"


def _check_topics(props: Properties, values: dict[str, ConfigValue]) -> None:
    """Add what is wrong with a sink's topics: both or neither of list and expression, or the dead letters among them."""
    topics, regex = (props.get("topics") or "").strip(), (props.get("topics.regex") or "").strip()
    queue = (props.get("errors.deadletterqueue.topic.name") or "").strip()
    if topics and regex:
        for key in ("topics", "topics.regex"):
            values[key].errors.append("topics and topics.regex are mutually exclusive options, but both are set.")
    if not topics and not regex:
        for key in ("topics", "topics.regex"):
            values[key].errors.append("Must configure one of topics or topics.regex")
    listed = [each.strip() for each in topics.split(",")]
    if queue and queue in listed:
        shown = java_text(listed)
        values["topics"].errors.append(
            f"The DLQ topic '{queue}' may not be included in the list of topics ('topics={shown}') consumed by the "
            "connector"
        )
    if queue and regex and _matches(regex, queue):
        values["topics.regex"].errors.append(
            f"The DLQ topic '{queue}' may not be matched by the regex for the topics ('topics.regex={regex}') consumed by "
            "the connector"
        )


def _matches(regex: str, topic: str) -> bool:
    try:
        return compile_java(regex).fullmatch(topic) is not None
    except PatternError:
        return False  # the key's validator has said so already
