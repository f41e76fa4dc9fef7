"""The three connectors' settings, with Kafka's names and defaults, and what of them each client gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ottla.base import ConfigError
from ottla.config import ConfigType
from ottla.connect import REQUIRED, ConfigDef, ConfigValue, Importance
from ottla.mirror.filters import CONFIG_PROPERTIES_EXCLUDE, GROUPS, GROUPS_EXCLUDE, TOPICS, TOPICS_EXCLUDE, Filter

__all__ = [
    "CHECKPOINT_DEF",
    "HEARTBEAT_DEF",
    "PACKAGE",
    "SOURCE_DEF",
    "checked",
    "client_properties",
]

PACKAGE = "org.apache.kafka.connect.mirror."
_STR, _INT, _LONG, _BOOL, _LIST, _SHORT = (
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.BOOLEAN,
    ConfigType.LIST,
    ConfigType.SHORT,
)
Key = tuple[str, ConfigType, Any, str]
_OWN = "or a class of your own, as package.module.Class."
_COMMON: Final[Sequence[Key]] = (
    ("source.cluster.alias", _STR, REQUIRED, "The name of the cluster that is mirrored."),
    ("target.cluster.alias", _STR, "target", "The name of the cluster that mirrors it."),
    ("enabled", _BOOL, True, "Whether anything is done."),
    ("admin.timeout.ms", _LONG, 60_000, "How long a question to a cluster may take."),
    ("replication.policy.class", _STR, f"{PACKAGE}DefaultReplicationPolicy", f"How topics are named there; {_OWN}"),
    ("replication.policy.separator", _STR, ".", "Between a cluster's name and its topic's."),
    (
        "replication.policy.internal.topic.separator.enabled",
        _BOOL,
        True,
        "Whether internal topics' names have the separator, too.",
    ),
    (
        "forwarding.admin.class",
        _STR,
        "org.apache.kafka.clients.admin.ForwardingAdmin",
        f"By what topics and what belongs to them are made; {_OWN}",
    ),
    ("metric.names.formats", _LIST, "legacy", "Known to Kafka."),
)
_TOPICS: Final[Sequence[Key]] = (
    ("topics", _LIST, TOPICS, "Topics that are mirrored: names and regular expressions of whole names."),
    ("topics.exclude", _LIST, TOPICS_EXCLUDE, "Topics that are not; this wins."),
    ("topic.filter.class", _STR, f"{PACKAGE}DefaultTopicFilter", f"What decides that; {_OWN}"),
)
_SYNCS: Final[Sequence[Key]] = (
    ("emit.offset-syncs.enabled", _BOOL, True, "Whether it is told where records lie on the target."),
    ("offset-syncs.topic.location", _STR, "source", "On which cluster: source or target."),
    ("offset-syncs.topic.replication.factor", _SHORT, 3, "Copies of that topic."),
    ("consumer.poll.timeout.ms", _LONG, 1000, "How long a poll waits for records."),
)
_SOURCE: Final[Sequence[Key]] = (
    *_COMMON,
    *_TOPICS,
    *_SYNCS,
    (
        "config.properties.exclude",
        _LIST,
        CONFIG_PROPERTIES_EXCLUDE,
        "Topics' configurations that are not copied.",
    ),
    ("config.property.filter.class", _STR, f"{PACKAGE}DefaultConfigPropertyFilter", f"What decides that; {_OWN}"),
    ("use.defaults.from", _STR, "target", "Whose defaults new topics have: source or target."),
    ("replication.factor", _INT, 2, "Copies of topics that are made."),
    ("refresh.topics.enabled", _BOOL, True, "Whether new topics and partitions are looked for."),
    ("refresh.topics.interval.seconds", _LONG, 600, "How often."),
    ("sync.topic.configs.enabled", _BOOL, True, "Whether topics' configurations are copied."),
    ("sync.topic.configs.interval.seconds", _LONG, 600, "How often."),
    ("sync.topic.acls.enabled", _BOOL, True, "Whether who may read topics may read them on the target."),
    ("sync.topic.acls.interval.seconds", _LONG, 600, "How often."),
    ("offset.lag.max", _LONG, 100, "Records that may lie between two offsets that are told."),
    ("heartbeats.replication.enabled", _BOOL, True, "Whether heartbeats are mirrored, whatever `topics` says."),
    ("add.source.alias.to.metrics", _BOOL, False, "Known to Kafka."),
)
_CHECKPOINT: Final[Sequence[Key]] = (
    *_COMMON,
    *_TOPICS,
    *_SYNCS,
    ("groups", _LIST, GROUPS, "Groups whose offsets are translated: names and regular expressions of whole names."),
    ("groups.exclude", _LIST, GROUPS_EXCLUDE, "Groups that are not; this wins."),
    ("group.filter.class", _STR, f"{PACKAGE}DefaultGroupFilter", f"What decides that; {_OWN}"),
    ("refresh.groups.enabled", _BOOL, True, "Whether new groups are looked for."),
    ("refresh.groups.interval.seconds", _LONG, 600, "How often."),
    ("emit.checkpoints.enabled", _BOOL, True, "Whether translated offsets are told."),
    ("emit.checkpoints.interval.seconds", _LONG, 60, "How often."),
    ("checkpoints.topic.replication.factor", _SHORT, 3, "Copies of that topic."),
    (
        "sync.group.offsets.enabled",
        _BOOL,
        False,
        "Whether groups have their offsets on the target, where nobody is in.",
    ),
    ("sync.group.offsets.interval.seconds", _LONG, 60, "How often."),
)
_HEARTBEAT: Final[Sequence[Key]] = (
    *_COMMON,
    ("emit.heartbeats.enabled", _BOOL, True, "Whether heartbeats are told."),
    ("emit.heartbeats.interval.seconds", _LONG, 1, "How often."),
    ("heartbeats.topic.replication.factor", _SHORT, 3, "Copies of that topic."),
)


def _definition(keys: Sequence[Key]) -> ConfigDef:
    found = ConfigDef()
    for name, type_, default, doc in keys:
        importance = Importance.HIGH if default is REQUIRED else Importance.LOW
        found.define(name, type_, default, importance=importance, doc=doc)
    return found


SOURCE_DEF, CHECKPOINT_DEF, HEARTBEAT_DEF = map(_definition, (_SOURCE, _CHECKPOINT, _HEARTBEAT))


def client_properties(props: Mapping[str, str], cluster: str, kind: str) -> dict[str, str]:
    """Return what a client of `cluster` (`source` or `target`) of a `kind` (`consumer`, `producer`, `admin`) is given.

    The later the stronger: `source.cluster.…`, `consumer.…`, `source.consumer.…`. Raises ConfigError without brokers.
    """
    found: dict[str, str] = {}
    for prefix in (f"{cluster}.cluster.", f"{kind}.", f"{cluster}.{kind}."):
        found |= {key.removeprefix(prefix): value for key, value in props.items() if key.startswith(prefix) and value}
    found.pop("alias", None)
    if not found.get("bootstrap.servers"):
        raise ConfigError(f"{cluster}.cluster.bootstrap.servers", None, "the brokers of that cluster")
    return found


def checked(
    values: dict[str, ConfigValue],
    props: Mapping[str, str | None],
    checks: Iterable[Callable[[Mapping[str, str]], object]],
) -> dict[str, Any]:
    """Run checks of the properties, then of both clusters' client properties; errors go to the values they are of.

    Returns the parsed settings. What is wrong with a cluster's properties is told at that cluster's alias.
    """
    settings = {name: each.value for name, each in values.items()}
    given = {name: value for name, value in props.items() if value is not None}
    for check in checks:
        _run(values, partial(_made, check, given), None)
    for cluster in ("source", "target"):
        _run(values, partial(client_properties, given, cluster, "admin"), f"{cluster}.cluster.alias")
    return settings


def _made(check: Callable[[Mapping[str, str]], object], given: Mapping[str, str]) -> None:
    made = check(given)
    if isinstance(made, Filter):
        made.close()


def _run(values: dict[str, ConfigValue], check: Callable[[], object], at: str | None) -> None:
    try:
        check()
    except ConfigError as error:
        (values.get(at or error.key) or values["source.cluster.alias"]).errors.append(str(error))
