"""The logins of a node: it makes the exchanges of each SASL listener, of what the configuration and the metadata hold."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial

from ottla.base import Clock, ConfigError, Offload, Rng
from ottla.broker.api.api_versions import is_answered
from ottla.broker.requests.authentication_counts import AuthenticationCounts
from ottla.broker.requests.connection import RequestSink
from ottla.broker.sasl.bearer_tokens import BearerTokens
from ottla.broker.sasl.client_login import LoginDoor
from ottla.broker.sasl.mechanisms import ListenerMechanisms, mechanisms_of
from ottla.broker.sasl.pending_logins import PendingLogins
from ottla.broker.sasl.tokens import Tokens
from ottla.config import BrokerConfig, BrokerSettings, Listener
from ottla.metadata import Image
from ottla.security import ScramMechanism
from ottla.security.sasl import OAuthBearerServer, PlainServer, ScramLogin, ScramServer, ServerExchange

__all__ = ["Logins"]

NONCE_BYTES = 24
DECOY_KEY_BYTES = 32


class Logins:
    """Who may log in, on every listener of a node where that is asked."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        image: Callable[[], Image],
        tokens: Tokens,
        settings: Callable[[], BrokerSettings],
        counts: AuthenticationCounts,
        clock: Clock,
        rng: Rng,
        offload: Offload,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Raises ConfigError where a listener cannot be as it is configured."""
        self._by_name = mechanisms_of(config)
        self._image = image
        self._tokens = tokens
        self._settings = settings
        self._counts = counts
        self._clock = clock
        self._rng = rng
        self._offload = offload
        self._loop = loop
        self._decoy_key = rng.randbytes(DECOY_KEY_BYTES)
        self._pending = PendingLogins(
            loop,
            counts,
            timeout_s=config.settings.ottla_login_timeout_ms / 1000,
            connections_max=config.settings.ottla_login_connections_max,
        )

        self._bearers = {
            each.listener.name: self._bearer_tokens(each, config)
            for each in self._by_name.values()
            if "OAUTHBEARER" in each.names
        }

    async def start(self) -> None:
        """Fetch issuers' keys; raises ConfigError where a file that is to hold some does not."""
        for each in self._bearers.values():
            await each.start()

    def close(self) -> None:
        """Fetch no more keys."""
        for each in self._bearers.values():
            each.close()

    def before(self, router: RequestSink, listener: Listener) -> RequestSink:
        """Return who takes in a listener's connections: the router itself where nobody logs in."""
        mechanisms = self._by_name.get(listener.name)
        if mechanisms is None:
            return router
        return LoginDoor(
            router,
            self._exchanges(mechanisms),
            listener=listener.name,
            max_reauth_ms=mechanisms.max_reauth_ms,
            frame_bytes_max=mechanisms.frame_bytes_max,
            settings=self._settings,
            versions_answered=is_answered,
            pending=self._pending,
            counts=self._counts,
            clock=self._clock,
            loop=self._loop,
        )

    def _exchanges(self, mechanisms: ListenerMechanisms) -> Mapping[str, Callable[[], ServerExchange]]:
        """Return what begins an exchange of each mechanism."""
        found: dict[str, Callable[[], ServerExchange]] = {}
        for name in mechanisms.names:
            scram = ScramMechanism.of_name(name)
            if scram is not None:
                found[name] = partial(self._scram, scram)
            elif mechanisms.plain is not None and name == "PLAIN":
                found[name] = partial(PlainServer, mechanisms.plain.accepts)
            elif name == "OAUTHBEARER":
                found[name] = partial(OAuthBearerServer, self._bearers[mechanisms.listener.name].validate)
        return found

    def _bearer_tokens(self, mechanisms: ListenerMechanisms, config: BrokerConfig) -> BearerTokens:
        name = mechanisms.listener.name
        try:
            return BearerTokens(
                lambda key: mechanisms.value(key, "OAUTHBEARER"),
                mechanisms.entry("OAUTHBEARER"),
                listener=name,
                system_properties=config.system_properties,
                clock=self._clock,
                offload=self._offload,
                loop=self._loop,
            )
        except ConfigError as error:
            raise ConfigError(error.key, error.value, error.allowed, f"listener {name}: {error}") from error

    def _scram(self, mechanism: ScramMechanism) -> ServerExchange:
        nonce = b64encode(self._rng.randbytes(NONCE_BYTES)).decode()
        return ScramServer(mechanism, partial(self._credential, mechanism), nonce=nonce, decoy_key=self._decoy_key)

    def _credential(self, mechanism: ScramMechanism, user: str, by_token: bool) -> ScramLogin | None:
        """Return what is kept of a user's password, or of a token, in the committed metadata; None where there is none."""
        if by_token:
            return self._tokens.login(mechanism, user, self._clock.now_ms())
        credential = self._image().scram_credentials.get((user, mechanism.code))
        return None if credential is None else ScramLogin(credential, user)
