"""The SQL server that `bench.sql` asks: a process of its own with its hosts, beside a broker, and what both cost."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psutil

from bench.systems import Ottla
from ottla.client import BlockingClient
from tests.sql_server.running import SqlProcess, running_sql

__all__ = ["WAIT_SECONDS_MAX", "Server", "started"]

WAIT_SECONDS_MAX = 180.0
LOOK_SECONDS = 0.02
WARM_ROWS = 50
QUICK = ("group.initial.rebalance.delay.ms=0",)


class Server:
    """A server that runs; statements are sent as ksqlDB's clients do."""

    def __init__(self, sql: SqlProcess, bootstrap: str) -> None:
        self.sql, self.bootstrap = sql, bootstrap
        self._port = int(sql.url.rsplit(":", 1)[1])
        self._process = psutil.Process(sql.process.pid)

    def run(self, text: str, **properties: str) -> list[dict[str, Any]]:
        """Carry statements out; queries begin at the earliest records unless a property says otherwise."""
        return self.sql.ksql(text, **properties)

    def made(self, text: str, **properties: str) -> str:
        """Carry out a statement that begins a query; returns the query's id."""
        (answer,) = self.run(text, **properties)
        return str(answer["commandStatus"]["queryId"])

    def drop(self, kind: str, name: str) -> None:
        """Drop a result and its topic, and wait until its query has ended."""
        self.run(f"DROP {kind} {name} DELETE TOPIC;")

    def connection(self) -> http.client.HTTPConnection:
        """Return a connection that stays open."""
        return http.client.HTTPConnection("127.0.0.1", self._port)

    def committed(self, client: BlockingClient, query: str) -> int:
        """How many records a query has read and committed."""
        found = client.committed_offsets(f"_confluent-ksql-default_query_{query}")
        return sum(int(each.offset) for each in found.values())

    def metrics(self) -> Mapping[str, float]:
        """Return the server's metrics by name."""
        lines = str(self.sql.ask("GET", "/metrics").body).splitlines()
        return {name: float(value) for name, _, value in (each.rpartition(" ") for each in lines if each[0] != "#")}

    def wait_rows(self, text: str) -> None:
        """Return when a query has an answer."""
        until_s = time.monotonic() + WAIT_SECONDS_MAX
        while not self.sql.rows(text):
            assert time.monotonic() < until_s, f"{text} has no rows"
            time.sleep(LOOK_SECONDS)

    # -- what it costs: the server, its JVM and its hosts

    def processes(self) -> list[psutil.Process]:
        """Return the server's process and all below it."""
        every = [self._process, *self._process.children(recursive=True)]
        return [each for each in every if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]

    def cpu_seconds(self) -> float:
        """Return the processor time of the server alone."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def all_cpu_seconds(self) -> float:
        """Return the processor time of the server, its JVM and its hosts."""
        return float(sum(each.cpu_times().user + each.cpu_times().system for each in self.processes()))

    def memory_mib(self) -> float:
        """Return the memory of all of them, what they share counted once."""
        return float(sum(each.memory_full_info().pss for each in self.processes()) / (1 << 20))


@contextmanager
def started(engine: str, hosts: int) -> Iterator[Server]:
    """Have a broker and a server there for the length of a block, whose hosts run."""
    broker = Ottla("ottla", Path(mkdtemp(prefix="ottla-bench-sql-")), overrides=QUICK)
    broker.start()
    try:
        overrides = (f"ottla.sql.hosts={hosts}",)
        with running_sql(broker.bootstrap, options=("--engine", engine), overrides=overrides) as sql:
            server = Server(sql, broker.bootstrap)
            _warm(server)
            yield server
    finally:
        broker.stop()


def _warm(server: Server) -> None:
    """Return when a first query has answered in every partition: the hosts are there, all of them."""
    server.run(
        "CREATE STREAM WARM (ID STRING KEY, V INT) WITH (KAFKA_TOPIC='warm', VALUE_FORMAT='JSON', PARTITIONS=8);"
        + "".join(f"INSERT INTO WARM VALUES ('key-{number}', 1);" for number in range(WARM_ROWS))
    )
    server.run("CREATE STREAM WARM_R AS SELECT * FROM WARM;")
    until_s = time.monotonic() + WAIT_SECONDS_MAX
    while len(server.sql.rows("SELECT * FROM WARM_R;")) < WARM_ROWS:
        assert time.monotonic() < until_s, "the hosts are not there"
        time.sleep(LOOK_SECONDS)
    server.drop("STREAM", "WARM_R")


def asked(connection: http.client.HTTPConnection, text: str) -> bytes:
    """Ask a query over a connection that stays open."""
    body = json.dumps({"sql": text, "properties": {}})
    connection.request("POST", "/query-stream", body, {"Accept": "application/json"})
    return connection.getresponse().read()
