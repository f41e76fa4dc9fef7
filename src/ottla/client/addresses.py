"""Brokers' addresses, as `bootstrap.servers` writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.base import ConfigError

__all__ = ["Address", "parse_bootstrap"]

KEY = "bootstrap.servers"


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(servers: str | Iterable[str]) -> tuple[Address, ...]:
    """Read `host:port,host:port`, or such strings one by one; raises ConfigError on anything else."""
    texts = servers.split(",") if isinstance(servers, str) else servers
    found = tuple(dict.fromkeys(_parse(text.strip()) for text in texts if text.strip()))
    if not found:
        raise ConfigError(KEY, servers, "at least one host:port is needed")
    return found


def _parse(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    host = host.rpartition("://")[2]
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""  # an IPv6 address without brackets: nobody can tell where its port begins
    if not (host and colon and port.isdecimal() and 0 < int(port) < 65536):
        raise ConfigError(KEY, text, "host:port is expected, with a port from 1 to 65535")
    return Address(host, int(port))
