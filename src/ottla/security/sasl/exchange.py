"""What the exchanges of all mechanisms have in common: their two sides, what comes out, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from ottla.base import ConfigError, ErrorCode, KafkaError

__all__ = [
    "MECHANISMS",
    "AuthenticationError",
    "ClientExchange",
    "LoggedIn",
    "ServerExchange",
    "check_mechanisms",
    "unsupported_mechanism",
]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
"""The mechanisms that are built."""


class AuthenticationError(KafkaError):
    """A login failed: SASL_AUTHENTICATION_FAILED.

    `message` is what the peer hears; `reason`, for the log of whoever runs this side, says more, and holds no secret.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
        self.reason = reason or message

    def __reduce__(self) -> tuple[type[AuthenticationError], tuple[object, ...]]:
        return type(self), (self.message, self.reason)

    @classmethod
    def of(cls, mechanism: str, reason: str, *, again: bool = False) -> AuthenticationError:
        """Return the failure of which the peer hears only that its credentials are invalid."""
        during = "re-authentication" if again else "authentication"
        text = f"Authentication failed during {during} due to invalid credentials with SASL mechanism {mechanism}"
        return cls(text, reason)


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """Who has logged in."""

    user: str
    """The name without its type: the principal is `User:` and this."""
    expires_ms: int | None = None
    """When the credential ends, in milliseconds since 1970; None where it does not."""
    token_authenticated: bool = False
    """True where a delegation token was used: with one no further token may be had (KIP-48)."""
    extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class ServerExchange(Protocol):
    """The asked side."""

    @property
    def mechanism(self) -> str:
        """The mechanism's name."""
        ...

    @property
    def waits(self) -> bool:
        """True where `respond` may wait, for a file or a name server: then it is called on a thread."""
        ...

    @property
    def logged_in(self) -> LoggedIn | None:
        """Who has logged in, once the exchange is complete."""
        ...

    def respond(self, token: bytes) -> bytes:
        """Return the answer to a client's token; raises AuthenticationError, after which the exchange is over."""
        ...


class ClientExchange(Protocol):
    """The asking side."""

    @property
    def mechanism(self) -> str:
        """The mechanism's name."""
        ...

    @property
    def complete(self) -> bool:
        """True when the server has shown all that it has to."""
        ...

    def start(self) -> bytes:
        """Return the first token, which the client sends unasked."""
        ...

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the next token, or None where none is due; raises AuthenticationError."""
        ...


def check_mechanisms(key: str, names: Iterable[str]) -> None:
    """Raise ConfigError where a configuration enables a mechanism that is not built, or none."""
    names = list(names)
    for name in names:
        if name not in MECHANISMS:
            raise ConfigError(key, name, f"must be one of {', '.join(MECHANISMS)}")
    if not names:
        raise ConfigError(key, "", f"name one or more of {', '.join(MECHANISMS)}")


def unsupported_mechanism(name: str) -> KafkaError:
    """Return the answer to a SaslHandshake for a mechanism that a listener does not have."""
    return KafkaError(
        ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"SASL mechanism '{name}' requested by client is not supported"
    )
