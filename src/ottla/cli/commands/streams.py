"""`ottla streams`: run a Streams application on Spark, look at its plan, ask its stores, and reset it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from ottla.base import KafkaError
from ottla.cli.actions import parse_action
from ottla.cli.options import Options, output_option, warn
from ottla.cli.streams_app import application_options, load, settings_of, settings_to_look_at
from ottla.cli.streams_process import Interrupted, StopSignals, leave, spark_log, standard_error_to
from ottla.cli.streams_promote import promote, promote_options
from ottla.cli.streams_reset import reset, reset_options
from ottla.cli.streams_serve import serve, serve_options

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.spark import StreamsApplication
    from ottla.streams import StreamsSettings, Topology

__all__ = ["main", "parsers"]

NOUN = "streams"
STATUS_SECONDS_PLAIN = 10.0
"""How often a line tells the status where there is no terminal."""
STATUS_SECONDS_TTY = 0.5
HTTP_HOST = "127.0.0.1"
STARTING = "joining the application's group, and starting Spark, which takes some seconds"
FIRST_BATCH = "its first batch takes some seconds too, later ones do not"


def main(argv: list[str]) -> int:
    """Run the action that is named."""
    action, args = parse_action(NOUN, {parser.prog.split()[-1]: parser for parser in parsers()}, argv)
    actions = {
        "run": run,
        "serve": serve,
        "describe": describe,
        "explain": explain,
        "query": query,
        "promote": promote,
        "reset": reset,
    }
    return actions[action](args)


def parsers() -> list[Options]:
    """Return every action's parser."""
    looks = (describe_options(), explain_options(), query_options())
    return [run_options(), serve_options(), *looks, promote_options(), reset_options("streams reset")]


def run_options() -> Options:
    """Return the parser of `streams run`."""
    parser = Options("streams run", "Run an application until it is told to stop; its state shows on the terminal.")
    application_options(parser)
    parser.add_argument(
        "--master", metavar="URL", help="local[N], spark://…, k8s://…, yarn or sc://… (default: local[*])"
    )
    parser.add_argument("--http", metavar="[HOST:]PORT", help=f"serve status and stores there (host: {HTTP_HOST})")
    parser.add_argument("--plain", action="store_true", help="lines in the place of a live display, also on a terminal")
    parser.add_argument("--clean-up", action="store_true", help="remove the checkpoint first: state is rebuilt")
    return parser


def describe_options() -> Options:
    """Return the parser of `streams describe`."""
    parser = Options("streams describe", "Print an application's topology as Kafka Streams prints it.")
    parser.add_argument("app", metavar="app.py", help="a file with `topology`, `builder` or `build()`")
    return parser


def explain_options() -> Options:
    """Return the parser of `streams explain`."""
    parser = Options("streams explain", "Print which queries Spark runs for an application, and why.")
    parser.add_argument("app", metavar="app.py", help="a file with `topology`, `builder` or `build()`")
    parser.add_argument("--stream-time", choices=["auto", "partition"], help="in the place of the setting stream.time")
    return parser


def query_options() -> Options:
    """Return the parser of `streams query`."""
    parser = Options(
        "streams query", "Look into a store of an application, from anywhere, through its changelog topic."
    )
    application_options(parser)
    add = parser.add_argument
    add("store", metavar="STORE", help="the store's name")
    add("--key", metavar="KEY", help="one key")
    add("--prefix", metavar="PREFIX", help="keys that begin with this")
    add("--low", metavar="KEY", help="keys from this one on")
    add("--high", metavar="KEY", help="keys up to this one")
    add("--from", metavar="MS", help="windows that start at or after this time, sessions that end then or later")
    add("--to", metavar="MS", help="windows and sessions that start at or before this time")
    add("--as-of", metavar="MS", help="of a versioned store: the value at this time")
    add("--reverse", action="store_true", help="backwards")
    add("--limit", metavar="N", help="entries at most (default: 1000)")
    output_option(parser, "table", "json", "jsonl", "yaml", default="table")
    return parser


# -- run


def run(args: Namespace) -> int:
    """Run an application until a signal comes or it fails."""
    from ottla.spark import check_spark

    check_spark()
    began_s = time.monotonic()
    loaded = load(args.app)
    settings = settings_of(args, loaded.settings, **{"spark.master": args.master, "http.listener": args.http})
    print(f"{time.strftime('%H:%M:%S')} {settings.application_id}: {STARTING}", flush=True)
    from ottla.spark import StreamsApplication, phases_told_by, ship_module

    ship_module(loaded.module, settings)
    for notice in settings.notices:
        warn(f"note: {notice}")
    application = StreamsApplication(loaded.topology(settings), settings)
    if args.clean_up:
        application.clean_up()
    stopping = StopSignals()
    status = StatusDisplay(application, live=sys.stdout.isatty() and not args.plain, began_s=began_s)
    log = spark_log(settings.application_id)
    try:
        with status:
            with (
                stopping.while_starting(),
                phases_told_by(status.say),
                standard_error_to(log),
            ):  # so that the JVM that starts there does not write between the status lines
                application.start()
            mode = application.mode
            later = FIRST_BATCH if mode is None or not mode.is_continuous else "its hosts begin"
            status.say(f"Spark is there after {time.monotonic() - began_s:.1f} s; {later}")
            if mode is not None:
                status.say(f"execution: {mode.name} ({mode.why})")
            if application.http_url is not None:
                status.say(f"serving {application.http_url}/status")
            while not application.state.is_final and not stopping.asked.wait(status.interval_s):
                status.show()
    except Interrupted as interrupted:
        leave(interrupted)
    finally:
        application.close()
        status.last()
    failure = application.error
    if failure is not None:
        warn(f"ottla {NOUN} run: {failure.reason}\nSpark's own words are in {log}")
        log.open("a").write(failure.details + "\n")
        return 1
    return 0


class StatusDisplay:
    """What a person sees of a running application: a live table on a terminal, else a line now and then."""

    def __init__(self, application: StreamsApplication, *, live: bool, began_s: float) -> None:
        self._application = application
        self._began_s: float | None = began_s
        """When the command began; None once it is told how long the first batch took."""
        self._live: Any = None
        self._wants_live = live
        self._told_at_s = 0.0
        self._last_line = ""
        self.interval_s = STATUS_SECONDS_TTY
        application.on_state_change(lambda new, old: self.say(f"{old} → {new}"))

    def __enter__(self) -> StatusDisplay:
        if self._wants_live:
            from rich.live import Live

            self._live = Live(self._table(), refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, words: str) -> None:
        """Print one line, above the live display."""
        line = f"{time.strftime('%H:%M:%S')} {self._application.settings.application_id}: {words}"
        if self._live is not None:
            self._live.console.print(line, highlight=False)
        else:
            sys.stdout.write(f"{line}\n")  # in one piece: threads of the application tell of its states
            sys.stdout.flush()

    def show(self) -> None:
        """Bring the display up to date; without one a line every ten seconds, if it has changed."""
        if self._began_s is not None and self._application.status()["rows"]:
            self.say(f"the first batch is done after {time.monotonic() - self._began_s:.1f} s")
            self._began_s = None
        if self._live is not None:
            self._live.update(self._table())
            return
        now_s = time.monotonic()
        if now_s < self._told_at_s + STATUS_SECONDS_PLAIN:
            return
        self._told_at_s = now_s
        line = one_line(self._application.status())
        if line != self._last_line:
            self._last_line = line
            self.say(line)
        elif self._began_s is not None and self._application.state == "REBALANCING":
            self.say(f"{line}; its queries begin … {now_s - self._began_s:.0f} s")

    def last(self) -> None:
        """Say what came of it."""
        self.say(one_line(self._application.status()))

    def _table(self) -> Any:
        from rich.table import Table

        status = self._application.status()
        title = f"{status['application_id']}  {status['state']}  {status['rows']:,} rows  lag {status['lag']:,}"
        table = Table("query", "kind", title=title, title_justify="left")
        for name in ("batch", "rows/s", "rows", "lag", "late", "dropped", "skipped", "batch s", "restarts"):
            table.add_column(name, justify="right")
        table.add_column("last error", overflow="fold")
        for query in status["queries"]:
            numbers = (query[name] for name in ("rows", "lag", "late", "dropped", "skipped"))
            table.add_row(
                query["name"],
                query["kind"],
                str(query["batch"]),
                f"{query['rows_per_second']:,.0f}",
                *(f"{number:,}" for number in numbers),
                f"{query['batch_seconds']:.2f}",
                str(query["restarts"]),
                query["last_error"] or "",
            )
        return table


def one_line(status: dict[str, Any]) -> str:
    """Return a status as one line."""
    words = (
        f"{status['state']}, {status['rows']:,} rows, {status['rows_per_second']:,.0f} rows/s, lag {status['lag']:,}"
    )
    for query in status["queries"]:
        if query["restart_in_s"] is not None and query["last_error"] and status["state"] == "REBALANCING":
            words += f"; {query['name']} starts again in {query['restart_in_s']:g} s: {query['last_error']}"
        for name in ("late", "dropped", "skipped"):
            if query[name]:
                words += f"; {query['name']}: {query[name]:,} {name}"
    return words


# -- looking


def describe(args: Namespace) -> int:
    """Print the topology's description, in Kafka's text form."""
    from ottla.spark import execution_mode

    loaded = load(args.app)
    settings = settings_to_look_at(args.app, loaded.settings)
    topology = loaded.topology(settings)
    print(topology.describe(), end="", flush=True)
    mode = execution_mode(topology, settings)
    warn(f"note: a new application of it would run in mode {mode.name}: {mode.why}")
    return 0


def explain(args: Namespace) -> int:
    """Print the queries of an application."""
    from ottla.spark import physical_text
    from ottla.streams import cut, explain

    loaded = load(args.app)
    settings = settings_to_look_at(args.app, loaded.settings)
    topology, stream_time = loaded.topology(settings), args.stream_time or settings["stream.time"]
    stages = cut(topology, stream_time=stream_time, every_update=not settings.cache)
    steps = explain(topology, stream_time=stream_time, every_update=not settings.cache)
    for stage in stages.stages:
        print(f"{stage.name} ({stage.kind})")
        print(f"  reads    {', '.join(stage.topics_read()) or 'topics by pattern'}")
        sinks = [getattr(stage.plan.nodes[name], "topic", name) for name in stage.sinks]
        print(f"  writes   {', '.join(map(topic_name, sinks)) or 'nothing'}")
        if stage.stores:
            print(f"  state    {', '.join(f'{each} ({topology.stores[each].kind})' for each in stage.stores)}")
        for step in steps:
            if step.stage == stage.name:
                print(f"  {step.how:<8} {step.node}: {step.emission}{'; ' if step.why else ''}{step.why}")
        print("\n".join(f"  {line}" for line in physical_text(stage, settings)))
        print()
    shuffled = [name for name in topology.repartition_topics if name not in stages.repartition_topics]
    print(f"shuffled by Spark in the place of repartition topics: {', '.join(shuffled) or 'none'}")
    print(f"repartition topics: {', '.join(stages.repartition_topics) or 'none'}")
    return 0


def topic_name(topic: object) -> str:
    """Return a sink's topic; one that is chosen for each record by a function has none."""
    return topic if isinstance(topic, str) else "a topic chosen by record"


def query(args: Namespace) -> int:
    """Look into a store and print what is there, with the offsets that the answer reflects."""
    from ottla.cli.output import Answer, print_answer
    from ottla.spark import StreamsApplication, lookup

    loaded = load(args.app)
    settings = settings_of(args, loaded.settings)
    application = StreamsApplication(loaded.topology(settings), settings)
    names = ("key", "prefix", "low", "high", "from", "to", "as_of", "limit")
    asked = {name: value for name in names if (value := getattr(args, name)) is not None}
    if args.reverse:
        asked["reverse"] = "true"
    try:
        waiting = _waiting(loaded.topology(settings), settings)  # first: a store waits long for a broker that is away
        answer = lookup(application.store(args.store), asked)
    except KafkaError as error:
        raise KafkaError(error.code, f"{args.store}: {error.message}") from None
    finally:
        application.close()
    rows = answer.get("entries")
    if rows is None:
        rows = [{"key": answer["key"], "value": answer["value"]}] if answer["value"] is not None else []
    print_answer(args.output, Answer(rows, {"KEY": "key", "VALUE": "value"}, document=answer))
    if args.output == "table":
        position = answer["position"]
        warn(f"as of offsets {position['offsets']} of its changelog, {position['lag']} records behind it")
        if waiting:
            records = (
                "1 record of the application's input is" if waiting == 1 else f"{waiting:,} records of its input are"
            )
            warn(f"{records} not processed yet, or not committed")
    return 0 if rows or "key" not in answer else 1


def _waiting(topology: Topology, settings: StreamsSettings) -> int:
    """Return how many records of an application's input lie behind what its group has committed."""
    from ottla.spark import waiting_records

    return waiting_records(topology, settings)
