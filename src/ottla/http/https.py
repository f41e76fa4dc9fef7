"""The TLS of HTTP services: a server's context, and that of who asks others of its kind, made of Kafka's `ssl.*`."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping

from ottla.security import Tls, TlsSettings

__all__ = ["asking_context", "serving_context"]


def serving_context(properties: Mapping[str, str | None]) -> Callable[[], ssl.SSLContext]:
    """Return what gives the context of the next connection; raises ConfigError for what cannot be honoured."""
    tls = Tls(TlsSettings.of(properties), server=True)
    return lambda: tls.context


def asking_context(properties: Mapping[str, str | None]) -> ssl.SSLContext:
    """Return a client's context: with the same keys, and the names of hosts checked; raises ConfigError."""
    return Tls(TlsSettings.of(properties), server=False).context
