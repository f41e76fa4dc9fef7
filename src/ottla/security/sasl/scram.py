"""SCRAM-SHA-256 and SCRAM-SHA-512: both sides show that they know the password, and neither sends it (RFC 5802, 7677).

Kafka's profile (KIP-84): no channel binding, passwords as they are, at least 4096 iterations; and a delegation token logs in
as a user whose name is the token's id and whose password is its HMAC, saying `tokenauth=true` (KIP-48).
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from re import ASCII, compile

from ottla.security.sasl.exchange import AuthenticationError, LoggedIn
from ottla.security.scram_credentials import (
    SCRAM_ITERATIONS_MIN,
    ScramCredential,
    ScramKind,
    ScramMechanism,
    decoy,
    is_proved,
    proof_of,
    salted_password,
    server_signature,
)

__all__ = ["SaltedSecret", "ScramClient", "ScramLogin", "ScramServer"]

CLIENT_ITERATIONS_MAX = 1_000_000
"""How often a client hashes because a server says so: more would be a server that keeps its clients busy."""
TOKEN_AUTHENTICATED = "tokenauth"
_NO_BINDING = "n"
_NAME = compile(r"(?:[^=,\0]|=2C|=3D)+")
_PRINTABLE = compile(r"[\x21-\x2b\x2d-\x7e]+")
_KEY = compile(r"[A-Za-z]+")
_NUMBER = compile(r"[0-9]{1,10}", ASCII)


@dataclass(frozen=True, slots=True)
class ScramLogin:
    """What is known of a user, or of a delegation token: the credential, and who that is."""

    credential: ScramCredential
    user: str
    """The name of the user, of a token its owner's."""
    expires_ms: int | None = None


Lookup = Callable[[str, bool], ScramLogin | None]
"""Finds a user by name, or where True is given a delegation token by id."""


class ScramServer:
    """A server's side. `nonce` is fresh and random for each exchange, `decoy_key` one secret of the server."""

    waits = False

    def __init__(
        self,
        mechanism: ScramMechanism,
        lookup: Lookup,
        *,
        nonce: str,
        decoy_key: bytes,
        kinds: Callable[[], Collection[ScramKind]] = tuple,
    ) -> None:
        """`kinds` are those of the users that there are: what is made up for others is of one of them."""
        assert _PRINTABLE.fullmatch(nonce)
        self.mechanism = mechanism.mechanism_name
        self.logged_in: LoggedIn | None = None
        self._mechanism = mechanism
        self._lookup = lookup
        self._nonce = nonce
        self._decoy_key, self._kinds = decoy_key, kinds
        self._step = self._first
        self._header = ""
        self._messages = ""
        self._by_token = False
        self._login: ScramLogin | None = None
        self._credential = decoy(mechanism, "", decoy_key)

    def respond(self, token: bytes) -> bytes:
        """Return the server's first and then its final message; raises AuthenticationError, the same for every cause."""
        step, self._step = self._step, self._over
        return step(_text(self.mechanism, token)).encode()

    def _first(self, message: str) -> str:
        header, bare = _without_header(self.mechanism, message)
        fields = _fields(self.mechanism, bare)
        fields = (
            fields[1:] if fields[0][0] == "m" else fields
        )  # reserved for mandatory extensions; Kafka passes over it
        if [key for key, _ in fields[:2]] != ["n", "r"]:
            raise self._refused("Invalid SCRAM client first message format")
        (_, sasl_name), (_, nonce), *extensions = fields
        if not _NAME.fullmatch(sasl_name) or not _PRINTABLE.fullmatch(nonce):
            raise self._refused("Invalid SCRAM client first message format")
        name = _plain_name(sasl_name)
        authzid = header.removeprefix("n,").removesuffix(",")
        if authzid and authzid.removeprefix("a=") != sasl_name:
            raise AuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._by_token = dict(extensions).get(TOKEN_AUTHENTICATED, "").lower() == "true"
        self._login = self._lookup(name, self._by_token)
        kinds = () if self._by_token else self._kinds()  # tokens are all of one
        made_up = decoy(self._mechanism, name, self._decoy_key, kinds=kinds)
        self._credential = made_up if self._login is None else self._login.credential
        iterations = self._credential.iterations
        if iterations < SCRAM_ITERATIONS_MIN:
            raise self._refused(
                f"Iterations {iterations} is less than the minimum {SCRAM_ITERATIONS_MIN} for {self.mechanism}"
            )
        self._nonce = nonce + self._nonce
        salt = b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._header = header
        self._messages = f"{bare},{answer},"
        self._step = self._final
        return answer

    def _final(self, message: str) -> str:
        without_proof, comma, proof_text = message.rpartition(",p=")
        fields = _fields(self.mechanism, without_proof)
        if not comma or [key for key, _ in fields[:2]] != ["c", "r"]:
            raise self._refused("Invalid SCRAM client final message format")
        binding, nonce = fields[0][1], fields[1][1]
        if not hmac.compare_digest(nonce.encode(), self._nonce.encode()):
            raise self._refused("Invalid client nonce in the final client message.")
        if _bytes(self.mechanism, binding) != self._header.encode():
            raise self._refused("the channel binding is not what the first message said")
        auth_message = (self._messages + without_proof).encode()
        proof = _bytes(self.mechanism, proof_text)
        proved = is_proved(self._mechanism, self._credential, proof=proof, auth_message=auth_message)
        signature = server_signature(self._mechanism, self._credential.server_key, auth_message)
        if not proved or self._login is None:
            raise self._refused("Invalid client credentials")
        self.logged_in = LoggedIn(self._login.user, self._login.expires_ms, self._by_token)
        return f"v={b64encode(signature).decode()}"

    def _over(self, message: str) -> str:
        raise self._refused("a token came after the exchange was over")

    def _refused(self, reason: str) -> AuthenticationError:
        return AuthenticationError.of(self.mechanism, reason)


@dataclass(frozen=True, slots=True)
class SaltedSecret:
    """What a client can keep in a password's place until that is set anew: `Hi(password, salt, iterations)`."""

    salt: bytes = field(repr=False)
    iterations: int
    salted: bytes = field(repr=False)


class ScramClient:
    """A client's side. `nonce` is fresh and random for each exchange; `by_token` where a delegation token logs in."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        *,
        user: str,
        password: str | SaltedSecret,
        nonce: str,
        by_token: bool = False,
    ) -> None:
        assert _PRINTABLE.fullmatch(nonce)
        if not user or not password or "\0" in user:
            raise AuthenticationError(f"{mechanism.mechanism_name} needs a username, without NUL, and a password")
        self.mechanism = mechanism.mechanism_name
        self.complete = False
        self._mechanism = mechanism
        self._password = password
        self.secret: SaltedSecret | None = None
        """What logs in again without the password, once the server has said its salt."""
        self._nonce = nonce
        extension = f",{TOKEN_AUTHENTICATED}=true" if by_token else ""
        self._bare = f"n={_sasl_name(user)},r={nonce}{extension}"
        self._expected = b""
        self._step: Callable[[str], bytes | None] = self._first

    def start(self) -> bytes:
        """Return the client's first message."""
        return f"{_NO_BINDING},,{self._bare}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the final message, then check what the server shows; raises AuthenticationError."""
        step, self._step = self._step, self._over
        return step(_text(self.mechanism, challenge))

    def _first(self, message: str) -> bytes:
        fields = _fields(self.mechanism, message)
        fields = fields[1:] if fields[0][0] == "m" else fields
        if [key for key, _ in fields[:3]] != ["r", "s", "i"] or not _NUMBER.fullmatch(fields[2][1]):
            raise AuthenticationError("Invalid SCRAM server first message format")
        nonce, salt, iterations = fields[0][1], _bytes(self.mechanism, fields[1][1]), int(fields[2][1])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationError("Invalid server nonce: does not start with client nonce")
        if iterations < SCRAM_ITERATIONS_MIN:
            raise AuthenticationError(
                f"Requested iterations {iterations} is less than the minimum {SCRAM_ITERATIONS_MIN} for {self.mechanism}"
            )
        if iterations > CLIENT_ITERATIONS_MAX:
            raise AuthenticationError(
                f"Requested iterations {iterations} is more than the maximum {CLIENT_ITERATIONS_MAX} for {self.mechanism}"
            )
        salted = self._salted(salt, iterations)
        without_proof = f"c={b64encode(b'n,,').decode()},r={nonce}"
        auth_message = f"{self._bare},{message},{without_proof}".encode()
        server_key = self._mechanism.keyed(salted, b"Server Key")
        self._expected = server_signature(self._mechanism, server_key, auth_message)
        self._step = self._final
        proof = b64encode(proof_of(self._mechanism, salted, auth_message)).decode()
        return f"{without_proof},p={proof}".encode()

    def _salted(self, salt: bytes, iterations: int) -> bytes:
        if isinstance(self._password, SaltedSecret):
            if (self._password.salt, self._password.iterations) != (salt, iterations):
                raise AuthenticationError("The password has been set anew since the login: log in again")
            self.secret = self._password
        else:
            salted = salted_password(self._mechanism, self._password, salt=salt, iterations=iterations)
            self.secret = SaltedSecret(salt, iterations, salted)
        return self.secret.salted

    def _final(self, message: str) -> None:
        (key, value), *_ = _fields(self.mechanism, message)
        if key == "e":
            raise AuthenticationError(f"Sasl authentication using {self.mechanism} failed with error: {value}")
        if key != "v" or not hmac.compare_digest(_bytes(self.mechanism, value), self._expected):
            raise AuthenticationError("Invalid server signature in server final message")
        self.complete = True

    def _over(self, message: str) -> None:
        raise AuthenticationError(f"Unexpected challenge in the end of {self.mechanism}")


def _text(mechanism: str, token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationError.of(mechanism, "the message is not UTF-8") from error


def _without_header(mechanism: str, message: str) -> tuple[str, str]:
    """Return the GS2 header, which says what is not wanted (channel binding) and whose rights are, and the rest."""
    parts = message.split(",", 2)
    if len(parts) != 3 or parts[0] != _NO_BINDING:
        raise AuthenticationError.of(
            mechanism, 'Invalid SCRAM client first message format: only gs2-header "n" is known'
        )
    authzid = parts[1]
    if authzid and not (authzid.startswith("a=") and _NAME.fullmatch(authzid[2:])):
        raise AuthenticationError.of(mechanism, "Invalid SCRAM client first message format: its authorization id")
    return f"{_NO_BINDING},{authzid},", parts[2]


def _fields(mechanism: str, message: str) -> list[tuple[str, str]]:
    """Return a message's attributes and extensions in order, at least one."""
    found = []
    for part in message.split(","):
        key, equals, value = part.partition("=")
        if not equals or not value or "\0" in value or not _KEY.fullmatch(key):
            raise AuthenticationError.of(mechanism, "Invalid SCRAM message format: an attribute is no letters=value")
        found.append((key, value))
    return found


def _bytes(mechanism: str, text: str) -> bytes:
    """Return what base64 stands for; refuses all but the one way to write it."""
    try:
        data = b64decode(text, validate=True)
    except (Base64Error, ValueError) as error:
        raise AuthenticationError.of(mechanism, "Invalid SCRAM message format: base64") from error
    if b64encode(data).decode() != text:
        raise AuthenticationError.of(mechanism, "Invalid SCRAM message format: base64 with bits left over")
    return data


def _sasl_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _plain_name(sasl_name: str) -> str:
    return sasl_name.replace("=2C", ",").replace("=3D", "=")
