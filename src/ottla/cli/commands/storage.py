"""`ottla storage`: log directories' identities, with the flags and texts of `kafka-storage`; also `ottla server format`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ottla.admin import METADATA_VERSIONS
from ottla.base import OttlaError, uuid_text
from ottla.cli.actions import parse_action
from ottla.cli.feature_texts import print_dependencies, print_mapping
from ottla.cli.local.server_options import load_config
from ottla.cli.local.storage_format import format_options, format_parsed, new_id
from ottla.cli.options import Options, UsageError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from ottla.log import MetaProperties

__all__ = ["main", "parsers"]


def main(argv: list[str]) -> int:
    """Run one action; a failure is one line on standard error."""
    action, args = parse_action("storage", {each.prog.split()[-1]: each for each in parsers()}, argv)
    try:
        match action:
            case "format":
                return format_parsed(args)
            case "info":
                return info(args)
            case "version-mapping":
                print_mapping(args.release_version)
            case "feature-dependencies":
                if not args.feature:
                    raise UsageError("argument --feature/-f is required")
                print_dependencies(args.feature)
            case _:
                print(new_id())
    except OttlaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def parsers() -> list[Options]:
    """Return the actions' parsers."""
    described = Options("storage info", "Print what is known of this node's log directories.")
    described.add_argument("-c", "--config", metavar="FILE", help="server.properties (required)")
    described.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="as of server start")
    mapping = Options("storage version-mapping", "Print the features of a release.")
    mapping.add_argument("-r", "--release-version", metavar="VERSION", help=f"default: {METADATA_VERSIONS[-1]}")
    dependencies = Options("storage feature-dependencies", "Print what levels of features need.")
    dependencies.add_argument("-f", "--feature", action="append", default=[], metavar="NAME=LEVEL", help="repeatable")
    identifier = Options("storage random-uuid", "Print a new identifier for a cluster or a directory.")
    return [format_options("storage format"), described, mapping, dependencies, identifier]


def info(args: Namespace) -> int:
    """Print the directories, their identity and what is wrong with them; 1 where anything is."""
    from ottla.log import OsDisk, read_meta

    if args.config is None:
        raise UsageError("argument --config/-c is required")
    config = load_config(args.config, args.override)
    disk = OsDisk()
    found: list[str] = []
    problems: list[str] = []
    identity: MetaProperties | None = None
    for path in sorted(dict.fromkeys((*config.log_dirs, config.metadata_log_dir))):
        if not os.path.isdir(path):
            problems.append(f"{path} {'is not a directory' if os.path.exists(path) else 'does not exist'}")
            continue
        found.append(path)
        meta = read_meta(disk, path)
        if meta is None:
            problems.append(f"{path} is not formatted.")
        elif identity is None:
            identity = meta
        elif (meta.cluster_id, meta.node_id) != (identity.cluster_id, identity.node_id):
            problems.append(f"{path} belongs to another cluster or node: {identity_text(meta)}")
    print_paragraph("Found log director" + ("y:" if len(found) == 1 else "ies:"), found)
    if identity is not None:
        print(f"Found metadata: {identity_text(identity)}\n")
    print_paragraph(f"Found problem{'s' if len(problems) > 1 else ''}:", problems)
    return 1 if problems else 0


def print_paragraph(head: str, lines: Sequence[str]) -> None:
    """Print a list under its head, and nothing where it is empty."""
    if lines:
        print("\n".join([head, *(f"  {line}" for line in lines), ""]))


def identity_text(meta: MetaProperties) -> str:
    """Return an identity as Kafka's tool prints it."""
    return (
        f"{{cluster.id={meta.cluster_id}, directory.id={uuid_text(meta.directory_id)}, "
        f"node.id={meta.node_id}, version=1}}"
    )
