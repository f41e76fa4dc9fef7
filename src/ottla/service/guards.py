"""The guard of a service by its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urlsplit

from ottla.http import HOSTS_KEY, BasicLogins, Guard, Reply, Request, everybody, known_hosts

__all__ = ["HOSTS_KEY", "basic_admission", "guard_of", "hosts_of", "words_of"]

ORIGINS_KEY = "access.control.allow.origin"


def hosts_of(properties: Mapping[str, str], key: str = HOSTS_KEY) -> tuple[str, ...]:
    """Return the names that an operator lists."""
    return words_of(properties.get(key, ""))


def words_of(text: str) -> tuple[str, ...]:
    """Return what a setting lists between commas, without what is empty."""
    return tuple(each.strip() for each in text.split(",") if each.strip())


def guard_of(
    admit: Callable[[Request], Reply | None],
    *,
    listeners: Iterable[str],
    is_protected: bool,
    advertised: Iterable[str] = (),
    hosts: Iterable[str] = (),
    origins: Iterable[str] | None = None,
    hosts_key: str = HOSTS_KEY,
) -> Guard:
    """Return a service's guard.

    `listeners` are the hosts that it listens on, `advertised` the hosts or URLs that others are told, `hosts` what the
    operator adds; `is_protected` says whether every address has a login or TLS. `origins` are other pages' that may ask,
    None where the service has no setting for them.
    """
    own = [*listeners, *(_host(each) for each in advertised)]
    names = known_hosts(own, hosts, is_protected=is_protected)
    return Guard(admit, names, tuple(origins or ()), hosts_key, "" if origins is None else ORIGINS_KEY)


def _host(address: str) -> str:
    return (urlsplit(address).hostname or "") if "://" in address else address


def basic_admission(logins: BasicLogins | None, refused: Callable[[], Reply]) -> Callable[[Request], Reply | None]:
    """Return what admits by names and passwords, everybody where there are none; `refused` is the answer to others."""
    if logins is None:
        return everybody

    def admit(request: Request) -> Reply | None:
        return None if logins.admit(request.headers.get("Authorization")) else refused()

    return admit
