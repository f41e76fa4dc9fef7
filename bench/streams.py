"""`python -m bench.streams --out FILE`: Streams on Spark beside Kafka Streams, on one Ottla broker, in one run.

Each figure is made in a process of its own kind: a Spark session for each master (`bench.streams_session`), a JVM for each
plan of Kafka Streams (`bench.streams_peer`), and nothing else meanwhile but the broker.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from bench.rows import Metric, Rounds, Row, print_table, write_rows
from bench.streams_peer import compiled, kafka_latency, kafka_throughput
from bench.streams_topics import EVENTS, LINES, WORDS_PER_LINE, fill, make_topics
from bench.systems import KAFKA, Ottla
from ottla.client import BlockingClient
from ottla.spark import java_missing
from ottla.wire import build_mode
from tests import peer
from tests.spark.standalone import spark_cluster

__all__ = ["CASES", "main"]

ROOT = Path(__file__).resolve().parents[1]
SECONDS_MAX = 900.0
"""What has not begun by then is named and left out."""
LATENCY_SECONDS, LATENCY_RATE = 12.0, 500
ONCE = ", exactly once"
PRICE = "price of exactly once, "
CLUSTER = "cluster of two workers"
FIRST, SECOND = "local[2]", "local[1]"
MODES = (FIRST, SECOND, CLUSTER)
CONTINUOUS = "continuous, one host"
"""Long-running tasks in the place of micro-batches; one of them, so it stands beside Kafka Streams with one thread."""
KAFKA_ONE = "kafka, one thread"
AUTO = "auto, "
"""In front of a mode's name: `execution=auto`, with as many stream threads as Kafka Streams has in the same row."""
AUTO_MODES = {f"{AUTO}{FIRST}": KAFKA, f"{AUTO}{SECOND}": KAFKA_ONE, f"{AUTO}{CLUSTER}": KAFKA}
"""Beside whom each stands."""
ONE_THREAD = {"num.stream.threads": "1"}
CLICKS = "bench-clicks"
NO_SUCH_PLAN = ("python", "vectorised")
"""Plans that are about Python: Kafka Streams has none of them."""
EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2"}


@dataclass(frozen=True)
class StreamCase:
    """A figure: a plan on a topic, with the target for Ottla on two cores."""

    metric: Metric
    plan: str
    source: str
    rows: int = 0
    """Records of the topic that are taken at scale 1; 0 where latency is measured."""
    once: bool = False
    factor: int = 1
    """How often Kafka Streams counts a record as processed."""
    modes: tuple[str, ...] = (FIRST,)
    continuous: Metric | None = None
    """The figure in continuous mode, with its target; None where it is not measured there."""
    auto: Mapping[str, float | None] = field(default_factory=dict)
    """The targets by mode of `AUTO_MODES`, where it is measured in that; None is no target."""

    @property
    def sink(self) -> str:
        """A topic of its own."""
        return f"out-{self.plan}{'-once' if self.once else ''}{'' if self.rows else '-latency'}"

    def metrics(self, *, continuous: bool = False) -> list[Metric]:
        """Return the figure, or for a latency p50, which has the target, and p99."""
        metric = self.continuous if continuous else self.metric
        if metric is None:
            return []
        if self.rows:
            return [metric]
        names = [f"{metric.name}, {share}" for share in ("p50", "p99")]
        most = None if not continuous else P99_ONCE if self.once else P99
        return [replace(metric, name=names[0]), Metric(names[1], "ms", at_most=most, absolute=True)]

    def job(self, scale: float) -> dict[str, Any]:
        """Return the case as a session or a JVM takes it."""
        job: dict[str, Any] = {"metric": self.metric.name, "plan": self.plan, "source": self.source, "sink": self.sink}
        job["settings"] = EXACTLY_ONCE if self.once else {}
        if self.rows:
            return {**job, "rows": max(20_000, int(self.rows * scale) // 20_000 * 20_000), "factor": self.factor}
        return {**job, "seconds": max(5.0, LATENCY_SECONDS * min(1.0, scale)), "rate": LATENCY_RATE}


def _rate(name: str, **target: Any) -> Metric:
    return Metric(name, "rows/s", **target)


def _latency(name: str, at_most: float | None) -> Metric:
    return Metric(f"latency, {name}", "ms", at_most=at_most, absolute=True)


WORD_FACTOR = 1 + WORDS_PER_LINE
LATENCIES = ("map", "windows")
P99, P99_ONCE = 100.0, 250.0
"""Targets of continuous mode."""
STATEFUL = "stateful Python aggregate, 100,000 keys"
CASES = (
    StreamCase(
        _rate("map", at_least=1.5), "map", EVENTS, 4_000_000, modes=MODES, continuous=_rate("map", at_least=1.2)
    ),
    StreamCase(
        _rate("Python function, per record", at_least=300_000, absolute=True),
        "python",
        EVENTS,
        2_000_000,
        modes=MODES,
        continuous=_rate("Python function, per record"),
    ),
    StreamCase(
        _rate("Python function, vectorised", at_least=300_000, absolute=True),
        "vectorised",
        EVENTS,
        4_000_000,
        modes=MODES,
        continuous=_rate("Python function, vectorised"),
    ),
    StreamCase(
        _rate("word count", at_least=1.5),
        "words",
        LINES,
        1_800_000,
        factor=WORD_FACTOR,
        modes=MODES,
        continuous=_rate("word count", at_least=2.5),
    ),
    StreamCase(
        _rate("windowed count", at_least=1.5),
        "windows",
        CLICKS,
        4_000_000,
        modes=MODES,
        continuous=_rate("windowed count", at_least=1.5),
        auto={f"{AUTO}{FIRST}": None, f"{AUTO}{SECOND}": 1.5, f"{AUTO}{CLUSTER}": 1.2},
    ),
    StreamCase(
        _rate(STATEFUL, at_least=150_000, absolute=True),
        "stateful",
        EVENTS,
        2_000_000,
        modes=MODES,
        continuous=_rate(STATEFUL, at_least=0.8),
        auto={f"{AUTO}{FIRST}": 1.0, f"{AUTO}{SECOND}": None, f"{AUTO}{CLUSTER}": None},
    ),
    StreamCase(_rate(f"map{ONCE}"), "map", EVENTS, 4_000_000, once=True, continuous=_rate(f"map{ONCE}")),
    StreamCase(
        _rate(f"word count{ONCE}"),
        "words",
        LINES,
        1_800_000,
        once=True,
        factor=WORD_FACTOR,
        continuous=_rate(f"word count{ONCE}"),
    ),
    StreamCase(_latency("map", 150), "map", "in-map-latency", continuous=_latency("map", 20)),
    StreamCase(
        _latency("windowed count", 300), "windows", "in-windows-latency", continuous=_latency("windowed count", 20)
    ),
    StreamCase(
        _latency(f"map{ONCE}", None), "map", "in-map-once", once=True, modes=(), continuous=_latency(f"map{ONCE}", 80)
    ),
    StreamCase(
        _latency(f"windowed count{ONCE}", None),
        "windows",
        "in-windows-once",
        once=True,
        modes=(),
        continuous=_latency(f"windowed count{ONCE}", 80),
    ),
)
"""Every figure that is measured; those of latency become two, p50 and p99."""


@dataclass
class Run:
    """What all measurements share."""

    bootstrap: str
    folder: Path
    scale: float
    only: str | None
    seconds: float = SECONDS_MAX
    started: float = field(default_factory=time.monotonic)
    values: Rounds = field(default_factory=Rounds)
    taken: dict[tuple[str, str], str] = field(default_factory=dict)
    """By mode of `AUTO_MODES` and metric, what `auto` has taken."""

    @property
    def left(self) -> float:
        """Seconds until nothing more is begun."""
        return self.started + self.seconds - time.monotonic()

    def say(self, text: str) -> None:
        """Print a line of progress at once."""
        print(f"[{time.monotonic() - self.started:4.0f} s] {text}", flush=True)

    def wanted(self, mode: str) -> list[StreamCase]:
        """Return the cases of a mode that were asked for."""
        parts = (self.only or "").split("|")
        found = [case for case in CASES if any(part in case.metric.name for part in parts)]
        if mode.startswith(AUTO):
            return [case for case in found if mode in case.auto]
        if mode in (CONTINUOUS, KAFKA_ONE):
            return [case for case in found if case.continuous is not None]
        return [case for case in found if mode in case.modes]

    def add(self, mode: str, case: StreamCase, found: dict[str, Any]) -> None:
        """Note a figure."""
        if taken := found.get("execution"):
            self.taken[mode, case.metric.name] = taken
        for name in ("p50", "p99") if not case.rows else ("value",):
            metric = case.metric.name if case.rows else f"{case.metric.name}, {name}"
            self.values.add(mode, metric, found[name])
            self.say(f"  {metric}, {mode}: {found[name]:,.0f} {case.metric.unit} (load {os.getloadavg()[0]:.1f})")


def main(argv: list[str]) -> int:
    """Run the benchmark; returns 0 when it ran, whatever it measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench-streams.json"))
    parser.add_argument("--only", help="cases whose name contains this, or one of several with | between")
    parser.add_argument("--size", type=float, default=1.0, help="records as a share of the usual; 0.1 for a trial")
    parser.add_argument(
        "--modes", default=";".join((*MODES, *AUTO_MODES, KAFKA, CONTINUOUS, KAFKA_ONE)), help="of: %(default)s"
    )
    parser.add_argument("--rounds", type=int, default=1, help="how often all is measured, one after the other")
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX, help="what has not begun by then is left out")
    args = parser.parse_args(argv)
    if reason := peer.missing() or java_missing() or (None if shutil.which("javac") else "there is no javac on PATH"):
        print(f"{reason}\n0 passed, 0 failed")
        return 1
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that everything is stopped
    folder = Path(mkdtemp(prefix="ottla-bench-streams-"))
    broker = Ottla(build_mode(), folder / "broker")
    try:
        broker.start()
        run = Run(broker.bootstrap, folder, args.size, args.only, args.seconds)
        _topics(run)
        for _ in range(args.rounds):
            _measure(run, args.modes.split(";"))
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    rows = _rows(run)
    write_rows(rows, args.out)
    print_table(rows)
    held = [row.met for row in rows if row.met is not None]
    print(f"{held.count(True)} passed, {held.count(False)} failed, in {time.monotonic() - run.started:.0f} s")
    return 0


def _topics(run: Run) -> None:
    """Make and fill what is read, and make what is written."""
    cases = {case.metric.name: case for mode in (*MODES, *AUTO_MODES, CONTINUOUS) for case in run.wanted(mode)}.values()
    run.say(f"filling topics ({build_mode()})")
    with BlockingClient(run.bootstrap) as client:
        systems = ("", f"-{KAFKA}", "-continuous", "-one", "-auto")
        make_topics(client, sorted({f"{case.sink}{system}" for case in cases for system in systems}))
        make_topics(client, sorted({case.source for case in cases}))
        for source in sorted({case.source for case in cases if case.rows}):
            fill(client, source, max(case.job(run.scale)["rows"] for case in cases if case.source == source))


def _measure(run: Run, modes: list[str]) -> None:
    """Measure mode by mode: first both on two cores, which have the targets."""
    if CONTINUOUS in modes:
        _spark(run, CONTINUOUS, SECOND)
    if (one := f"{AUTO}{SECOND}") in modes:
        _spark(run, one, SECOND)
    if KAFKA_ONE in modes:
        _kafka(run, KAFKA_ONE)
    if (two := f"{AUTO}{FIRST}") in modes:
        _spark(run, two, FIRST)
    if FIRST in modes:
        _spark(run, FIRST, FIRST)
    if KAFKA in modes:
        _kafka(run, KAFKA)
    if SECOND in modes:
        _spark(run, SECOND, SECOND)
    clustered = [each for each in (CLUSTER, f"{AUTO}{CLUSTER}") if each in modes and run.wanted(each)]
    if clustered:
        run.say("starting a master and two workers")
        try:
            # as a cluster's machines have it where it is installed there: nothing is sent
            path = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
            with spark_cluster(run.folder / "cluster", environment={"PYTHONPATH": path}) as cluster:
                for mode in clustered:
                    _spark(run, mode, cluster.url)
        except RuntimeError as error:
            run.say(f"  failed: {error}")


def _kafka(run: Run, system: str) -> None:
    classes = compiled(run.folder)
    for case in run.wanted(FIRST if system == KAFKA else KAFKA_ONE):
        if case.plan in NO_SUCH_PLAN:
            continue
        if run.left <= 0:
            run.say(f"no time is left for {case.metric.name}, {system}")
            continue
        job = {**case.job(run.scale), "sink": f"{case.sink}-{KAFKA if system == KAFKA else 'one'}"}
        # as often as the other side commits; else a count would be held back for 30 s
        settings = {**job["settings"], **({} if case.rows else {"commit.interval.ms": "100"})}
        settings |= ONE_THREAD if system == KAFKA_ONE else {}
        try:
            if case.rows:
                found = {"value": kafka_throughput(classes, run.bootstrap, job, settings)}
            else:
                found = kafka_latency(classes, run.bootstrap, job, settings)
        except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
            run.say(f"  {case.metric.name}, {system}: failed: {error}")
            continue
        run.add(system, case, found)


def _spark(run: Run, mode: str, master: str) -> None:
    """Run a session of one master and gather its lines."""
    cases = {case.metric.name: case for case in run.wanted(mode)}
    if not cases:
        return
    if run.left <= 0:
        run.say(f"no time is left for {mode}")
        return
    run.say(f"Spark, {mode}")
    folder = run.folder / f"spark-{len(list(run.folder.iterdir()))}"
    folder.mkdir()
    jobs = [case.job(run.scale) for case in cases.values()]
    if mode == CONTINUOUS:
        more = {"execution": "continuous", **ONE_THREAD}
        jobs = [{**job, "sink": f"{job['sink']}-continuous", "settings": {**job["settings"], **more}} for job in jobs]
    if mode.startswith(AUTO):
        more = {"execution": "auto", "num.stream.threads": "1" if AUTO_MODES[mode] == KAFKA_ONE else "2"}
        more |= {} if master.startswith("local") else {"spark.cores.max": "2"}
        jobs = [{**job, "sink": f"{job['sink']}-auto", "settings": {**job["settings"], **more}} for job in jobs]
    order = {"master": master, "bootstrap": run.bootstrap, "folder": str(folder), "jobs": jobs}
    with _session(order, folder / "errors", run.left) as lines:
        for line in lines:
            if line.startswith("{"):
                found = json.loads(line)
                run.add(mode, cases.pop(found["metric"]), found)
    for name in cases:
        run.say(f"  {name}, {mode}: no figure")
    if cases:
        told = [line for line in (folder / "errors").read_text(errors="replace").splitlines() if line.strip()]
        run.say("  " + "\n  ".join(told[-12:]))


@contextmanager
def _session(order: dict[str, Any], errors: Path, seconds: float) -> Iterator[Any]:
    """Run a session's process, at most so long; yields the lines that it prints."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "bench.streams_session", json.dumps(order)]
    with errors.open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        # by its group: the JVM is its child
        timer = threading.Timer(max(1.0, seconds), lambda: os.killpg(process.pid, signal.SIGKILL))
        timer.start()
        try:
            yield process.stdout
        finally:
            timer.cancel()
            if process.poll() is None and sys.exc_info()[0] is not None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _rows(run: Run) -> list[Row]:
    """Return a row for each figure: those of two cores with their targets, then those of other masters."""
    metrics = [metric for case in CASES if case.modes for metric in case.metrics()]
    rows = run.values.rows(metrics, [FIRST])
    for plan in ("map", "word count"):
        rows += _price(run.values, plan)
    rows += _continuous(run.values)
    rows += _auto(run)
    others = [Metric(metric.name, metric.unit) for metric in metrics]
    return rows + [row for mode in MODES[1:] for row in run.values.rows(others, [mode]) if row.ottla is not None]


def _continuous(values: Rounds) -> list[Row]:
    """Return the rows of continuous mode, beside Kafka Streams with one thread."""
    own = Rounds()
    for metric, systems in values.values.items():
        for system, name in ((CONTINUOUS, CONTINUOUS), (KAFKA_ONE, KAFKA)):
            if found := systems.get(system):
                own.values.setdefault(metric, {})[name] = found
    return own.rows([metric for case in CASES for metric in case.metrics(continuous=True)], [CONTINUOUS])


def _auto(run: Run) -> list[Row]:
    """Return the rows of `execution=auto`, which name what it has taken, beside Kafka Streams with as many threads."""
    rows = []
    for mode, peer_system in AUTO_MODES.items():
        for case in (each for each in CASES if mode in each.auto):
            name = case.metric.name
            if ours := run.values.values.get(name, {}).get(mode):
                taken = f"auto ({run.taken[mode, name]}), {mode.removeprefix(AUTO)}"
                own = Rounds({name: {taken: ours, KAFKA: run.values.values[name].get(peer_system, [])}})
                rows += own.rows([_rate(name, at_least=case.auto[mode])], [taken])
    return rows


def _price(values: Rounds, plan: str) -> list[Row]:
    """Return what exactly once costs, in percent of the rows/s without it."""
    found: dict[str, float] = {}
    for system in (FIRST, KAFKA):
        with_it, without = (values.values.get(f"{plan}{more}", {}).get(system) for more in (ONCE, ""))
        if with_it and without:
            found[system] = 100 * (1 - with_it[0] / without[0])
    if not found:
        return []
    name = f"{PRICE}{plan}"
    return [Row(name, "%", found.get(FIRST), found.get(KAFKA), None, None, None, 1, FIRST)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
