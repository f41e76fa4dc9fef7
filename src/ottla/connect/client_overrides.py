"""What a connector may set of its tasks' clients (KIP-458), and what of it has an effect.

Kafka's four policies, under their short names, their classes' names and those with the package. What a policy forbids is an
error of `validate` in Kafka's words, and refuses a task that was configured before. What clients here cannot do is an error
by name; what changes nothing here is told in a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.base import ConfigError
from ottla.client import PROTOCOLS, security_of, unused_security
from ottla.config import CONSUMER_KEYS, PRODUCER_KEYS, ConfigType
from ottla.config import ConfigKey as KnownKey
from ottla.connect.config_def import REQUIRED, ConfigDef, ConfigKey, ConfigValue, Importance
from ottla.connect.errors import ConnectError

__all__ = [
    "ALLOWLIST",
    "POLICY",
    "ClientKind",
    "OverridePolicy",
    "clients_of",
    "effective_keys",
    "ineffective_keys",
    "ineffective_overrides",
    "override_policy",
    "override_values",
    "refuse_overrides",
    "unsupported",
]

Properties = Mapping[str, str | None]
POLICY = "connector.client.config.override.policy"
ALLOWLIST = "connector.client.config.override.allowlist"
_PACKAGE, _CLASS = "org.apache.kafka.connect.connector.policy.", "ConnectorClientConfigOverridePolicy"
_PRINCIPAL = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})
_POLICIES: dict[str, frozenset[str] | None] = {
    "All": None,
    "None": frozenset(),
    "Principal": _PRINCIPAL,
    "Allowlist": frozenset(),
}
_LOGIN = "sasl.jaas.config"
_ADDRESSES = ("bootstrap.servers", "sasl.oauthbearer.token.endpoint.url")
"""Where a client sends its login."""
_QUEUE_TOPIC = "errors.deadletterqueue.topic.name"


class ClientKind(Enum):
    """A kind of client that a task has."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"

    @property
    def prefix(self) -> str:
        """What a connector's keys for it begin with."""
        return f"{self.value}.override."


@dataclass(frozen=True, slots=True)
class OverridePolicy:
    """Which keys connectors may set of clients: those of `keys`, or all where None."""

    name: str
    keys: frozenset[str] | None = None

    def forbidden(self, key: str) -> str | None:
        """Return why a key must not be set, in Kafka's words; None for one that may."""
        if self.keys is None or key in self.keys:
            return None
        return f"The '{self.name}' policy does not allow '{key}' to be overridden in the connector configuration."


def override_policy(worker: Mapping[str, str]) -> OverridePolicy:
    """Return a worker's policy, `All` where it names none; raises ConfigError for another than Kafka's four."""
    given = (worker.get(POLICY) or "All").strip()
    simple = given.removeprefix(_PACKAGE)
    name = simple.removesuffix(_CLASS) if simple.endswith(_CLASS) or simple == given else ""
    if name not in _POLICIES:
        raise ConfigError(POLICY, given, f"one of {', '.join(_POLICIES)}: a class in Java cannot be loaded")
    if name == "Allowlist":
        return OverridePolicy(name, frozenset(each.strip() for each in worker.get(ALLOWLIST, "").split(",")))
    return OverridePolicy(name, _POLICIES[name])


def clients_of(props: Properties, *, sink: bool) -> tuple[ClientKind, ...]:
    """Return the clients of a connector's tasks: a dead letter queue has a producer, what makes topics an admin client."""
    has_queue = bool((props.get(_QUEUE_TOPIC) or "").strip())
    makes_topics = has_queue or (not sink and any(key.startswith("topic.creation.") for key in props))
    used = {
        ClientKind.PRODUCER: not sink or has_queue,
        ClientKind.CONSUMER: sink,
        ClientKind.ADMIN: makes_topics,
    }
    return tuple(kind for kind, is_used in used.items() if is_used)


def _overrides(props: Properties, kind: ClientKind) -> Iterator[tuple[str, str]]:
    for name, value in props.items():
        if name.startswith(kind.prefix) and value is not None:
            yield name.removeprefix(kind.prefix), value


def override_values(
    props: Properties, *, sink: bool, policy: OverridePolicy, worker: Mapping[str, str] | None = None
) -> list[tuple[ConfigKey | None, ConfigValue]]:
    """Return what is found of every override of a client that the tasks have, and its key where Kafka knows one."""
    found = []
    for kind in clients_of(props, sink=sink):
        given = dict(_overrides(props, kind))
        wrong = {**dict(unsupported(kind, given)), **_given_away(kind, given, worker or {})}
        for name, text in given.items():
            key = _key(kind, name)
            value = ConfigValue(kind.prefix + name, text)
            if key is not None:
                try:
                    value.value = ConfigDef().parse_type(value.name, text, key.type)
                except ConfigError as error:
                    value.errors.append(str(error))
            value.errors += [each for each in (policy.forbidden(name), wrong.get(name)) if each]
            found.append((key, value))
    return found


def _given_away(kind: ClientKind, given: Mapping[str, str], worker: Mapping[str, str]) -> dict[str, str]:
    """Return the overrides that would have a worker's login sent elsewhere, and what to do.

    Whoever configures a connector is not whoever runs the worker. Kafka sends it, unless a policy forbids the address.
    """
    own = {key: worker.get(f"{kind.value}.{key}", "") for key in (_LOGIN, *_ADDRESSES)}
    own["bootstrap.servers"] = own["bootstrap.servers"] or worker.get("bootstrap.servers", "")
    if not own[_LOGIN] or given.get(_LOGIN):
        return {}
    return {
        name: f"{kind.prefix}{name}: the worker's own login is not sent to another address; give "
        f"{kind.prefix}{_LOGIN} beside it"
        for name in _ADDRESSES
        if name in given and not _places(given[name]) <= _places(own[name])
    }


def _places(text: str) -> set[str]:
    return {each.strip() for each in text.split(",") if each.strip()}


def refuse_overrides(
    props: Properties, *, sink: bool, policy: OverridePolicy, worker: Mapping[str, str] | None = None
) -> None:
    """Raise ConnectError for a configuration with overrides that are not allowed, before a task's clients are made."""
    kinds = clients_of(props, sink=sink)
    forbidden = [policy.forbidden(name) for kind in kinds for name, _ in _overrides(props, kind)]
    errors = [each for each in forbidden if each is not None]
    for kind in kinds:
        errors += _given_away(kind, dict(_overrides(props, kind)), worker or {}).values()
    if errors:
        raise ConnectError(f"Client Config Overrides not allowed: {' '.join(errors)}")


def _admin_keys() -> dict[str, KnownKey]:
    """Return the admin client's keys: those that producer and consumer share, and the few that are its own."""
    found = {
        name: key for name, key in PRODUCER_KEYS.items() if name in CONSUMER_KEYS and name != "interceptor.classes"
    }
    servers = found["bootstrap.servers"]._replace(default="")
    own = (
        servers,
        servers._replace(name="bootstrap.controllers"),
        found["connections.max.idle.ms"]._replace(default="300000"),
        found["enable.metrics.push"]._replace(default="false"),
        PRODUCER_KEYS["retries"]._replace(importance="LOW"),
        CONSUMER_KEYS["default.api.timeout.ms"],
    )
    return found | {key.name: key for key in own}


_KNOWN = {
    ClientKind.PRODUCER: PRODUCER_KEYS,
    ClientKind.CONSUMER: CONSUMER_KEYS,
    ClientKind.ADMIN: _admin_keys(),
}


def _key(kind: ClientKind, name: str) -> ConfigKey | None:
    known = _KNOWN[kind].get(name)
    if known is None:
        return None
    required = name.endswith(("bootstrap.servers", "serializer")) and kind is not ClientKind.ADMIN
    return ConfigKey(
        kind.prefix + name,
        ConfigType[known.type.name],
        REQUIRED if required else known.default,
        Importance[known.importance],
        known.doc,
        display_name=name,
    )


# What clients here make of it

_NEVER: dict[ClientKind, dict[str, str]] = {
    ClientKind.PRODUCER: {
        "transactional.id": "it is the worker's to set",
        "partitioner.class": "tasks in Python have none",
        "interceptor.classes": "tasks in Python have none",
    },
    ClientKind.CONSUMER: {"interceptor.classes": "tasks in Python have none"},
    ClientKind.ADMIN: {},
}
_EFFECTIVE: dict[ClientKind, frozenset[str]] = {
    ClientKind.PRODUCER: frozenset(
        {
            *("bootstrap.servers", "client.id", "acks", "enable.idempotence", "max.in.flight.requests.per.connection"),
            *("compression.type", "batch.size", "buffer.memory", "max.request.size"),
            *("delivery.timeout.ms", "request.timeout.ms", "transaction.timeout.ms"),
        }
    ),
    ClientKind.CONSUMER: frozenset(
        {
            *("bootstrap.servers", "client.id", "group.id", "group.instance.id", "group.protocol"),
            *("group.remote.assignor", "partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"),
            *("max.poll.interval.ms", "max.poll.records", "metadata.max.age.ms", "client.rack", "isolation.level"),
            *("auto.offset.reset", "max.partition.fetch.bytes", "fetch.max.bytes", "fetch.min.bytes"),
            *("fetch.max.wait.ms", "request.timeout.ms"),
        }
    ),
    ClientKind.ADMIN: frozenset({"bootstrap.servers", "client.id", "request.timeout.ms"}),
}
_EFFECTIVE_IN_QUERIES: dict[ClientKind, frozenset[str]] = {
    ClientKind.PRODUCER: frozenset({"bootstrap.servers", "client.id", "request.timeout.ms"}),
    ClientKind.CONSUMER: frozenset(
        {
            *("bootstrap.servers", "client.id", "group.id", "isolation.level", "auto.offset.reset"),
            *("max.partition.fetch.bytes", "request.timeout.ms"),
        }
    ),
    ClientKind.ADMIN: frozenset(),
}
_SATISFIED = {("enable.auto.commit", "false")}
"""What may be said and is so anyhow."""


def unsupported(kind: ClientKind, props: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of a client's properties that cannot be honoured and must not be passed over, and why."""
    for name, value in props.items():
        why = _NEVER[kind].get(name) if value else None
        if name == "security.protocol" and value.strip().upper() not in PROTOCOLS:
            why = f"one of {', '.join(PROTOCOLS)}"
        if name == "enable.auto.commit" and kind is ClientKind.CONSUMER and value.strip().lower() not in ("", "false"):
            why = "false: a sink's offsets are committed behind its task"
        if why:
            yield name, str(ConfigError(name, value, why))


def effective_keys(kind: ClientKind) -> frozenset[str]:
    """Return the keys of a kind of client that have an effect."""
    return _EFFECTIVE[kind]


def ineffective_keys(kind: ClientKind, props: Mapping[str, str], *, query: bool = False) -> list[str]:
    """Return the keys of a client's properties that change nothing here; `query` for a sink that is a streaming query."""
    known = (_EFFECTIVE_IN_QUERIES if query else _EFFECTIVE)[kind] | (
        security_of(props).keys() - unused_security(props)
    )
    refused = dict(unsupported(kind, props))
    return [
        name
        for name, value in props.items()
        if name not in known and name not in refused and (name, value.strip().lower()) not in _SATISFIED
    ]


def ineffective_overrides(props: Properties, *, sink: bool, query: bool = False) -> list[str]:
    """Return a line for each override of a connector that has no effect on its tasks."""
    used, found = clients_of(props, sink=sink), []
    for kind in ClientKind:
        given = dict(_overrides(props, kind))
        if kind in used:
            found += [f"{kind.prefix}{name} has no effect" for name in ineffective_keys(kind, given, query=query)]
        else:
            article = "an" if kind is ClientKind.ADMIN else "a"
            words = f"has no effect: without more configuration the connector's tasks have no use for {article}"
            found += [f"{kind.prefix}{name} {words} {kind.value} client" for name in given]
    return found
