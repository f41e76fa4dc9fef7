"""`make demo-console`: a broker with live data, a schema registry, and the console over both, until Ctrl+C.

Orders come in, one group keeps up and one falls behind, transactions are open for a while, and some records are
dead letters. A connector makes up page views, a Streams application counts clicks, queries of SQL run, and two alerts
watch. Everything runs on this machine, on ports of the system's choice, in a folder that goes with it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

TOPICS = {
    "orders": 6,
    "payments": 3,
    "clicks": 3,
    "payments.dlq": 2,
    "customers": 2,
    "clicks-per-page": 3,
    "pageviews": 2,
    "alerts": 1,
}
COUNTRIES = ("NL", "DE", "FR", "ES", "IT", "PL")
CAUSES = (
    ("org.apache.kafka.connect.errors.DataException", 'null value in column "country" of row {}'),
    ("org.apache.kafka.common.errors.SerializationException", "unknown schema id {}"),
    ("java.net.SocketTimeoutException", "no answer after {} ms"),
)
STATEMENTS = """
CREATE STREAM orders (c STRING KEY, id BIGINT, status STRING, amount DECIMAL(9, 2),
    customer STRUCT<id BIGINT, country STRING>) WITH (kafka_topic='orders', value_format='JSON');
CREATE TABLE sales AS SELECT customer->country AS country, COUNT(*) AS orders, SUM(amount) AS total
    FROM orders GROUP BY customer->country;
CREATE STREAM failed_orders AS SELECT * FROM orders WHERE status = 'FAILED';
"""
PAGES = """
from ottla.streams import StreamsBuilder

settings = {"application.id": "clicks-per-page", "execution": "continuous", "commit.interval.ms": "2000"}
builder = StreamsBuilder()
(
    builder.stream("clicks", key_serde="string", value_serde="json")
    .group_by(lambda key, click: click["page"], key_serde="string", value_serde="json")
    .count(materialized="pages")
    .to_stream()
    .to("clicks-per-page", key_serde="string", value_serde="long")
)
"""
WORKER = """
bootstrap.servers={bootstrap}
listeners=http://127.0.0.1:0
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
offset.storage.file.filename={folder}/offsets
"""
VIEWS = """
name=page-views
connector.class=GeneratorSource
kafka.topic=pageviews
quickstart=pageviews
rate=40
"""
ALERTS = (
    {"name": "reports is behind", "condition": "lag('reports') > 2000 FOR 10 SECONDS", "targets": ["log"]},
    {"name": "no orders", "condition": "written('orders') = 0 FOR 1 MINUTE", "severity": "warn", "targets": ["log"]},
)
SERVING = "serving "
"""What stands behind the time in the line of a Streams application that has begun."""
READY_SECONDS_MAX = 60.0
_held: list[int] | None = None
"""Signals that have come while a process was being made, which nobody could have ended; None at other times."""


def begun(command: Sequence[str]) -> subprocess.Popen[str]:
    """Begin a process; signals that come before it can be ended stay in `_held`."""
    global _held
    _held = []
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl+C is for this script, which ends the others when its clients are closed
    )


def let_go() -> None:
    """Act on the signals that have come since `begun`."""
    global _held
    held, _held = _held, None
    if held:
        leave(held[0], None)


def started(*words: str, ready: str) -> tuple[subprocess.Popen[str], str]:
    """Start a command of Ottla; returns it with what follows a word in one of its first lines."""
    command = [sys.executable, "-m", "ottla.cli.main", *words]
    process = begun(command)
    patience = threading.Timer(READY_SECONDS_MAX, end, [process])  # which ends its output, too
    try:
        patience.start()
        let_go()
        assert process.stdout is not None
        for line in process.stdout:
            before, found, rest = line.partition(ready)
            if found and (not before or ready == SERVING):
                threading.Thread(target=lambda: [None for _ in process.stdout or ()], daemon=True).start()
                return process, rest.strip()
        raise SystemExit(f"{words[0]} did not start")
    except BaseException:  # it belongs to nobody yet: whatever stops the demo ends it
        end(process)
        raise
    finally:
        patience.cancel()


def end(process: subprocess.Popen[str]) -> None:
    """End a process, and what it has started: it leads a group of its own."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def order(number: int) -> dict[str, Any]:
    """Return an order as people see it."""
    status = "FAILED" if random.random() < 0.02 else "OK"
    place, amount = random.choice(COUNTRIES), round(random.expovariate(1 / 80), 2)
    return {"id": number, "status": status, "customer": {"id": number % 500, "country": place}, "amount": amount}


def write(bootstrap: str, ended: threading.Event) -> None:
    """Write orders, clicks and customers, about three hundred a second."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "log_level": 2, "client.id": "shop", "partitioner": "murmur2_random"}
    )
    number = 0
    while not ended.wait(0.1):
        for _ in range(20):
            number += 1
            producer.produce("orders", json.dumps(order(number)), key=f"c-{number % 500}", headers={"source": "shop"})
        for _ in range(10):
            producer.produce("clicks", json.dumps({"page": f"/p/{random.randrange(40)}", "ms": random.randrange(900)}))
        if number % 100 == 0:
            one = random.randrange(500)
            producer.produce(
                "customers", json.dumps({"id": one, "level": random.choice(("new", "gold"))}), key=f"c-{one}"
            )
        producer.poll(0)
    producer.flush(5)


def pay(bootstrap: str, ended: threading.Event) -> None:
    """Write payments in transactions, each open for two seconds, and dead letters."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "log_level": 2, "transactional.id": "payments-1", "client.id": "payments"}
    )
    letters = Producer({"bootstrap.servers": bootstrap, "log_level": 2, "client.id": "ledger"})
    producer.init_transactions(30)
    number = 0
    while not ended.is_set():
        producer.begin_transaction()
        for _ in range(10):
            number += 1
            producer.produce(
                "payments", json.dumps({"order": number, "card": f"4929-{number:04}-{number:04}-1111"}), key=str(number)
            )
        kind, said = random.choice(CAUSES)
        headers = {"topic": "payments", "partition": "0", "offset": str(number), "exception.class.name": kind}
        headers["exception.message"] = said.format(number)
        letters.produce(
            "payments.dlq",
            json.dumps({"order": number}),
            headers={f"__connect.errors.{k}": v for k, v in headers.items()},
        )
        letters.poll(0)
        ended.wait(2.0)
        producer.commit_transaction(30)
    letters.flush(5)


def read(bootstrap: str, ended: threading.Event, *, group: str, topic: str, per_s: float) -> None:
    """Read a topic in a group, so many records a second at most."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 2,
            "group.id": group,
            "client.id": f"{group}-1",
            "auto.offset.reset": "earliest",
        }
    )
    reader.subscribe([topic])
    while not ended.wait(0.1):
        reader.consume(max(1, int(per_s / 10)), timeout=0.2)
    reader.close()


def pipelines(bootstrap: str, folder: Path, processes: list[subprocess.Popen[str]]) -> list[str]:
    """Start a Connect worker with a connector, and a Streams application, beside `processes`; returns their addresses."""
    worker, views, pages = folder / "worker.properties", folder / "views.properties", folder / "pages.py"
    worker.write_text(WORKER.format(bootstrap=bootstrap, folder=folder))
    views.write_text(VIEWS)
    pages.write_text(PAGES)
    connect, connect_url = started("connect-standalone", str(worker), str(views), ready="ready ")
    processes.append(connect)
    streams, streams_url = started(
        *("streams", "run", str(pages), "--bootstrap-server", bootstrap, "--http", "0"),
        *("--property", f"state.dir={folder / 'state'}"),
        ready=SERVING,
    )
    processes.append(streams)
    return [connect_url.split()[0], streams_url.removesuffix("/status")]


def watch(bootstrap: str) -> None:
    """Make the rules of two alerts, as records of the topic that consoles follow."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    topic = NewTopic("__ottla_console_alerts", 1, config={"cleanup.policy": "compact"})
    admin.create_topics([topic])["__ottla_console_alerts"].result()
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2})
    for rule in ALERTS:
        producer.produce("__ottla_console_alerts", json.dumps(rule), key=f"rule {rule['name']}")
    producer.flush(10)


def leave(number: int, frame: object) -> None:
    """End the demo while it starts: what runs already is ended on the way."""
    if _held is not None:
        _held.append(number)
        return
    raise SystemExit(128 + number)


def main() -> int:
    """Run it all until a signal comes; returns the exit code."""
    ended = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, leave)
    processes: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryDirectory(prefix="ottla-console-") as folder:
        try:
            settings = ("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={Path(folder) / 'data'}")
            words = [word for each in settings for word in ("--override", each)]
            server, listener = started("server", "start", *words, ready="ready ")
            processes.append(server)
            bootstrap = listener.split()[0].rpartition("/")[2]
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
            for made in admin.create_topics([NewTopic(name, count) for name, count in TOPICS.items()]).values():
                made.result()
            registry, url = started(
                *("registry", "start", "--bootstrap-server", bootstrap, "--override", "listeners=http://127.0.0.1:0"),
                ready="ready ",
            )
            processes.append(registry)
            sql, sql_url = started(
                *("sql", "server", "--bootstrap-server", bootstrap, "--engine", "python"),
                *("--override", "listeners=http://127.0.0.1:0"),
                ready="ready ",
            )
            processes.append(sql)
            ask = [sys.executable, "-m", "ottla.cli.main", "sql", sql_url, "-e", STATEMENTS]
            subprocess.run(ask, check=True, capture_output=True)
            urls = pipelines(bootstrap, Path(folder), processes)
            watch(bootstrap)
            masks = json.dumps([{"topics": "payments", "path": "value.card", "how": "last4"}])
            console, link = started(
                *(
                    "console",
                    "--bootstrap-server",
                    bootstrap,
                    "--listen",
                    "127.0.0.1:0",
                    "--schema-registry",
                    url.split()[0],
                ),
                *("--override", f"ottla.console.masks={masks}"),
                *("--override", f"ottla.console.sql.url={sql_url}"),
                *("--override", f"ottla.console.connect.urls=connect={urls[0]}"),
                *("--override", f"ottla.console.streams.urls=clicks={urls[1]}"),
                *("--override", "ottla.console.alerts.targets=log=topic:alerts"),
                *("--override", "ottla.console.cost.stored.gb.month=0.10"),
                *("--override", "ottla.console.cost.written.gb=0.05"),
                *("--override", "ottla.console.cost.read.gb=0.05"),
                *("--override", "ottla.console.cost.currency=EUR"),
                ready="console ",
            )
            processes.append(console)
            work: list[Callable[[], None]] = [
                lambda: write(bootstrap, ended),
                lambda: pay(bootstrap, ended),
                lambda: read(bootstrap, ended, group="billing", topic="orders", per_s=1000),
                lambda: read(bootstrap, ended, group="reports", topic="orders", per_s=60),
                lambda: read(bootstrap, ended, group="recommendations", topic="clicks", per_s=1000),
            ]
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.signal(each, lambda *_: ended.set())
            threads = [threading.Thread(target=each) for each in work]
            for thread in threads:
                thread.start()
            print(
                f"console {link}\nThe brokers are at {bootstrap}, the registry at {url}. Ctrl+C ends it all.",
                flush=True,
            )
            ended.wait()
            for thread in threads:
                thread.join(40)
        finally:
            ended.set()
            for process in reversed(processes):
                end(process)
    return 0


if __name__ == "__main__":
    sys.exit(main())
