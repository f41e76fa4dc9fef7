"""Where the services of `ottla dev` listen: on 127.0.0.1, at the ports that everybody knows, or the next free ones."""

from __future__ import annotations

import errno
from dataclasses import dataclass, fields

from ottla.base import OttlaError
from ottla.cli.local.ports import LOOPBACK, why_not_free

__all__ = ["HOST", "Places", "free_places"]

HOST = LOOPBACK
PORTS_TRIED_MAX = 100


@dataclass(frozen=True, slots=True)
class Places:
    """The port of each service; the defaults are Kafka's, Confluent's and ksqlDB's own."""

    broker: int = 9092
    registry: int = 8081
    connect: int = 8083
    sql: int = 8088
    console: int = 9180

    @property
    def bootstrap(self) -> str:
        """The broker's address, for `bootstrap.servers`."""
        return f"{HOST}:{self.broker}"

    def url(self, service: str) -> str:
        """Return the address of a service that speaks HTTP, by its name here."""
        return f"http://{HOST}:{getattr(self, service)}"


def free_places(usual: Places | None = None) -> Places:
    """Return the usual ports, and for one that is taken the next one that is not; raises OttlaError where there is none."""
    wanted = Places() if usual is None else usual
    found: dict[str, int] = {}
    for each in fields(Places):
        found[each.name] = _next_free(getattr(wanted, each.name), set(found.values()))
    return Places(**found)


def _next_free(first: int, taken: set[int]) -> int:
    last = min(first + PORTS_TRIED_MAX, 65_536)
    for port in range(first, last):
        if port not in taken and _is_free(port):
            return port
    raise OttlaError(f"no port from {first} to {last - 1} is free on {HOST}")


def _is_free(port: int) -> bool:
    error = why_not_free(port)
    if error is not None and error.errno == errno.EACCES:
        raise OttlaError(f"port {port} is for root, as a rule; choose one from 1024 on") from error
    return error is None
