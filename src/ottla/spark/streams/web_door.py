"""Where an application is served over HTTP, with which keys and to whom: `http.listener` and what belongs to it."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from ottla.base import ConfigError
from ottla.http import BasicLogins, logins_of_file, serving_context
from ottla.streams import StreamsSettings

__all__ = ["HOSTS", "Door", "door_of"]

LISTENER = "http.listener"
LOGINS = "http.listener.logins.file"
HOSTS = "http.listener.hosts"
HOST = "127.0.0.1"
_ADDRESS = re.compile(r"(?:(https?)://)?(?:(\[[0-9a-f:%.]+\]|[^/\[\]]*):)?([0-9]+)/?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Door:
    """An address, the context of the next connection to it (None: HTTP), and who may ask (None: everybody)."""

    host: str
    port: int
    tls: Callable[[], ssl.SSLContext] | None
    logins: BasicLogins | None
    hosts: tuple[str, ...] = ()
    """Further names under which it is asked."""


def door_of(settings: StreamsSettings) -> Door:
    """Return what the settings say; raises ConfigError for what cannot be honoured."""
    listener = settings[LISTENER]
    found = _ADDRESS.fullmatch(listener)
    if found is None or int(found[3]) > 65535:
        raise ConfigError(LISTENER, listener, "[http:// or https://][HOST:]PORT is expected")
    is_secure = (found[1] or "").lower() == "https"
    if not is_secure and settings.http_tls.get("ssl.client.auth", "none").lower() != "none":
        text = "ssl.client.auth cannot be kept: clients show certificates by https://… alone"
        raise ConfigError(LISTENER, listener, text)
    hosts = tuple(each.strip() for each in (settings[HOSTS] or "").split(",") if each.strip())
    host = (found[2] or HOST).removeprefix("[").removesuffix("]")
    logins = logins_of_file(LOGINS, place) if (place := settings[LOGINS]) else None
    return Door(host, int(found[3]), _tls(settings) if is_secure else None, logins, hosts)


def _tls(settings: StreamsSettings) -> Callable[[], ssl.SSLContext]:
    try:
        return serving_context({**settings.http_tls})
    except ConfigError as error:
        text = f"{LISTENER}: HTTPS cannot be served: {error} (http.listener.ssl.… or ssl.…)"
        raise ConfigError(LISTENER, settings[LISTENER], error.allowed, text) from error
