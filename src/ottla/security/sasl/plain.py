"""PLAIN: the password itself, in one message (RFC 4616). For encrypted listeners."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping

from ottla.security.sasl.exchange import AuthenticationError, LoggedIn

__all__ = ["PlainClient", "PlainServer", "PlainUsers"]

_NAME = "PLAIN"
_TOKENS = 3


class PlainUsers:
    """Users and their passwords, as a listener's JAAS entry gives them (`user_<name>="password"`)."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._hashes = {user: _hashed(password) for user, password in passwords.items()}
        self._nobody = _hashed("nobody has this")

    def accepts(self, user: str, password: str) -> bool:
        """Return whether it is the user's password; does the same for users that there are not."""
        same = hmac.compare_digest(_hashed(password), self._hashes.get(user, self._nobody))
        return same and user in self._hashes


def _hashed(password: str) -> bytes:
    """Return what is compared in place of a password: as long for each, so that time does not tell a length."""
    return hashlib.sha256(password.encode(errors="surrogatepass")).digest()


class PlainServer:
    """A server's side, asking `accepts` with user and password."""

    mechanism = _NAME
    waits = False

    def __init__(self, accepts: Callable[[str, str], bool]) -> None:
        self._accepts = accepts
        self._over = False
        self.logged_in: LoggedIn | None = None

    def respond(self, token: bytes) -> bytes:
        """Check the one message; raises AuthenticationError."""
        if self._over:
            raise AuthenticationError.of(_NAME, "a token came after the exchange was over")
        self._over = True
        authzid, user, password = _parts(token)
        if not user:
            raise AuthenticationError("Authentication failed: username not specified")
        if not password:
            raise AuthenticationError("Authentication failed: password not specified")
        if not self._accepts(user, password):
            raise AuthenticationError("Authentication failed: Invalid username or password")
        if authzid not in ("", user):
            raise AuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.logged_in = LoggedIn(user)
        return b""


def _parts(token: bytes) -> list[str]:
    try:
        parts = token.decode().split("\0", _TOKENS)
    except UnicodeDecodeError as error:
        raise AuthenticationError.of(_NAME, "the token is not UTF-8") from error
    if len(parts) != _TOKENS:
        got = token.count(b"\0") + 1
        raise AuthenticationError.of(_NAME, f"Invalid SASL/PLAIN response: expected {_TOKENS} tokens, got {got}")
    return parts


class PlainClient:
    """A client's side."""

    mechanism = _NAME

    def __init__(self, user: str, password: str) -> None:
        if not user or not password or "\0" in user + password:
            raise AuthenticationError("PLAIN needs a username and a password, both without NUL")
        self._token = f"\0{user}\0{password}".encode()
        self.complete = False

    def start(self) -> bytes:
        """Return the one message."""
        return self._token

    def respond(self, challenge: bytes) -> bytes | None:
        """Take the server's empty answer; raises AuthenticationError for another."""
        if challenge or self.complete:
            raise AuthenticationError("The server sent a challenge, which PLAIN does not know")
        self.complete = True
        return None
