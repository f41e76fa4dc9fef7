"""What a connection of a SASL listener may send, from its first request to the renewal of its login (KIP-43, 152, 368).

Before the login that is ApiVersions, once, then SaslHandshake, then tokens: in SaslAuthenticate after a handshake of
version 1, bare after one of version 0. Whatever else comes closes the connection, before it is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from ottla.base import ErrorCode, KafkaError
from ottla.security.sasl.exchange import AuthenticationError, ServerExchange, unsupported_mechanism
from ottla.security.sasl.sessions import Session

__all__ = ["LoginGate", "LoginStep"]

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
"""The keys of the three APIs that a connection may use before its login."""


class LoginStep(Enum):
    """What a connection waits for."""

    FIRST = "ApiVersions or SaslHandshake"
    HANDSHAKE = "SaslHandshake"
    TOKENS = "SaslAuthenticate"
    BARE_TOKENS = "a token without a request around it"
    OPEN = "any request"
    CLOSED = "nothing"


class LoginGate:
    """The one owner of where a connection is on its way to a login. Times are milliseconds since 1970."""

    def __init__(
        self, mechanisms: Mapping[str, Callable[[], ServerExchange]], *, max_reauth_ms: Mapping[str, int] | None = None
    ) -> None:
        """`mechanisms` begins an exchange of each that the listener has; `max_reauth_ms`: how long each's login lasts."""
        self._mechanisms = mechanisms
        self._max_reauth_ms = max_reauth_ms or {}
        self._exchange: ServerExchange | None = None
        self.step = LoginStep.FIRST
        self.session: Session | None = None
        """The login that holds; while it is renewed, the one before."""

    def admits(self, api_key: int, now_ms: int, steady_ms: int = 0) -> bool:
        """Return whether a request may be parsed; where not, the connection is closed."""
        if self.step is LoginStep.OPEN:
            assert self.session is not None
            return api_key == SASL_HANDSHAKE or not self.session.has_expired(now_ms, steady_ms)
        allowed = {
            LoginStep.FIRST: (API_VERSIONS, SASL_HANDSHAKE),
            LoginStep.HANDSHAKE: (SASL_HANDSHAKE,),
            LoginStep.TOKENS: (SASL_AUTHENTICATE,),
        }
        return api_key in allowed.get(self.step, ())

    def versions_answered(self) -> None:
        """Note that ApiVersions was answered without an error: it is not asked twice."""
        if self.step is LoginStep.FIRST:
            self.step = LoginStep.HANDSHAKE

    def handshake(self, mechanism: str, version: int, now_ms: int, steady_ms: int = 0) -> None:
        """Begin an exchange, or renew the login.

        Raises UNSUPPORTED_SASL_MECHANISM and AuthenticationError, after which the connection is answered and closed, and
        ILLEGAL_SASL_STATE, after which it stays.
        """
        if self.step is LoginStep.OPEN:
            self._begin_again(mechanism, version, now_ms, steady_ms)
        elif self.step not in (LoginStep.FIRST, LoginStep.HANDSHAKE):
            raise self._closed(
                KafkaError(ErrorCode.ILLEGAL_SASL_STATE, f"SaslHandshake came in place of {self.step.value}")
            )
        begin = self._mechanisms.get(mechanism)
        if begin is None:
            raise self._closed(unsupported_mechanism(mechanism))
        self._exchange = begin()
        self.step = LoginStep.BARE_TOKENS if version == 0 else LoginStep.TOKENS

    def _begin_again(self, mechanism: str, version: int, now_ms: int, steady_ms: int) -> None:
        assert self.session is not None
        if version == 0:
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "A login is renewed by SaslHandshake of version 1")
        try:
            self.session.check_again(mechanism, now_ms, steady_ms)
        except AuthenticationError as error:
            raise self._closed(error) from error

    def respond(self, token: bytes, now_ms: int, steady_ms: int = 0) -> tuple[bytes, int]:
        """Return the server's answer to a token, and how long the login lasts: 0 until it is complete, or without an end.

        Raises AuthenticationError, after which the connection is answered, after a while, and closed; and ILLEGAL_SASL_STATE
        where no token was due.
        """
        exchange = self._due()
        try:
            answer = exchange.respond(token)
        except AuthenticationError as error:
            raise self.refused(error) from error
        return answer, self.responded(now_ms, steady_ms)

    @property
    def waiting(self) -> ServerExchange | None:
        """The exchange under way, where its `respond` may wait: it is called elsewhere, then `responded` or `refused`."""
        exchange = self._exchange
        return exchange if exchange is not None and exchange.waits else None

    def responded(self, now_ms: int, steady_ms: int = 0) -> int:
        """Take in that the exchange has answered a token; returns and raises as `respond` does."""
        exchange = self._due()
        mechanism, logged_in = exchange.mechanism, exchange.logged_in
        if logged_in is None:
            return 0
        limit_ms = self._max_reauth_ms.get(mechanism, 0)
        try:
            session = Session.begin(
                mechanism, logged_in, now_ms=now_ms, steady_ms=steady_ms, max_reauth_ms=limit_ms, before=self.session
            )
        except AuthenticationError as error:
            raise self.refused(error) from error
        self.session, self._exchange, self.step = session, None, LoginStep.OPEN
        return session.lifetime_ms

    def refused(self, error: KafkaError) -> KafkaError:
        """Take in that the exchange has failed: nothing more is due. Returns the error."""
        return self._closed(error)

    def _due(self) -> ServerExchange:
        """Return the exchange that a token is for; raises ILLEGAL_SASL_STATE where none was due."""
        if self.step not in (LoginStep.TOKENS, LoginStep.BARE_TOKENS):
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate came without a SaslHandshake")
        assert self._exchange is not None
        return self._exchange

    def _closed(self, error: KafkaError) -> KafkaError:
        self.step, self._exchange = LoginStep.CLOSED, None
        return error
