"""A worker's settings: its properties with placeholders resolved, every key parsed and held against Kafka's rules."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from ottla.base import ConfigError
from ottla.client import ClientSecurity, security_of, unused_security
from ottla.config import resolved
from ottla.connect.client_overrides import ALLOWLIST, ClientKind, ineffective_keys, override_policy, unsupported
from ottla.connect.config_def import ConfigDef
from ottla.connect.errors import config_error
from ottla.connect.providers import Providers, providers_of
from ottla.connect.rest_logins import rest_logins
from ottla.connect.worker_keys import DISTRIBUTED_ONLY, distributed_def, standalone_def

__all__ = ["WorkerConfig", "WorkerMode"]

_PREFIXES = (
    *("producer.", "consumer.", "admin.", "spark.", "config.providers."),
    *("key.converter.", "value.converter.", "header.converter.", "topic.creation."),
    *("listeners.https.", "admin.listeners.https."),
)
"""What begins with these is read by whom it is for."""
_REST = {"rest.port": "listeners=http://:PORT", "rest.host.name": "listeners=http://HOST:PORT"}
"""Keys that Kafka had before 3.0, which are still understood, and what stands for them now."""
UNHEARD = frozenset(
    {
        *("client.dns.lookup", "plugin.discovery", "send.buffer.bytes", "receive.buffer.bytes"),
        *("reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms", "retry.backoff.max.ms"),
        *("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms", "request.timeout.ms"),
        *("connections.max.idle.ms", "metadata.max.age.ms", "metadata.recovery.strategy"),
        *("metadata.recovery.rebootstrap.trigger.ms", "key.converter.plugin.version"),
        *("value.converter.plugin.version", "header.converter.plugin.version"),
    }
)
"""Kafka's keys of a worker that nothing reads here; another value than the default is told."""
_JMX = "org.apache.kafka.common.metrics.JmxReporter"
"""Kafka's default, which stands in many files."""


class WorkerMode(Enum):
    """How a worker keeps what it knows: by itself, or in topics that it shares with a group."""

    STANDALONE = "standalone"
    DISTRIBUTED = "distributed"

    @property
    def definition(self) -> ConfigDef:
        """The keys of such a worker."""
        return standalone_def() if self is WorkerMode.STANDALONE else distributed_def()


@dataclass(frozen=True)
class WorkerConfig:
    """The settings of one worker. `properties` are all of them as text, `values` the known ones with their types."""

    mode: WorkerMode
    properties: Mapping[str, str]
    values: Mapping[str, Any]
    providers: Providers
    warnings: tuple[str, ...] = ()
    """What was given and has no effect, one line each."""

    given: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The file's own text, with placeholders."""

    @classmethod
    def load(cls, given: Mapping[str, str], mode: WorkerMode) -> WorkerConfig:
        """Return the settings of a properties file; raises ConfigError in Kafka's words for the first mistake."""
        providers = providers_of(given)
        whole = resolved(given, providers.lookup)
        properties = {key: value for key, value in whole.items() if value is not None}
        values = mode.definition.parse(properties)
        _refuse(properties, values)
        return cls(mode, properties, values, providers, tuple(_warnings(properties, values, mode)), dict(given))

    def __getitem__(self, name: str) -> Any:
        """Return a known key's typed value."""
        return self.values[name]

    @property
    def plugin_path(self) -> tuple[Path, ...]:
        """The folders with further plugins."""
        return tuple(Path(each.strip()) for each in self.values["plugin.path"] or () if each.strip())

    @property
    def advertised_scheme(self) -> str:
        """By which of its listeners others reach the REST interface; `http` where there are both and nothing is said."""
        named = self.properties.get("rest.advertised.listener", "").strip().lower()
        schemes = [each.partition("://")[0].strip().lower() for each in self.values["listeners"] or ["http://"]]
        return named or ("http" if "http" in schemes else schemes[0])

    def advertised(self, listening: str, port: int) -> tuple[str, str]:
        """Return the worker's id (`host:port`) and the address at which others reach its REST interface."""
        host = self.values["rest.advertised.host.name"] or self.properties.get("rest.host.name") or listening
        if host in ("", "0.0.0.0", "::"):
            host = _own_address()
        port = self.values["rest.advertised.port"] or port
        shown = f"[{host}]" if ":" in host else host
        return f"{shown}:{port}", f"{self.advertised_scheme}://{shown}:{port}/"


def _own_address() -> str:
    """Return an address of this machine, as Java's `InetAddress.getLocalHost` does; loopback where it has no other."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def _refuse(properties: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Raise ConfigError for what would leave open what the operator believes to be closed, or can never work."""
    ClientSecurity.of(security_of(properties))
    rest_logins(properties, os.environ)
    advertised = properties.get("rest.advertised.listener", "").strip()
    if advertised.lower() not in ("", "http", "https"):
        raise ConfigError("rest.advertised.listener", advertised, "http or https")
    if properties.get("ssl.client.auth", "none").strip().lower() not in ("", "none") and not _has_https(properties):
        raise config_error(
            "ssl.client.auth cannot be kept: nothing is served by HTTPS, where clients show certificates"
        )
    override_policy(properties)
    for kind in ClientKind:
        for name, why in unsupported(kind, _client(properties, kind)):
            raise config_error(f"{kind.value}.{name}: {why}")
    if "session.timeout.ms" in values and values["heartbeat.interval.ms"] >= values["session.timeout.ms"]:
        raise ConfigError(
            "heartbeat.interval.ms", values["heartbeat.interval.ms"], "less than session.timeout.ms, as a rule a third"
        )


def _client(properties: Mapping[str, str], kind: ClientKind) -> dict[str, str]:
    """Return what a worker's properties say of a kind of its tasks' clients."""
    return {
        name: properties[key]
        for key in properties
        if (name := key.removeprefix(f"{kind.value}.")) != key and key != "admin.listeners"
    }


def _has_https(properties: Mapping[str, str]) -> bool:
    """Return whether something is served by HTTPS, whose keys may be the worker's own `ssl.*`."""
    keys = ("listeners", "admin.listeners", "ottla.http.listeners")
    return any("https://" in properties.get(key, "").lower() for key in keys)


def _warnings(properties: Mapping[str, str], values: Mapping[str, Any], mode: WorkerMode) -> list[str]:
    known, unused = mode.definition.keys, unused_security({"security.protocol": "PLAINTEXT", **properties})
    places = [each.strip() for each in properties.get("plugin.path", "").split(",")]
    found = [
        f"plugin.path: there is no {each}; it is passed over" for each in places if each and not Path(each).exists()
    ]
    for kind in ClientKind:
        ineffective = ineffective_keys(kind, _client(properties, kind))
        found += [f"{kind.value}.{name} has no effect on the clients of tasks" for name in ineffective]
    if ALLOWLIST in properties and override_policy(properties).name != "Allowlist":
        found.append(f"{ALLOWLIST} has no effect: the policy is not Allowlist")
    for name in properties:
        if name in _REST:
            found.append(f"{name} was removed from Kafka; it is still understood, and {_REST[name]} says the same")
        elif name == "metrics.recording.level" and properties[name].strip() != "INFO":
            found.append(f"{name} has no effect: there are no metrics for {properties[name].strip()} alone")
        elif name == "metric.reporters" and properties[name].strip() not in ("", _JMX):
            found.append(f"{name} has no effect: it names classes in Java; ottla.http.listeners serves the metrics")
        elif name in unused and not (name.startswith("ssl.") and _has_https(properties)):
            found.append(f"{name} has no effect: {unused[name]}")
        elif name in UNHEARD and name in known:
            if values[name] != known[name].default:
                found.append(f"{name} has no effect here")
        elif name in known or name.startswith(_PREFIXES):
            continue
        elif name in DISTRIBUTED_ONLY:
            found.append(f"{name} has no effect on a standalone worker")
        elif name == "offset.storage.file.filename":
            found.append(f"{name} has no effect on a distributed worker")
        else:
            found.append(f"{name} is not a setting of a worker; it has no effect")
    return found
