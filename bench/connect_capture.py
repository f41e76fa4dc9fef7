"""PostgreSQL's changes captured: Ottla's connector beside Debezium in Kafka Connect, a snapshot and then one transaction."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

from bench.connect_run import Run, watch
from bench.connect_workers import OTTLA, Worker
from tests.peer import debezium
from tools.postgres import PASSWORD, USER, PostgresServer, missing, private_cluster

__all__ = ["CAPTURES", "CAPTURE_LATENCY", "CAPTURE_MEMORY", "TUNED", "capture_steps"]

SNAPSHOT_ROWS, STREAM_ROWS = 500_000, 200_000
WHOLE = 2_000_000
"""Lines of a run of the usual size; rows are as many as lines are of that."""
CAPTURES = ("captured snapshot, PostgreSQL", "captured inserts of one transaction, PostgreSQL")
CAPTURE_LATENCY = "captured change, from its commit to its topic, p50"
CAPTURE_MEMORY = "memory of a worker that has captured and does so still"
CHANGES = 100
"""Insertions one by one whose way is timed; the first tenth only warms up."""
PAUSE_SECONDS = 0.05
LOOK_SECONDS = 0.001
LATE_SECONDS = 30.0
PLAIN = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
JSON = "org.apache.kafka.connect.json.JsonConverter"
TUNED: dict[str, dict[str, str]] = {
    "defaults": {},
    "tuned": {
        "max.batch.size": "8192",
        "max.queue.size": "32768",
        "poll.interval.ms": "20",
        "snapshot.fetch.size": "20480",
        "key.converter": JSON,
        "value.converter": JSON,
        **PLAIN,
        "producer.override.batch.size": "262144",
        "producer.override.linger.ms": "20",
    },
}
"""Settings beside those that are needed; the tuned ones write JSON without schemas."""
TABLE = "create table events (id bigint primary key, customer text, amount numeric(10,2), at timestamp default now())"


def capture_steps(run: Run, worker: Worker) -> list[tuple[str, Callable[[], None]]]:
    """Return the steps, each with its name."""
    return [(f"capture, {how}", partial(_with_postgres, run, worker, how)) for how in TUNED]


def _with_postgres(run: Run, worker: Worker, how: str) -> None:
    reason = missing() or (None if worker.name == OTTLA else debezium.missing())
    if reason is not None:
        run.say(f"  no figures of captures, {worker.name}: {reason}")
        return
    with private_cluster({"wal_level": "logical", "max_wal_size": "8GB"}) as server:
        _measure(run, worker, how, server)


def _measure(run: Run, worker: Worker, how: str, server: PostgresServer) -> None:
    import psycopg

    share = run.lines / WHOLE
    first, more = int(SNAPSHOT_ROWS * share), int(STREAM_ROWS * share)
    name = f"capture-{worker.name}-{how}"
    topic = run.topic(f"{name}.public.events")
    host = {"host": "127.0.0.1", "port": server.port, "user": USER, "password": PASSWORD, "dbname": "postgres"}
    with psycopg.connect(**host, autocommit=True) as connection:  # type: ignore[arg-type]

        def insert(start: int, count: int) -> None:
            connection.execute(
                "insert into events select n, 'customer ' || mod(n, 1000), n * 0.25 "
                f"from generate_series({start}, {start + count - 1}) as n"
            )

        connection.execute(TABLE)
        insert(1, first)
        config = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": host["host"],
            "database.port": str(server.port),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
            "topic.prefix": name,
            **TUNED[how],
        }
        begun = time.monotonic()
        worker.create(name, {key: str(value) for key, value in config.items()})
        run.add(worker, f"{CAPTURES[0]}, {how}", watch(worker, name, lambda: run.end(topic), first, begun).rate)
        begun = time.monotonic()
        insert(first + 1, more)

        def streamed() -> int:
            return max(0, run.end(topic) - first)

        run.add(worker, f"{CAPTURES[1]}, {how}", watch(worker, name, streamed, more, begun).rate)
        run.add(worker, f"{CAPTURE_LATENCY}, {how}", _latency_ms(lambda at: insert(at, 1), first + more, streamed))
        if how == "tuned":
            run.add(worker, CAPTURE_MEMORY, worker.memory_mib())
    worker.delete(name)


def _latency_ms(insert: Callable[[int], None], before: int, streamed: Callable[[], int]) -> float:
    """Return how long a change takes to be in the topic, a pause between two of them."""
    taken: list[float] = []
    start = streamed()
    for at in range(1, CHANGES + 1):
        insert(before + at)
        begun = time.monotonic()
        while streamed() < start + at:
            if time.monotonic() - begun > LATE_SECONDS:
                raise RuntimeError(f"a change was not in its topic after {LATE_SECONDS:g} s")
            time.sleep(LOOK_SECONDS)
        taken.append((time.monotonic() - begun) * 1000)
        time.sleep(PAUSE_SECONDS)
    return statistics.median(taken[CHANGES // 10 :])
