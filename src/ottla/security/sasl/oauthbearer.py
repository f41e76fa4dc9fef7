"""OAUTHBEARER: a token of somebody whom the server trusts says who the client is (RFC 7628, KIP-255).

What a token is worth, `validate` decides (`jwt`). A refused one is answered with a challenge that says so, to which the
client sends one byte, and only then the exchange fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from re import compile

from ottla.base import OttlaError
from ottla.security.sasl.exchange import AuthenticationError, LoggedIn

__all__ = ["BearerToken", "OAuthBearerClient", "OAuthBearerServer", "TokenRefusedError"]

_MECHANISM = "OAUTHBEARER"
_SEPARATOR = "\x01"
_ACKNOWLEDGED = b"\x01"
_INVALID = "Invalid OAUTHBEARER client first message"
_NAME = compile(r"(?:[^=,\0\x01]|=2C|=3D)+")
_KEY = compile(r"[A-Za-z]+")
_VALUE = compile(r"[\x21-\x7e \t\r\n]+")
_AUTH = compile(r"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>[-_~+/.A-Za-z0-9]+=*)")
EXTENSIONS_MAX = 64
"""Extensions of one message; Kafka's own clients send two or three."""


class TokenRefusedError(OttlaError):
    """A token is worth nothing.

    `status` is what the client hears (RFC 7628); the message is for our own log, and does not hold the token.
    """

    def __init__(self, reason: str, status: str = "invalid_token") -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class BearerToken:
    """What a token says of its bearer; times are milliseconds since 1970."""

    user: str
    expires_ms: int
    scope: frozenset[str] = frozenset()
    issued_ms: int | None = None


class OAuthBearerServer:
    """A server's side."""

    mechanism = _MECHANISM
    waits = False

    def __init__(self, validate: Callable[[str], BearerToken]) -> None:
        """`validate` raises TokenRefusedError."""
        self._validate = validate
        self._refused: tuple[str, str] | None = None
        self._over = False
        self.logged_in: LoggedIn | None = None

    def respond(self, token: bytes) -> bytes:
        """Return nothing where the token is good, a challenge where it is not; raises AuthenticationError."""
        if self._refused is not None:
            told, reason = self._refused
            raise AuthenticationError(told, reason)
        if self._over:
            raise AuthenticationError.of(_MECHANISM, "a token came after the exchange was over")
        self._over = True
        authzid, bearer, extensions = _read(token)
        try:
            found = self._validate(bearer)
        except TokenRefusedError as error:
            told = json.dumps({"status": error.status}, separators=(",", ":"))
            self._refused = (told, str(error))
            return told.encode()
        if authzid not in ("", found.user):
            raise AuthenticationError(
                f"Authentication failed: Client requested an authorization id ({authzid}) that is different from the "
                f"token's principal name ({found.user})"
            )
        self.logged_in = LoggedIn(found.user, found.expires_ms, extensions=tuple(sorted(extensions.items())))
        return b""


def _read(message: bytes) -> tuple[str, str, dict[str, str]]:
    """Return the authorization id, the token and the extensions of a client's message; raises AuthenticationError."""
    try:
        text = message.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationError.of(_MECHANISM, _INVALID) from error
    header, separator, rest = text.partition(_SEPARATOR)
    pairs: dict[str, str] = {}
    *written, before_end, end = rest.split(_SEPARATOR) if _SEPARATOR in rest else ("no", "end")
    if before_end or end or not separator or len(written) > EXTENSIONS_MAX:
        raise AuthenticationError.of(_MECHANISM, _INVALID)
    for pair in written:
        key, equals, value = pair.partition("=")
        if not equals or key in pairs or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise AuthenticationError.of(_MECHANISM, _INVALID)
        pairs[key] = value
    authzid = _authzid(header)
    auth = pairs.pop("auth", None)
    if auth is None:
        raise AuthenticationError.of(_MECHANISM, f"{_INVALID}: 'auth' not specified")
    found = _AUTH.fullmatch(auth)
    if found is None:
        raise AuthenticationError.of(_MECHANISM, f"{_INVALID}: invalid 'auth' format")
    if found["scheme"].lower() != "bearer":
        raise AuthenticationError.of(
            _MECHANISM, f"Invalid scheme in OAUTHBEARER client first message: {found['scheme']}"
        )
    return authzid, found["token"], pairs


def _authzid(header: str) -> str:
    parts = header.split(",")
    if len(parts) != 3 or parts[0] != "n" or parts[2]:
        raise AuthenticationError.of(_MECHANISM, _INVALID)
    if not parts[1]:
        return ""
    name = parts[1].removeprefix("a=")
    if name == parts[1] or not _NAME.fullmatch(name):
        raise AuthenticationError.of(_MECHANISM, _INVALID)
    return name.replace("=2C", ",").replace("=3D", "=")


class OAuthBearerClient:
    """A client's side; extensions are the login's (`extension_<key>`)."""

    mechanism = _MECHANISM

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        for key, value in (extensions or {}).items():
            if key == "auth" or not _KEY.fullmatch(key):
                raise AuthenticationError(f"Extension name {key} is invalid")
            if not _VALUE.fullmatch(value):
                raise AuthenticationError(f"The value of extension {key} is invalid")
        if not _AUTH.fullmatch(f"Bearer {token}"):
            raise AuthenticationError("The token holds characters that no bearer token has")
        pairs = {"auth": f"Bearer {token}", **(extensions or {})}
        body = "".join(f"{key}={value}{_SEPARATOR}" for key, value in pairs.items())
        self._message = f"n,,{_SEPARATOR}{body}{_SEPARATOR}".encode()
        self._refusal: str | None = None
        self.complete = False

    def start(self) -> bytes:
        """Return the one message."""
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        """Take an empty answer, or acknowledge a refusal, after which the server closes; raises AuthenticationError."""
        if self.complete or self._refusal is not None:
            raise AuthenticationError(f"Unexpected challenge in the end of {_MECHANISM}")
        if not challenge:
            self.complete = True
            return None
        self._refusal = challenge.decode(errors="replace")
        return _ACKNOWLEDGED
