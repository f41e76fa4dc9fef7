"""Which other instances of a service clients' logins may be sent on to: a group says where they are, and may be lied to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ottla.base import ConfigError

__all__ = ["LoginsTo", "logins_to"]

_AUTHORITIES = ("ssl.truststore.location", "ssl.truststore.certificates")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class LoginsTo:
    """Hosts, or `host:port`, that are listed; without a list those whose certificates the operator's authorities sign."""

    scheme: str = "http"
    hosts: frozenset[str] = frozenset()
    has_authorities: bool = False

    @property
    def is_anywhere(self) -> bool:
        """Whether there is any instance that logins may be sent to."""
        return bool(self.hosts) or (self.scheme == "https" and self.has_authorities)

    def takes(self, url: str) -> bool:
        """Return whether a client's login may be sent to an address."""
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme)
        except ValueError:
            return False
        if parts.scheme != self.scheme or not host or "@" in parts.netloc:
            return False
        return bool(self.hosts & {host, f"{host}:{port}"}) if self.hosts else self.is_anywhere


def logins_to(key: str, listed: str, *, scheme: str, tls: Mapping[str, str | None]) -> LoginsTo:
    """Return what a setting lists; `tls` is with what instances ask each other. Raises ConfigError."""
    hosts = frozenset(each.strip().lower() for each in listed.split(",") if each.strip())
    wrong = next((each for each in sorted(hosts) if not re.fullmatch(r"[a-z0-9_.:%\-]{1,260}", each)), None)
    if wrong is not None:
        raise ConfigError(key, wrong, "hosts of the instances, or host:port, with commas between")
    return LoginsTo(scheme, hosts, any(tls.get(each) for each in _AUTHORITIES))
