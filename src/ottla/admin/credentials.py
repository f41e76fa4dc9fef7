"""Users' SCRAM credentials (KIP-554): a password never leaves this process, only its salted form does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.admin.errors import AdminError, raise_code
from ottla.base import ErrorCode

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = [
    "MECHANISMS",
    "CredentialChange",
    "NewPassword",
    "SaltedPassword",
    "alter_credentials",
    "describe_credentials",
    "plan_credential_change",
    "salted_password",
]

MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
MECHANISM_NAMES = {number: name for name, number in MECHANISMS.items()}
ITERATIONS_DEFAULT = 4096
ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384
SALT_BYTES = 32


@dataclass(frozen=True)
class NewPassword:
    """A password that a user shall have; how often it is hashed, 4096 times where nothing is said."""

    password: str
    iterations: int | None = None


@dataclass(frozen=True)
class SaltedPassword:
    """What a broker is told of a password: Hi(password, salt, iterations) of RFC 5802."""

    salt: bytes
    salted: bytes
    iterations: int


@dataclass(frozen=True)
class CredentialChange:
    """The credentials that `alter_credentials` gives a user, and those that it takes, by mechanism."""

    user: str
    added: Mapping[str, SaltedPassword]
    deleted: tuple[str, ...]


def describe_credentials(client: BlockingClient, user: str | None = None) -> dict[str, dict[str, int]]:
    """Return the mechanisms that one user or all have credentials for, each with its iterations, sorted.

    Raises UNSUPPORTED_VERSION where the cluster knows no credentials, else KafkaError in its words.
    """
    from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

    message = DescribeUserScramCredentialsRequest(users=None if user is None else [UserName(name=user)])
    response = client.request(message)
    raise_code(response.error_code, response.error_message)
    found: dict[str, dict[str, int]] = {}
    for result in sorted(response.results, key=lambda each: str(each.user)):
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        raise_code(result.error_code, result.error_message)
        infos = sorted(result.credential_infos, key=lambda each: int(each.mechanism))
        found[result.user] = {MECHANISM_NAMES[each.mechanism]: each.iterations for each in infos}
    return found


def plan_credential_change(user: str, added: Mapping[str, NewPassword], deleted: Sequence[str]) -> CredentialChange:
    """Return a change of one user's credentials; raises AdminError for more or fewer iterations than brokers take."""
    salted = {}
    for mechanism, new in added.items():
        iterations = ITERATIONS_DEFAULT if new.iterations is None else new.iterations
        if iterations < ITERATIONS_MIN:
            raise AdminError(
                f"Iterations {iterations} is less than the minimum {ITERATIONS_MIN} required for {mechanism}"
            )
        if iterations > ITERATIONS_MAX:
            raise AdminError(f"Iterations {iterations} is more than the maximum {ITERATIONS_MAX} of {mechanism}")
        salted[mechanism] = salted_password(mechanism, new.password, iterations)
    return CredentialChange(user, salted, tuple(deleted))


def salted_password(mechanism: str, password: str, iterations: int) -> SaltedPassword:
    """Return a password hashed with a fresh salt, as a mechanism (`SCRAM-SHA-256`, `SCRAM-SHA-512`) wants it."""
    import hashlib
    import secrets

    salt = secrets.token_bytes(SALT_BYTES)
    algorithm = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    return SaltedPassword(salt, hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations), iterations)


def alter_credentials(client: BlockingClient, change: CredentialChange) -> None:
    """Set and drop a user's credentials; raises KafkaError in the controller's words. There is no way to only check."""
    from ottla.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )

    upsertions = [
        ScramCredentialUpsertion(
            name=change.user,
            mechanism=MECHANISMS[name],
            iterations=each.iterations,
            salt=each.salt,
            salted_password=each.salted,
        )
        for name, each in change.added.items()
    ]
    deletions = [ScramCredentialDeletion(name=change.user, mechanism=MECHANISMS[name]) for name in change.deleted]
    message = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    for result in client.request(message).results:
        raise_code(result.error_code, result.error_message)
