"""A MariaDB database copied through a topic into another one by workers that are killed, in streams and in snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.connect.rest.asked import ask_once
from tests.connect.rest.calls import Call
from tests.connectors.cdc.mariadb_replay import connected, run_sql
from tests.connectors.cdc.test_kills import begin_worker, kill
from tests.ports import free_port
from tests.server import running_server
from tests.waiting import until
from tools.mariadb import PASSWORD, USER, MariaDbServer, missing, private_server

pytestmark = pytest.mark.timeout(600)
KILLS = 3
ROWS = 9000


def rows(server: MariaDbServer, database: str) -> Any:
    """All customers of a database; why not where it has none."""
    try:
        with connected(server, database) as connection, connection.cursor() as cursor:
            cursor.execute("select id, name from customers order by id")
            return cursor.fetchall()
    except pymysql.err.Error as error:
        return str(error)


@pytest.mark.slow  # four workers begin, each with a Spark of its own: a minute or two
def test_workers_that_are_killed_leave_a_copy_that_is_equal(tmp_path: Path) -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    port = free_port()
    with (
        private_server() as server,
        running_server(tmp_path, overrides=["group.initial.rebalance.delay.ms=0"]) as broker,
    ):
        run_sql(server, "create database source; create database target")
        run_sql(server, "create table customers (id int primary key, name text)", "source")
        run_sql(
            server, "create table signals (id varchar(42) primary key, type varchar(32), data varchar(2048))", "source"
        )
        run_sql(server, "insert into customers select seq, concat('n', seq) from seq_1_to_1000", "source")
        worker = begin_worker(tmp_path, broker.bootstrap, port)
        try:
            for name, config in (("source", source_of(server, broker.bootstrap)), ("sink", sink_of(server))):
                call = Call("POST", "/connectors", body={"name": name, "config": config})
                until(lambda call=call: ask_once(port, call)["status"] in (201, 409), name, past=(OSError,))  # type: ignore[misc]
            until(lambda: len(rows(server, "target")) == 1000, "the snapshot")
            for turn in range(KILLS):
                first = 10_000 * (turn + 1)
                run_sql(  # one transaction, which is being read when the worker is killed
                    server,
                    f"begin; insert into customers (id, name) select seq, 'k{turn}' from seq_{first}_to_{first + ROWS}; "
                    f"update customers set name = 'u{turn}' where id % 7 = {turn}; commit",
                    "source",
                )
                run_sql(  # read in chunks beside it, of which some are read when the worker is killed
                    server,
                    f"insert into signals values ('s{turn}', 'execute-snapshot', "
                    """'{"data-collections": ["source.customers"]}')""",
                    "source",
                )
                until(lambda first=first: reached(server, first), "a part of the transaction")  # type: ignore[misc]
                kill(worker)
                run_sql(
                    server,
                    f"delete from customers where id % 11 = {turn}; alter table customers add column c{turn} int first; "
                    f"update customers set c{turn} = 1 where id = 1",
                    "source",
                )
                worker = begin_worker(tmp_path, broker.bootstrap, port)
            until(lambda: rows(server, "target") == rows(server, "source"), "an equal copy", seconds=240, every=0.5)
        finally:
            kill(worker)


def reached(server: MariaDbServer, first: int) -> bool:
    """Whether the copy has some of the rows from a number on."""
    return any(number >= first for number, _ in rows(server, "target"))


def source_of(server: MariaDbServer, bootstrap: str) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.include.list": "source",
        "topic.prefix": "shop",
        "schema.history.internal.kafka.topic": "schema-history",
        "schema.history.internal.kafka.bootstrap.servers": bootstrap,
        "include.schema.changes": "false",
        "max.batch.size": "500",
        "signal.data.collection": "source.signals",
        "incremental.snapshot.chunk.size": "100",
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    }


def sink_of(server: MariaDbServer) -> dict[str, str]:
    return {
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "connection.url": f"jdbc:mariadb://127.0.0.1:{server.port}/target",
        "connection.user": USER,
        "connection.password": PASSWORD,
        "topics": "shop.source.customers",
        "table.name.format": "customers",
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "pk.fields": "id",
        "delete.enabled": "true",
        "auto.create": "true",
        "auto.evolve": "true",
    }
