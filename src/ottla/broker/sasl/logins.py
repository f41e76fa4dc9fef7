"""The logins of a node: it makes the exchanges of each SASL listener, of what the configuration and the metadata hold."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from ottla.base import Clock, ConfigError, ErrorCode, KafkaError, Offload, Rng
from ottla.broker.requests.authentication_counts import AuthenticationCounts
from ottla.broker.requests.connection import Connection, RequestSink
from ottla.broker.requests.encryption import own_configuration
from ottla.broker.sasl.bearer_tokens import BearerTokens
from ottla.broker.sasl.client_login import LoginDoor
from ottla.broker.sasl.handshakes import HandshakeDoor
from ottla.broker.sasl.mechanisms import ListenerMechanisms, check_prefixes, mechanisms_of
from ottla.broker.sasl.pending_logins import PendingLogins
from ottla.broker.sasl.tickets import Tickets
from ottla.broker.sasl.tokens import Tokens
from ottla.broker.sasl.waiting_exchanges import WaitingExchanges
from ottla.config import BrokerConfig, BrokerSettings, Listener, SecurityProtocol
from ottla.metadata import Delta, Image
from ottla.security import ScramKind, ScramMechanism
from ottla.security.sasl import OAuthBearerServer, PlainServer, ScramLogin, ScramServer, ServerExchange

__all__ = ["Logins"]

log = logging.getLogger(__name__)

SASL = "sasl."
KERBEROS_RULES = "sasl.kerberos.principal.to.local.rules"
NONCE_BYTES = 24
DECOYS = b"salts of users whom there are not"
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
        versions_answered: Callable[[memoryview], bool],
        counts: AuthenticationCounts,
        clock: Clock,
        rng: Rng,
        offload: Offload,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Raises ConfigError where a listener cannot be as it is configured.

        `versions_answered` says of an ApiVersions request whether it is answered without an error.
        """
        self._config = config
        self._by_name = dict(mechanisms_of(config))
        self._doors: dict[str, LoginDoor] = {}
        self._handshakes: dict[str, HandshakeDoor] = {}
        self._image = image
        self._tokens = tokens
        self._settings = settings
        self._versions_answered = versions_answered
        self._counts = counts
        self._clock = clock
        self._rng = rng
        self._offload = offload
        self._loop = loop
        has_scram = any(ScramMechanism.of_name(name) for each in self._by_name.values() for name in each.names)
        shared = tokens.key_for(DECOYS) if has_scram else None
        self._decoy_key = shared or rng.randbytes(DECOY_KEY_BYTES)
        self._kinds_of: object = None
        self._kinds: Mapping[int, Collection[ScramKind]] = {}
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
        self._waiting = WaitingExchanges(offload)
        self._tickets = self._tickets_of(self._by_name)

    async def start(self) -> None:
        """Fetch issuers' keys, and look at keytabs; raises ConfigError where a file that is to hold some does not."""
        for name, tickets in self._tickets.items():
            try:
                await self._offload.thread(tickets.check)
            except ConfigError as error:
                raise _of_listener(name, error) from error
        for each in self._bearers.values():
            await each.start()

    def close(self) -> None:
        """Fetch no more keys."""
        for each in self._bearers.values():
            each.close()

    def before(self, router: RequestSink, listener: Listener) -> RequestSink:
        """Return who takes in a listener's connections: the router itself where nobody has to say who he is."""
        mechanisms = self._by_name.get(listener.name)
        if mechanisms is None:
            if listener.protocol is not SecurityProtocol.SSL:
                return router
            self._handshakes[listener.name] = HandshakeDoor(router, self._pending)
            return self._handshakes[listener.name]
        self._doors[listener.name] = door = LoginDoor(
            router,
            self._exchanges(mechanisms),
            listener=listener.name,
            max_reauth_ms=mechanisms.max_reauth_ms,
            frame_bytes_max=mechanisms.frame_bytes_max,
            settings=self._settings,
            versions_answered=self._versions_answered,
            pending=self._pending,
            waiting=self._waiting,
            counts=self._counts,
            clock=self._clock,
            loop=self._loop,
        )
        return door

    def secured(self, connection: Connection) -> None:
        """Hear that a connection has shaken hands, on a listener where that is all that it has to do."""
        self._handshakes[connection.connected.listener].secured(connection)

    async def check(self, image: Image, own: Mapping[str, str], names: Iterable[str]) -> None:
        """Raise INVALID_REQUEST where a wanted dynamic configuration of this broker, which differs in `names`, cannot be.

        Keytabs are looked at by a thread, since their files may lie where reading takes its time.
        """
        wanted = [name for name in names if SASL in name]
        if wanted:
            try:
                check_prefixes(wanted, own)
                config = self._config.with_dynamic(default=image.default_broker_config(), own=own)
                for tickets in self._tickets_of(self._changed(config)).values():
                    await self._offload.thread(tickets.check)
            except ConfigError as error:
                raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error

    def image_changed(self, old: Image, image: Image, delta: Delta) -> None:
        """Take in what the cluster's metadata says of this broker's logins (KIP-226), for who logs in from now on."""
        config = own_configuration(self._config, image, delta)
        if config is None:
            return
        try:
            found = self._changed(config)
            self._tickets = self._tickets_of(found)
        except ConfigError as error:
            log.error("Logins stay as they are configured: %s", error)
            return
        self._by_name |= found
        for name, door in self._doors.items():
            door.exchanges = self._exchanges(found[name])
            door.max_reauth_ms = found[name].max_reauth_ms

    def _changed(self, config: BrokerConfig) -> Mapping[str, ListenerMechanisms]:
        """Return what the listeners would be configured with; raises ConfigError."""
        found = mechanisms_of(config)
        for name, mechanisms in found.items():
            if "OAUTHBEARER" in mechanisms.names and name not in self._bearers:
                text = "an issuer's keys are read when the broker starts: it has to be started again"
                raise ConfigError("sasl.enabled.mechanisms", "OAUTHBEARER", text)
        return found

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
            elif name == "GSSAPI":
                found[name] = self._tickets[mechanisms.listener.name].begin
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
            raise _of_listener(name, error) from error

    def _tickets_of(self, by_name: Mapping[str, ListenerMechanisms]) -> dict[str, Tickets]:
        """Return what takes tickets, of each listener that does; raises ConfigError."""
        found = {}
        for name, mechanisms in by_name.items():
            if mechanisms.kerberos is not None:
                rules = mechanisms.value(KERBEROS_RULES, "GSSAPI")
                assert isinstance(rules, tuple)
                key = mechanisms.entry_key("GSSAPI")
                try:
                    found[name] = Tickets(
                        mechanisms.kerberos,
                        rules,
                        key=key,
                        system_properties=self._config.system_properties,
                        clock=self._clock,
                    )
                except ConfigError as error:
                    raise _of_listener(name, error) from error
        return found

    def _scram(self, mechanism: ScramMechanism) -> ServerExchange:
        nonce = b64encode(self._rng.randbytes(NONCE_BYTES)).decode()
        return ScramServer(
            mechanism,
            partial(self._credential, mechanism),
            nonce=nonce,
            decoy_key=self._decoy_key,
            kinds=partial(self._scram_kinds, mechanism),
        )

    def _scram_kinds(self, mechanism: ScramMechanism) -> Collection[ScramKind]:
        """Return the kinds of a mechanism's credentials, which are looked through when they have changed."""
        found = self._image().scram_credentials
        if self._kinds_of is not found:
            kinds: dict[int, set[ScramKind]] = {}
            for (_, code), credential in found.items():
                kinds.setdefault(code, set()).add(ScramKind.of(credential))
            self._kinds_of, self._kinds = found, kinds
        return self._kinds.get(mechanism.code, ())

    def _credential(self, mechanism: ScramMechanism, user: str, by_token: bool) -> ScramLogin | None:
        """Return what is kept of a user's password, or of a token, in the committed metadata; None where there is none."""
        if by_token:
            return self._tokens.login(mechanism, user, self._clock.now_ms())
        credential = self._image().scram_credentials.get((user, mechanism.code))
        return None if credential is None else ScramLogin(credential, user)


def _of_listener(name: str, error: ConfigError) -> ConfigError:
    return ConfigError(error.key, error.value, error.allowed, f"listener {name}: {error}")
