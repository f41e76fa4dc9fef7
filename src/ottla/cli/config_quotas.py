"""Quotas of users, clients and addresses, and users' SCRAM credentials, as `ottla configs` shows and alters them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ottla.admin import (
    CLIENT_QUOTAS,
    CONNECTION_QUOTAS,
    MECHANISMS,
    NewPassword,
    QuotaChange,
    alter_credentials,
    alter_quotas,
    describe_credentials,
    describe_quotas,
    plan_credential_change,
)
from ottla.base import ErrorCode, KafkaError
from ottla.cli.options import UsageError, usage_errors, warn
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.admin import ConfigEntity
    from ottla.client import BlockingClient

__all__ = ["alter_entity", "print_quotas"]

WIRE_TYPES = {"users": "user", "clients": "client-id", "ips": "ip"}
SHOWN_TYPES = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
Rows = list[dict[str, Any]]


def print_quotas(client: BlockingClient, args: Namespace, entities: Sequence[ConfigEntity]) -> None:
    """Print the quotas that the entities match, and of users alone their credentials too."""
    quotas = describe_quotas(client, {WIRE_TYPES[each.type]: each.name for each in entities})
    rows: Rows = [{"kind": "quotas", "entity": each.entity, "configs": each.values} for each in quotas]
    only_users = [each.type for each in entities] == ["users"]
    if only_users and entities[0].name != "":
        rows += credential_rows(client, entities[0].name)
    if args.output != "text":
        columns = {"ENTITY": "entity", "CONFIGS": "configs"}
        print_answer(args.output, Answer(rows, columns))
        return
    from ottla.java import double_text

    for row in rows:
        of = ", ".join(entity_text(kind, name) for kind, name in row["entity"].items())
        if row["kind"] == "quotas":
            values = ", ".join(f"{key}={double_text(value)}" for key, value in row["configs"].items())
            print(f"Quota configs for {of} are {values}")
        else:
            values = ", ".join(f"{key}={value}" for key, value in row["configs"].items())
            print(f"SCRAM credential configs for {of} are {values}")


def entity_text(kind: str, name: str | None) -> str:
    """Return one entity in Kafka's words; None is the default of its kind."""
    shown = SHOWN_TYPES[kind]
    return f"the default {shown}" if name is None else f"{shown} '{name}'"


def credential_rows(client: BlockingClient, user: str | None) -> Rows:
    """Return the credentials of one user or of all; a cluster without credentials has none to show."""
    try:
        found = describe_credentials(client, user)
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        warn(f"SCRAM credentials are not shown: {error}")
        return []
    return [
        {
            "kind": "credentials",
            "entity": {"user": name},
            "configs": {mechanism: f"iterations={iterations}" for mechanism, iterations in mechanisms.items()},
        }
        for name, mechanisms in found.items()
    ]


def alter_entity(
    client: BlockingClient,
    args: Namespace,
    entities: Sequence[ConfigEntity],
    added: Mapping[str, str],
    deleted: list[str],
) -> None:
    """Set and drop quotas, or credentials; raises UsageError for what is neither, or a mixture."""
    types = [each.type for each in entities]
    if types == ["users"]:
        given = [*added, *deleted]
        allowed = (*CLIENT_QUOTAS, *MECHANISMS)
        credentials = [name for name in given if name in MECHANISMS]
        if credentials and len(credentials) < len(given) and all(name in allowed for name in given):
            raise UsageError(
                "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' "
                "using --bootstrap-server."
            )
        check_names(added, deleted, types, allowed, "quota and SCRAM credential")
        if credentials:
            alter_user(client, args, entities[0].name, added, deleted)
            return
    elif types == ["ips"]:
        check_names(added, deleted, types, CONNECTION_QUOTAS, "connection quota")
    else:
        check_names(added, deleted, types, CLIENT_QUOTAS, "quota")
    entity = {WIRE_TYPES[each.type]: each.name or None for each in entities}
    change = QuotaChange(entity, {key: number(key, value) for key, value in added.items()}, tuple(deleted))
    alter_quotas(client, change, validate_only=args.dry_run)


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


def alter_user(
    client: BlockingClient, args: Namespace, user: str | None, added: Mapping[str, str], deleted: list[str]
) -> None:
    """Set and drop a user's credentials."""
    if not user:
        raise UsageError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials "
            "using --bootstrap-server."
        )
    with usage_errors():
        passwords = {name: new_password(name, text) for name, text in added.items()}
        change = plan_credential_change(user, passwords, deleted)
    if not args.dry_run:  # the request has no word for it
        alter_credentials(client, change)


def new_password(mechanism: str, text: str) -> NewPassword:
    """Parse `iterations=8192,password=secret`; raises UsageError for anything else."""
    match = re.fullmatch(r"(?:iterations=(-?\d+),)?password=(.*)", text, re.ASCII | re.DOTALL)
    if match is None:
        raise UsageError(f"Invalid credential property {mechanism.replace('-', '_')}={text}")
    return NewPassword(match[2], int(match[1]) if match[1] else None)
