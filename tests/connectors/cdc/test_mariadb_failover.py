"""A capture goes on from a replica by GTIDs when its server has died; what the replica lacks is an error, never left out."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from ottla.connect import ConnectError, SourceRecord
from ottla.connectors.cdc import capture_task
from tests.connectors.cdc.mariadb_replay import begun, connected, read, run_sql
from tests.connectors.cdc.replay import read_until_quiet
from tests.connectors.contexts import Store
from tests.waiting import until
from tools.mariadb import CAPTURED, PASSWORD, USER, MariaDbServer, missing, private_server

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]
SETTINGS = {"topic.prefix": "p", "database.include.list": "d", "include.schema.changes": "false"}
QUIET_SECONDS = 0.4
MADE = "create database d; create table d.t (id int primary key, v int)"
LACKS = "The server does not have {}, behind which the connector goes on"


@contextmanager
def pair() -> Iterator[tuple[MariaDbServer, MariaDbServer]]:
    """Run a server and its replica, by GTIDs and with a binlog of its own."""
    options = [each for each in CAPTURED if not each.startswith("--server-id")]
    with (
        private_server() as server,
        private_server([*options, "--server-id=2", "--log-slave-updates", "--log-bin=other"]) as replica,
    ):
        follow(replica, server)
        yield server, replica


def follow(replica: MariaDbServer, server: MariaDbServer, behind: str = "") -> None:
    """Have a server replicate another, from behind GTIDs on."""
    run_sql(
        replica,
        f"set global gtid_slave_pos = '{behind}'; change master to master_host = '127.0.0.1', "
        f"master_port = {server.port}, master_user = '{USER}', master_password = '{PASSWORD}', "
        "master_use_gtid = slave_pos; start slave",
    )


def asked(server: MariaDbServer, query: str) -> Any:
    with connected(server) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def caught_up(replica: MariaDbServer, server: MariaDbServer) -> None:
    """Wait until a replica has done all that its server has."""
    [[wanted]] = asked(server, "select @@gtid_binlog_pos")
    until(
        lambda: asked(replica, "select @@gtid_slave_pos") == ((wanted,),),
        lambda: f"{wanted}: {asked(replica, 'show slave status')}",
    )


def changes(records: list[SourceRecord]) -> list[tuple[str, int, int | None]]:
    """What has become of which row, in order."""
    found = []
    for each in records:
        if each.value is not None and "op" in each.value:
            op, row = each.value["op"], each.value["after"] or each.value["before"]
            found.append((op, row["id"], row["v"]))
    return found


def write(server: MariaDbServer, first: int, last: int, seed: int = 5) -> list[tuple[str, int, int | None]]:
    """Write transactions of one to four changes, each of another row or value; returns the changes."""
    chance, made = random.Random(seed), []
    with connected(server, "d") as connection, connection.cursor() as cursor:
        at = first
        while at <= last:
            cursor.execute("begin")
            for id_ in range(at, min(at + chance.randint(1, 4), last + 1)):
                cursor.execute("insert into t (id, v) values (%s, %s)", (id_, 0))
                made.append(("c", id_, 0))
                at = id_ + 1
            if chance.random() < 0.4:
                cursor.execute("update t set v = %s where id = %s", (at, first))
                made.append(("u", first, at))
            cursor.execute("commit")
    return made


def stored(told: list[SourceRecord], count: int) -> Store:
    """Return the offsets of who has stored so many records."""
    store = Store()
    store.take(told[:count])
    return store


def going_on(
    server: MariaDbServer, folder: Path, store: Store, *, at_least: int = 0, to: int | None = None, **settings: str
) -> list[SourceRecord]:
    """Begin a task behind what is stored, and return what it reads: so many changes or more, and one of row `to`."""
    task = begun(server, folder / "history", store, **{**SETTINGS, **settings})
    found: list[SourceRecord] = []

    def enough() -> bool:
        records = task.poll() or []
        found.extend(records)
        store.take(records)
        told = [id_ for _, id_, _ in changes(found)]
        return len(told) >= at_least and (to is None or to in told)

    try:
        until(enough, lambda: f"{at_least} changes and row {to} behind {changes(found)[-5:]}")
        return found + read_until_quiet(task, store, QUIET_SECONDS)
    finally:
        task.stop()


@pytest.mark.slow
def test_wherever_a_capture_was_cut_it_goes_on_from_the_replica_with_every_committed_change(tmp_path: Path) -> None:
    with pair() as (server, replica):
        run_sql(server, MADE)
        store = Store()
        task = begun(server, tmp_path / "history", store, **SETTINGS)
        first = read(task, 1, store)  # the heartbeat behind a snapshot without rows
        made = write(server, 1, 20)
        told = first + read(task, len(made))
        task.stop()
        made += write(server, 21, 40)
        run_sql(server, "alter table d.t add column w int default 7, drop primary key, add primary key (id)")
        made += write(server, 41, 60)
        run_sql(replica, "set global read_only = on")
        caught_up(replica, server)
        server.kill()
        run_sql(replica, "stop slave; reset slave all; set global read_only = off")
        made += write(replica, 61, 70)
        assert changes(told) == made[: len(changes(told))]
        for count in (1, 2, len(told) // 3, len(told) // 2, len(told) - 1, len(told)):
            before = changes(told[:count])
            left = len(made) - len(before)
            rest = changes(going_on(replica, tmp_path, stored(told, count), at_least=left))
            again = len(before) + len(rest) - len(made)  # what a transaction had done that was told in part
            assert 0 <= again <= 5 and before[: len(before) - again] + rest == made, f"{count} records were stored"
            assert {each.value["source"]["server_id"] for each in told[1:]} == {1}


@pytest.mark.slow
def test_a_replica_that_is_behind_is_an_error_until_it_has_caught_up(tmp_path: Path) -> None:
    with pair() as (server, replica):
        run_sql(server, f"{MADE}; insert into d.t values (1, 1)")
        store = Store()
        task = begun(server, tmp_path / "history", store, **SETTINGS)
        told = read(task, 1, store)
        caught_up(replica, server)
        run_sql(replica, "stop slave sql_thread")
        run_sql(server, "insert into d.t values (2, 2); insert into d.t values (3, 3)")
        told += read(task, 2, store)
        task.stop()
        [[last]] = asked(server, "select @@gtid_binlog_pos")
        run_sql(server, "insert into d.t values (4, 4)")
        [[end]] = asked(server, "select @@gtid_binlog_pos")
        until(lambda: end in str(asked(replica, "show slave status")), "the relay log")
        server.kill()
        kept = dict(store.offsets)
        with pytest.raises(ConnectError, match=LACKS.format(last)):
            begun(replica, tmp_path / "history", store, **SETTINGS)
        assert store.offsets == kept
        run_sql(replica, "start slave sql_thread")
        until(lambda: asked(replica, "select @@gtid_slave_pos") == ((end,),), "the replica")
        assert changes(going_on(replica, tmp_path, store, at_least=1)) == [("c", 4, 4)], (
            "what the server had told nobody else"
        )


@pytest.mark.slow
def test_a_replica_that_went_another_way_is_an_error_or_read_anew(tmp_path: Path) -> None:
    with pair() as (server, replica):
        run_sql(server, f"{MADE}; insert into d.t values (1, 1)")
        store = Store()
        task = begun(server, tmp_path / "history", store, **SETTINGS)
        told = read(task, 1, store)
        caught_up(replica, server)
        run_sql(replica, "stop slave; reset slave all")
        run_sql(server, "insert into d.t values (2, 2)")
        told += read(task, 1, store)
        task.stop()
        [[last]] = asked(server, "select @@gtid_binlog_pos")
        server.kill()
        write(replica, 11, 30)
        with pytest.raises(ConnectError, match=LACKS.format(last)):
            begun(replica, tmp_path / "history", store, **SETTINGS)
        unknown = stored(told, 1)
        [(name, text)] = unknown.offsets.items()
        offset = json.loads(text)
        unknown.offsets[name] = json.dumps({**offset, "gtids": f"{offset['gtids']},7-9-3"})
        with pytest.raises(ConnectError, match=LACKS.format("7-9-3")):
            begun(replica, tmp_path / "history", unknown, **SETTINGS)
        excluded = going_on(replica, tmp_path, unknown, to=30, **{"gtid.source.excludes": "7-.*"})
        assert [id_ for op, id_, _ in changes(excluded) if op == "c"] == [*range(11, 31)]
        anew = going_on(replica, tmp_path, store, to=30, **{"snapshot.mode": "when_needed"})
        assert [(op, id_) for op, id_, _ in changes(anew)] == [("r", each) for each in (1, *range(11, 31))]


@pytest.mark.slow
def test_a_server_made_of_a_copy_goes_on_behind_the_copy_and_what_its_binlog_has_not_is_an_error(
    tmp_path: Path,
) -> None:
    with pair() as (server, replica):
        run_sql(server, f"{MADE}; insert into d.t values (1, 1)")
        store = Store()
        task = begun(server, tmp_path / "history", store, **SETTINGS)
        told = read(task, 1, store)
        run_sql(server, "insert into d.t values (2, 2); insert into d.t values (3, 3)")
        told += read(task, 2, store)
        caught_up(replica, server)
        [[copied]] = asked(server, "select @@gtid_binlog_pos")
        task.stop()
        copy = f"reset master; set global gtid_slave_pos = '{copied}'"  # as a copy of the tables leaves it
        run_sql(replica, f"stop slave; reset slave all; {copy}")
        assert changes(going_on(replica, tmp_path, stored(told, 3))) == []
        with pytest.raises(ConnectError, match="The server does not have"):
            going_on(replica, tmp_path, stored(told, 2), at_least=1)
        run_sql(replica, "insert into d.t values (4, 4)")
        assert changes(going_on(replica, tmp_path, stored(told, 3), at_least=1)) == [("c", 4, 4)]
        with pytest.raises(ConnectError, match="The server does not have"):
            going_on(replica, tmp_path, stored(told, 2), at_least=1)
        run_sql(replica, copy)
        follow(replica, server, copied)
        run_sql(server, "insert into d.t values (5, 5)")
        caught_up(replica, server)
        for count in (2, 3):  # its binlog begins behind both, and says not behind which
            with pytest.raises(ConnectError, match="is missing the GTID"):
                going_on(replica, tmp_path, stored(told, count), at_least=1)


@pytest.mark.slow
def test_a_task_whose_address_another_server_takes_goes_on_or_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)
    with pair() as (server, replica):
        run_sql(server, f"{MADE}; insert into d.t values (1, 1)")
        task = begun(server, tmp_path / "history", None, **SETTINGS)
        read(task, 1)
        run_sql(server, "insert into d.t values (2, 2)")
        assert changes(read(task, 1)) == [("c", 2, 2)]
        run_sql(server, "insert into d.t values (3, 3)")
        caught_up(replica, server)
        server.kill()
        replica.stop()
        own, replica.port = replica.port, server.port
        replica.options = [*replica.options, "--skip-slave-start"]
        replica.start()
        run_sql(replica, "insert into d.t values (4, 4)")
        assert changes(read(task, 2)) == [("c", 3, 3), ("c", 4, 4)]
        replica.stop()
        replica.port = own
        server.start()  # it comes back without what was done meanwhile
        with pytest.raises(ConnectError, match=LACKS.format(r"0-2-\d+")):
            read(task, 1)
        task.stop()


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(3))
def test_a_server_killed_while_it_is_written_to_leaves_all_that_its_replica_has_or_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, round_: int
) -> None:
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)
    with pair() as (server, replica):
        run_sql(server, MADE)
        store = Store()
        task = begun(server, tmp_path / "history", store, **SETTINGS)
        told = read(task, 1, store)
        writer = threading.Thread(target=written_until_it_dies, args=(server,))
        writer.start()
        while len(told) < 300 * (round_ + 1):
            polled = task.poll() or []
            told += polled
            store.take(polled)
        server.kill()
        writer.join()
        task.stop()
        caught_up_with_relay_log(replica)
        run_sql(replica, "stop slave; reset slave all; insert into d.t values (-1, -1)")
        [[rows]] = asked(replica, "select count(*) from d.t where id > 0")
        told_ids = [id_ for _, id_, _ in changes(told)]
        assert told_ids == [*range(1, len(told_ids) + 1)]
        if len(told_ids) > rows:
            with pytest.raises(ConnectError, match="The server does not have"):
                begun(replica, tmp_path / "history", store, **SETTINGS)
            return
        rest = [id_ for _, id_, _ in changes(going_on(replica, tmp_path, store, to=-1))]
        again = len(told_ids) + len(rest) - 1 - rows
        assert 0 <= again < 3 and told_ids[: len(told_ids) - again] + rest == [*range(1, rows + 1), -1]


def written_until_it_dies(server: MariaDbServer) -> None:
    """Write transactions of three rows until the server is gone."""
    at = 1
    with contextlib.suppress(pymysql.err.Error), connected(server, "d") as connection, connection.cursor() as cursor:
        while True:
            cursor.execute("insert into t values (%s, 0), (%s, 0), (%s, 0)", (at, at + 1, at + 2))
            at += 3


def caught_up_with_relay_log(replica: MariaDbServer) -> None:
    """Wait until a replica has done all that it got from a server that is dead."""
    with connected(replica) as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:

        def is_done() -> bool:
            cursor.execute("show slave status")
            status = cursor.fetchone() or {}
            return bool(
                status["Slave_IO_Running"] != "Yes" and "read all relay log" in status["Slave_SQL_Running_State"]
            )

        until(is_done, "the relay log")
