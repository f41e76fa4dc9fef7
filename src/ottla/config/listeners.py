"""Where a node listens and what it tells clients: `listeners`, `advertised.listeners` and what belongs to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from ottla.base import ConfigError, NodeId

__all__ = [
    "HttpListener",
    "Listener",
    "SecurityProtocol",
    "Voter",
    "listening_line",
    "parse_http_listeners",
    "parse_listeners",
    "parse_protocol_map",
    "parse_voters",
]


class SecurityProtocol(IntEnum):
    """What protects a listener; the number is the one in metadata records."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def logs_in(self) -> bool:
        """True where clients log in by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class Listener:
    """One named address.

    An empty host means every interface in `listeners`, and the machine's own name in `advertised.listeners`; port 0
    means one that the operating system picks.
    """

    name: str
    host: str
    port: int
    protocol: SecurityProtocol

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @property
    def own_prefix(self) -> str:
        """How keys begin that hold for this listener alone."""
        return f"listener.name.{self.name.lower()}."


@dataclass(frozen=True, slots=True)
class HttpListener:
    """Where HTTP is served; an empty host means every interface, and port 0 one that the operating system picks."""

    host: str
    port: int
    is_secure: bool = False
    """True for HTTPS."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.is_secure else ''}://{host}:{self.port}"


def listening_line(address: object, *, protection: str, admits: str) -> str:
    """Return how every service says, once at its start, where it listens, how that is protected, and who may come in."""
    return f"listening {address} ({protection}): {admits}"


@dataclass(frozen=True, slots=True)
class Voter:
    """One entry of `controller.quorum.voters`: `id@host:port`."""

    node_id: NodeId
    host: str
    port: int


_ENDPOINT = re.compile(r"(?P<name>[^:/]*)://(?:\[(?P<six>[0-9a-fA-F:.%\w]*)\]|(?P<host>[\w.%-]*)):(?P<port>-?\d+)")
_VOTER = re.compile(r"(?P<id>\d+)@(?:\[(?P<six>[0-9a-fA-F:.%\w]+)\]|(?P<host>[\w.%-]+)):(?P<port>\d+)")


def parse_protocol_map(text: str) -> dict[str, SecurityProtocol]:
    """Parse `listener.security.protocol.map`: `NAME:PROTOCOL,…`."""
    key = "listener.security.protocol.map"
    found = {}
    for pair in filter(None, (each.strip() for each in text.split(","))):
        name, _, protocol = pair.rpartition(":")
        if protocol.strip() not in SecurityProtocol.__members__ or not name:
            raise ConfigError(
                key, text, f"every entry is NAME:PROTOCOL with one of {', '.join(SecurityProtocol.__members__)}"
            )
        found[name.strip().upper()] = SecurityProtocol[protocol.strip()]
    return found


def parse_listeners(
    key: str, endpoints: Iterable[str], protocols: Mapping[str, SecurityProtocol], *, distinct_ports: bool
) -> tuple[Listener, ...]:
    """Parse `NAME://host:port` entries of `key`; names are unique, and ports too where `distinct_ports` asks for it."""
    found: list[Listener] = []
    for endpoint in endpoints:
        match = _ENDPOINT.fullmatch(endpoint)
        if match is None or not 0 <= int(match["port"]) <= 65535:
            raise ConfigError(key, endpoint, "expected LISTENER_NAME://host:port, with a port from 0 to 65535")
        name = match["name"].upper()
        if name not in protocols:
            raise ConfigError(key, endpoint, f"No security protocol defined for listener {name}")
        found.append(Listener(name, match["six"] or match["host"] or "", int(match["port"]), protocols[name]))
    _require_distinct(key, found, distinct_ports=distinct_ports)
    return tuple(found)


def parse_http_listeners(key: str, addresses: Iterable[str]) -> tuple[HttpListener, ...]:
    """Parse `http://host:port` and `https://host:port` entries of `key`."""
    found = []
    for address in addresses:
        match = _ENDPOINT.fullmatch(address.rstrip("/"))
        scheme = "" if match is None else match["name"].lower()
        if match is None or scheme not in ("http", "https") or not 0 <= int(match["port"]) <= 65535:
            raise ConfigError(key, address, "expected http://host:port or https://…, such as http://127.0.0.1:9404")
        found.append(HttpListener(match["six"] or match["host"] or "", int(match["port"]), scheme == "https"))
    return tuple(found)


def _require_distinct(key: str, listeners: list[Listener], *, distinct_ports: bool) -> None:
    text = ",".join(map(str, listeners))
    if len({each.name for each in listeners}) < len(listeners):
        raise ConfigError(key, text, "Each listener must have a different name")
    # One port may serve IPv4 and IPv6 under two names (KIP-797).
    ports = [(each.port, ":" in each.host) for each in listeners if each.port]
    if distinct_ports and len(set(ports)) < len(ports):
        raise ConfigError(key, text, "Each listener must have a different port")


def parse_voters(entries: Iterable[str]) -> tuple[Voter, ...]:
    """Parse `controller.quorum.voters`: `id@host:port` entries."""
    found = []
    for entry in entries:
        match = _VOTER.fullmatch(entry)
        if match is None or int(match["port"]) > 65535:
            raise ConfigError("controller.quorum.voters", entry, "each entry should be in the form {id}@{host}:{port}")
        found.append(Voter(NodeId(int(match["id"])), match["six"] or match["host"], int(match["port"])))
    return tuple(found)
