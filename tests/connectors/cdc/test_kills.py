"""A database copied through a topic into another one by real workers on Spark, of which each is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.connect.rest.asked import ask_once
from tests.connect.rest.calls import Call
from tests.connectors.cdc.replay import connected, run_sql
from tests.ports import free_port
from tests.server import running_server
from tests.waiting import until
from tools.postgres import PASSWORD, USER, PostgresServer

pytestmark = pytest.mark.timeout(600)
PROPERTIES = """
group.id=w
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.topic=offsets
config.storage.topic=configs
status.storage.topic=status
offset.storage.replication.factor=1
config.storage.replication.factor=1
status.storage.replication.factor=1
offset.flush.interval.ms=300
"""
KILLS = 3


def begin_worker(folder: Path, bootstrap: str, port: int) -> subprocess.Popen[bytes]:
    """Start a worker in a process group of its own, which can be killed with its JVM."""
    path = folder / "worker.properties"
    path.write_text(f"bootstrap.servers={bootstrap}\nlisteners=http://127.0.0.1:{port}\n{PROPERTIES}")
    command = [sys.executable, "-m", "ottla.cli.main", "connect-distributed", str(path)]
    with (folder / "worker.out").open("ab") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, cwd=folder, start_new_session=True)


def kill(worker: subprocess.Popen[bytes]) -> None:
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def rows(server: PostgresServer, database: str) -> Any:
    """All customers of a database; why not where it has none."""
    try:
        with connected(server, database) as connection:
            return connection.execute("select id, name from customers order by id").fetchall()
    except psycopg.Error as error:
        return str(error)


@pytest.mark.slow  # four workers begin, each with a Spark of its own: a minute or two
def test_workers_that_are_killed_leave_a_copy_that_is_equal(tmp_path: Path, server: PostgresServer) -> None:
    port = free_port()
    with running_server(tmp_path, overrides=["group.initial.rebalance.delay.ms=0"]) as broker:
        source, target = server.new_database(), server.new_database()
        run_sql(server, source, "create table customers (id int primary key, name text)")
        run_sql(server, source, "insert into customers select g, 'n' || g from generate_series(1, 1000) g")
        worker = begin_worker(tmp_path, broker.bootstrap, port)
        try:
            for name, config in (("source", source_of(server, source)), ("sink", sink_of(server, target))):
                body = {"name": name, "config": config}
                call = Call("POST", "/connectors", body=body)
                until(lambda call=call: ask_once(port, call)["status"] in (201, 409), name, past=(OSError,))  # type: ignore[misc]
            until(lambda: len(rows(server, target)) == 1000, "the snapshot")
            for turn in range(KILLS):
                first = 10_000 * (turn + 1)
                run_sql(
                    server,
                    source,
                    f"insert into customers select g, 'k{turn}' from generate_series({first}, {first + 9000}) g; "
                    f"update customers set name = 'u{turn}' where id % 7 = {turn}",
                )
                kill(worker)
                run_sql(server, source, f"delete from customers where id % 11 = {turn}")
                worker = begin_worker(tmp_path, broker.bootstrap, port)
            until(lambda: rows(server, target) == rows(server, source), "an equal copy", seconds=240, every=0.5)
        finally:
            kill(worker)


def source_of(server: PostgresServer, database: str) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.dbname": database,
        "plugin.name": "pgoutput",
        "topic.prefix": "shop",
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    }


def sink_of(server: PostgresServer, database: str) -> dict[str, str]:
    return {
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "connection.url": server.jdbc_url(database),
        "connection.user": USER,
        "connection.password": PASSWORD,
        "topics": "shop.public.customers",
        "table.name.format": "customers",
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "pk.fields": "id",
        "delete.enabled": "true",
        "auto.create": "true",
    }
