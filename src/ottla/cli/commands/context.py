"""`ottla context`: clusters under names, so that no command needs `--bootstrap-server`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.base import ConfigError
from ottla.cli.confirmation import confirmed, destruction_options
from ottla.cli.contexts import Context, ContextFile, known_contexts, read_contexts, target, user_file
from ottla.cli.options import Options, UsageError, output_option
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["main", "options"]

COLUMNS = {"CURRENT": "current", "NAME": "name", "BOOTSTRAP-SERVERS": "bootstrapServers"}
WIDE = {"COMMAND-CONFIG": "commandConfig", "FILE": "file"}
NAMES = {"create": 1, "use": 1, "list": 0, "show": 0, "delete": 1, "rename": 2}
"""The actions, and how many names each must be given."""


def main(argv: list[str]) -> int:
    """Run one action on the user's own file; those that look see the project's file too."""
    args = options().parse(argv)
    names = [name for name in (args.name, args.new_name) if name is not None]
    if len(names) < NAMES[args.action]:
        raise UsageError(f"ottla context {args.action} NAME{' NEW_NAME' if args.action == 'rename' else ''}")
    actions: dict[str, Callable[[Namespace], None]] = {
        "create": create,
        "use": use,
        "list": list_,
        "show": show,
        "delete": delete,
        "rename": rename,
    }
    actions[args.action](args)
    return 0


def options() -> Options:
    """Return the parser."""
    parser = Options("context", "Keep clusters under names; the current one is meant where no option names another.")
    parser.add_argument("action", choices=list(NAMES), help="what to do; show without a name: what commands use now")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the context")
    parser.add_argument("new_name", nargs="?", metavar="NEW_NAME", help="with rename")
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT,…", help="with create: its brokers (required)")
    parser.add_argument("--command-config", metavar="FILE", help="with create: properties file for its clients")
    output_option(parser, "table", "wide", "json", "jsonl", "yaml", "name", default="table")
    destruction_options(parser)
    return parser


def create(args: Namespace) -> None:
    """Add a context, or replace it; the first one becomes the current one."""
    if args.bootstrap_server is None:
        raise UsageError("ottla context create NAME --bootstrap-server HOST:PORT")
    from ottla.client import parse_bootstrap

    parse_bootstrap(args.bootstrap_server)
    config = None
    if args.command_config is not None:
        config = str(Path(args.command_config).expanduser().absolute())
        Path(config).stat()  # a file that is not there is named at once, not at the next command
    file = read_contexts(user_file())
    file = file.with_context(Context(args.name, args.bootstrap_server, config))
    if file.current is None:
        file = replace(file, current=args.name)
    file.write()
    print(f"Created context {args.name}{', the current one' if file.current == args.name else ''}.")


def use(args: Namespace) -> None:
    """Make a context the current one."""
    contexts, _ = known_contexts()
    if args.name not in contexts:
        raise _missing(args.name, contexts)
    replace(read_contexts(user_file()), current=args.name).write()
    print(f"Context {args.name} is the current one: {contexts[args.name].bootstrap_servers}")


def list_(args: Namespace) -> None:
    """Print every context."""
    contexts, current = known_contexts()
    print_answer(args.output, _answer([*contexts.values()], current))


def show(args: Namespace) -> None:
    """Print one context, or where commands go now and what says so."""
    contexts, current = known_contexts()
    if args.name is not None:
        if args.name not in contexts:
            raise _missing(args.name, contexts)
        print_answer(args.output, _answer([contexts[args.name]], current))
        return
    found = target()
    row = {
        "bootstrapServers": found.bootstrap_servers,
        "commandConfig": found.command_config,
        "saidBy": found.said_by,
    }
    columns = {"BOOTSTRAP-SERVERS": "bootstrapServers", "COMMAND-CONFIG": "commandConfig", "SAID-BY": "saidBy"}
    print_answer(args.output, Answer([row], columns, document=row))


def delete(args: Namespace) -> None:
    """Forget a context; the cluster itself is not touched."""
    file = _own(args.name)
    if confirmed(args, "forget context", [args.name], asked_for=[args.name]):
        file.without(args.name).write()
        print(f"Deleted context {args.name}.")


def rename(args: Namespace) -> None:
    """Give a context another name."""
    file = _own(args.name)
    if args.new_name in file.contexts:
        raise ConfigError("context", args.new_name, "", f"there is a context {args.new_name} already")
    renamed = replace(file.contexts[args.name], name=args.new_name)
    current = args.new_name if file.current == args.name else file.current
    replace(file.without(args.name).with_context(renamed), current=current).write()
    print(f"Renamed context {args.name} to {args.new_name}.")


def _own(name: str) -> ContextFile:
    """Return the user's file; raises ConfigError where it has no such context."""
    file = read_contexts(user_file())
    if name not in file.contexts:
        raise _missing(name, file.contexts)
    return file


def _missing(name: str, contexts: object) -> ConfigError:
    known = ", ".join(contexts) if isinstance(contexts, dict) else ""
    return ConfigError("context", name, "", f"there is no context {name}; there are: {known or 'none so far'}")


def _answer(contexts: list[Context], current: str | None) -> Answer:
    rows = [
        {
            "name": each.name,
            "current": each.name == current,
            "bootstrapServers": each.bootstrap_servers,
            "commandConfig": each.command_config,
            "file": each.source,
        }
        for each in contexts
    ]
    return Answer(rows, COLUMNS, WIDE, name="name")
