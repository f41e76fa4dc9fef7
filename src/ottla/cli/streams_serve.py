"""`ottla streams serve`: many applications in one process, from files or a folder, steered over REST."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.base import OttlaError, why_unreached
from ottla.cli.options import Options, UsageError, properties_file, warn, whole_number
from ottla.cli.streams_app import ApplicationFileError, load
from ottla.cli.streams_process import StopSignals, leave, spark_log, standard_error_to

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.spark import ServiceServer, StreamsApplication, StreamsService
    from ottla.streams import StreamsSettings, Topology

__all__ = ["Applications", "serve", "serve_options"]

HTTP_DEFAULT = "127.0.0.1:8090"
LINE_SECONDS = 30.0
STARTS = 8
"""How many applications start at once."""
OF_SERVICE = ("http.listener",)
"""Settings of the service in `--properties` and `--property`: how its REST is served."""


def serve_options() -> Options:
    """Return the parser of `streams serve`."""
    parser = Options(
        "streams serve", "Run many applications in one process, steered over REST, until it is told to stop."
    )
    add = parser.add_argument
    add("places", metavar="FOLDER|app.py", nargs="+", help="applications: files, or folders of them")
    parser.connection()
    add(
        "--name", metavar="NAME", default="ottla", help="the service's name, which begins its transactional ids (ottla)"
    )
    add("--hosts", metavar="N", type=whole_number, default=1, help="Python processes that the applications share (1)")
    add("--master", metavar="URL", help="local[N], spark://…, k8s://… or yarn (default: this machine, N hosts)")
    add("--http", metavar="[https://][HOST:]PORT", help=f"where REST is served (default: {HTTP_DEFAULT})")
    add("--start", metavar="NAME,…", help="which begin at once: names, or `none` (default: all)")
    add("--properties", metavar="FILE", help="settings of all applications, under those of their files")
    add(
        "--property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of all, over the others; repeatable",
    )
    return parser


def serve(args: Namespace) -> int:
    """Serve until a signal comes."""
    from ottla.spark import ServiceServer, StreamsService, check_spark, door_of, ship_by_value
    from ottla.streams import StreamsSettings

    check_spark()
    began_s = time.monotonic()
    catalogue = Applications(args, ship_by_value)
    chosen = catalogue.chosen(args.start)
    listener = {"http.listener": args.http or catalogue.own.get("http.listener", HTTP_DEFAULT)}
    own = {**catalogue.own, **listener, "application.id": args.name, "bootstrap.servers": args.bootstrap_server}
    door = door_of(StreamsSettings.of(own))
    stopping = StopSignals()
    say(f"starting Spark and {args.hosts} host{'s' if args.hosts > 1 else ''}, which takes some seconds")
    spark = {key: value for key, value in catalogue.common.items() if key.startswith("spark.")}
    service = StreamsService(args.name, hosts=args.hosts, master=args.master, settings=spark)
    log = spark_log(args.name)
    try:
        with stopping.while_starting(), standard_error_to(log):
            service.start()
        say(f"the hosts are there after {time.monotonic() - began_s:.1f} s")
        server = ServiceServer(service, catalogue, door)
        try:
            say(f"serving {server.url}/applications")
            with ThreadPoolExecutor(STARTS) as starts:  # each waits for its group, by turns
                for name in chosen:
                    starts.submit(_begin, server, name, stopping)
            _watch(service, stopping)
        finally:
            server.close()
    except KeyboardInterrupt as interrupted:  # PySpark takes SIGINT for itself and raises this
        leave(interrupted)
    finally:
        say("stopping: applications commit and end")
        service.close()
    return 0


def say(text: str) -> None:
    """Print a line with the time."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _begin(server: ServiceServer, name: str, stopping: StopSignals) -> None:
    """Start an application; whatever stands against one is said, and the others start."""
    if stopping.asked.is_set():
        return
    began_s = time.monotonic()
    try:
        application = server.add(name)
    except (OttlaError, OSError, TypeError) as error:
        warn(f"{name} does not start: {why_unreached(error)}")
        return
    except Exception as error:  # a file is imported, which may raise anything
        warn(f"{name} does not start: {type(error).__name__}: {error}")
        return
    say(f"{name}: started in {time.monotonic() - began_s:.1f} s")
    application.on_state_change(lambda new, old: say(f"{name}: {old} → {new}{_reason(application)}"))


def _reason(application: StreamsApplication) -> str:
    return f": {application.error.reason}" if application.error is not None else ""


def _watch(service: StreamsService, stopping: StopSignals) -> None:
    while not stopping.asked.wait(LINE_SECONDS):
        found = service.status()["applications"]
        states = ", ".join(
            f"{sum(each['state'] == state for each in found)} {state}"
            for state in sorted({each["state"] for each in found})
        )
        rate, lag = sum(each["rows_per_second"] for each in found), sum(each["lag"] for each in found)
        say(f"{len(found)} applications ({states or 'none'}): {rate:.0f} records/s, lag {lag}")


class Applications:
    """The files that may run, by name: those that were named, and what lies in the folders now."""

    def __init__(self, args: Namespace, ship: Callable[[Any], None]) -> None:
        """Raises UsageError for a place that is none; `ship` has a module travel to hosts."""
        self._places = [Path(each) for each in args.places]
        for each in self._places:
            if not each.exists():
                raise UsageError(f"{each} does not exist")
        pairs = dict(map(_pair, args.property))
        given = properties_file(args.properties)
        self.own = {key: value for key, value in {**given, **pairs}.items() if key.startswith(OF_SERVICE)}
        """Settings of the service."""
        self.common = {key: value for key, value in given.items() if key not in self.own}
        self._over = {key: value for key, value in pairs.items() if key not in self.own}
        self._bootstrap, self._ship = args.bootstrap_server, ship
        self.common = {**self.common, **{key: value for key, value in self._over.items() if key.startswith("spark.")}}

    def names(self) -> list[str]:
        """Return the names of the files that lie there."""
        return sorted(self._files())

    def chosen(self, start: str | None) -> list[str]:
        """Return which are to begin at once; raises UsageError for a name that is none."""
        if start == "none":
            return []
        names = self.names() if start is None else [each.strip() for each in start.split(",") if each.strip()]
        unknown = [each for each in names if each not in self.names()]
        if unknown:
            raise UsageError(f"--start {', '.join(unknown)}: there are {', '.join(self.names()) or 'no applications'}")
        return names

    def load(self, name: str) -> tuple[Topology, StreamsSettings]:
        """Import an application's file as it is now; raises KeyError for a name that is none.

        Its settings are those of `--properties`, over them its file's own, over them `NAME.properties` beside it, and over
        all `--property`.
        """
        from ottla.streams import StreamsSettings

        path = self._files()[name]
        loaded = load(str(path))
        beside = path.with_suffix(".properties")
        settings: dict[str, Any] = {"application.id": name, "bootstrap.servers": self._bootstrap, **self.common}
        settings |= dict(loaded.settings)
        settings |= properties_file(str(beside)) if beside.exists() else {}
        read = StreamsSettings.of({**settings, **self._over})
        self._ship(loaded.module)
        return loaded.topology(read), read

    def _files(self) -> Mapping[str, Path]:
        found: dict[str, Path] = {}
        for path in _python_files(self._places):
            if found.setdefault(path.stem, path) != path:
                raise ApplicationFileError(f"{path} and {found[path.stem]}: two applications have one name")
        return found


def _python_files(places: Iterable[Path]) -> Iterable[Path]:
    for each in places:
        if each.is_dir():
            yield from (path for path in each.glob("*.py") if path.stem.isidentifier() and path.stem[0] != "_")
        else:
            yield each


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--property {text}: KEY=VALUE is expected")
    return name.strip(), value.strip()
