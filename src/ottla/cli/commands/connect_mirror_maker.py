"""`ottla connect-mirror-maker mm2.properties`: clusters that follow each other, without Connect workers of one's own."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ottla.base import OttlaError
from ottla.cli.connect_worker import DAEMON, FAILED, FAILED_TO_START, set_up_log, start_in_background
from ottla.cli.local.log_format import FORMATS, LEVELS
from ottla.cli.options import Options, properties_file, warn

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from ottla.spark import MirrorMaker

__all__ = ["main", "options"]

NOUN = "connect-mirror-maker"


def options() -> Options:
    """Return the parser."""
    parser = Options(NOUN, "Mirror topics, groups' offsets and entries of access between clusters (MirrorMaker 2).")
    add = parser.add_argument
    add("properties", metavar="mm2.properties", help="Kafka's own file: clusters, and flows between them")
    add("--clusters", metavar="CLUSTER", nargs="+", default=[], help="only flows to these clusters (default: all)")
    add("-daemon", "--daemon", action="store_true", help="in the background; returns when it is ready")
    add("--log-format", choices=FORMATS, default="text", help="of events on standard error: text or json")
    add("--log-level", choices=LEVELS, help=f"{', '.join(LEVELS)}; connect-log4j2.yaml's without it")
    add("-name", metavar="NAME", help=argparse.SUPPRESS)  # for the JVM of Kafka's script, as -loggc
    add("-loggc", action="store_true", help=argparse.SUPPRESS)
    return parser


def main(argv: list[str]) -> int:
    """Mirror until a signal comes; returns Kafka's exit codes."""
    args = options().parse(argv)
    from ottla.spark import spark_missing

    if missing := spark_missing():
        warn(f"ottla {NOUN}: {missing}")
        return FAILED
    if args.daemon:
        return start_in_background(NOUN, [each for each in argv if each not in DAEMON])
    set_up_log(args)
    import asyncio

    from ottla.cli.local.serving import loop_factory, raise_descriptor_limit

    try:
        given = properties_file(args.properties)
    except OSError as error:
        warn(f"ottla {NOUN}: {args.properties}: {error.strerror}")
        return FAILED
    raise_descriptor_limit()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(given, args))


async def _run(given: Mapping[str, str], args: Any) -> int:
    import asyncio

    from ottla.background import awaited
    from ottla.cli.local.serving import take_signals
    from ottla.spark import MirrorMaker

    try:
        maker = MirrorMaker(given, args.clusters)
    except OttlaError as error:
        warn(f"ottla {NOUN}: {args.properties}: {error}")
        return FAILED
    signalled: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    take_signals(signalled.set_result, signalled.done)
    starting = awaited(maker.start())
    try:
        await asyncio.wait((starting, signalled), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        elif (failure := starting.exception()) is not None:
            if not isinstance(failure, OttlaError | OSError):
                raise failure
            warn(f"ottla {NOUN}: {failure}")
            return FAILED_TO_START
        else:
            _say(maker)
            ended: list[asyncio.Future[Any]] = [signalled, *maker.ended]
            await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        if signalled.done():
            return 128 + signalled.result()
        warn(f"ottla {NOUN}: {next(each.exception() for each in maker.ended if each.done())}")
        return 1
    finally:
        await maker.close()


def _say(maker: MirrorMaker) -> None:
    for flow, url in maker.places:
        print(f"{flow} {url}", flush=True)
    print(f"ready {', '.join(map(str, maker.flows))}", flush=True)
