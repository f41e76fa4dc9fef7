"""What a console is told: where it listens, which clusters it shows, and what it may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

from ottla.base import ConfigError
from ottla.console.clusters import ClusterSettings

__all__ = ["LISTENER_DEFAULT", "ConsoleSettings", "console_settings", "is_loopback"]

LISTENER_DEFAULT = "127.0.0.1:9180"
LISTENERS, READ_ONLY = "ottla.console.listeners", "ottla.console.read.only"
ANONYMOUS, HOSTS = "ottla.console.allow.anonymous", "ottla.console.hosts"
REGISTRY = "ottla.console.registry.url"
KEYS = (LISTENERS, READ_ONLY, ANONYMOUS, HOSTS, REGISTRY)
PREFIX = "ottla.console."


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """A console's settings; the first cluster is the one that the page opens with."""

    clusters: tuple[ClusterSettings, ...]
    listeners: tuple[tuple[str, int], ...] = (("127.0.0.1", 9180),)
    read_only: bool = False
    allow_anonymous: bool = False
    hosts: frozenset[str] = field(default_factory=frozenset)
    """Names under which browsers may ask for it, beside the listeners' own and this machine's."""
    registry: Mapping[str, str] | None = None
    """Properties of the client of a schema registry, that of the first cluster."""


def console_settings(properties: Mapping[str, str], clusters: tuple[ClusterSettings, ...]) -> ConsoleSettings:
    """Read `ottla.console.*`; raises ConfigError for what is unknown, and for what would let strangers in."""
    for key in properties:
        if key.startswith(PREFIX) and key not in KEYS:
            raise ConfigError(key, properties[key], f"there is no such setting; there are {', '.join(KEYS)}")
    listeners = tuple(_listener(each) for each in _listed(properties.get(LISTENERS) or LISTENER_DEFAULT))
    anonymous = _flag(properties, ANONYMOUS)
    for host, _ in listeners:
        if not is_loopback(host) and not anonymous:
            raise ConfigError(
                *(LISTENERS, properties.get(LISTENERS, ""), "an address of this machine alone, such as 127.0.0.1:9180"),
                f"{LISTENERS}: on {host or 'every interface'} whoever reaches it could do what this console may, since it "
                f"asks nobody who they are; {ANONYMOUS}=true allows that",
            )
    hosts = frozenset(each.lower() for each in _listed(properties.get(HOSTS) or ""))
    return ConsoleSettings(clusters, listeners, _flag(properties, READ_ONLY), anonymous, hosts, _registry(properties))


def _registry(properties: Mapping[str, str]) -> dict[str, str] | None:
    """Return a registry's properties, `schema.registry.…` and `basic.auth.…` of the same file among them."""
    url = properties.get(REGISTRY)
    if not url:
        return None
    own = {key: value for key, value in properties.items() if key.startswith(("schema.registry.", "basic.auth."))}
    return {**own, "schema.registry.url": url}


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _listener(text: str) -> tuple[str, int]:
    place = text.removeprefix("http://")
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ConfigError(LISTENERS, text, "HOST:PORT is expected")
    return host.strip("[]"), int(port)


def _flag(properties: Mapping[str, str], key: str) -> bool:
    value = (properties.get(key) or "false").strip().lower()
    if value not in ("true", "false"):
        raise ConfigError(key, value, "true or false is expected")
    return value == "true"


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
