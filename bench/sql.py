"""`python -m bench.sql --out FILE`: what the SQL server answers how soon, what its queries cost, and how fast they are.

Rates are those of the same plan in Kafka Streams (`StreamsPeer.java`), on the same topic of one Ottla broker, with as many
threads as the server has hosts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Producer

from bench.__main__ import say, wanted
from bench.rows import Metric, Rounds, Row, print_table, write_rows
from bench.sql_kill import Kill
from bench.sql_server import WAIT_SECONDS_MAX, Server, asked, started
from bench.streams_peer import THREADS, compiled, kafka_rate
from bench.streams_topics import CUSTOMERS, KEYS, ORDERS, PARTITIONS, fill, make_topics
from bench.systems import KAFKA
from ottla.client import BlockingClient

__all__ = ["main"]

ROUNDS = 3
ROWS = 400_000
WARM_SHARE = 0.2
IDLE, IDLE_SECONDS = 50, 20.0
PULL_KEYS, PULLS = 100_000, 3000
LATENCY_SECONDS, LATENCY_RATE = 12.0, 500
WELL_SECONDS = 31.0
"""Hosts that have run for so long count as well again."""
COLUMNS = "ID STRING KEY, ITEM STRING, QTY INT, PRICE DOUBLE, NOTE STRING"
MODE = "spark"

PLANS: Mapping[str, tuple[str, str, float]] = {
    "filter": ("STREAM", "SELECT ID, ITEM, QTY * PRICE AS PAID FROM {orders} WHERE QTY > 4", 1.0),
    "aggregate": ("TABLE", "SELECT ID, COUNT(*) AS N, SUM(QTY) AS QTY FROM {orders} GROUP BY ID", 1.0),
    "window": (
        "TABLE",
        "SELECT ID, COUNT(*) AS N, SUM(QTY) AS QTY FROM {orders} "
        "WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 5 MINUTES) GROUP BY ID",
        1.0,
    ),
    "join": ("STREAM", "SELECT O.ID AS ID, O.ITEM, C.NAME FROM {orders} O JOIN CUSTOMERS C ON O.ID = C.ID", 0.5),
}
"""What is made of orders, by name: of which kind, the query, and the rate that is aimed at, by Kafka Streams'."""


class Bench:
    """A server on a broker whose topics are filled, and what is measured of it."""

    def __init__(self, server: Server, folder: Path, scale: float) -> None:
        self.server, self._folder = server, folder
        self._rows = int(ROWS * scale)
        self._keys = max(1000, int(PULL_KEYS * scale))
        self._pulls = max(300, int(PULLS * scale))
        self._number = 0
        self._client = BlockingClient(server.bootstrap)

    def fill(self) -> None:
        """Fill the topics that queries read."""
        make_topics(self._client, [ORDERS, CUSTOMERS])
        fill(self._client, ORDERS, self._rows)
        fill(self._client, CUSTOMERS, KEYS[CUSTOMERS])
        self.server.run(
            f"CREATE STREAM ORDERS ({COLUMNS}) WITH (KAFKA_TOPIC='{ORDERS}', VALUE_FORMAT='JSON');"
            f"CREATE TABLE CUSTOMERS (ID STRING PRIMARY KEY, NAME STRING, LEVEL INT) "
            f"WITH (KAFKA_TOPIC='{CUSTOMERS}', VALUE_FORMAT='JSON');"
            f"CREATE STREAM TRIED ({COLUMNS}) WITH (KAFKA_TOPIC='tried', VALUE_FORMAT='JSON', PARTITIONS={PARTITIONS});"
            "INSERT INTO TRIED VALUES ('a', 'fig', 9, 1.5, 'x');"
        )

    def name(self) -> str:
        """Return a name that nothing has."""
        self._number += 1
        return f"R{self._number}"

    # -- figures

    def created(self) -> dict[str, float]:
        """From a statement to its answer, to a query that runs, and to a row of it."""
        name, began_s = self.name(), time.monotonic()
        query = self.server.made(f"CREATE STREAM {name} AS SELECT * FROM TRIED;")
        answered_s = time.monotonic() - began_s
        while f"query_{query}" not in "".join(self.server.sql.lines):
            time.sleep(0.005)
            assert time.monotonic() - began_s < WAIT_SECONDS_MAX, f"{query} does not begin"
        running_s = time.monotonic() - began_s
        self.server.wait_rows(f"SELECT * FROM {name};")
        found = {ANSWERED: answered_s, RUNNING: running_s, ROW: time.monotonic() - began_s}
        self.server.drop("STREAM", name)
        return found

    def idle(self) -> dict[str, float]:
        """What queries cost that have nothing to do: the server, its JVM and its hosts."""
        names = [self.name() for _ in range(IDLE)]
        for name in names:
            self.server.run(f"CREATE TABLE {name} AS SELECT ID, COUNT(*) AS N FROM TRIED GROUP BY ID;")
        for name in names:
            self.server.wait_rows(f"SELECT * FROM {name};")
        time.sleep(5)
        before, began_s = self.server.all_cpu_seconds(), time.monotonic()
        time.sleep(IDLE_SECONDS)
        cores = (self.server.all_cpu_seconds() - before) / (time.monotonic() - began_s)
        memory = self.server.memory_mib()
        for name in names:
            self.server.drop("TABLE", name)
        return {CORES: cores, MEMORY: memory}

    def latency(self, plan: str) -> dict[str, float]:
        """From a record's time to that at which its result is consumed."""
        name = self.name()
        self.server.run(
            f"CREATE STREAM {name}_IN ({COLUMNS}) WITH (KAFKA_TOPIC='{name}_IN', VALUE_FORMAT='JSON', "
            f"PARTITIONS={PARTITIONS});"
        )
        kind, text, _ = PLANS[plan]
        self.server.run(f"CREATE {kind} {name} AS {text.format(orders=f'{name}_IN')};")
        value = '{"ITEM":"fig","QTY":9,"PRICE":1.5,"NOTE":"as usual"}'
        words = (self.server.bootstrap, f"{name}_IN", name, str(LATENCY_SECONDS), str(LATENCY_RATE), value)
        done = subprocess.run(
            [sys.executable, "-m", "bench.streams_latency", *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        self.server.drop(kind, name)
        found = json.loads(done.stdout)
        return {f"record to result, {plan}, {share}": found[share] for share in ("p50", "p99")}

    def killed(self, plan: str, *, every: bool = False) -> dict[str, float]:
        """A host, or all of them, killed under a query that runs exactly once."""
        if every:
            time.sleep(WELL_SECONDS)  # for what fails again soon, Spark's jobs are started later each time
        name = self.name()
        self.server.run(
            f"CREATE STREAM {name}_IN ({COLUMNS}) WITH (KAFKA_TOPIC='{name}_IN', VALUE_FORMAT='JSON', "
            f"PARTITIONS={PARTITIONS});"
        )
        kind, text, _ = PLANS[plan]
        self.server.run(f"CREATE {kind} {name} AS {text.format(orders=f'{name}_IN')};", **EXACTLY_ONCE)
        found = Kill(self.server, f"{name}_IN", name, is_table=kind == "TABLE", every=every).run()
        self.server.drop(kind, name)
        return dict(zip(_killed_metrics(plan, every=every), (found.seconds, found.lost, found.doubled), strict=True))

    def pulls(self) -> dict[str, float]:
        """Pull queries by key over one connection, after a table is read."""
        name = self.name()
        self.server.run(
            f"CREATE TABLE {name} (ID STRING PRIMARY KEY, ITEM STRING, QTY INT, PRICE DOUBLE) "
            f"WITH (KAFKA_TOPIC='{name}', VALUE_FORMAT='JSON', PARTITIONS={PARTITIONS});"
        )
        producer = Producer(
            {
                "bootstrap.servers": self.server.bootstrap,
                "linger.ms": 50,
                "queue.buffering.max.messages": self._keys + 1,
            }
        )
        for number in range(self._keys):
            producer.produce(name, key=f"key-{number}", value=f'{{"ITEM":"fig","QTY":{number % 10},"PRICE":0.5}}')
        producer.flush(60)
        self.server.wait_rows(f"SELECT * FROM {name} WHERE ID = 'key-1';")
        connection = self.server.connection()

        def ask() -> bytes:
            return asked(connection, f"SELECT * FROM {name} WHERE ID = 'key-{random.randrange(self._keys)}';")

        for _ in range(200):
            ask()
        before, taken = self.server.cpu_seconds(), []
        for _ in range(self._pulls):
            began_s = time.perf_counter()
            answer = ask()
            taken.append(time.perf_counter() - began_s)
            assert b'"fig"' in answer, answer
        taken.sort()
        cpu = (self.server.cpu_seconds() - before) / self._pulls
        at = {share: taken[int(len(taken) * share / 100)] * 1000 for share in (50, 99)}
        self.server.run(f"DROP TABLE {name} DELETE TOPIC;")
        return {PULL_50: at[50], PULL_99: at[99], PULL_CPU: cpu * 1e6}

    def rate(self, plan: str) -> dict[str, float]:
        """Rows/s at which a new query catches up with its topic, the first fifth not counted."""
        kind, text, _ = PLANS[plan]
        name = self.name()
        total = self._rows // (PARTITIONS * 1000) * PARTITIONS * 1000 or self._rows
        from_ = int(total * WARM_SHARE)
        query = self.server.made(f"CREATE {kind} {name} AS {text.format(orders='ORDERS')};")
        first = begun_s = cpu_s = 0.0
        until_s = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            done, now_s = self._read(query), time.monotonic()
            if not begun_s and done >= from_:
                begun_s, first, cpu_s = now_s, done, self.server.all_cpu_seconds()
            if done >= total:
                break
            assert now_s < until_s, f"{query} has read {done} of {total}"
            time.sleep(0.05)
        cpu = (self.server.all_cpu_seconds() - cpu_s) / max(total - first, 1) * 1e6
        self.server.drop(kind, name)
        seconds = now_s - begun_s
        return {f"{plan}": (total - first) / seconds if seconds else 0.0, f"{plan}, processor time": cpu}

    def _read(self, query: str) -> int:
        found = self._client.committed_offsets(f"_confluent-ksql-default_query_{query}")
        return sum(int(each.offset) for place, each in found.items() if place.topic == ORDERS)

    def kafka_rate(self, plan: str) -> dict[str, float]:
        """The same of Kafka Streams."""
        sink = f"kafka-{self.name()}"
        make_topics(self._client, [sink])
        job = {"plan": f"sql-{plan}", "source": ORDERS, "sink": sink, "rows": self._rows // 4000 * 4000, "factor": 1}
        settings = {"commit.interval.ms": "100"}
        rate, spent_s = kafka_rate(self._classes(), self.server.bootstrap, job, settings)
        return {plan: rate, f"{plan}, processor time": spent_s * 1e6}

    def _classes(self) -> Path:
        """Return the Java program's classes, compiled the first time that one is asked for."""
        classes = self._folder / "classes"
        return classes if classes.is_dir() else compiled(self._folder)


ANSWERED, RUNNING, ROW = "statement to its answer", "statement to a query that begins", "statement to a row"
CORES, MEMORY = f"{IDLE} idle queries, processors", f"{IDLE} idle queries, memory"
PULL_50, PULL_99, PULL_CPU = (
    f"pull by key of {PULL_KEYS:,}, p50",
    f"pull by key of {PULL_KEYS:,}, p99",
    "pull by key, processor time of the server",
)


EXACTLY_ONCE = {"processing_guarantee": "exactly_once_v2"}


def _killed_metrics(plan: str, *, every: bool) -> tuple[str, str, str]:
    what = f"{'every host' if every else 'a host'} killed, {plan}"
    return f"{what}: results go on", f"{what}: lost", f"{what}: doubled"


def figures() -> dict[str, tuple[list[Metric], Callable[[Bench], dict[str, float]]]]:
    """Return every figure: its metrics, and what measures them once."""

    def bound(name: str, unit: str, most: float) -> Metric:
        return Metric(name, unit, at_most=most, absolute=True)

    found: dict[str, tuple[list[Metric], Callable[[Bench], dict[str, float]]]] = {
        "statement": ([Metric(ANSWERED, "s"), bound(RUNNING, "s", 1), bound(ROW, "s", 1)], Bench.created),
        "idle": ([bound(CORES, "processors", 0.1), bound(MEMORY, "MiB", 1229)], Bench.idle),
        "pull": ([Metric(PULL_50, "ms"), bound(PULL_99, "ms", 5), Metric(PULL_CPU, "µs")], Bench.pulls),
    }
    for plan in ("filter", "aggregate"):
        names = [f"record to result, {plan}, {share}" for share in ("p50", "p99")]
        metrics = [bound(names[0], "ms", 50), Metric(names[1], "ms")]
        found[f"latency {plan}"] = (metrics, lambda bench, plan=plan: bench.latency(plan))  # type: ignore[misc]
    for plan, every in (("filter", False), ("aggregate", False), ("aggregate", True)):
        seconds, lost, doubled = _killed_metrics(plan, every=every)
        metrics = [bound(seconds, "s", 5), bound(lost, "records", 0), bound(doubled, "records", 0)]
        found[f"kill {plan}{' every host' if every else ''}"] = (metrics, partial(Bench.killed, plan=plan, every=every))
    for plan, (_, _, aim) in PLANS.items():
        metrics = [Metric(plan, "rows/s", at_least=aim), Metric(f"{plan}, processor time", "µs/row")]
        found[f"rate {plan}"] = (metrics, lambda bench, plan=plan: bench.rate(plan))  # type: ignore[misc]
    return found


def main(argv: list[str]) -> int:
    """Run the benchmark; returns 0 when it ran, whatever it measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.sql", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench-sql.json"))
    parser.add_argument("--only", help="figures with this in their name, or one of several with | between")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--scale", type=float, default=1.0, help="below 1 for a trial")
    parser.add_argument("--engine", choices=("spark", "python"), default=MODE)
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the processes are stopped
    measured, metrics = Rounds(), []
    with TemporaryDirectory(prefix="ottla-bench-sql-") as folder, started(args.engine, THREADS) as server:
        bench = Bench(server, Path(folder), args.scale)
        bench.fill()
        for name, (own, measure) in figures().items():
            if not wanted(name, args.only):
                continue
            metrics += own
            for each in range(args.rounds):
                say(f"{name}: round {each + 1} (load {os.getloadavg()[0]:.1f})")
                sides = {args.engine: measure(bench)}
                if name.startswith("rate "):
                    sides[KAFKA] = bench.kafka_rate(name.removeprefix("rate "))
                for side, values in sides.items():
                    for metric, value in values.items():
                        measured.add(side, metric, value)
                        say(f"    {side} {metric}: {value:.4g}")
    rows: list[Row] = measured.rows(metrics, [args.engine])
    write_rows(rows, args.out)
    print_table(rows)
    held = [row.met for row in rows if row.met is not None]
    print(f"{held.count(True)} passed, {held.count(False)} failed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
