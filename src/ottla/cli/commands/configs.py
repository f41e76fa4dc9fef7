"""`ottla configs`: show and alter configurations and quotas, with the flags and texts of `kafka-configs`."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from ottla.admin import ConfigEntity, alter_config, plan_config_change
from ottla.base import OttlaError
from ottla.cli.config_description import print_configs
from ottla.cli.config_entities import QUOTA_TYPES, check_entities, entities_of, entity_options
from ottla.cli.config_quotas import alter_entity, print_quotas
from ottla.cli.endpoints import asks_controllers, controller_option, open_either
from ottla.cli.options import Options, UsageError, check_invalid, output_option, properties_text, usage_errors
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

__all__ = ["main", "parse_added"]

NOT_IN_BRACKETS = re.compile(r",(?=[^\]]*(?:\[|$))")


def main(argv: list[str]) -> int:
    """Describe or alter; a failure of the cluster's is one line on standard error."""
    if not argv:
        raise UsageError("Describe or alter the configuration of a topic, broker, group, client, user or address.")
    args = options().parse(argv)
    entities = check(args)
    added, deleted = parse_added(args), parse_deleted(args)
    try:
        with open_either(args) as client:
            quotas = entities[0].type in QUOTA_TYPES
            if args.describe and quotas:
                print_quotas(client, args, entities)
            elif args.describe:
                print_configs(client, args, entities[0])
            elif quotas:
                alter_entity(client, args, entities, added, deleted)
            else:
                with usage_errors():
                    change = plan_config_change(client, entities[0], added, deleted)
                alter_config(client, change, validate_only=args.dry_run)
    except OttlaError as error:
        print(f"Error while executing config command: {error}", file=sys.stderr)
        return 1
    if args.alter:
        report(args, entities)
    return 0


def options() -> Options:
    """Return the parser."""
    parser = Options("configs", "Describe and alter configurations and quotas.")
    parser.connection()
    controller_option(parser)
    parser.add_argument("--describe", action="store_true", help="print what is set")
    parser.add_argument("--alter", action="store_true", help="set and drop values")
    entity_options(parser)
    parser.add_argument(
        "--add-config", action="append", metavar="k1=v1,k2=[v2,v3]", help="values to set; brackets hold commas together"
    )
    parser.add_argument("--add-config-file", metavar="FILE", help="a properties file with values to set")
    parser.add_argument("--delete-config", action="append", metavar="k1,k2", help="values to drop")
    parser.add_argument("--all", action="store_true", help="with --describe: defaults and static values too")
    parser.add_argument("--dry-run", action="store_true", help="with --alter: have it checked, and change nothing")
    output_option(parser)
    return parser


def check(args: Namespace) -> list[ConfigEntity]:
    """Return the entities; raises UsageError for options that are missing or do not go together."""
    if args.describe == args.alter:
        raise UsageError("Command must include exactly one action: --describe, --alter")
    asks_controllers(args)
    check_invalid(args, "alter", ["describe"])
    check_invalid(args, "describe", ["alter", "add-config", "add-config-file", "delete-config", "dry-run"])
    for name in ("add_config", "delete_config"):
        if len(getattr(args, name) or ()) > 1:
            raise UsageError(
                f"Found multiple arguments for option {name.replace('_', '-')}, but you asked for only one"
            )
    entities = entities_of(args)
    check_entities(args, entities)
    if args.alter and not (args.add_config or args.add_config_file or args.delete_config):
        raise UsageError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    if args.add_config and args.add_config_file:
        raise UsageError("Only one of --add-config or --add-config-file must be specified")
    return entities


def parse_added(args: Namespace) -> dict[str, str]:
    """Return what `--add-config` or the file sets; raises UsageError for a pair without `=`."""
    if args.add_config_file:
        from ottla.config import parse_properties

        return parse_properties(properties_text(args.add_config_file))
    found = {}
    for pair in NOT_IN_BRACKETS.split(args.add_config[0]) if args.add_config else []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(
                'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" or  '
                '"key=[val1,val2]" to group values which contain commas.'
            )
        found[key.strip()] = value.strip().removeprefix("[").removesuffix("]").strip()
    return found


def parse_deleted(args: Namespace) -> list[str]:
    """Return what `--delete-config` names."""
    return [name.strip() for name in args.delete_config[0].split(",") if name.strip()] if args.delete_config else []


def report(args: Namespace, entities: Sequence[ConfigEntity]) -> None:
    """Say what was done to the first entity, as Kafka's tool does."""
    entity = entities[0]
    if args.output != "text":
        rows = [{"entityType": each.type, "entityName": each.name or None} for each in entities]
        status = "valid" if args.dry_run else "altered"
        print_answer(
            args.output,
            Answer(
                [{**row, "status": status} for row in rows],
                {"TYPE": "entityType", "ENTITY": "entityName", "STATUS": "status"},
            ),
        )
        return
    done = "Would complete" if args.dry_run else "Completed"
    if entity.name:
        print(f"{done} updating config for {entity.singular} {entity.name}.")
    else:
        print(f"{done} updating default config for {entity.type} in the cluster.")
