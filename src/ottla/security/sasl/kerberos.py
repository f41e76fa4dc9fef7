"""GSSAPI: a Kerberos ticket says who the client is (RFC 4752), under no layer of the mechanism's own.

Tickets are a library's matter (`gss`), which comes here as a `GssContext`. What Kafka's GSSAPI is on top of it: tokens until
the context stands, then the server offers its protection of what follows, which is none, and the client takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from ottla.base import OttlaError
from ottla.security.sasl.exchange import AuthenticationError, LoggedIn

__all__ = ["GssContext", "GssError", "GssUnreachableError", "GssapiClient", "GssapiServer"]

_MECHANISM = "GSSAPI"
NO_LAYER = 1
"""The bit of the protection that is none, which TLS gives instead."""
OFFER = bytes((NO_LAYER, 0, 0, 0))
"""No layer, and so nothing of any size inside of one."""
TOKEN_BYTES_MAX = 128 * 1024
"""A ticket with a user's groups has 64 KiB at most where Active Directory gives it."""
ROUNDS_MAX = 8
"""Tokens of one login; Kerberos needs three."""
AUTHZID_BYTES_MAX = 1024


class GssError(OttlaError):
    """The library refuses a token, or has no ticket; the message is for the log of whoever runs this side."""


class GssUnreachableError(GssError):
    """No KDC answers: a later try may end otherwise."""


class GssContext(Protocol):
    """A security context of the library's: one side of one login."""

    @property
    def complete(self) -> bool:
        """True when both sides know each other."""
        ...

    @property
    def peer(self) -> str:
        """The principal of who has begun, once it is complete."""
        ...

    @property
    def lifetime_ms(self) -> int | None:
        """For how long the ticket is still good, once it is complete; None where it does not end."""
        ...

    def step(self, token: bytes | None) -> bytes:
        """Take the other side's token, and return what it is to get, nothing where nothing; raises GssError."""
        ...

    def wrap(self, text: bytes) -> bytes:
        """Return a text signed; raises GssError."""
        ...

    def unwrap(self, token: bytes) -> bytes:
        """Return what the other side has signed; raises GssError."""
        ...


class _Step(Enum):
    CONTEXT = "a token of the context"
    EMPTY = "an empty token"
    CHOICE = "the choice of a layer"
    OVER = "nothing"


class GssapiServer:
    """A server's side. `respond` may wait for files (a keytab, the library's list of tickets seen): it goes to a thread."""

    mechanism = _MECHANISM
    waits = True

    def __init__(
        self, accept: Callable[[], GssContext], *, user: Callable[[str], str], service: str, now_ms: Callable[[], int]
    ) -> None:
        """`accept` begins a context; `user` makes a principal's name for ACLs, and raises OttlaError where it has none."""
        self._accept = accept
        self._user = user
        self._service = service
        self._now_ms = now_ms
        self._context: GssContext | None = None
        self._step = _Step.CONTEXT
        self._rounds = 0
        self.logged_in: LoggedIn | None = None

    def respond(self, token: bytes) -> bytes:
        """Take a client's token; raises AuthenticationError, of which the peer hears that its credentials are invalid."""
        try:
            return self._answer(token)
        except AuthenticationError:
            self._step = _Step.OVER
            raise
        except OttlaError as error:
            self._step = _Step.OVER
            raise AuthenticationError.of(_MECHANISM, str(error)) from error

    def _answer(self, token: bytes) -> bytes:
        self._rounds += 1
        if self._rounds > ROUNDS_MAX:
            raise GssError(f"the login has taken more than {ROUNDS_MAX} tokens")
        if len(token) > TOKEN_BYTES_MAX:
            raise GssError(f"a token has {len(token)} bytes, more than {TOKEN_BYTES_MAX}")
        if self._step is _Step.CONTEXT:
            return self._establish(token)
        if self._step is _Step.EMPTY:
            if token:
                raise GssError("a token came where an empty one was due")
            return self._offer()
        if self._step is _Step.CHOICE:
            return self._choose(token)
        raise GssError("a token came after the exchange was over")

    def _establish(self, token: bytes) -> bytes:
        if not token:
            raise GssError("an empty token came where one of the context was due")
        if self._context is None:
            self._context = self._accept()
        answer = self._context.step(token)
        if not self._context.complete:
            if not answer:
                raise GssError("the context is not complete, and there is nothing to answer")
            return answer
        if answer:
            self._step = _Step.EMPTY
            return answer
        return self._offer()

    def _offer(self) -> bytes:
        assert self._context is not None
        self._step = _Step.CHOICE
        return self._context.wrap(OFFER)

    def _choose(self, token: bytes) -> bytes:
        assert self._context is not None
        chosen = self._context.unwrap(token)
        self._step = _Step.OVER
        if len(chosen) < len(OFFER) or len(chosen) > len(OFFER) + AUTHZID_BYTES_MAX:
            raise GssError(f"the choice of a layer has {len(chosen)} bytes")
        if chosen[0] != NO_LAYER:
            raise GssError(f"the client chose the security layer {chosen[0]}, and only none (1) was offered")
        principal = self._context.peer
        user = self._user(principal)
        self._check_authzid(chosen[len(OFFER) :], principal, user)
        lifetime_ms = self._context.lifetime_ms
        expires_ms = None if lifetime_ms is None else self._now_ms() + lifetime_ms
        self.logged_in = LoggedIn(user, expires_ms)
        return b""

    def _check_authzid(self, authzid: bytes, principal: str, user: str) -> None:
        """Refuse who wants to be another.

        Old clients of Python write there whom they ask, `service@host`: Kafka does not look, and it is nobody's name here.
        """
        try:
            wanted = authzid.decode()
        except UnicodeDecodeError:
            raise GssError("the authorization id is not UTF-8") from None
        if wanted not in ("", principal, user) and not wanted.startswith(f"{self._service}@"):
            raise AuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from its principal",
                f"Client {principal} requested the authorization id {wanted[:100]!r}",
            )


class GssapiClient:
    """A client's side, with the first token, for which the library has asked a KDC."""

    mechanism = _MECHANISM

    def __init__(self, context: GssContext, first: bytes) -> None:
        self._context = context
        self._first = first
        self._step = _Step.CONTEXT
        self.complete = False

    def start(self) -> bytes:
        """Return the first token."""
        return self._first

    def respond(self, challenge: bytes) -> bytes | None:
        """Take a server's token; raises AuthenticationError where it is not whom the ticket is for, or wants a layer."""
        try:
            return self._answer(challenge)
        except GssError as error:
            self._step = _Step.OVER
            raise AuthenticationError(f"The server did not show that it is whom the ticket is for: {error}") from error

    def _answer(self, challenge: bytes) -> bytes | None:
        if len(challenge) > TOKEN_BYTES_MAX:
            raise GssError(f"a token has {len(challenge)} bytes, more than {TOKEN_BYTES_MAX}")
        if self._step is _Step.CONTEXT:
            answer = self._context.step(challenge)
            if self._context.complete:
                self._step = _Step.CHOICE
            return answer
        if self._step is _Step.CHOICE:
            offered = self._context.unwrap(challenge)
            if len(offered) != len(OFFER) or not offered[0] & NO_LAYER:
                raise GssError("it offers no login without a security layer of GSSAPI")
            self._step = _Step.EMPTY
            return self._context.wrap(OFFER)
        if self._step is _Step.OVER or challenge:
            raise GssError("a challenge came after the exchange was over")
        self._step, self.complete = _Step.OVER, True
        return None
