"""What is kept of a password for SCRAM, and what is made of it (RFC 5802 section 3, RFC 7677, KIP-84).

`salted = Hi(password, salt, iterations)` is PBKDF2; of it come the client's and the server's key. A server keeps a hash of
the first and the second itself: with both it can check a proof and give one, and cannot log in elsewhere as the user.
Passwords are taken as the UTF-8 that they are, not prepared by SASLprep, as in Kafka.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

from ottla.base import ErrorCode, KafkaError

__all__ = [
    "SCRAM_ITERATIONS_MAX",
    "SCRAM_ITERATIONS_MIN",
    "ScramCredential",
    "ScramKind",
    "ScramMechanism",
    "check_new_credential",
    "credential_of",
    "credential_of_salted",
    "decoy",
    "is_proved",
    "proof_of",
    "salted_password",
    "server_signature",
]

SCRAM_ITERATIONS_MIN = 4096
SCRAM_ITERATIONS_MAX = 16384
"""Kafka's bounds of what AlterUserScramCredentials sets (KIP-554)."""
DECOY_SALT_BYTES = 32
"""As long as the salts that `ottla configs` makes."""


class ScramMechanism(Enum):
    """The two mechanisms: the code in records and requests (KIP-554), and the name of the hash."""

    SHA_256 = (1, "sha256")
    SHA_512 = (2, "sha512")

    def __init__(self, code: int, algorithm: str) -> None:
        self.code = code
        self.algorithm = algorithm

    @property
    def mechanism_name(self) -> str:
        """The mechanism as SASL calls it."""
        return f"SCRAM-SHA-{self.algorithm.removeprefix('sha')}"

    @classmethod
    def of_name(cls, name: str) -> ScramMechanism | None:
        """Return the mechanism of this name, or None."""
        return next((each for each in cls if each.mechanism_name == name), None)

    @classmethod
    def of_code(cls, code: int) -> ScramMechanism | None:
        """Return the mechanism of this code, or None."""
        return next((each for each in cls if each.code == code), None)

    def hashed(self, data: bytes) -> bytes:
        """Return H(data)."""
        return hashlib.new(self.algorithm, data).digest()

    def keyed(self, key: bytes, data: bytes) -> bytes:
        """Return HMAC(key, data)."""
        return hmac.digest(key, data, self.algorithm)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a password, as UserScramCredentialRecord holds it."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def salted_password(mechanism: ScramMechanism, password: str, *, salt: bytes, iterations: int) -> bytes:
    """Return Hi(password, salt, iterations); costs milliseconds, by design."""
    return hashlib.pbkdf2_hmac(mechanism.algorithm, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, password: str, *, salt: bytes, iterations: int) -> ScramCredential:
    """Return what a server keeps of a password."""
    salted = salted_password(mechanism, password, salt=salt, iterations=iterations)
    return credential_of_salted(mechanism, salted=salted, salt=salt, iterations=iterations)


def credential_of_salted(mechanism: ScramMechanism, *, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what a server keeps of a password that a client has salted, as AlterUserScramCredentials hands it over."""
    stored_key = mechanism.hashed(mechanism.keyed(salted, b"Client Key"))
    return ScramCredential(salt, stored_key, mechanism.keyed(salted, b"Server Key"), iterations)


def check_new_credential(name: str, mechanism_code: int, iterations: int) -> ScramMechanism:
    """Return the mechanism of a credential that somebody wants to set.

    Raises UNACCEPTABLE_CREDENTIAL or UNSUPPORTED_SASL_MECHANISM in the controller's words.
    """
    mechanism = ScramMechanism.of_code(mechanism_code)
    if not name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if iterations < SCRAM_ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if iterations > SCRAM_ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return mechanism


@dataclass(frozen=True, slots=True)
class ScramKind:
    """What the first answer of an exchange shows of a credential."""

    iterations: int
    salt_bytes: int

    @classmethod
    def of(cls, credential: ScramCredential) -> ScramKind:
        """Return a credential's."""
        return cls(credential.iterations, len(credential.salt))


DECOY_KIND = ScramKind(SCRAM_ITERATIONS_MIN, DECOY_SALT_BYTES)
"""Where nobody has a credential: what `ottla configs` makes unless told otherwise."""


def decoy(
    mechanism: ScramMechanism, user: str, key: bytes, *, kinds: Collection[ScramKind] = (DECOY_KIND,)
) -> ScramCredential:
    """Return what stands in for the credential of a user who has none: always the same for a name, and never met.

    `key` is secret. So whoever asks cannot tell users that there are from others, neither by salts nor by time. `kinds` are
    those of the credentials that there are: each name has one of them, and keeps it for as long as somebody else has it and
    none is new (rendezvous hashing).
    """
    label = f"{mechanism.mechanism_name}\0{user}\0".encode(errors="surrogatepass")
    made = [hmac.digest(key, label + part, "sha512") for part in (b"salt", b"stored", b"server")]
    size = hashlib.new(mechanism.algorithm).digest_size
    kind = max(
        kinds or (DECOY_KIND,),
        key=lambda each: hmac.digest(key, label + b"%d\0%d" % (each.iterations, each.salt_bytes), "sha256"),
    )
    salt = hashlib.shake_256(made[0]).digest(kind.salt_bytes)
    return ScramCredential(salt, made[1][:size], made[2][:size], kind.iterations)


def proof_of(mechanism: ScramMechanism, salted: bytes, auth_message: bytes) -> bytes:
    """Return ClientProof: what shows that a client knows the password, for this exchange only."""
    client_key = mechanism.keyed(salted, b"Client Key")
    return _xor(client_key, mechanism.keyed(mechanism.hashed(client_key), auth_message))


def is_proved(mechanism: ScramMechanism, credential: ScramCredential, *, proof: bytes, auth_message: bytes) -> bool:
    """Return whether a proof shows the password; takes the same time whatever is wrong with it."""
    signature = mechanism.keyed(credential.stored_key, auth_message)
    client_key = _xor(signature, proof.ljust(len(signature), b"\0")[: len(signature)])
    same = hmac.compare_digest(mechanism.hashed(client_key), credential.stored_key)
    return same and len(proof) == len(signature)


def server_signature(mechanism: ScramMechanism, server_key: bytes, auth_message: bytes) -> bytes:
    """Return ServerSignature: what shows that the server knows what it keeps of the password."""
    return mechanism.keyed(server_key, auth_message)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
