"""`ottla features`: which features a cluster has finalized, with the flags and texts of `kafka-features` (KIP-584)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ottla.admin import (
    KRAFT_VERSION_FROM,
    METADATA_VERSION,
    METADATA_VERSIONS,
    describe_features,
    feature_levels,
    metadata_version_name,
    plan_feature_update,
    update_features,
)
from ottla.base import KafkaError, OttlaError
from ottla.cli.actions import parse_action
from ottla.cli.endpoints import asks_controllers, controller_option, open_either
from ottla.cli.feature_texts import parse_features, print_dependencies, print_mapping
from ottla.cli.options import Options, UsageError, output_option, warn
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from ottla.client import BlockingClient

__all__ = ["main", "parsers"]

DONE = {"upgrade": "upgraded", "downgrade": "downgraded", "disable": "disabled"}


def main(argv: list[str]) -> int:
    """Run one action; a failure of the cluster's is one line on standard error."""
    action, args = parse_action("features", {each.prog.split()[-1]: each for each in parsers()}, argv)
    try:
        match action:
            case "version-mapping":
                print_mapping(args.release_version)
            case "feature-dependencies":
                if not args.feature:
                    raise UsageError("Command line error: argument --feature is required.")
                print_dependencies(args.feature)
            case "describe":
                asks_controllers(args)
                with open_either(args) as client:
                    describe(client, args)
            case _:
                return update(action, args)
    except OttlaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def parsers() -> list[Options]:
    """Return the actions' parsers."""
    described = _parser("describe", "Print the features that are supported and finalized.")
    output_option(described)
    upgrade = _parser("upgrade", "Raise the levels of features.")
    downgrade = _parser("downgrade", "Lower the levels of features.")
    disable = _parser("disable", "Set features to level 0.")
    for parser in (upgrade, downgrade):
        parser.add_argument("--metadata", metavar="VERSION", help="the metadata.version's name (old spelling)")
        parser.add_argument("--release-version", metavar="VERSION", help="all features as this release has them")
        parser.add_argument("--feature", action="append", default=[], metavar="NAME=LEVEL", help="repeatable")
    disable.add_argument("--feature", action="append", default=[], metavar="NAME", help="repeatable")
    for parser in (downgrade, disable):
        parser.add_argument("--unsafe", action="store_true", help="also where metadata would be lost")
    for parser in (upgrade, downgrade, disable):
        parser.add_argument("--dry-run", action="store_true", help="have it checked, and change nothing")
    mapping = _parser("version-mapping", "Print the features of a release.")
    mapping.add_argument("--release-version", metavar="VERSION", help=f"default: {METADATA_VERSIONS[-1]}")
    dependencies = _parser("feature-dependencies", "Print what levels of features need.")
    dependencies.add_argument("--feature", action="append", default=[], metavar="NAME=LEVEL", help="repeatable")
    return [described, upgrade, downgrade, disable, mapping, dependencies]


def _parser(action: str, description: str) -> Options:
    parser = Options(f"features {action}", description)
    parser.connection()
    controller_option(parser)
    return parser


def describe(client: BlockingClient, args: Namespace) -> None:
    """Print each feature with what the node supports and what is finalized."""
    rows = [
        {
            "feature": each.name,
            "supportedMinVersion": level_text(each.name, each.lowest),
            "supportedMaxVersion": level_text(each.name, each.highest),
            "finalizedVersionLevel": level_text(each.name, each.finalized),
            "epoch": each.epoch,
        }
        for each in describe_features(client)
    ]
    if args.output != "text":
        columns = {
            "FEATURE": "feature",
            "MIN": "supportedMinVersion",
            "MAX": "supportedMaxVersion",
            "FINALIZED": "finalizedVersionLevel",
        }
        print_answer(args.output, Answer(rows, columns, {"EPOCH": "epoch"}))
        return
    for row in rows:
        print(
            f"Feature: {row['feature']:41} SupportedMinVersion: {row['supportedMinVersion']:16} "
            f"SupportedMaxVersion: {row['supportedMaxVersion']:16} "
            f"FinalizedVersionLevel: {row['finalizedVersionLevel']:16} Epoch: {row['epoch']}"
        )


def level_text(feature: str, level: int) -> str:
    """Return a level; of the metadata.version its name, or Kafka's word for one that has none here."""
    if feature != METADATA_VERSION:
        return str(level)
    try:
        return metadata_version_name(level)
    except KafkaError:
        return f"UNKNOWN [{level}]"


def wanted_levels(action: str, args: Namespace) -> Mapping[str, int]:
    """Return the levels that the options ask for; raises UsageError for none, or two ways at once."""
    if action == "disable":
        levels = dict.fromkeys(args.feature, 0)
    else:
        if args.release_version is not None and (args.feature or args.metadata):
            raise UsageError("Can not specify `release-version` with other feature flags.")
        levels = parse_features(args.feature)
        if args.metadata is not None:
            warn("--metadata is the old spelling: use --release-version, or --feature metadata.version=LEVEL.")
            levels[METADATA_VERSION] = feature_levels(args.metadata, {})[METADATA_VERSION]
        if args.release_version is not None:
            levels = dict(feature_levels(args.release_version, {}))
            if levels[METADATA_VERSION] >= KRAFT_VERSION_FROM:
                levels["kraft.version"] = 1
    if not levels:
        raise UsageError(f"You must specify at least one feature to {action}")
    return levels


def update(action: str, args: Namespace) -> int:
    """Ask for new levels, all or none, and say of each what came of it; 1 where it was refused."""
    plan = plan_feature_update(
        wanted_levels(action, args), is_upgrade=action == "upgrade", unsafe=getattr(args, "unsafe", False)
    )
    asks_controllers(args)
    with open_either(args) as client:
        found = update_features(client, plan, validate_only=args.dry_run)
    refused = 0
    for name, error in found.items():
        to = "" if action == "disable" else f" to {plan.levels[name]}"
        if error is None:
            print(f"{name} {'can be' if args.dry_run else 'was'} {DONE[action]}{to}.")
        else:
            refused += 1
            print(f"{'Can' if args.dry_run else 'Could'} not {action} {name}{to}. {error.message}")
    if refused:
        print(f"{refused} out of {len(found)} operation(s) failed.", file=sys.stderr)
    return 1 if refused else 0
