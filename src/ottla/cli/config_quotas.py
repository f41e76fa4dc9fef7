"""Quotas of users, clients and addresses, and users' SCRAM credentials, as `ottla configs` shows and alters them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ottla.admin import raise_code
from ottla.base import ErrorCode, KafkaError
from ottla.cli.options import UsageError, warn
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.cli.config_entities import Entity
    from ottla.client import BlockingClient

__all__ = ["alter_quotas", "describe_quotas", "java_double"]

WIRE_TYPES = {"users": "user", "clients": "client-id", "ips": "ip"}
SHOWN_TYPES = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
CONNECTION_QUOTAS = ("connection_creation_rate",)
MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
MECHANISM_NAMES = {number: name for name, number in MECHANISMS.items()}
ITERATIONS_DEFAULT = 4096
ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384
SALT_BYTES = 32
EXACT, DEFAULT, ANY = 0, 1, 2
Rows = list[dict[str, Any]]


def java_double(value: float) -> str:
    """Return a number as Java prints a double: plain from 0.001 to ten million, else with an exponent."""
    from decimal import Decimal

    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    mantissa = f"{digits[0]}.{''.join(map(str, digits[1:])) or '0'}"
    return f"{'-' if sign else ''}{mantissa}E{len(digits) - 1 + int(exponent)}"


def describe_quotas(client: BlockingClient, args: Namespace, entities: Sequence[Entity]) -> None:
    """Print the quotas that the entities match, and of users alone their credentials too."""
    rows = quota_rows(client, entities)
    only_users = [each.type for each in entities] == ["users"]
    if only_users and entities[0].name != "":
        rows += credential_rows(client, entities[0].name)
    if args.output != "text":
        columns = {"ENTITY": "entity", "CONFIGS": "configs"}
        print_answer(args.output, Answer(rows, columns))
        return
    for row in rows:
        of = ", ".join(entity_text(kind, name) for kind, name in row["entity"].items())
        if row["kind"] == "quotas":
            values = ", ".join(f"{key}={java_double(value)}" for key, value in row["configs"].items())
            print(f"Quota configs for {of} are {values}")
        else:
            values = ", ".join(f"{key}={value}" for key, value in row["configs"].items())
            print(f"SCRAM credential configs for {of} are {values}")


def entity_text(kind: str, name: str | None) -> str:
    """Return one entity in Kafka's words; None is the default of its kind."""
    shown = SHOWN_TYPES[kind]
    return f"the default {shown}" if name is None else f"{shown} '{name}'"


def quota_rows(client: BlockingClient, entities: Sequence[Entity]) -> Rows:
    """Ask for the quotas of exactly these kinds of entity (KIP-546)."""
    from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

    components = [
        ComponentData(
            entity_type=WIRE_TYPES[each.type],
            match_type=ANY if each.name is None else EXACT if each.name else DEFAULT,
            match=each.name or None,
        )
        for each in entities
    ]
    response = client.request(DescribeClientQuotasRequest(components=components, strict=True))
    raise_code(response.error_code, response.error_message)
    rows: Rows = []
    for entry in response.entries or ():
        named = {each.entity_type: each.entity_name for each in entry.entity}
        values = {each.key: each.value for each in entry.values}
        rows.append(
            {
                "kind": "quotas",
                "entity": {kind: named[kind] for kind in SHOWN_TYPES if kind in named},
                "configs": dict(sorted(values.items())),
            }
        )
    return sorted(rows, key=lambda row: [(name is None, name or "") for name in row["entity"].values()])


def credential_rows(client: BlockingClient, user: str | None) -> Rows:
    """Ask for the mechanisms of one user or of all (KIP-554); a cluster without credentials has none to show."""
    from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

    message = DescribeUserScramCredentialsRequest(users=None if user is None else [UserName(name=user)])
    try:
        response = client.request(message)
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        warn(f"SCRAM credentials are not shown: {error}")
        return []
    raise_code(response.error_code, response.error_message)
    rows: Rows = []
    for result in sorted(response.results, key=lambda each: str(each.user)):
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        raise_code(result.error_code, result.error_message)
        found = sorted(result.credential_infos, key=lambda each: int(each.mechanism))
        infos = {MECHANISM_NAMES[each.mechanism]: f"iterations={each.iterations}" for each in found}
        rows.append({"kind": "credentials", "entity": {"user": result.user}, "configs": infos})
    return rows


def alter_quotas(
    client: BlockingClient, args: Namespace, entities: Sequence[Entity], added: Mapping[str, str], deleted: list[str]
) -> None:
    """Set and drop quotas, or credentials; raises UsageError for what is neither, or a mixture."""
    types = [each.type for each in entities]
    if types == ["users"]:
        given = [*added, *deleted]
        credentials = [name for name in given if name in MECHANISMS]
        if credentials and len(credentials) < len(given) and all(name in (*QUOTAS, *MECHANISMS) for name in given):
            raise UsageError(
                "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' "
                "using --bootstrap-server."
            )
        check_names(added, deleted, types, (*QUOTAS, *MECHANISMS), "quota and SCRAM credential")
        if credentials:
            alter_credentials(client, args, entities[0], added, deleted)
            return
    else:
        allowed = CONNECTION_QUOTAS if types == ["ips"] else QUOTAS
        check_names(added, deleted, types, allowed, "connection quota" if types == ["ips"] else "quota")
    send_quotas(client, args, entities, {key: number(key, value) for key, value in added.items()}, deleted)


def check_names(
    added: Iterable[str], deleted: Iterable[str], types: list[str], allowed: Iterable[str], what: str
) -> None:
    """Raise UsageError for names that the entities do not have."""
    of = "clients" if "clients" in types else types[0]
    for names, done in ((added, "added"), (deleted, "deleted")):
        unknown = [name for name in names if name not in allowed]
        if unknown:
            raise UsageError(
                f"Only {what} configs can be {done} for '{of}' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )


def number(key: str, text: str) -> float:
    """Parse a quota's value."""
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"Cannot parse quota configuration value for {key}: {text}") from None


def send_quotas(
    client: BlockingClient, args: Namespace, entities: Sequence[Entity], added: Mapping[str, float], deleted: list[str]
) -> None:
    """Send the request."""
    from ottla.wire.messages.alter_client_quotas import (
        AlterClientQuotasRequest,
        EntityData,
        OpData,
        RequestEntryData,
    )

    entry = RequestEntryData(
        entity=[EntityData(entity_type=WIRE_TYPES[each.type], entity_name=each.name or None) for each in entities],
        ops=[
            *(OpData(key=key, value=value, remove=False) for key, value in added.items()),
            *(OpData(key=key, value=0.0, remove=True) for key in deleted),
        ],
    )
    response = client.request(AlterClientQuotasRequest(entries=[entry], validate_only=args.dry_run))
    for result in response.entries:
        raise_code(result.error_code, result.error_message)


def alter_credentials(
    client: BlockingClient, args: Namespace, entity: Entity, added: Mapping[str, str], deleted: Iterable[str]
) -> None:
    """Set and drop a user's credentials; a password never leaves this process, only its salted form does."""
    from ottla.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )

    if not entity.name:
        raise UsageError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials "
            "using --bootstrap-server."
        )
    upsertions = []
    for name, text in added.items():
        iterations, password = credential(name, text)
        salt, salted = salted_password(name, password, iterations)
        upsertions.append(
            ScramCredentialUpsertion(
                name=entity.name,
                mechanism=MECHANISMS[name],
                iterations=iterations,
                salt=salt,
                salted_password=salted,
            )
        )
    deletions = [ScramCredentialDeletion(name=entity.name, mechanism=MECHANISMS[name]) for name in deleted]
    if args.dry_run:  # the request has no word for it
        return
    message = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    for result in client.request(message).results:
        raise_code(result.error_code, result.error_message)


def credential(mechanism: str, text: str) -> tuple[int, str]:
    """Parse `iterations=8192,password=secret`; raises UsageError for anything else."""
    match = re.fullmatch(r"(?:iterations=(-?\d+),)?password=(.*)", text, re.ASCII | re.DOTALL)
    if match is None:
        raise UsageError(f"Invalid credential property {mechanism.replace('-', '_')}={text}")
    iterations = int(match[1] or ITERATIONS_DEFAULT)
    if match[1] and iterations < ITERATIONS_MIN:
        raise UsageError(f"Iterations {iterations} is less than the minimum {ITERATIONS_MIN} required for {mechanism}")
    if iterations > ITERATIONS_MAX:
        raise UsageError(f"Iterations {iterations} is more than the maximum {ITERATIONS_MAX} of {mechanism}")
    return iterations, match[2]


def salted_password(mechanism: str, password: str, iterations: int) -> tuple[bytes, bytes]:
    """Return a fresh salt and Hi(password, salt, iterations) of RFC 5802."""
    import hashlib
    import secrets

    salt = secrets.token_bytes(SALT_BYTES)
    algorithm = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    return salt, hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)
