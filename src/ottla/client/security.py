"""What protects a client's connections: one value made of Kafka's properties, for everybody here who connects to brokers.

The command line, Spark's sources and sinks, Connect's and Streams' clients and the brokers' own links all come here with
`security.protocol`, `ssl.*` and `sasl.*`. What cannot be honoured is a ConfigError: nothing is opened with less protection
than was asked for.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ottla.base import ConfigError
from ottla.net import FrameProtocol, Network, ProtocolFactory, Server, TcpNetwork, TlsBuffer, TlsProtocol
from ottla.security.sasl import AuthenticationError, ClientExchange, check_mechanisms

if TYPE_CHECKING:
    from ottla.client.tickets import Tickets
    from ottla.security import Tls

__all__ = ["PROTOCOLS", "ClientSecurity", "SecuredNetwork", "client_network", "security_of", "unused_security"]

P = TypeVar("P", bound=asyncio.BaseProtocol)

PROTOCOL, MECHANISM, JAAS = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
KAFKAS_MECHANISM = "GSSAPI"
"""What Kafka takes where no mechanism is named."""
NONCE_BYTES = 18
PREFIXES = (PROTOCOL, "ssl.", "sasl.")
"""How the keys begin that say how a connection is protected."""
JAVA_ONLY = (
    *("ssl.provider", "ssl.secure.random.implementation", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm"),
    "sasl.login.",
)
KERBEROS, KERBEROS_USED = "sasl.kerberos.", "sasl.kerberos.service.name"
JAVA_CLASSES = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class")


class ClientSecurity:
    """How a client's connections are encrypted, and as whom it logs in."""

    def __init__(
        self,
        protocol: str,
        *,
        tls: Tls | None = None,
        begin: Callable[[], Awaitable[ClientExchange]] | None = None,
        tickets: Tickets | None = None,
    ) -> None:
        """`begin` begins a login, or `tickets` do, which are for one host each; neither where nobody logs in."""
        self.protocol = protocol
        self.tls = tls
        self._begin = begin
        self._tickets = tickets

    def login(self, host: str) -> Callable[[], Awaitable[ClientExchange]] | None:
        """Return what begins a login to the broker on a host; None where nobody logs in."""
        return self._begin if self._tickets is None else partial(self._tickets.begin, host)

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> ClientSecurity:
        """Read the properties; raises ConfigError, which holds no secret."""
        given = {key: str(value) for key, value in properties.items() if value is not None}
        protocol = (given.get(PROTOCOL) or "PLAINTEXT").strip().upper()
        if protocol not in PROTOCOLS:
            raise ConfigError(PROTOCOL, protocol, f"must be one of {', '.join(PROTOCOLS)}")
        tls = _tls(given) if protocol.endswith("SSL") else None
        if not protocol.startswith("SASL"):
            return cls(protocol, tls=tls)
        mechanism = given.get(MECHANISM) or KAFKAS_MECHANISM
        check_mechanisms(MECHANISM, [mechanism])
        if mechanism == "GSSAPI":
            _refuse_classes(given, mechanism)
            return cls(protocol, tls=tls, tickets=_tickets(given, mechanism))
        return cls(protocol, tls=tls, begin=_login(given, mechanism))


def _tls(given: Mapping[str, str]) -> Tls:
    from ottla.security import Tls, TlsSettings  # and below: who is not asked to log in waits for none of it

    return Tls(TlsSettings.of(given), server=False)


def _tickets(given: Mapping[str, str], mechanism: str) -> Tickets:
    from ottla.client.tickets import Tickets
    from ottla.security import client_entry

    return Tickets(given, client_entry(given.get(JAAS), None, mechanism).options)


def _refuse_classes(given: Mapping[str, str], mechanism: str) -> None:
    from ottla.client.access_tokens import LOGIN_HANDLERS

    for key in JAVA_CLASSES:
        built_in = LOGIN_HANDLERS if mechanism == "OAUTHBEARER" and key == "sasl.login.callback.handler.class" else ()
        if given.get(key) and given[key] not in built_in:
            raise ConfigError(key, given[key], "Java's classes cannot be used here; leave it unset")


def _login(given: Mapping[str, str], mechanism: str) -> Callable[[], Awaitable[ClientExchange]]:
    """Return what begins a login; what is wrong with it is said now, and not at the first connection."""
    from ottla.security import ScramMechanism, client_entry
    from ottla.security.sasl import PlainClient, ScramClient

    _refuse_classes(given, mechanism)
    options = client_entry(given.get(JAAS), None, mechanism).options
    if mechanism == "OAUTHBEARER":
        from ottla.client.access_tokens import AccessTokens

        return AccessTokens(given, options).begin
    user, password = options.get("username", ""), options.get("password", "")
    by_token = options.get("tokenauth", "").lower() == "true"
    scram = ScramMechanism.of_name(mechanism)

    def made() -> ClientExchange:
        if scram is None:
            return PlainClient(user, password)
        from secrets import token_urlsafe

        nonce = token_urlsafe(NONCE_BYTES)
        return ScramClient(scram, user=user, password=password, nonce=nonce, by_token=by_token)

    async def begin() -> ClientExchange:
        return made()

    try:
        made()
    except AuthenticationError as error:
        raise ConfigError(JAAS, "[hidden]", error.message, f"{JAAS}: {error.message}") from error
    return begin


class SecuredNetwork:
    """A network whose connections are encrypted, and log in, as a client's properties say; it listens as the one below."""

    def __init__(self, security: ClientSecurity, network: Network | None = None) -> None:
        self.security = security
        self._network: Network = network if network is not None else TcpNetwork()
        self._buffer: TlsBuffer | None = None

    async def listen(self, host: str, port: int, protocol_factory: ProtocolFactory, **options: Any) -> Server:
        """Accept connections, in clear: what protects a listener is the listener's matter."""
        return await self._network.listen(host, port, protocol_factory, **options)

    async def connect(self, host: str, port: int, protocol_factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        """Open a connection, and shake hands; raises OSError where nobody answers, ssl.SSLError where that fails."""
        tls = self.security.tls
        if tls is None:
            return await self._network.connect(host, port, protocol_factory)
        loop = asyncio.get_running_loop()
        secured: asyncio.Future[None] = loop.create_future()
        if self._buffer is None:
            self._buffer = TlsBuffer()
        buffer = self._buffer

        def complete(session: ssl.SSLObject) -> None:
            if not secured.done():
                secured.set_result(None)

        def failed(reason: str) -> None:
            if not secured.done():
                secured.set_exception(ssl.SSLError(reason))

        def below() -> TlsProtocol:
            frames = protocol_factory()
            assert isinstance(frames, FrameProtocol)
            return TlsProtocol(
                frames,
                tls.context,
                loop=loop,
                buffer=buffer,
                is_server=False,
                server_hostname=host,
                secured=complete,
                failed=failed,
            )

        raw, protocol = await self._network.connect(host, port, below)
        try:
            await secured
        except BaseException:
            raw.abort()
            raise
        return protocol.transport, cast(P, protocol.inner)


def security_of(properties: Mapping[str, str | None]) -> dict[str, str]:
    """Return those of a client's properties that say how its connections are protected."""
    return {key: value for key, value in properties.items() if key.startswith(PREFIXES) and value is not None}


def unused_security(properties: Mapping[str, str | None]) -> dict[str, str]:
    """Return which of these properties change nothing, and why, as far as they tell: without a protocol nobody knows."""
    protocol = (properties.get(PROTOCOL) or "SASL_SSL").strip().upper()
    found = {}
    for key in security_of(properties):
        if key.startswith(JAVA_ONLY):
            found[key] = "it is for parts of Java's"
        elif key.startswith(KERBEROS) and key != KERBEROS_USED:
            found[key] = "Kerberos' library asks for tickets, and a cache of them is renewed by who fills it"
        elif (key.startswith("ssl.") and "SSL" not in protocol) or (key.startswith("sasl.") and "SASL" not in protocol):
            found[key] = f"security.protocol is {protocol}"
    return found


def client_network(properties: Mapping[str, Any], network: Network | None = None) -> Network:
    """Return the network on which a client with these properties connects; raises ConfigError."""
    security = ClientSecurity.of(properties)
    below: Network = network if network is not None else TcpNetwork()
    return below if security.protocol == "PLAINTEXT" else SecuredNetwork(security, below)
