"""The rule of every HTTP service: under which names it is asked, from which pages, by whom, and with which types of bodies.

A service gives its server one `Guard`, and each route says who may ask it (`Who`) and which bodies it takes. The server asks
the guard before a handler runs, so that what a route declares is what holds.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from aiohttp import web

from ottla.http.origins import host_of, is_address, is_loopback, is_of_another_page, is_of_browser
from ottla.http.replies import HttpError, Reply

__all__ = ["FORM", "JSON", "BodyTypeError", "Guard", "Who", "everybody", "how_open", "known_hosts"]

JSON = "application/json"
HOSTS_KEY = "ottla.http.hosts"
FORM = "application/x-www-form-urlencoded"
"""What curl's `-d` says unless it is told otherwise. A page's form says it too, so no browser may."""
FORM_TYPES = frozenset({FORM, "text/plain", "multipart/form-data", ""})
"""What a page of any site may send without asking first (Fetch, §4.10), and bodies without a type."""
ANY_HOST = "*"
BELOW = "*."
"""Before a domain, of which every name is meant, as in certificates; but of any depth."""
PROXY = "a proxy has to pass on the browser's Host, with its port"
"""What mends it where a page of the service's own seems to be another's."""
ANY_TYPE = "*/*"
"""Of what is refused whatever comes, such as an address that is none."""
BODY_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class BodyTypeError(HttpError):
    """A body of a type that is not taken (415)."""

    def __init__(self, message: str) -> None:
        super().__init__(415, message)


class Who(StrEnum):
    """Who may ask a route."""

    ANYONE = "anyone"
    """Without a login where there are logins: health, and what a login page needs. Such an answer names nothing."""
    LOGGED_IN = "whoever has logged in"
    """Everybody where the service has no logins. What rights a user needs beside that, the handler asks."""
    SIGNED = "another instance, by its signature"
    """The handler checks the signature."""
    SESSION = "whoever has a session"
    """A session of the console."""

    @property
    def needs_admission(self) -> bool:
        """Whether the guard is asked before the handler."""
        return self in (Who.LOGGED_IN, Who.SESSION)


def everybody(_request: web.Request) -> Reply | None:
    """Admit every request: for a service without logins."""
    return None


@dataclass(frozen=True, slots=True)
class Guard:
    """What a service asks of each request before it is handled."""

    admit: Callable[[web.Request], Reply | None]
    """Returns the answer that refuses a request without a valid login or session, None for others; may raise HttpError."""
    hosts: Collection[str] | None
    """The names, in small letters, under which the service is asked beside addresses and `localhost`; None for any name.

    Any name is safe where a login or TLS protects every answer: a foreign name that leads here (DNS rebinding) has neither.
    """
    origins: Collection[str] = ()
    """Origins of other pages that may ask, such as `https://console.example`; `*` is any."""
    hosts_key: str = HOSTS_KEY
    """The setting that adds names."""
    origins_key: str = ""
    """The setting that adds origins; empty where the service has none."""

    def check(self, request: web.Request) -> None:
        """Raise HttpError for a foreign name (421) and for another site's page (403)."""
        host = host_of(request.headers)
        if self.hosts is not None and host and not is_address(host) and not _is_named(host, self.hosts):
            text = f"This service does not answer to the name {host:.100}: {self.hosts_key} adds names"
            raise HttpError(421, text)
        if is_of_another_page(request.headers):
            origin = request.headers["Origin"]
            if ANY_HOST not in self.origins and origin not in self.origins:
                what = f"{self.origins_key} allows origins" if self.origins_key else PROXY
                raise HttpError(403, f"A page of {origin:.100} may not ask here: {what}")

    def check_body(self, request: web.Request, takes: Collection[str]) -> None:
        """Raise HttpError (415) for a body of a type that a route does not name."""
        if request.method not in BODY_METHODS or not request.body_exists:
            return
        kind = request.content_type.lower() if "Content-Type" in request.headers else ""
        if kind in FORM_TYPES and is_of_browser(request.headers):
            raise BodyTypeError(f"A page sends no {kind or 'body without a type'} here: use {_listed(takes)}")
        if kind and kind not in takes and ANY_TYPE not in takes:
            raise BodyTypeError(f"Content-Type {kind:.100} is not taken here: use {_listed(takes)}")


def _is_named(host: str, names: Collection[str]) -> bool:
    """Return whether a host is `localhost`, one of the names, or below a domain that is named as `*.domain`."""
    if host == "localhost" or host in names:
        return True
    labels = host.split(".")
    return any(f"{BELOW}{'.'.join(labels[at:])}" in names for at in range(1, len(labels)))


def _listed(types: Collection[str]) -> str:
    return ", ".join(each for each in types if each != FORM) or "no body"


def how_open(host: str, *, has_logins: bool, has_tls: bool) -> str:
    """Return what is open about an address that listens on a host; empty where it is closed to other machines, or guarded.

    An empty host is every interface.
    """
    if host and is_loopback(host):
        return ""
    missing = [*([] if has_logins else ["a login"]), *([] if has_tls else ["TLS"])]
    return f"other machines reach it without {' and without '.join(missing)}" if missing else ""


def known_hosts(listeners: Iterable[str], more: Iterable[str] = (), *, is_protected: bool) -> frozenset[str] | None:
    """Return the names for a guard: this machine's, those of the listeners, and `more`, which a setting lists.

    None, any name, where `*` is among `more`, or where nothing is listed and a login or TLS protects the service.
    """
    listed = {each.strip().lower() for each in more if each.strip()}
    if ANY_HOST in listed or (is_protected and not listed):
        return None
    machine = socket.gethostname().lower()
    own = {machine, machine.partition(".")[0], *(each.lower() for each in listeners if each)}
    return frozenset(listed | own)
