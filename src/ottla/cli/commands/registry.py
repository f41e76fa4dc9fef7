"""`ottla registry`: run a schema registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.actions import parse_action
from ottla.cli.local.log_format import FORMATS, LEVELS
from ottla.cli.options import Options

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["main", "parsers"]

NOUN = "registry"


def main(argv: list[str]) -> int:
    """Run the action that is named."""
    _, args = parse_action(NOUN, {parser.prog.split()[-1]: parser for parser in parsers()}, argv)
    return start(args)


def parsers() -> list[Options]:
    """Return every action's parser."""
    return [_start_options()]


def _start_options() -> Options:
    parser = Options(f"{NOUN} start", "Run a schema registry, with Confluent's interface; it keeps schemas in a topic.")
    parser.add_argument("properties", nargs="?", metavar="schema-registry.properties", help="Confluent's own file")
    parser.add_argument("--config", metavar="FILE", help="the same file, by name")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="wins; repeatable")
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT,…", help="the brokers, where no property names them")
    parser.add_argument("--ends-with-input", action="store_true", help="stop when standard input ends")
    parser.add_argument(
        "--log-format", choices=FORMATS, default="text", help="of events on standard error: text or json"
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info", help=f"{', '.join(LEVELS)}; info without it")
    return parser


def start(args: Namespace) -> int:
    """Run an instance until a signal comes; `ready <address>` is printed when it answers."""
    from ottla.cli.local.registry_run import run_registry

    return run_registry(args)
