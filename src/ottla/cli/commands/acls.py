"""`ottla acls`: who may do what, with the flags and texts of `kafka-acls`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ottla.admin import create_acls, delete_acls, describe_acls
from ottla.base import KafkaError, OttlaError
from ottla.cli.acl_options import asked_acls, asked_filters, check, parse_principals
from ottla.cli.endpoints import controller_option, open_either
from ottla.cli.kafka_errors import exception_text
from ottla.cli.options import Options, UsageError, output_option
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from ottla.client import BlockingClient
    from ottla.security import Acl, AclFilter

__all__ = ["main"]

NEW_LINE = "\n"


def main(argv: list[str]) -> int:
    """Do what is asked; what goes wrong is one line on standard output, as with Kafka's tool."""
    if not argv:
        raise UsageError("Command must include exactly one action: --list, --add, --remove. ")
    args = options().parse(argv)
    action = check(args)
    try:
        match action:
            case "add":
                add(args)
            case "remove":
                remove(args)
            case _:
                list_(args)
    except OttlaError as error:
        text = exception_text(error.code, error.message) if isinstance(error, KafkaError) else str(error)
        print(f"Error while executing ACL command: {text}")
        return 1
    return 0


def options() -> Options:
    """Return the parser; completion and docs/cli.md are made from it."""
    parser = Options("acls", "Add, list and remove access control entries (ACLs).")
    parser.connection()
    controller_option(parser)
    for action, what in (("add", "make entries"), ("remove", "remove entries"), ("list", "print entries")):
        parser.add_argument(f"--{action}", action="store_true", help=what)
    for name, what in (
        ("topic", "a topic, or all: '*'"),
        ("group", "a group, or all: '*'"),
        ("transactional-id", "a transactional id, or all: '*'"),
        ("delegation-token", "a delegation token's id, or all: '*'"),
        ("user-principal", "a user whose tokens others may make or see"),
    ):
        parser.add_argument(f"--{name}", metavar="NAME", help=f"{what} (repeatable)", action="append", default=[])
    parser.add_argument("--cluster", action="store_true", help="the cluster itself")
    parser.add_argument(
        "--resource-pattern-type",
        default="literal",
        metavar="TYPE",
        help="how names are meant: literal (default), prefixed; to list and to remove also any, match",
    )
    parser.add_argument(
        "--operation",
        metavar="OPERATION",
        help="such as Read or DescribeConfigs; default: All (repeatable)",
        action="append",
        default=[],
    )
    for permission in ("allow", "deny"):
        parser.add_argument(
            f"--{permission}-principal",
            metavar="TYPE:NAME",
            help="whom, such as User:ann or User:'*' (repeatable)",
            action="append",
            default=[],
        )
        parser.add_argument(
            f"--{permission}-host",
            metavar="ADDRESS",
            help="coming from where; default: '*' (repeatable)",
            action="append",
            default=[],
        )
    parser.add_argument(
        "--principal", metavar="TYPE:NAME", help="list the entries of these (repeatable)", action="append", default=[]
    )
    parser.add_argument(
        "--producer", action="store_true", help="what a producer needs, to topics and transactional ids"
    )
    parser.add_argument("--idempotent", action="store_true", help="with --producer: IdempotentWrite to the cluster")
    parser.add_argument("--consumer", action="store_true", help="what a consumer needs, to topics and groups")
    parser.add_argument("--force", action="store_true", help="do not ask before removing")
    output_option(parser)
    return parser


# -- adding


def add(args: Namespace) -> None:
    """Make what is not there yet."""
    from ottla.security import PatternType

    name = args.resource_pattern_type.strip().upper()
    if name in (PatternType.ANY.name, PatternType.MATCH.name):
        raise UsageError(f"A '--resource-pattern-type' value of '{name}' is not valid when adding acls.")
    wanted = asked_acls(args)
    if not any(wanted.values()):
        raise UsageError("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    with open_either(args) as client:
        for resource, entries in wanted.items():
            there = describe_acls(client, resource)
            for each in entries:
                if each in there:
                    print(f"Acl (pattern={each.pattern_text}, entry={each.entry_text}) already exists.")
            new = [each for each in entries if each not in there]
            if new:
                print(f"Adding ACLs for resource `{new[0].pattern_text}`: {NEW_LINE} {_lines(new)}{NEW_LINE}")
                create_acls(client, new)


def _lines(entries: Iterable[Acl]) -> str:
    return NEW_LINE.join(f"\t{each.entry_text}" for each in entries)


# -- removing


def remove(args: Namespace) -> None:
    """Remove what is named, or all that there is for a resource, once that is confirmed."""
    wanted = asked_acls(args)
    with open_either(args) as client:
        for resource, entries in wanted.items():
            if _confirmed(args, resource, entries):
                delete_acls(client, [_filter_of(each) for each in entries] or [resource])


def _filter_of(acl: Acl) -> AclFilter:
    from ottla.security import AclFilter

    what = acl.resource_type, acl.resource_name, acl.pattern_type
    return AclFilter(*what, acl.principal, acl.host, acl.operation, acl.permission_type)


def _confirmed(args: Namespace, resource: AclFilter, entries: list[Acl]) -> bool:
    """Return whether to go on; raises OttlaError where nobody is there to be asked."""
    if args.force:
        return True
    shown = (
        f"ResourcePattern(resourceType={resource.resource_type.name}, name={resource.resource_name}, "
        f"patternType={resource.pattern_type.name})"
    )
    if entries:
        listed = f"{NEW_LINE} {_lines(entries)}{NEW_LINE} from resource filter `{shown}`"
        print(f"Are you sure you want to remove ACLs: {listed}? (y/n)", flush=True)
    else:
        print(f"Are you sure you want to delete all ACLs for resource filter `{shown}`? (y/n)", flush=True)
    line = sys.stdin.readline()
    if not line:
        raise OttlaError("nobody answers on standard input; --force removes without asking")
    return line.strip().lower() == "y"


# -- listing


def list_(args: Namespace) -> None:
    """Print the entries for the resources that are named, or all."""
    from ottla.security import AclFilter

    principals = parse_principals(args.principal)
    filters = asked_filters(args, is_needed=False) or [AclFilter()]
    with open_either(args) as client:
        found = _found(client, filters)
    if args.output != "text":
        rows = [_row(each) for each in found if not principals or each.principal in principals]
        print_answer(args.output, Answer(rows, {key.upper(): key for key in _COLUMNS}))
        return
    if not principals:
        _print(found)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        _print([each for each in found if each.principal == principal])


_COLUMNS = ("resourceType", "name", "patternType", "principal", "host", "operation", "permissionType")


def _row(acl: Acl) -> dict[str, str]:
    what = acl.resource_type.name, acl.resource_name, acl.pattern_type.name
    who = acl.principal, acl.host, acl.operation.name, acl.permission_type.name
    return dict(zip(_COLUMNS, (*what, *who), strict=True))


def _found(client: BlockingClient, filters: Iterable[AclFilter]) -> list[Acl]:
    return list(dict.fromkeys(acl for wanted in filters for acl in describe_acls(client, wanted)))


def _print(acls: Iterable[Acl]) -> None:
    found: dict[str, list[Acl]] = {}
    for each in acls:
        found.setdefault(each.pattern_text, []).append(each)
    for pattern, entries in found.items():
        print(f"Current ACLs for resource `{pattern}`:{NEW_LINE}{_lines(entries)}{NEW_LINE}")
