"""Users' SCRAM credentials: which may be set and removed, and which are told (KIP-554)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.base import ErrorCode, KafkaError
from ottla.metadata.apply import Record
from ottla.metadata.decide.decision import Decision
from ottla.metadata.features import SCRAM_SINCE
from ottla.metadata.image import Image
from ottla.security import ScramCredential, ScramMechanism, check_new_credential, credential_of_salted
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from ottla.wire.messages.user_scram_credential_record import UserScramCredentialRecord

__all__ = ["FoundCredentials", "alter_scram_credentials", "found_scram_credentials", "scram_record"]

TWICE = "A user credential cannot be altered twice in the same request"
NOT_THERE = "Attempt to delete a user credential that does not exist"

Change = ScramCredentialDeletion | ScramCredentialUpsertion


@dataclass(frozen=True, slots=True)
class FoundCredentials:
    """The mechanisms that a user has a credential for, each with its iterations; or why that is not told."""

    user: str
    iterations: tuple[tuple[ScramMechanism, int], ...] = ()
    error: KafkaError | None = None


def alter_scram_credentials(
    image: Image, request: AlterUserScramCredentialsRequest
) -> Decision[list[tuple[str, KafkaError | None]]]:
    """Choose the records for these changes; each user may have one, and fails by itself."""
    changes: dict[str, list[Change]] = {}
    wished: list[Change] = [*request.deletions, *request.upsertions]
    for each in wished:
        changes.setdefault(each.name, []).append(each)
    records: list[Record] = []
    results: list[tuple[str, KafkaError | None]] = []
    for user, wanted in changes.items():
        try:
            records.append(_only_record(image, wanted))
            results.append((user, None))
        except KafkaError as error:
            results.append((user, error))
    return Decision(tuple(records), results)


def _only_record(image: Image, wanted: Sequence[Change]) -> Record:
    """Return the record of a user's one change; raises KafkaError, of more than one for the first that is wrong."""
    if image.metadata_version < SCRAM_SINCE:
        text = "The current metadata version does not support SCRAM"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    found = _record(image, wanted[0])
    if len(wanted) > 1:
        raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, TWICE)
    return found


def _record(image: Image, change: Change) -> Record:
    if isinstance(change, ScramCredentialDeletion):
        if not change.name:
            raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        if ScramMechanism.of_code(change.mechanism) is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if (change.name, change.mechanism) not in image.scram_credentials:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, NOT_THERE)
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    mechanism = check_new_credential(change.name, change.mechanism, change.iterations)
    credential = credential_of_salted(
        mechanism, salted=bytes(change.salted_password), salt=bytes(change.salt), iterations=change.iterations
    )
    return scram_record(change.name, mechanism, credential)


def scram_record(user: str, mechanism: ScramMechanism, credential: ScramCredential) -> UserScramCredentialRecord:
    """Return the record that keeps a user's credential."""
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism.code,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def found_scram_credentials(image: Image, users: Iterable[str] | None) -> list[FoundCredentials]:
    """Return what these users have, or without any named all that have something, sorted by name."""
    named = list(users or ()) or sorted({user for user, _ in image.scram_credentials})
    return [
        FoundCredentials(user, error=_twice(user)) if count > 1 else _found(image, user)
        for user, count in Counter(named).items()
    ]


def _twice(user: str) -> KafkaError:
    text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    return KafkaError(ErrorCode.DUPLICATE_RESOURCE, text)


def _found(image: Image, user: str) -> FoundCredentials:
    iterations = tuple(
        (mechanism, credential.iterations)
        for mechanism in ScramMechanism
        if (credential := image.scram_credentials.get((user, mechanism.code))) is not None
    )
    if iterations:
        return FoundCredentials(user, iterations)
    text = f"Attempt to describe a user credential that does not exist: {user}"
    return FoundCredentials(user, error=KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text))
