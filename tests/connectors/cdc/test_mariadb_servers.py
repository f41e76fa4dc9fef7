"""The MariaDB source and servers: one that stands in for another by GTIDs, and one that is reached by TLS."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.cdc.mariadb_replay import begun, connected, read, run_sql
from tests.connectors.contexts import Store
from tests.waiting import until
from tools.mariadb import CAPTURED, PASSWORD, USER, MariaDbServer, missing, private_server

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]
SETTINGS = {"topic.prefix": "p", "database.include.list": "d", "include.schema.changes": "false"}


def rows_of(server: MariaDbServer) -> Any:
    try:
        with connected(server, "d") as connection, connection.cursor() as cursor:
            cursor.execute("select count(*) from t")
            return cursor.fetchone()
    except Exception as error:  # not there yet, whatever the server says
        return str(error)


def numbers(records: Any) -> list[tuple[str, int]]:
    return [(each.value["op"], each.value["after"]["id"]) for each in records]


def test_a_replica_stands_in_for_its_server_by_gtids(tmp_path: Path) -> None:
    replica_options = [each for each in CAPTURED if not each.startswith("--server-id")]
    with (
        private_server() as server,
        private_server([*replica_options, "--server-id=2", "--log-slave-updates", "--log-bin=other"]) as replica,
    ):
        run_sql(
            replica,
            f"set global gtid_slave_pos = ''; change master to master_host = '127.0.0.1', master_port = {server.port}, "
            f"master_user = '{USER}', master_password = '{PASSWORD}', master_use_gtid = slave_pos; start slave",
        )
        run_sql(server, "create database d; create table d.t (id int primary key); insert into d.t values (1)")
        history, store = tmp_path / "history", Store()
        task = begun(server, history, store, **SETTINGS)
        assert numbers(read(task, 1, store)) == [("r", 1)]
        run_sql(server, "begin; insert into d.t values (2), (3); insert into d.t values (4); commit")
        told = read(task, 3)
        store.take(told[:2])  # within the transaction, which the replica may have cut otherwise
        task.stop()
        run_sql(server, "alter table d.t add column v int; insert into d.t values (5, 5)")
        until(lambda: rows_of(replica) == (5,), lambda: f"the replica's rows: {rows_of(replica)}")
        task = begun(replica, history, store, **SETTINGS)
        found = read(task, 4)
        task.stop()
        assert numbers(found) == [("c", 2), ("c", 3), ("c", 4), ("c", 5)]
        assert found[-1].value["after"]["v"] == 5 and found[-1].value["source"]["file"].startswith("other")


def test_tls_is_spoken_and_a_task_stops_at_once(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    options = [f"--ssl-cert={certificate}", f"--ssl-key={key}", "--require-secure-transport=OFF"]
    with private_server([*CAPTURED, *options]) as server:
        run_sql(
            server,
            f"create database d; create table d.t (id int primary key); alter user {USER}@'127.0.0.1' require ssl",
        )
        own = {"database.ssl.mode": "verify-full", "database.ssl.ca": str(certificate)}
        task = begun(server, tmp_path / "history", None, **SETTINGS, **own)
        read(task, 1)
        with connected_by_tls(server, certificate) as connection, connection.cursor() as cursor:
            cursor.execute("insert into d.t values (1)")
        assert numbers(read(task, 1)) == [("c", 1)]
        task.stop()
        with pytest.raises(AssertionError, match="Access denied"):
            begun(server, tmp_path / "history", None, **SETTINGS, **{"database.ssl.mode": "disabled"})


def connected_by_tls(server: MariaDbServer, certificate: Path) -> Any:
    import pymysql

    return pymysql.connect(
        host="127.0.0.1",
        port=server.port,
        user=USER,
        password=PASSWORD,
        ssl_ca=str(certificate),
        autocommit=True,
    )
