"""What the properties of a MirrorMaker by itself (`mm2.properties`) mean: a worker for each flow, and its connectors.

A flow goes from one cluster to another. Its worker keeps what it knows on the target, and runs the three connectors there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, urlsplit

from ottla.base import ConfigError
from ottla.mirror.settings import CHECKPOINT_DEF, HEARTBEAT_DEF, PACKAGE, SOURCE_DEF

__all__ = ["CONNECTOR_NAMES", "Flow", "flows_of", "has_internal_rest"]

CONNECTOR_NAMES = ("MirrorSourceConnector", "MirrorHeartbeatConnector", "MirrorCheckpointConnector")
_TO_WORKERS = (
    *("offset.storage", "config.storage", "status.storage", "key.converter", "value.converter", "header.converter"),
    *("task", "worker", "replication.policy", "spark.", "plugin.path"),
)
"""Beginnings of bare names that every worker gets; all else of a worker is given as its target's."""
_CLIENT_NAMES = (
    *("bootstrap.servers", "security.protocol", "security.providers", "ssl.", "sasl."),
    *("client.dns.lookup", "metadata.recovery.strategy"),
)
_KINDS = ("producer", "consumer", "admin")
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_OF_CONNECT = ("tasks.max", "errors.", "transforms", "predicates", "topic.creation.", "exactly.once.support")
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
INTERNAL_REST = "dedicated.mode.enable.internal.rest"
_WHO_MAY_ASK = ("rest.extension.classes", "java.security.auth.login.config")
"""Who may ask the interface, also at the loopback address alone: the extension, and its JAAS file."""


@dataclass(frozen=True, slots=True)
class Flow:
    """From one cluster to another."""

    source: str
    target: str
    worker: Mapping[str, str]
    """The properties of its worker."""
    connectors: Mapping[str, Mapping[str, str]]
    """The configurations of its connectors, by name."""

    @property
    def path(self) -> str:
        """Where its worker's REST interface is, below the one address that all have (KIP-710)."""
        return f"/{quote(self.source, safe='')}/{quote(self.target, safe='')}"

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


def flows_of(given: Mapping[str, str], targets: Sequence[str] = ()) -> list[Flow]:
    """Return the flows that properties ask for, with `targets` only those to these clusters; raises ConfigError.

    A flow is there where it is enabled, and where its heartbeats are on, which they are unless they are turned off.
    """
    clusters = [each.strip() for each in given.get("clusters", "").split(",") if each.strip()]
    if not clusters:
        raise ConfigError("clusters", given.get("clusters"), "", 'Missing required configuration "clusters"')
    if len(set(clusters)) < len(clusters):
        raise ConfigError("clusters", given["clusters"], "each cluster once")
    if unknown := [each for each in targets if each not in clusters]:
        raise ConfigError("--clusters", " ".join(unknown), f"some of {', '.join(clusters)}")
    for each in clusters:
        if not given.get(f"{each}.bootstrap.servers"):
            raise ConfigError(f"{each}.bootstrap.servers", None, "the brokers of that cluster")
    found = [
        Flow(source, target, _worker(given, source, target), _connectors(given, source, target))
        for source in clusters
        for target in clusters
        if source != target and (not targets or target in targets) and _is_there(given, source, target)
    ]
    if not found:
        raise ConfigError("clusters", given["clusters"], "", "No source->target replication flows.")
    internal = has_internal_rest(given)
    own = _interface(given) if internal else {"listeners": _users_place(given), **_starting(given, _WHO_MAY_ASK)}
    return [replace(flow, worker={**flow.worker, **own}) for flow in found]


def has_internal_rest(given: Mapping[str, str]) -> bool:
    """Whether nodes reach each other, at `listeners`; raises ConfigError for what is neither true nor false."""
    text = given.get(INTERNAL_REST, "false").strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(INTERNAL_REST, given[INTERNAL_REST], "true or false")
    return text == "true"


def _is_there(given: Mapping[str, str], source: str, target: str) -> bool:
    beats = given.get(f"{source}->{target}.emit.heartbeats.enabled", given.get("emit.heartbeats.enabled", "true"))
    return "true" in (given.get(f"{source}->{target}.enabled", "").strip().lower(), beats.strip().lower())


def _starting(given: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {key: value for key, value in given.items() if key.startswith(names)}


def _below(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)}


def _cluster(given: Mapping[str, str], alias: str) -> dict[str, str]:
    """Return a cluster's properties; what secures its clients is there for each kind of them, too."""
    found = _below(given, f"{alias}.")
    common = {key: value for key, value in given.items() if key.startswith(_CLIENT_NAMES)}
    for key, value in {
        **common,
        **{key: value for key, value in found.items() if key.startswith(_CLIENT_NAMES)},
    }.items():
        found.setdefault(key, value)
        for kind in _KINDS:
            found.setdefault(f"{kind}.{key}", value)
    return found


def _worker(given: Mapping[str, str], source: str, target: str) -> dict[str, str]:
    found = _cluster(given, target)
    found |= {key: value for key, value in given.items() if key.startswith((*_TO_WORKERS, "config.providers"))}
    defaults = {
        "client.id": f"{source}->{target}",
        "group.id": f"{source}-mm2",
        "offset.storage.topic": f"mm2-offsets.{source}.internal",
        "config.storage.topic": f"mm2-configs.{source}.internal",
        "status.storage.topic": f"mm2-status.{source}.internal",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "header.converter": _BYTES,
    }
    return {**defaults, **found, "connector.client.config.override.policy": "All"}


def _connectors(given: Mapping[str, str], source: str, target: str) -> dict[str, dict[str, str]]:
    definitions = dict(zip(CONNECTOR_NAMES, (SOURCE_DEF, HEARTBEAT_DEF, CHECKPOINT_DEF), strict=True))
    known = {key for definition in definitions.values() for key in definition.keys}
    beginnings = (*_OF_CONNECT, "config.providers", "replication.policy")
    found = {key: value for key, value in given.items() if key in known or key.startswith(beginnings)}
    for side, alias in (("source", source), ("target", target)):
        for key, value in _cluster(given, alias).items():
            is_of_client = key.partition(".")[0] in _KINDS
            found[f"{side}.{key}" if is_of_client else f"{side}.cluster.{key}"] = value
    found |= {"source.cluster.alias": source, "target.cluster.alias": target}
    found |= _below(given, f"{source}->{target}.")
    found.setdefault("enabled", "false")
    return {name: {**found, "name": name, "connector.class": PACKAGE + name} for name in CONNECTOR_NAMES}


def _users_place(given: Mapping[str, str]) -> str:
    """Return where users of this machine ask: `listeners` where they are of the loopback address, else any free port there.

    Kafka's MirrorMaker has no interface without the internal one: files that say another address for it open nothing.
    """
    asked = given.get("listeners", "").strip()
    hosts = [urlsplit(each.strip()).hostname for each in asked.split(",")]
    return asked if set(hosts) <= _LOOPBACK else "http://127.0.0.1:0"


def _interface(given: Mapping[str, str]) -> dict[str, str]:
    """Return what the interface is given that all flows' workers have together; bare `ssl.…` are its, too, as in Kafka."""
    if not given.get("listeners", "").strip():
        raise ConfigError("listeners", None, f"an address such as http://host:8080, for {INTERNAL_REST}=true")
    found = _starting(given, ("listeners", "rest.", "response.http.", "access.control.", *_WHO_MAY_ASK))
    if not any(key.startswith("listeners.https.") for key in found):
        found |= {f"listeners.https.{key}": value for key, value in given.items() if key.startswith("ssl.")}
    return found
