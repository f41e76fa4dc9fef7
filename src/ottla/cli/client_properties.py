"""A client's own settings as commands take them: brokers, a properties file, and single properties.

Brokers may stand among the properties, so these commands ask for the environment's or the context's only at the end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.cli.options import Options, UsageError, properties_file, warn

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["declare_client_properties", "given_properties", "topic_options"]

BETWEEN_PAIRS = re.compile(r",(?=[a-z][\w.]*=)")
"""`acks=1,linger.ms=5` is two pairs, and `bootstrap.servers=a:1,b:2` is one."""


def declare_client_properties(parser: Options, *, old_config: str, old_property: str | None = None) -> None:
    """Declare `--bootstrap-server`, `--command-config` and `--command-property`, and old names of theirs (KIP-1147).

    Pairs may follow an option together, one by one, or with commas between.
    """
    for name in ("--bootstrap-server", "--broker-list"):
        parser.add_argument(name, dest="bootstrap_server", metavar="HOST:PORT,…", help="the brokers to begin with")
    parser.add_argument("--command-config", metavar="FILE", help="properties file for the client")
    old = [name for name in (old_property,) if name]
    for name, meaning in (
        ("--command-property", "settings of the client, key=value …; repeatable"),
        *((f"--{name}", "old name of --command-property") for name in old),
    ):
        parser.add_argument(name, action="append", nargs="+", default=[], metavar="KEY=VALUE", help=meaning)
    parser.add_argument(f"--{old_config}", dest="old_config", metavar="FILE", help="old name of --command-config")
    parser.set_defaults(old_config_name=old_config, old_property_name=old_property)


def given_properties(args: Namespace) -> dict[str, str]:
    """Return what file, pairs and `--bootstrap-server` say, the later stronger; warns of old names.

    Raises UsageError for a pair without `=`, and where both names of the file are used.
    """
    if args.old_config and args.command_config:
        raise UsageError(f"--{args.old_config_name} and --command-config cannot be specified together.")
    pairs = _pairs(args.command_property)
    if args.old_property_name:
        if old := _pairs(getattr(args, args.old_property_name.replace("-", "_"))):
            warn(f"Option --{args.old_property_name} has been deprecated. Use --command-property instead.")
        pairs = old | pairs
    if args.old_config:
        warn(f"Option --{args.old_config_name} has been deprecated. Use --command-config instead.")
    found = properties_file(args.command_config or args.old_config) | pairs
    if args.bootstrap_server:
        found["bootstrap.servers"] = args.bootstrap_server
    return found if found.get("bootstrap.servers") else _target() | found


def _target() -> dict[str, str]:
    """Return what the environment or the current context says of the cluster."""
    from ottla.cli.contexts import target

    found = target()
    return properties_file(found.command_config) | {"bootstrap.servers": found.bootstrap_servers}


def _pairs(groups: list[list[str]]) -> dict[str, str]:
    found = {}
    for pair in (pair for group in groups for each in group for pair in BETWEEN_PAIRS.split(each)):
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"Invalid property: {pair}; properties are written key=value")
        found[key.strip()] = value
    return found


def topic_options(parser: Options) -> None:
    """Declare `--topic` and `--include`, of which one is needed."""
    parser.add_argument("--topic", metavar="TOPIC", help="the topic")
    parser.add_argument("--include", metavar="REGEX", help="topics, by a regular expression")
