"""The TLS of a node's listeners: their contexts, and whom clients' certificates stand for.

A listener whose configuration cannot be honoured does not start. What its stores hold may change while it is open
(KIP-226), by a dynamic configuration of this broker or because a file has changed; a store that is refused leaves the old
one in place, and open connections keep what they began with.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from ottla.base import ConfigError, WireError
from ottla.config import BrokerConfig, Listener, SecurityProtocol
from ottla.security import NoRuleError, SslRules, Tls, TlsSettings, certificate_name

__all__ = ["Encryption", "ListenerTls"]

PREFIX = "ssl."
CLIENT_AUTH = "ssl.client.auth"
RULES = "ssl.principal.mapping.rules"


class ListenerTls:
    """What protects one listener."""

    def __init__(self, listener: Listener, config: BrokerConfig) -> None:
        """Raises ConfigError where something cannot be honoured."""
        self.listener = listener
        values = _values(listener, config)
        self._rules = SslRules(values.get(RULES) or "DEFAULT")
        self._tls = Tls(TlsSettings.of(values), server=True)

    @property
    def context(self) -> ssl.SSLContext:
        """The context of the next connection."""
        return self._tls.context

    @property
    def certificates(self) -> tuple[bytes, ...]:
        """What the listener shows, in DER."""
        return self._tls.certificates

    def principal(self, session: ssl.SSLObject) -> str | None:
        """Return whom a client's certificate stands for, None without one; raises WireError where no rule applies."""
        certificate = session.getpeercert(binary_form=True)
        if certificate is None:
            return None
        try:
            return f"User:{self._rules.user(certificate_name(certificate))}"
        except (NoRuleError, ConfigError) as error:
            raise WireError(f"the client's certificate stands for nobody: {error}") from error


class Encryption:
    """The TLS of all listeners of a node that have it."""

    def __init__(self, config: BrokerConfig) -> None:
        """Raises ConfigError, which names the listener, where one cannot be as it is configured."""
        self._by_name: dict[str, ListenerTls] = {}
        for listener in config.listeners:
            if listener.protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL):
                try:
                    self._by_name[listener.name] = ListenerTls(listener, config)
                except ConfigError as error:
                    text = f"listener {listener.name}: {error}"
                    raise ConfigError(error.key, error.value, error.allowed, text) from error

    def __iter__(self) -> Iterator[ListenerTls]:
        return iter(self._by_name.values())

    def of(self, listener: Listener) -> ListenerTls | None:
        """Return what protects a listener; None where nothing does."""
        return self._by_name.get(listener.name)


def _values(listener: Listener, config: BrokerConfig) -> dict[str, str | None]:
    values: dict[str, str | None] = {**config.listener_values(listener, PREFIX)}
    if listener.protocol is SecurityProtocol.SASL_SSL and f"{listener.own_prefix}{CLIENT_AUTH}" not in config.static:
        values.pop(CLIENT_AUTH, None)  # who logs in need not show a certificate, unless this very listener asks for it
    return values
