"""`storage format --add-scram`: a cluster's first users, which its brokers need where they log in by SCRAM (KIP-900)."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING

from ottla.cli.options import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.security import ScramMechanism
    from ottla.wire.messages.user_scram_credential_record import UserScramCredentialRecord

__all__ = ["scram_records"]

SALT_BYTES = 32
NAMES = ("name", "password", "salt", "saltedpassword", "iterations")


def scram_records(arguments: Iterable[str], random_bytes: Callable[[int], bytes]) -> list[UserScramCredentialRecord]:
    """Return the records of `SCRAM-SHA-256=[name=al,password=x]` arguments; raises UsageError in Kafka's words.

    In place of the password there may be `salt` and `saltedpassword`, both in base64; `iterations` is 4096 by default.
    """
    found = [_record(each.strip(), random_bytes) for each in arguments]
    if len({(each.name, each.mechanism) for each in found}) < len(found):
        raise UsageError("A user and mechanism stand twice in --add-scram")
    return found


def _record(argument: str, random_bytes: Callable[[int], bytes]) -> UserScramCredentialRecord:
    from ottla.metadata import decide
    from ottla.security import ScramMechanism, credential_of, credential_of_salted

    name, equals, text = argument.partition("=")
    if not equals:
        raise UsageError("Failed to find equals sign in SCRAM argument")
    mechanism = ScramMechanism.of_name(name)
    if mechanism is None:
        raise UsageError(f"The add-scram mechanism {name} is not supported.")
    values = _values(text)
    user, iterations = values.get("name"), _iterations(values.get("iterations"), mechanism)
    if not user:
        raise UsageError("You must supply 'name' to add-scram")
    password, salted = values.get("password"), values.get("saltedpassword")
    if not password and not salted:
        raise UsageError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if password and salted:
        raise UsageError("You must supply only one of 'password' or 'saltedpassword' to add-scram")
    if salted and "salt" not in values:
        raise UsageError("You must supply 'salt' with 'saltedpassword' to add-scram")
    salt = _bytes(values["salt"], "salt") if "salt" in values else random_bytes(SALT_BYTES)
    if password:
        credential = credential_of(mechanism, password, salt=salt, iterations=iterations)
    else:
        data = _bytes(salted or "", "saltedPassword")
        credential = credential_of_salted(mechanism, salted=data, salt=salt, iterations=iterations)
    return decide.scram_record(user, mechanism, credential)


def _values(text: str) -> dict[str, str]:
    if not text.startswith("["):
        raise UsageError("Expected configuration string to start with [")
    if not text.endswith("]"):
        raise UsageError("Expected configuration string to end with ]")
    values: dict[str, str] = {}
    for component in text[1:-1].split(","):
        key, equals, value = component.partition("=")
        if not equals:
            raise UsageError("No equals sign found in a SCRAM component")
        values[key.strip()] = value
    unknown = [key for key in values if key not in NAMES]
    if unknown:
        raise UsageError(f"Unknown SCRAM configurations: {', '.join(unknown)}")
    return values


def _iterations(text: str | None, mechanism: ScramMechanism) -> int:
    from ottla.security import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN

    if text is None:
        return SCRAM_ITERATIONS_MIN
    if not text.isascii() or not text.lstrip("-").isdigit():
        raise UsageError(f"Failed to parse iterations count: {text}")
    name = mechanism.mechanism_name.replace("-", "_")
    if int(text) < SCRAM_ITERATIONS_MIN:
        raise UsageError(f"The 'iterations' value must be >= {SCRAM_ITERATIONS_MIN} for add-scram using {name}")
    if int(text) > SCRAM_ITERATIONS_MAX:
        raise UsageError(f"The 'iterations' value must be <= {SCRAM_ITERATIONS_MAX} for add-scram using {name}")
    return int(text)


def _bytes(text: str, what: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise UsageError(f"Failed to decode given {what}") from None
