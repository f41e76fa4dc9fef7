"""A worker's settings of its REST interface, under Kafka's names."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ottla.base import ConfigError
from ottla.connect.rest_logins import rest_logins
from ottla.http import BasicLogins, LoginsTo, asking_context, logins_to, serving_context
from ottla.service import NO_CORS, Cors, hosts_of, words_of

__all__ = [
    "DEFAULT_LISTENERS",
    "WORKER_HOSTS",
    "Address",
    "RestSettings",
    "https_properties",
    "parse_addresses",
    "rest_settings",
]

WORKER_HOSTS = "ottla.inter.worker.hosts"
_LISTENER = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_HEADER = re.compile(
    r"\s*(add|set|addDate|setDate)\s+([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*([^\r\n]*?)\s*", re.IGNORECASE
)
DEFAULT_LISTENERS = "http://localhost:8083"
"""This machine alone; Kafka's is every interface."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; an empty host is every interface."""

    host: str
    port: int
    is_secure: bool = False
    """True for HTTPS."""

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return "https" if self.is_secure else "http"


@dataclass(frozen=True, slots=True)
class RestSettings:
    """How the interface is served."""

    listeners: tuple[Address, ...] = (Address("localhost", 8083),)
    admin_listeners: tuple[Address, ...] | None = None
    """Where `/admin` is served: with the rest where None, and nowhere where empty."""

    allowed_origins: tuple[str, ...] = ()
    allowed_methods: tuple[str, ...] = NO_CORS.methods
    headers: tuple[tuple[str, str], ...] = ()
    header_dates: tuple[tuple[str, int], ...] = ()
    """Headers whose value is a time: so many ms from now."""

    logins: BasicLogins | None = None
    """Who may ask; everybody where None. `/admin` on listeners of its own is not asked, as in Kafka."""

    tls: Callable[[], ssl.SSLContext] | None = None
    """The context of the next connection to an HTTPS listener."""
    admin_tls: Callable[[], ssl.SSLContext] | None = None
    asking: Callable[[], ssl.SSLContext] | None = field(default=None, repr=False)
    """With what other workers are asked whose addresses are HTTPS."""

    advertised: tuple[str, ...] = ()
    """The hosts under which others are told to ask."""
    hosts: tuple[str, ...] = ()
    """Further names under which it may be asked."""
    logins_to: LoginsTo = field(default_factory=LoginsTo)
    """The other workers that clients' logins may be sent to: whoever joins the group says where the leader is."""

    topic_tracking: bool = True
    topic_reset: bool = True
    request_seconds_max: float = 90.0
    health_seconds_max: float = 10.0


def rest_settings(worker: Mapping[str, str]) -> RestSettings:
    """Return the settings of a worker's properties; raises ConfigError."""
    admin = worker.get("admin.listeners")
    listed = worker.get("listeners", "")
    port = worker.get("rest.port")  # gone from Kafka, and still in many files
    if not listed and port is not None:
        listed = f"http://{worker.get('rest.host.name', 'localhost')}:{port}"
    cors = Cors.of(worker)
    advertised = (worker.get(name, "").strip() for name in ("rest.advertised.host.name", "rest.host.name"))
    rules = _headers(worker.get("response.http.headers.config", ""))
    listeners = parse_addresses("listeners", listed or DEFAULT_LISTENERS)
    admin_listeners = None if admin is None else parse_addresses("admin.listeners", admin)
    is_secure = any(each.is_secure for each in listeners)
    own, admins = https_properties(worker), https_properties(worker, "admin.listeners.https.")
    return RestSettings(
        listeners=listeners,
        admin_listeners=admin_listeners,
        tls=_served("listeners", own) if is_secure else None,
        admin_tls=_served("admin.listeners", admins) if any(each.is_secure for each in admin_listeners or ()) else None,
        asking=asking_context(own) if is_secure else None,
        allowed_origins=cors.origins,
        allowed_methods=cors.methods,
        advertised=tuple(filter(None, advertised)),
        hosts=hosts_of(worker),
        headers=tuple((name, value) for action, name, value in rules if not action.endswith("date")),
        header_dates=tuple((name, _ms(name, value)) for action, name, value in rules if action.endswith("date")),
        logins=rest_logins(worker, os.environ),
        logins_to=logins_to(
            *(WORKER_HOSTS, worker.get(WORKER_HOSTS, "")), scheme=_asked_scheme(worker, listeners), tls=own
        ),
        topic_tracking=_flag(worker, "topic.tracking.enable"),
        topic_reset=_flag(worker, "topic.tracking.allow.reset"),
    )


def _asked_scheme(worker: Mapping[str, str], listeners: tuple[Address, ...]) -> str:
    """Return by which protocol workers ask each other."""
    advertised = worker.get("rest.advertised.listener", "").strip().lower()
    return advertised or ("https" if all(each.is_secure for each in listeners) else "http")


def _flag(worker: Mapping[str, str], name: str) -> bool:
    text = worker.get(name, "true").strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(name, worker[name], "true or false")
    return text == "true"


def parse_addresses(name: str, text: str) -> tuple[Address, ...]:
    """Return the addresses that a setting lists; raises ConfigError."""
    found = []
    for each in words_of(text):
        match = _LISTENER.fullmatch(each)
        scheme = "" if match is None else match[1].lower()
        if match is None or scheme not in ("http", "https") or not 0 <= int(match[3]) < 65536:
            raise ConfigError(name, each, "http://host:port or https://host:port")
        found.append(Address(match[2], int(match[3]), scheme == "https"))
    return tuple(found)


def _served(name: str, properties: Mapping[str, str | None]) -> Callable[[], ssl.SSLContext]:
    try:
        return serving_context(properties)
    except ConfigError as error:
        text = f"{name}: HTTPS cannot be served: {error}"
        raise ConfigError(name, "https://", error.allowed, text) from error


def https_properties(worker: Mapping[str, str], prefix: str = "listeners.https.") -> dict[str, str | None]:
    """Return the `ssl.*` of HTTPS: those with the prefix where there are any, and the worker's own else, as in Kafka."""
    own = {name.removeprefix(prefix): value for name, value in worker.items() if name.startswith(prefix)}
    return {**(own or {name: value for name, value in worker.items() if name.startswith("ssl.")})}


def _ms(name: str, text: str) -> int:
    if not re.fullmatch("[+-]?[0-9]{1,15}", text):
        raise ConfigError("response.http.headers.config", f"{name}: {text}", "milliseconds from now")
    return int(text)


def _headers(text: str) -> list[tuple[str, str, str]]:
    found = []
    for rule in re.findall(r'"[^"]*"|[^,"]+', text):
        plain = rule.strip().strip('"')
        match = _HEADER.fullmatch(plain)
        if plain and match is None:
            raise ConfigError(
                "response.http.headers.config",
                plain,
                "rules like `set Name: value`, `addDate Name: milliseconds`",
            )
        if match is not None:
            found.append((match[1].lower(), match[2], match[3]))
    return found
