"""A PostgreSQL that has gone back: restored from an older copy, promoted too early, or another one at the same address."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import ConnectError
from ottla.connectors.cdc import capture_task
from tests.connectors.cdc.replay import begun, connected, logical_server, read_until_quiet, run_sql
from tests.connectors.contexts import Store, polled
from tests.waiting import until
from tools.postgres import PASSWORD, USER, PostgresServer, binaries

pytestmark = pytest.mark.timeout(180)
WHAT_TO_DO = r"Reset the connector's offsets to read the tables anew, or set snapshot.mode=when_needed"


@pytest.fixture
def own() -> Iterator[PostgresServer]:
    """A server of the test's own, whose files it copies."""
    with logical_server() as server:
        yield server


def copied(server: PostgresServer, name: str) -> Path:
    """Copy the files of a server that is stopped."""
    server.stop()
    where = server.folder / name
    subprocess.run(["cp", "-a", str(server.folder / "data"), str(where)], check=True)
    server.start()
    return where


def restored(server: PostgresServer, copy: Path) -> None:
    """Have the server begin again with the files of a copy."""
    server.kill()
    shutil.rmtree(server.folder / "data")
    copy.rename(server.folder / "data")
    server.start()


def ids(records: Any) -> list[Any]:
    return [each.value["after"]["id"] for each in records if each.value is not None]


def test_a_server_that_was_restored_from_an_older_copy_is_refused_and_read_anew_where_that_is_wanted(
    own: PostgresServer,
) -> None:
    database = own.new_database()
    run_sql(own, database, "create table t (id int primary key); insert into t values (1)")
    settings, store = {"topic.prefix": "back"}, Store()
    task = begun(own, database, store, **settings)
    assert ids(read_until_quiet(task, store, 0.2)) == [1]
    task.stop()
    copy = copied(own, "older")
    task = begun(own, database, store, **settings)
    run_sql(own, database, "insert into t select generate_series(2, 66); insert into t select generate_series(67, 70)")
    assert len(ids(read_until_quiet(task, store, 0.3))) == 69
    task.stop()
    restored(own, copy)
    with pytest.raises(ConnectError, match=rf"restored from an older copy.*{WHAT_TO_DO}"):
        begun(own, database, store, **settings)
    task = begun(own, database, store, **settings, **{"snapshot.mode": "when_needed"})
    assert ids(read_until_quiet(task, store, 0.2)) == [1]
    run_sql(own, database, "insert into t values (2)")
    assert ids(read_until_quiet(task, store, 0.3)) == [2]
    task.stop()


def test_a_server_that_goes_back_under_a_task_that_runs_ends_it(
    own: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)
    database = own.new_database()
    run_sql(own, database, "create table t (id int primary key)")
    task, store = begun(own, database, None, **{"topic.prefix": "under"}), Store()
    read_until_quiet(task, store, 0.2)
    copy = copied(own, "older")
    until(
        lambda: (
            (not task.poll() and run_sql(own, database, "insert into t select coalesce(max(id), 0) + 1 from t"))
            or ids(read_until_quiet(task, store, 0.1))
        ),
        "a change behind the copy",
    )
    restored(own, copy)
    with pytest.raises(ConnectError, match="restored from an older copy"):
        read_until_quiet(task, store, 5.0)
    task.stop()


def test_another_server_at_the_same_address_is_told_by_its_identifier(
    own: PostgresServer, server: PostgresServer
) -> None:
    name = own.new_database()
    run_sql(own, name, "create table t (id int primary key)")
    run_sql(server, "postgres", f"create database other_{name}")
    run_sql(server, f"other_{name}", "create table t (id int primary key)")
    store = Store()
    task = begun(own, name, store, **{"topic.prefix": "same"})
    run_sql(own, name, "insert into t values (1)")
    read_until_quiet(task, store, 0.2)
    task.stop()
    [offset] = store.offsets.values()
    assert "system_id" in offset and '"timeline": 1' in offset
    with pytest.raises(ConnectError, match=rf"The server is another one \(system identifier .*{WHAT_TO_DO}"):
        begun(server, f"other_{name}", store, **{"topic.prefix": "same"})


@contextmanager
def standby_of(server: PostgresServer) -> Iterator[PostgresServer]:
    """A standby that follows a server."""
    folder = binaries()
    assert folder is not None
    other = PostgresServer(server.folder / "standby", settings=server.settings)
    other.folder.mkdir()
    owner = server.folder.stat()
    shutil.chown(other.folder, owner.st_uid, owner.st_gid)
    url = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{server.port}/postgres"
    command = [str(folder / "pg_basebackup"), "-D", str(other.folder / "data"), "-R", "-c", "fast", "-d", url]
    subprocess.run(command, check=True, capture_output=True)
    for each in [other.folder / "data", *(other.folder / "data").rglob("*")]:
        shutil.chown(each, owner.st_uid, owner.st_gid)
    other.start()
    try:
        yield other
    finally:
        other.kill()


@pytest.mark.parametrize("behind", [False, True])
def test_a_standby_that_was_promoted_is_gone_on_with_only_where_it_has_all_that_was_told(
    own: PostgresServer, behind: bool
) -> None:
    database = own.new_database()
    run_sql(own, database, "create table t (id int primary key)")
    settings, store = {"topic.prefix": "promoted"}, Store()
    with standby_of(own) as standby:
        task = begun(own, database, store, **settings)
        run_sql(own, database, "insert into t values (1)")
        assert ids(read_until_quiet(task, store, 0.2)) == [1]
        until(lambda: replayed(standby, database) == [1], "the standby follows", every=0.02)
        if behind:
            standby.stop()
            run_sql(own, database, "insert into t values (2)")
            assert ids(read_until_quiet(task, store, 0.2)) == [2]
            own.kill()
            standby.start()
        task.stop()
        own.kill()
        with connected(standby, database) as connection:
            connection.execute("select pg_promote()")
            # a slot of this place, as a failover slot or an operator has it
            connection.execute("select pg_create_logical_replication_slot('slot_promoted', 'pgoutput')")
        run_sql(standby, database, "insert into t select generate_series(10, 500)")
        if behind:
            with pytest.raises(ConnectError, match=rf"on timeline 2 .* has left it at .*{WHAT_TO_DO}"):
                begun(standby, database, store, **settings)
            return
        # only the timeline is judged here: the slot that was made behind the offset is refused as such
        with pytest.raises(ConnectError, match="was read up to"):
            begun(standby, database, store, **settings)


def replayed(server: PostgresServer, database: str) -> list[int]:
    with connected(server, database) as connection:
        return [each for [each] in connection.execute("select id from t order by id").fetchall()]


def test_a_server_that_is_stopped_in_good_order_does_not_wait_for_a_capture_that_has_nothing_to_confirm(
    own: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.05)
    database = own.new_database()
    run_sql(own, database, "create table t (id int primary key); create table quiet (id int); insert into t values (1)")
    settings, store = {"topic.prefix": "ends", "table.include.list": "public.t"}, Store()
    task = begun(own, database, store, **settings, **{"publication.autocreate.mode": "filtered"})
    assert ids(read_until_quiet(task, store, 0.2)) == [1]
    run_sql(own, database, "insert into t values (2)")
    found = read_until_quiet(task, None, 0.2)
    run_sql(own, database, "insert into quiet select generate_series(1, 100)")
    process = own.process
    assert process is not None
    process.send_signal(signal.SIGINT)
    until(lambda: (found.extend(polled(task)), process.poll() is not None)[1], "the server's end")
    assert process.returncode == 0
    own.start()
    run_sql(own, database, "insert into t values (3)")
    until(lambda: (found.extend(polled(task)), 3 in ids(found))[1], "what came behind it")
    task.stop()
    assert ids(found) == [2, 3], "nothing of it was confirmed that was not told, and nothing came twice"
