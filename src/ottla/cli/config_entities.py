"""Whose configuration `ottla configs` is about: entity types and names in both spellings of Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.admin import ConfigEntity
from ottla.cli.options import UsageError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from ottla.cli.options import Options

__all__ = ["QUOTA_TYPES", "check_entities", "entities_of", "entity_options"]

FLAGS = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
"""The short spelling's flags, in the order in which Kafka's tool reads them."""
DEFAULT_FLAGS = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}
TYPES = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "broker-loggers")
QUOTA_TYPES = frozenset({"users", "clients", "ips"})
NAMED_TYPES = frozenset({"topics", "broker-loggers", "client-metrics", "groups"})
"""Types that have no default entity, so that altering one takes a name."""


def entity_options(parser: Options) -> None:
    """Declare both spellings."""
    parser.add_argument(
        "--entity-type", action="append", default=[], metavar="TYPE", help=f"{', '.join(TYPES)}; repeatable"
    )
    parser.add_argument("--entity-name", action="append", dest="entity_names", metavar="NAME", help="its name")
    parser.add_argument(
        "--entity-default", action="append_const", const="", dest="entity_names", help="the type's default instead"
    )
    for flag in FLAGS:
        parser.add_argument(f"--{flag}", metavar="NAME", help=f"--entity-type {FLAGS[flag]} --entity-name NAME")
    for flag, kind in DEFAULT_FLAGS.items():
        parser.add_argument(f"--{flag}", action="store_true", help=f"--entity-type {kind} --entity-default")


def entities_of(args: Namespace) -> list[ConfigEntity]:
    """Return what the options name; raises UsageError where the two spellings are mixed."""
    names: list[str] = args.entity_names or []
    given = {name: value for name, value in vars(args).items() if value not in (None, False)}
    flagged = [
        ConfigEntity(kind, given[dest]) for flag, kind in FLAGS.items() if (dest := flag.replace("-", "_")) in given
    ]
    flagged += [ConfigEntity(kind, "") for flag, kind in DEFAULT_FLAGS.items() if flag.replace("-", "_") in given]
    types = [*args.entity_type, *(each.type for each in flagged)]
    if not types:
        raise UsageError("At least one entity type must be specified")
    for kind in types:
        if kind not in TYPES:
            raise UsageError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)} "
                "with a --bootstrap-server or --bootstrap-controller argument"
            )
    twice = [kind for kind in dict.fromkeys(types) if types.count(kind) > 1]
    if twice:
        raise UsageError(f"Duplicate entity type(s) specified: {','.join(twice)}")
    if len(types) > 1 and not set(types) <= {"users", "clients"}:
        raise UsageError("Only 'users' and 'clients' entity types may be specified together")
    if flagged and (names or args.entity_type):
        raise UsageError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    padded = [*names, *[None] * len(types)]
    return flagged or [ConfigEntity(kind, name) for kind, name in zip(types, padded, strict=False)]


def check_entities(args: Namespace, entities: Sequence[ConfigEntity]) -> None:
    """Raise UsageError for names that do not fit the action or their type."""
    action = "describe" if args.describe else "alter"
    for each in entities:
        if each.type in NAMED_TYPES and each.name == "" and action == "describe":
            raise UsageError(f"--entity-default must not be specified with --describe of {each.type}")
        if each.type in NAMED_TYPES and not each.name and action == "alter":
            raise UsageError(f"An entity name must be specified with --alter of {each.type}")
        if each.type == "broker-loggers" and not each.name:
            raise UsageError("An entity name must be specified with --describe of broker-loggers")
        _check_name(each)
    if args.alter and all(each.name is None for each in entities):
        raise UsageError(
            "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
        )
    if args.alter and any(each.name is None for each in entities):
        raise UsageError("An entity name must be specified for every entity type")


def _check_name(entity: ConfigEntity) -> None:
    if not entity.name:
        return
    if entity.type in ("brokers", "broker-loggers") and not entity.name.lstrip("-").isdecimal():
        raise UsageError(
            f"The entity name for {entity.type} must be a valid integer broker id, but it is: {entity.name}"
        )
    if entity.type == "ips" and not _resolves(entity.name):
        raise UsageError(f"The entity name for ips must be a valid IP or resolvable host, but it is: {entity.name}")


def _resolves(host: str) -> bool:
    import socket

    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True
