"""`ottla groups`: all groups of every kind (KIP-1043), with the flags and texts of `kafka-groups`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ottla.admin import CONSUMER_PROTOCOL, ListedGroup, list_groups
from ottla.base import OttlaError
from ottla.cli.options import (
    Options,
    UsageError,
    check_invalid,
    check_required,
    open_client,
    output_option,
    properties_file,
)
from ottla.cli.output import Answer, print_answer
from ottla.cli.verbs import verb_place
from ottla.cli.watch import watch_option, watched

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import BlockingClient

__all__ = ["main"]

OF_CONSUMER_GROUPS = ("describe", "delete", "reset-offsets", "delete-offsets")
"""What of `ottla consumer-groups` is done here too; Kafka's tool lists only."""
TYPES = ("Consumer", "Classic", "Share", "Streams")


def main(argv: list[str]) -> int:
    """List the groups; a failure of the cluster's is one line on standard output, as Kafka's tool prints it."""
    parser = options()
    if asks_consumer_groups(parser, argv):
        from ottla.cli.commands import consumer_groups

        return consumer_groups.main(argv)
    args = parser.parse(argv)
    check(args)
    try:
        with open_client(args.bootstrap_server, properties_file(args.command_config)) as client:
            watched(args, lambda: show(client, args))
    except OttlaError as error:
        out = sys.stdout if args.output == "text" else sys.stderr
        print(f"Error while executing groups command : {error}", file=out)
        return 1
    return 0


def options() -> Options:
    """Return the parser."""
    parser = Options("groups", "List the groups of every kind; describe and change those of consumers.")
    parser.epilog = (
        "Verbs do for flags: `ottla groups list`. `ottla groups describe NAME`, `delete NAME`, `reset-offsets NAME …` and "
        "`delete-offsets NAME …` are those of `ottla consumer-groups`, whose help has their options."
    )
    parser.connection()
    parser.add_argument("--list", action="store_true", help="list the groups (required)")
    parser.add_argument("--group-type", metavar="TYPE", help=f"groups of this type: {', '.join(TYPES)}")
    parser.add_argument("--protocol", metavar="PROTOCOL", help="groups of this protocol, such as consumer or connect")
    parser.add_argument("--consumer", action="store_true", help="groups of consumers, whichever protocol they use")
    parser.add_argument("--share", action="store_true", help="share groups")
    parser.add_argument("--streams", action="store_true", help="streams groups")
    output_option(parser)
    watch_option(parser)
    return parser


def asks_consumer_groups(parser: Options, argv: list[str]) -> bool:
    """Return whether words ask for what `ottla consumer-groups` does: `describe g`, `--describe --group g`."""
    if any(f"--{name}" in argv for name in OF_CONSUMER_GROUPS):
        return True
    place = verb_place(argv, parser.takes_a_value)
    return place is not None and argv[place] in OF_CONSUMER_GROUPS


def check(args: Namespace) -> None:
    """Raise UsageError for options that are missing or do not go together."""
    check_required(args, "bootstrap-server")
    if not args.list:
        raise UsageError("Command must include exactly one action: --list.")
    check_invalid(args, "consumer", ["group-type", "protocol", "share", "streams"])
    check_invalid(args, "share", ["consumer", "group-type", "protocol", "streams"])
    check_invalid(args, "streams", ["consumer", "group-type", "protocol", "share"])
    if args.group_type is not None and args.group_type.lower() not in [each.lower() for each in TYPES]:
        raise UsageError("--group-type must be a valid group type.")


def is_wanted(args: Namespace, group: ListedGroup) -> bool:
    """Return whether a group passes the filters."""
    if args.consumer:
        return group.type == "Consumer" or (group.type == "Classic" and group.protocol in (CONSUMER_PROTOCOL, ""))
    if args.share or args.streams:
        return group.type == ("Share" if args.share else "Streams")
    return (args.group_type is None or group.type.lower() == args.group_type.lower()) and (
        args.protocol is None or group.protocol == args.protocol
    )


def show(client: BlockingClient, args: Namespace) -> None:
    """Print the groups."""
    found = [each for each in list_groups(client) if is_wanted(args, each)]
    if args.output != "text":
        rows = [{"group": g.group, "type": g.type, "protocol": g.protocol, "state": g.state} for g in found]
        columns = {"GROUP": "group", "TYPE": "type", "PROTOCOL": "protocol"}
        print_answer(args.output, Answer(rows, columns, {"STATE": "state"}))
        return
    width = max([20, *(len(each.group) for each in found)])
    print(f"{'GROUP':{width}} {'TYPE':20} {'PROTOCOL':20}")
    for each in found:
        print(f"{each.group:{width}} {each.type:20} {each.protocol:20} ")
