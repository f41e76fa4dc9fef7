"""`ottla dev`: broker, schema registry, Connect, SQL and console on this machine, wired together, with sample data."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.base import OttlaError
from ottla.cli.local.log_format import LEVELS
from ottla.cli.options import Options, UsageError, warn

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.cli.dev.places import Places

__all__ = ["main", "options"]

QUIET = ("py4j", "asyncio")
LOG_NAME = "dev.log"
SHOWN = {
    "broker": "the broker",
    "registry": "the registry",
    "connect": "Connect",
    "sql": "SQL",
    "console": "the console",
}
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def main(argv: list[str]) -> int:
    """Run everything until a signal comes; returns the exit code."""
    import asyncio

    from ottla.cli.dev.places import free_places
    from ottla.cli.dev.services import connect_properties
    from ottla.cli.local.serving import loop_factory, raise_descriptor_limit
    from ottla.spark import prepare_local_python, spark_missing

    args = options().parse(argv)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy multiplies nothing here, and its threads prevent a fork
    raise_descriptor_limit()
    try:
        wanted = _wanted(args.port)
        places = free_places(wanted)
        _tell_ports(wanted, places)
        _end_in_order()
        with _folder(args.folder) as folder, _logs(folder / LOG_NAME, args.log_level):
            if not spark_missing():
                prepare_local_python(connect_properties(places))
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                said = runner.run(_run(args, places, folder))
    except OttlaError as error:
        said = str(error)
    if said:
        warn(f"ottla dev: {said}")
    return 1 if said else 0


def options() -> Options:
    """Return the parser."""
    parser = Options(
        "dev", "Run a broker, a schema registry, Connect, SQL and the console on this machine, with sample data."
    )
    parser.add_argument("--empty", action="store_true", help="without sample data")
    parser.add_argument("--folder", metavar="PATH", help="keep topics and states here (default: gone at the end)")
    parser.add_argument("--no-browser", action="store_true", help="do not open the console in the browser")
    parser.add_argument(
        "--port",
        action="append",
        default=[],
        metavar="SERVICE=PORT",
        help="of broker, registry, connect, sql or console, or the next free one; repeatable",
    )
    parser.add_argument(
        "--log-level",
        choices=LEVELS,
        default="warning",
        help=f"{', '.join(LEVELS)}: what services say here (default: warning); {LOG_NAME} in the folder has more",
    )
    return parser


def _wanted(given: list[str]) -> Places:
    """Return where to look for free ports; raises UsageError for a service or a port that is none."""
    from ottla.cli.dev.places import Places

    names = [each.name for each in fields(Places)]
    ports = {}
    for each in given:
        name, _, port = each.partition("=")
        if name not in names or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise UsageError(f"--port is SERVICE=PORT, with one of {', '.join(names)}, not {each}")
        ports[name] = int(port)
    return Places(**ports)


def _end_in_order() -> None:
    """Have signals that end a process undo what was begun, before the event loop takes them: the folder goes."""

    def ended(number: int, _: object) -> None:
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, ended)


@contextmanager
def _logs(path: Path, level: str) -> Iterator[None]:
    """Have a file take what services and Spark's JVM write to standard error; what is of this level is shown, too."""
    from ottla.cli.local.log_format import log_to_stderr, log_to_stream
    from ottla.cli.streams_process import standard_error_to

    with os.fdopen(os.dup(2), "w", buffering=1) as shown, standard_error_to(path):
        log_to_stderr("text", "info")
        log_to_stream(shown, level)
        for name in QUIET:
            logging.getLogger(name).setLevel(logging.ERROR)
        yield


def _tell_ports(wanted: Places, places: Places) -> None:
    """Say which services are not where they should have been."""
    for each in fields(places):
        asked, port = getattr(wanted, each.name), getattr(places, each.name)
        if port != asked:
            print(f"port {asked} is taken: {SHOWN.get(each.name, each.name)} is at {port}", flush=True)


@contextmanager
def _folder(named: str | None) -> Iterator[Path]:
    """Yield the folder of all data: the named one, which stays, or one that goes."""
    if named is None:
        _refuse_comma(Path(tempfile.gettempdir()))
        with tempfile.TemporaryDirectory(prefix="ottla-dev-") as made:
            yield Path(made)
        return
    folder = Path(named).expanduser()
    _refuse_comma(folder)
    try:
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    except OSError as error:
        raise OttlaError(f"{folder} cannot be made: {error.strerror}") from error
    yield folder


def _refuse_comma(folder: Path) -> None:
    if "," in str(folder):
        raise OttlaError(f"{folder}: a broker's folders are told apart by commas (log.dirs), so none may have one")


async def _run(args: Namespace, places: Places, folder: Path) -> str:
    """Serve until a signal comes, or nobody reads what is said, or the broker ends by itself; returns what is to be said.

    A second signal ends the process at once. Raises OttlaError where a service does not start.
    """
    import asyncio

    from ottla.background import awaited
    from ottla.cli.local.console_links import kept_links
    from ottla.cli.local.serving import stop_signals

    stopping = stop_signals()
    with kept_links() as keep:
        shown = _Shown(keep, stopping.set, opens=not args.no_browser)
        work = awaited(_serve(places, folder, shown, with_samples=not args.empty))
        signalled = awaited(stopping.wait())
        await asyncio.wait((work, signalled), return_when=asyncio.FIRST_COMPLETED)
        signalled.cancel()
        if not work.done():
            shown.line("stopping")
            work.cancel()
        try:
            return await work
        except asyncio.CancelledError:
            return ""


async def _serve(places: Places, folder: Path, shown: _Shown, *, with_samples: bool) -> str:
    """Run the services until the broker ends; returns what is to be said of that. Raises OttlaError."""
    from ottla.background import end, supervise
    from ottla.cli.dev.services import running

    began = time.monotonic()
    shown.tell("starting", "broker, registry, console, Connect, SQL")
    async with running(places, folder, shown.tell) as broker_end:
        shown.tell("ready", f"after {time.monotonic() - began:.1f} s; Ctrl+C ends it all")
        if not with_samples:
            return await broker_end
        data = supervise(_samples(places, shown), name="sample data", serves="ottla dev")
        try:
            return await broker_end
        finally:
            await end(data)


async def _samples(places: Places, shown: _Shown) -> None:
    """Make data flow, and say what there is to see, or why there is none: the services go on without."""
    from ottla.cli.dev.samples import make_samples
    from ottla.spark import spark_missing

    if spark_missing():
        shown.tell("data", "none: it is Connect that writes it, and Connect needs Spark")
        return
    try:
        shown.tell("data", await make_samples(places))
    except OttlaError as error:
        shown.tell("data", f"none: {error}")


class _Shown:
    """A line for each service; the console's first link opens the browser."""

    def __init__(self, keep: Callable[[str], None], gone: Callable[[], None], *, opens: bool) -> None:
        """`gone` is called where standard output has no reader any more: a closed terminal, `| head`."""
        self._keep, self._gone, self._opens = keep, gone, opens

    def line(self, text: str) -> None:
        """Print a line; raises nothing, for it is called in the midst of what services do."""
        try:
            print(text, flush=True)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is buffered must not raise again
            self._gone()

    def tell(self, service: str, text: str) -> None:
        """Say something of a service. A link of the console opens one session, so each new one is said, too."""
        self.line(f"{service:<10}{text}")
        if service != "console":
            return
        self._keep(text)
        if self._opens:
            self._opens = False
            _open(text)


def _open(link: str) -> None:
    """Open a link in the browser, where there is one: not over ssh, nor where nobody looks."""
    if not sys.stdout.isatty() or (sys.platform == "linux" and not any(os.environ.get(each) for each in DISPLAYS)):
        return
    import webbrowser
    from functools import partial

    from ottla.background import supervise_thread

    supervise_thread(partial(webbrowser.open, link), name="open the browser", serves="ottla dev")
