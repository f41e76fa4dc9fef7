"""A worker's settings of its REST interface, under Kafka's names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.base import ConfigError
from ottla.connect.rest_logins import Logins, rest_logins

__all__ = ["Address", "RestSettings", "parse_addresses", "rest_settings"]

_LISTENER = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_HEADER = re.compile(
    r"\s*(add|set|addDate|setDate)\s+([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*([^\r\n]*?)\s*", re.IGNORECASE
)
_METHODS = ("GET", "POST", "HEAD")
"""What another origin may do where `access.control.allow.methods` is empty, as in Jetty."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; an empty host is every interface."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class RestSettings:
    """How the interface is served."""

    listeners: tuple[Address, ...] = (Address("", 8083),)
    admin_listeners: tuple[Address, ...] | None = None
    """Where `/admin` is served: with the rest where None, and nowhere where empty."""

    allowed_origins: tuple[str, ...] = ()
    allowed_methods: tuple[str, ...] = _METHODS
    headers: tuple[tuple[str, str], ...] = ()
    header_dates: tuple[tuple[str, int], ...] = ()
    """Headers whose value is a time: so many ms from now."""

    logins: Logins | None = None
    """Who may ask; everybody where None. `/admin` on listeners of its own is not asked, as in Kafka."""

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
        listed = f"http://{worker.get('rest.host.name', '')}:{port}"
    methods = tuple(_words(worker.get("access.control.allow.methods", "")))
    rules = _headers(worker.get("response.http.headers.config", ""))
    return RestSettings(
        listeners=parse_addresses("listeners", listed or "http://:8083"),
        admin_listeners=None if admin is None else parse_addresses("admin.listeners", admin),
        allowed_origins=tuple(_words(worker.get("access.control.allow.origin", ""))),
        allowed_methods=methods or _METHODS,
        headers=tuple((name, value) for action, name, value in rules if not action.endswith("date")),
        header_dates=tuple((name, _ms(name, value)) for action, name, value in rules if action.endswith("date")),
        logins=rest_logins(worker, os.environ),
        topic_tracking=_flag(worker, "topic.tracking.enable"),
        topic_reset=_flag(worker, "topic.tracking.allow.reset"),
    )


def _words(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _flag(worker: Mapping[str, str], name: str) -> bool:
    text = worker.get(name, "true").strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(name, worker[name], "true or false")
    return text == "true"


def parse_addresses(name: str, text: str) -> tuple[Address, ...]:
    """Return the addresses that a setting lists; raises ConfigError."""
    found = []
    for each in _words(text):
        match = _LISTENER.fullmatch(each)
        if match is None or match[1].lower() != "http" or not 0 <= int(match[3]) < 65536:
            raise ConfigError(name, each, "http://host:port; HTTPS is not served so far")
        found.append(Address(match[2], int(match[3])))
    return tuple(found)


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
