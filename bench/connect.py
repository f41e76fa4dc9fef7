"""`python -m bench.connect --out FILE`: Connect's workers beside Apache Kafka Connect's, on one Ottla broker, in one run.

Both run Kafka's FileStream connectors under the same names, from the same files and topics. A worker is warm before it is
measured: connectors have run in it. JDBC is Ottla's alone, since Apache Kafka has no such connectors.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from bench.connect_capture import CAPTURE_LATENCY, CAPTURE_MEMORY, CAPTURES, TUNED, capture_steps
from bench.connect_run import LINE_BYTES, Run, watch
from bench.connect_workers import OTTLA, KafkaConnect, OttlaConnect, Worker
from bench.rows import Metric, print_table, write_rows
from bench.systems import Ottla
from ottla.client import BlockingClient
from ottla.spark import java_missing
from ottla.wire import build_mode
from tests import peer

__all__ = ["METRICS", "main"]

SECONDS_MAX = 1200.0
"""What has not begun by then is named and left out."""
LINES = 2_000_000
ROWS = 200_000
FEW = 1_000
STRINGS = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
JSON, TEXT = "JSON with schemas", "strings"
CONVERTERS: dict[str, dict[str, str]] = {JSON: {}, TEXT: STRINGS}
SOURCE_CPU, SINK_CPU = "processor time per million lines, file source", "processor time per million lines, file sink"
CREATED = f"a file of {FEW:,} lines in its topic, from its connector's creation"
FIRST_RECORD = "the first record, from its connector's creation"
MEMORY = "memory of an idle worker that has worked"
PLAIN_RECORDS, PLAIN_BYTES = 400_000, LINE_BYTES - 1
"""How many records a run of the usual size has of those that go one by one, and how long each is."""
PLAIN = {side: f"plain {side}, record by record" for side in ("source", "sink")}
JDBC_SOURCE, JDBC_SINK = "JDBC source, PostgreSQL", "JDBC sink, PostgreSQL"
METRICS = (
    *(Metric(f"file {side}, {kind}", "lines/s", at_least=2) for side in ("source", "sink") for kind in CONVERTERS),
    Metric(SOURCE_CPU, "s"),
    Metric(SINK_CPU, "s"),
    Metric(FIRST_RECORD, "ms"),
    Metric(CREATED, "ms", at_most=2_000, absolute=True),
    Metric(MEMORY, "MiB"),
    *(
        Metric(f"{name}, {kind}", "records/s", at_least=150_000, absolute=True)
        for name in PLAIN.values()
        for kind in CONVERTERS
    ),
    Metric(JDBC_SOURCE, "rows/s"),
    Metric(JDBC_SINK, "rows/s"),
    *(Metric(f"{what}, {how}", "rows/s", at_least=3) for what in CAPTURES for how in TUNED),
    *(Metric(f"{CAPTURE_LATENCY}, {how}", "ms", at_most=1) for how in TUNED),
    Metric(CAPTURE_MEMORY, "MiB", at_most=0.5),
)


def measure_source(run: Run, worker: Worker, kind: str) -> None:
    """Read a file into a topic."""
    path, name = run.file("lines", run.lines), f"source-{worker.name}-{kind.split()[0].lower()}"
    topic = run.topic(name)
    cpu, begun = worker.cpu_s(), time.monotonic()
    worker.create(name, file_source(path, topic.topic) | CONVERTERS[kind])
    passage = watch(worker, name, lambda: run.end(topic), run.lines, begun)
    run.add(worker, f"file source, {kind}", passage.rate)
    if kind == JSON:
        run.add(worker, SOURCE_CPU, (worker.cpu_s() - cpu) * 1e6 / run.lines)
    worker.delete(name)


def measure_sink(run: Run, worker: Worker, kind: str) -> None:
    """Write what the source has read into a file."""
    name = f"sink-{worker.name}-{kind.split()[0].lower()}"
    path = run.folder / name
    config = {
        "connector.class": "FileStreamSink",
        "file": str(path),
        "topics": f"source-{OTTLA}-{kind.split()[0].lower()}",
        **CONVERTERS[kind],
    }
    cpu, begun = worker.cpu_s(), time.monotonic()
    worker.create(name, config)
    passage = watch(worker, name, lambda: path.stat().st_size if path.exists() else 0, run.lines * LINE_BYTES, begun)
    run.add(worker, f"file sink, {kind}", passage.rate / LINE_BYTES)
    if kind == JSON:
        run.add(worker, SINK_CPU, (worker.cpu_s() - cpu) * 1e6 / run.lines)
    worker.delete(name)
    if path.read_bytes() != run.file("lines", run.lines).read_bytes():
        raise RuntimeError(f"{path.name} is not what the source read")
    path.unlink()


def measure_plain(run: Run, worker: Worker, kind: str) -> None:
    """Have a source of a user's own return records one by one, and a sink take them; Apache Kafka has none of these."""
    short = kind.split()[0].lower()
    name, records = f"plain-source-{short}", max(20_000, PLAIN_RECORDS * run.lines // LINES)
    topic = run.topic(name)
    config = {"connector.class": "plain_connectors.PlainSourceConnector", "topic": name, "records": str(records)}
    begun = time.monotonic()
    worker.create(name, config | CONVERTERS[kind])
    rate = watch(worker, name, lambda: run.end(topic), records, begun).rate
    run.add(worker, f"{PLAIN['source']}, {kind}", rate)
    worker.delete(name)
    name, path = f"plain-sink-{short}", run.folder / f"plain-{short}"
    config = {"connector.class": "plain_connectors.PlainSinkConnector", "topics": topic.topic, "file": str(path)}
    begun = time.monotonic()
    worker.create(name, config | CONVERTERS[kind])

    def taken() -> int:
        return int(path.read_text() or 0) if path.exists() else 0

    rate = watch(worker, name, taken, records * PLAIN_BYTES, begun).rate
    run.add(worker, f"{PLAIN['sink']}, {kind}", rate / PLAIN_BYTES)
    worker.delete(name)


def measure_start(run: Run, worker: Worker) -> None:
    """Create a connector for a file of a thousand lines in a worker that is warm."""
    few, name = run.file("few", FEW), f"few-{worker.name}"
    topic = run.topic(name)
    begun = time.monotonic()
    worker.create(name, file_source(few, topic.topic))
    passage = watch(worker, name, lambda: run.end(topic), FEW, begun)
    run.add(worker, FIRST_RECORD, 1000 * passage.first_s)
    run.add(worker, CREATED, 1000 * passage.last_s)
    worker.delete(name)


def file_source(path: Path, topic: str) -> dict[str, str]:
    """Return the configuration of Kafka's file source."""
    return {"connector.class": "FileStreamSource", "file": str(path), "topic": topic, "batch.size": "2000"}


def measure_jdbc(run: Run, worker: Worker, url: str) -> None:
    """Read a table into a topic, and write the topic into another table."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(url)
    with engine.begin() as database:
        database.exec_driver_sql("create table orders (id bigint primary key, customer text, amount double precision)")
        database.exec_driver_sql(
            f"insert into orders select n, 'customer ' || mod(n, 1000), n * 0.25 from generate_series(1, {ROWS}) as n"
        )
    topic = run.topic("jdbc-orders")
    shared = {"connection.url": url, "tasks.max": "1"}
    source = {
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "topic.prefix": "jdbc-",
        "poll.interval.ms": "100",
    }
    begun = time.monotonic()
    worker.create(
        "jdbc-source",
        {
            "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
            "table.include.list": "orders",
            "batch.max.rows": "5000",
            **source,
            **shared,
        },
    )
    run.add(worker, JDBC_SOURCE, watch(worker, "jdbc-source", lambda: run.end(topic), ROWS, begun).rate)
    worker.delete("jdbc-source")

    def written() -> int:
        with engine.connect() as database:
            if not sqlalchemy.inspect(database).has_table("copied"):
                return 0
            return int(database.exec_driver_sql("select count(*) from copied").scalar_one())

    begun = time.monotonic()
    sink = {"pk.mode": "record_value", "pk.fields": "id", "auto.create": "true", "table.name.format": "copied"}
    worker.create(
        "jdbc-sink",
        {
            "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            "topics": topic.topic,
            "insert.mode": "insert",
            **sink,
            **shared,
        },
    )
    run.add(worker, JDBC_SINK, watch(worker, "jdbc-sink", written, ROWS, begun).rate)
    worker.delete("jdbc-sink")
    engine.dispose()


def measure(run: Run, worker: Worker) -> None:
    """Take all figures of a worker; what fails is named, and the rest goes on."""
    run.say(f"starting {worker.name}")
    worker.start()
    try:
        warm_up(run, worker)
        steps: list[tuple[str, Callable[[], None]]] = [("start", lambda: measure_start(run, worker))]
        for side, step in (("source", measure_source), ("sink", measure_sink)):
            steps += [(f"file {side}, {kind}", partial(step, run, worker, kind)) for kind in CONVERTERS]
        if worker.name == OTTLA:
            steps += [(f"plain, {kind}", partial(measure_plain, run, worker, kind)) for kind in CONVERTERS]
        steps.append(("memory", lambda: run.add(worker, MEMORY, worker.memory_mib())))
        if worker.name == OTTLA:
            steps.append(("JDBC", lambda: with_postgres(run, worker)))
        steps += capture_steps(run, worker)
        for name, taken in steps:
            attempt(run, worker, name, taken)
    finally:
        worker.stop()


def attempt(run: Run, worker: Worker, name: str, step: Callable[[], None]) -> None:
    """Take a step that was asked for, unless time is up."""
    if run.only and run.only not in name:
        return
    if time.monotonic() - run.started > SECONDS_MAX:
        run.say(f"  no time is left for {name}, {worker.name}")
        return
    try:
        step()
    except (RuntimeError, OSError) as error:
        run.say(f"  {name}, {worker.name}: failed: {error}")


def warm_up(run: Run, worker: Worker) -> None:
    """Have a source and a sink work for a moment, so that no figure is of a first time."""
    topic = run.topic(f"warm-{worker.name}")
    path, out = run.file("few", FEW), run.folder / f"warm-{worker.name}"
    worker.create("warm-source", file_source(path, topic.topic))
    watch(worker, "warm-source", lambda: run.end(topic), FEW, time.monotonic())
    worker.create("warm-sink", {"connector.class": "FileStreamSink", "file": str(out), "topics": topic.topic})
    size = path.stat().st_size
    watch(worker, "warm-sink", lambda: out.stat().st_size if out.exists() else 0, size, time.monotonic())
    worker.delete("warm-source")
    worker.delete("warm-sink")


def with_postgres(run: Run, worker: Worker) -> None:
    """Take the figures of JDBC, where PostgreSQL is installed."""
    from tools.postgres import missing, private_cluster

    if reason := missing():
        run.say(f"  no figures of JDBC: {reason}")
        return
    with private_cluster() as server:
        measure_jdbc(run, worker, server.url)


def main(argv: list[str]) -> int:
    """Run the benchmark; returns 0 when it ran, whatever it measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.connect", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench-connect.json"))
    parser.add_argument("--only", help="steps whose name contains this")
    parser.add_argument("--size", type=float, default=1.0, help="lines as a share of the usual; 0.1 for a trial")
    args = parser.parse_args(argv)
    if reason := peer.missing() or java_missing():
        print(f"{reason}\n0 passed, 0 failed")
        return 1
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that everything is stopped
    folder = Path(mkdtemp(prefix="ottla-bench-connect-"))
    broker = Ottla(build_mode(), folder / "broker")
    try:
        broker.start()
        with BlockingClient(broker.bootstrap) as client:
            run = Run(client, broker.bootstrap, folder, max(20_000, int(LINES * args.size)), args.only, METRICS)
            for worker in (OttlaConnect, KafkaConnect):
                measure(run, worker(broker.bootstrap, folder / worker.__name__))
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    rows = run.values.rows(list(METRICS), [OTTLA])
    write_rows(rows, args.out)
    print_table(rows)
    held = [row.met for row in rows if row.met is not None]
    print(f"{held.count(True)} passed, {held.count(False)} failed, in {time.monotonic() - run.started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
