"""`python -m bench.registry --out FILE`: what the schema registry answers, how soon, and what it takes to start."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import psutil

from bench.__main__ import available_modes, say, wanted
from bench.registry_load import Asking, answers, schema_text, subject_name
from bench.registry_serdes import FORMATS, rates
from bench.registry_takeover import METRICS as TAKEOVER_METRICS
from bench.registry_takeover import takeovers
from bench.rows import Case, Metric, Rounds, Row, print_table, write_rows
from bench.systems import KAFKA, Ottla
from ottla.base import TopicPartition
from ottla.client import BlockingClient, NewTopic, batch_of, create_topics
from ottla.registry.core import StoredSchema, encode
from ottla.registry.core.records import SchemaStored
from tests.processes import end

__all__ = ["Registry", "cases", "fill", "started"]

ROUNDS = 3
SUBJECTS, VERSIONS = 10_000, 50_000
LOOK_UPS = 30_000
REGISTERED = 3_000
RATE = 5_000
P99_MS_MAX, START_S_MAX, MIB_MAX = 5.0, 5.0, 250
TOPIC = "_schemas"
BATCH = 500
READY_SECONDS_MAX = 120.0
LOOKS = {"id": "by id", "subject": "the latest of a subject", "schema": "of a schema under a subject"}


class Registry:
    """An instance's process, beside a broker of its own."""

    def __init__(self, process: subprocess.Popen[str], port: int, seconds: float) -> None:
        self.port, self.start_seconds = port, seconds
        self._process = psutil.Process(process.pid)
        self.new = 0
        """How many schemas were registered here beside those that it began with."""

    def cpu_seconds(self) -> float:
        """Return the processor time of the instance so far."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def memory_mib(self) -> float:
        """Return the resident memory of the instance, without what examines schemas for it."""
        return float(self._process.memory_info().rss) / (1 << 20)

    def examiners_mib(self) -> float:
        """Return the memory of the processes that examine schemas, what they share counted once."""
        return sum(float(each.memory_full_info().pss) for each in self._process.children()) / (1 << 20)


@contextmanager
def started(*, subjects: int, versions: int) -> Iterator[Registry]:
    """Have an instance there for the length of a block, with so many subjects, and versions in turn."""
    folder = Path(mkdtemp(prefix="ottla-bench-registry-"))
    broker = Ottla("ottla", folder, overrides=("group.initial.rebalance.delay.ms=0",))
    broker.start()
    try:
        fill(broker.bootstrap, subjects=subjects, versions=versions)
        with _instance(broker.bootstrap) as found:
            yield found
    finally:
        broker.stop()


def fill(bootstrap: str, *, subjects: int, versions: int) -> None:
    """Write the topic of a registry that has these, as the registry itself would have."""
    with BlockingClient(bootstrap) as client:
        client.run(create_topics(client.client, [NewTopic(TOPIC, 1, 1, {"cleanup.policy": "compact"})]))
        for begin in range(0, versions, BATCH):
            numbers = range(begin, min(begin + BATCH, versions))
            records = [encode(SchemaStored(_stored(each, subjects))) for each in numbers]
            client.produce({TopicPartition(TOPIC, 0): batch_of(records)})


def _stored(number: int, subjects: int) -> StoredSchema:
    return StoredSchema(subject_name(number % subjects), number // subjects + 1, number + 1, schema_text(number))


@contextmanager
def _instance(bootstrap: str) -> Iterator[Registry]:
    command = [sys.executable, "-m", "ottla.cli.main", "registry", "start", "--bootstrap-server", bootstrap]
    begun = time.monotonic()
    process = subprocess.Popen(
        [*command, "--override", "listeners=http://127.0.0.1:0", "--log-level", "warning"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    watchdog = threading.Timer(READY_SECONDS_MAX, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        line = next((each for each in process.stdout if each.startswith("ready ")), "")
        if not line:
            raise RuntimeError("the registry has not started")
        watchdog.cancel()
        yield Registry(process, int(line.rpartition(":")[2]), time.monotonic() - begun)
    finally:
        watchdog.cancel()
        end(process, 60)


def cases(*, scale: float) -> list[Case]:
    """Return the cases of requests, on an instance of 10,000 subjects."""
    count, subjects = max(200, int(LOOK_UPS * scale)), max(100, int(SUBJECTS * scale))
    found = [_look_ups(kind, title, count, subjects) for kind, title in LOOKS.items()]
    return [*found, _registering(max(100, int(REGISTERED * scale)), subjects)]


def _look_ups(kind: str, title: str, count: int, subjects: int) -> Case:
    rate, cpu = f"look-ups {title}", f"look-ups {title}, processor time"
    p50, p99 = (f"look-ups {title} at {RATE:,}/s, {each}" for each in ("p50", "p99"))
    is_goal = kind != "schema"
    metrics = [
        Metric(rate, "1/s", at_least=RATE if is_goal else None, absolute=True),
        Metric(cpu, "µs"),
        *([Metric(p50, "ms"), Metric(p99, "ms", at_most=P99_MS_MAX, absolute=True)] if is_goal else []),
    ]

    def run(registry: Registry) -> dict[str, float]:
        asking = Asking(kind, registry.port, count, subjects)
        answers(Asking(kind, registry.port, count // 5, subjects))
        before = registry.cpu_seconds()
        found = {rate: answers(asking)["rate"], cpu: (registry.cpu_seconds() - before) / count * 1e6}
        if is_goal:
            due = answers(Asking(kind, registry.port, count, subjects, rate=RATE))
            found |= {p50: due["p50"], p99: due["p99"]}
        return found

    return Case(rate, metrics, run)  # type: ignore[arg-type]


def _registering(count: int, subjects: int) -> Case:
    rate, p99 = "schemas registered", "schemas registered, eight at a time, p99"
    memory = f"memory with {SUBJECTS:,} subjects, after all that"
    examiners = "memory of the processes that examine schemas"
    metrics = [Metric(rate, "1/s"), Metric(p99, "ms"), Metric(memory, "MiB"), Metric(examiners, "MiB")]

    def run(registry: Registry) -> dict[str, float]:
        asking = Asking("register", registry.port, count, subjects, first=subjects + registry.new)
        registry.new += count
        found = answers(asking)
        return {
            rate: found["rate"],
            p99: found["p99"],
            memory: registry.memory_mib(),
            examiners: registry.examiners_mib(),
        }

    return Case(rate, metrics, run)  # type: ignore[arg-type]


def _start_metrics() -> tuple[Metric, Metric]:
    seconds = f"start with {VERSIONS:,} versions"
    memory = f"memory with {VERSIONS:,} versions"
    return (
        Metric(seconds, "s", at_most=START_S_MAX, absolute=True),
        Metric(memory, "MiB", at_most=MIB_MAX, absolute=True),
    )


def _starting(measured: Rounds, mode: str, rounds: int, *, scale: float) -> list[Metric]:
    metrics = _start_metrics()
    for each in range(rounds):
        say(f"start: round {each + 1}")
        with started(subjects=max(100, int(SUBJECTS * scale)), versions=max(200, int(VERSIONS * scale))) as registry:
            for metric, value in zip(metrics, (registry.start_seconds, registry.memory_mib()), strict=True):
                measured.add(mode, metric.name, value)
                say(f"    {metric.name}: {value:.4g}")
    return list(metrics)


def _taking_over(measured: Rounds, mode: str, rounds: int) -> list[Metric]:
    for each in range(rounds):
        say(f"takeover: round {each + 1}")
        for name, value in takeovers().items():
            measured.add(mode, name, value)
            say(f"    {name}: {value:.4g}")
    return list(TAKEOVER_METRICS)


def _serdes(measured: Rounds, mode: str, rounds: int, port: int, *, scale: float) -> list[Metric]:
    names = [f"{kind}: {way}" for kind in FORMATS for way in ("write", "read")]
    for each in range(rounds):
        say(f"serdes: round {each + 1}")
        found = rates(f"http://127.0.0.1:{port}", max(200, int(20_000 * scale)))
        for side, system in (("ours", mode), ("theirs", KAFKA)):
            for name in names:
                measured.add(system, name, found[side][name])
                say(f"    {side} {name}: {found[side][name]:.4g}")
    return [Metric(name, "rows/s") for name in names]


def main(argv: list[str]) -> int:
    """Run the benchmark; returns 0 when it ran, whatever it measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.registry", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench-registry.json"))
    parser.add_argument("--only", help="cases with this in their name, or one of several with | between")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--scale", type=float, default=1.0, help="below 1 for a trial")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the processes are stopped
    mode = available_modes()[0]
    measured, metrics = Rounds(), []
    subjects = max(100, int(SUBJECTS * args.scale))
    with started(subjects=subjects, versions=subjects) as registry:
        for case in cases(scale=args.scale):
            if not wanted(case.name, args.only):
                continue
            for each in range(args.rounds):
                say(f"{case.name}: round {each + 1}")
                for name, value in case.run(registry).items():
                    measured.add(mode, name, value)
                    say(f"    {name}: {value:.4g}")
            metrics += case.metrics
        if wanted("serdes", args.only):
            metrics += _serdes(measured, mode, args.rounds, registry.port, scale=args.scale)
    if wanted("start", args.only):
        metrics += _starting(measured, mode, args.rounds, scale=args.scale)
    if wanted("takeover", args.only):
        metrics += _taking_over(measured, mode, args.rounds)
    rows: list[Row] = measured.rows(metrics, [mode])
    write_rows(rows, args.out)
    print_table(rows)
    held = [row.met for row in rows if row.met is not None]
    print(f"{held.count(True)} passed, {held.count(False)} failed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
