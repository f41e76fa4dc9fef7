"""`ottla console`: a page in the browser that shows a cluster, its topics, records and groups, and changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.base import OttlaError
from ottla.cli.contexts import known_contexts
from ottla.cli.local.log_format import FORMATS, LEVELS, log_to_stderr
from ottla.cli.local.serving import (
    is_started,
    loop_factory,
    raise_descriptor_limit,
    stop_signals,
    stop_with_input,
    why_not_listening,
)
from ottla.cli.options import Options, properties_file, warn

if TYPE_CHECKING:
    import asyncio
    from argparse import Namespace

    from ottla.console import ClusterSettings, Console, ConsoleSettings

__all__ = ["main", "options"]


def main(argv: list[str]) -> int:
    """Serve until a signal comes; returns the exit code."""
    import asyncio

    if argv[:1] == ["link"]:
        return show_link(argv[1:])
    args = options().parse(argv)
    log_to_stderr(args.log_format, args.log_level)
    settings = _settings(args)
    raise_descriptor_limit()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(settings, ends_with_input=args.ends_with_input))


def options() -> Options:
    """Return the parser."""
    parser = Options("console", "Show a cluster in the browser: topics, records, groups, brokers; and change it.")
    parser.connection()
    parser.add_argument("--listen", metavar="HOST:PORT", help="where it is served (default: 127.0.0.1:9180)")
    parser.add_argument("--schema-registry", metavar="URL", help="decode keys and values that name a schema")
    parser.add_argument("--read-only", action="store_true", help="show everything, change nothing")
    parser.add_argument("--config", metavar="FILE", help="properties file with ottla.console.…")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="wins; repeatable")
    parser.add_argument("--ends-with-input", action="store_true", help="stop when standard input ends")
    parser.add_argument(
        "--log-format", choices=FORMATS, default="text", help="of events on standard error: text or json"
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info", help=f"{', '.join(LEVELS)}; info without it")
    return parser


def link_options() -> Options:
    """Return the parser of `console link`."""
    parser = Options("console link", "Print the link that opens a session of a console that runs here.")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="of the console that is served there (default: the newest)"
    )
    return parser


def show_link(argv: list[str]) -> int:
    """Print the newest link of a console of this user; returns 1 where none runs."""
    from ottla.cli.local.console_links import newest_link

    args = link_options().parse(argv)
    link = newest_link(args.listen)
    if link is None:
        where = f" at {args.listen}" if args.listen else ""
        warn(f"ottla console link: no console of this user runs{where}; start one with `ottla console` or `ottla dev`")
        return 1
    print(link)
    return 0


def _settings(args: Namespace) -> ConsoleSettings:
    from ottla.config import override_properties
    from ottla.console import console_settings

    properties = {**properties_file(args.config), **override_properties(args.override)}
    if args.listen:
        properties["ottla.console.listeners"] = args.listen
    if args.schema_registry:
        properties["ottla.console.registry.url"] = args.schema_registry
    if args.read_only:
        properties["ottla.console.read.only"] = "true"
    return console_settings(properties, _clusters(args))


def _clusters(args: Namespace) -> tuple[ClusterSettings, ...]:
    """Return the cluster that the options or the current context mean, then the other contexts."""
    from ottla.console import ClusterSettings

    contexts, current = known_contexts()
    chosen = contexts.get(args.context or current or "")
    is_chosen = chosen is not None and chosen.bootstrap_servers == args.bootstrap_server
    name = chosen.name if chosen is not None and is_chosen else "cluster"
    found = {name: ClusterSettings(name, args.bootstrap_server, properties_file(args.command_config))}
    for each in contexts.values():
        if each.name not in found:
            properties = properties_file(each.command_config)
            found[each.name] = ClusterSettings(each.name, each.bootstrap_servers, properties)
    return tuple(found.values())


async def _run(settings: ConsoleSettings, *, ends_with_input: bool) -> int:
    """Start it, print its link, and stop it when a signal comes."""
    from ottla.cli.local.console_links import kept_links
    from ottla.console import Console

    stopping = stop_signals()
    if ends_with_input:
        stop_with_input(stopping)
    with kept_links() as keep:

        def tell(link: str) -> None:
            print(f"console {link}", flush=True)
            keep(link)

        return await _serve(Console(settings, new_link=tell), settings, stopping)


async def _serve(console: Console, settings: ConsoleSettings, stopping: asyncio.Event) -> int:
    """Serve until the signal has come; returns the exit code."""
    try:
        if not await is_started(console.start(), stopping):
            return 0
    except OttlaError as error:
        warn(f"ottla console: {error}")
        return 1
    except OSError as error:
        places = ", ".join(f"{host}:{port}" for host, port in settings.listeners)
        reason = why_not_listening(error, example="HOST:PORT", told_by="--listen")
        warn(f"ottla console: cannot listen on {places}: {reason}")
        return 1
    await stopping.wait()
    await console.stop()
    return 0
