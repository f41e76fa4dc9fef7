"""Sessions of the PostgreSQL source: what roles and databases have set changes nothing, and what ends them is told apart."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import ConnectError, SourceRecord
from ottla.connectors.cdc import capture_task
from ottla.connectors.cdc.sessions import PINNED, as_options
from tests.connectors.cdc.replay import as_facts, begun, connected, logical_server, read_until_quiet, run_sql
from tests.connectors.cdc.test_signals import SIGNALS, begun_with_signals, rows
from tests.connectors.contexts import Store, polled
from tests.waiting import until
from tools.postgres import PostgresServer

pytestmark = pytest.mark.timeout(180)
HOSTILE = {
    "client_encoding": "LATIN1",
    "datestyle": "German, DMY",
    "intervalstyle": "postgres_verbose",
    "timezone": "Asia/Kathmandu",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "lc_monetary": "de_DE.utf8",
    "quote_all_identifiers": "on",
    "standard_conforming_strings": "off",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "row_security": "on",
    "gin_fuzzy_search_limit": "1",
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "statement_timeout": "20",
    "lock_timeout": "1",
    "idle_in_transaction_session_timeout": "20",
    "idle_session_timeout": "20",
    "search_path": "hidden, pg_catalog, public",
}
"""Each of what a session pins, and a search path that has a table before one of the catalogue's."""
TABLE = (
    "create table t (k text primary key, d date default now(), ts timestamp, tz timestamptz, i interval, f float8, b bytea, "
    "m money, a text[], u text); create schema hidden; create table hidden.pg_class (oid oid, relname name)"
)
ROW = (
    "2026-11-30', '2026-11-30 10:20:30.5', '2026-11-30 10:20:30+02', '1 mon 2 days', 0.1::float8 + 0.2, '\\x00ff5c', "
    "'1234.56', array['a', null, 'NULL'], 'ü"
)


@pytest.fixture(scope="module")
def locales() -> Iterator[Path]:
    """A folder with locales that write money in other ways: a comma, and no digits behind it."""
    if shutil.which("localedef") is None:
        pytest.skip("localedef makes the locales, and is not there")
    folder = Path(tempfile.mkdtemp(prefix="ottla-locales-"))  # where the server's own user may read
    folder.chmod(0o755)
    for name in ("de_DE", "ja_JP"):
        made = subprocess.run(
            ["localedef", "-i", name, "-f", "UTF-8", str(folder / f"{name}.utf8")], check=False, capture_output=True
        )
        if not (folder / f"{name}.utf8").exists():
            pytest.skip(f"localedef makes no {name}: {made.stderr.decode()[-200:]}")
    for path in folder.rglob("*"):  # whatever umask this process has
        path.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def worldly(locales: Path) -> Iterator[PostgresServer]:
    """A server that has these locales."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCPATH", str(locales))
        with logical_server() as server:
            yield server


def values(records: list[SourceRecord]) -> list[Any]:
    """What the rows of a table have, each value as JSON has it."""
    [topic] = as_facts(records).values()
    return [each["value"]["after"] for each in topic if each["value"] is not None]


def insert(server: PostgresServer, database: str, key: str) -> None:
    with connected(server, database, options=as_options({**PINNED, "search_path": "public"})) as connection:
        connection.execute(f"insert into t values ('{key}', '{ROW}')".encode())


@pytest.fixture(scope="module")
def plain_rows(worldly: PostgresServer) -> list[Any]:
    """A snapshot's and the stream's row where nothing is hostile."""
    database = worldly.new_database()
    run_sql(worldly, database, TABLE)
    return captured(worldly, database, f"plain_{database}")


def captured(server: PostgresServer, database: str, name: str, **settings: str) -> list[Any]:
    insert(server, database, "read")
    task = begun(server, database, None, **{"topic.prefix": name, "table.include.list": "public.t", **settings})
    records = read_until_quiet(task, None, 0.3)
    insert(server, database, "written")
    records += read_until_quiet(task, None, 0.3)
    task.stop()
    return values(records)


def test_every_setting_that_is_pinned_is_tried_with_another_value() -> None:
    assert {*PINNED} == {*HOSTILE} - {"search_path"}
    assert all(PINNED[name] != HOSTILE[name] for name in PINNED)


@pytest.mark.parametrize("whose", ["role", "database"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_setting_of_a_role_or_a_database_changes_nothing_that_is_told(
    worldly: PostgresServer, plain_rows: list[Any], whose: str, name: str
) -> None:
    database = worldly.new_database()
    run_sql(worldly, database, TABLE)
    role = f"hostile_{database}"
    run_sql(worldly, database, f"create role {role} superuser login replication password 'r'")
    value = HOSTILE[name].replace("hidden, pg_catalog", "hidden, pg_catalog")
    quoted = ", ".join(f"'{each.strip()}'" for each in value.split(",")) if name == "search_path" else f"'{value}'"
    run_sql(worldly, "postgres", f"alter {whose} {role if whose == 'role' else database} set {name} = {quoted}")
    found = captured(worldly, database, f"hostile_{database}", **{"database.user": role, "database.password": "r"})
    assert found == plain_rows


def test_what_initial_statements_set_changes_nothing_that_is_told(
    worldly: PostgresServer, plain_rows: list[Any]
) -> None:
    database = worldly.new_database()
    run_sql(worldly, database, TABLE)
    # a session that is idle between two of these statements would be ended before the capture can set anything
    values = {**HOSTILE, "idle_session_timeout": "10s", "statement_timeout": "10s"}
    words = "; ".join(f"set {name} = '{values[name]}'" for name in PINNED if name != "client_encoding")
    found = captured(worldly, database, f"words_{database}", **{"database.initial.statements": words})
    assert found == plain_rows


@pytest.mark.parametrize("name", ["standard_conforming_strings", "datestyle", "search_path"])
def test_an_incremental_snapshot_finds_its_keys_whatever_is_set(worldly: PostgresServer, name: str) -> None:
    database = worldly.new_database()
    run_sql(
        worldly,
        database,
        f"{SIGNALS}; create table later (k text, at timestamptz, primary key (k, at)); create schema hidden; "
        "create table hidden.pg_class (oid oid, relname name); "
        "insert into later select 'a\\' || g || '''', '2026-11-30 10:20:30'::timestamptz + g * interval '1 day' "
        "from generate_series(1, 40) g",
    )
    quoted = "hidden, pg_catalog, public" if name == "search_path" else f"'{HOSTILE[name]}'"
    run_sql(worldly, "postgres", f"alter database {database} set {name} = {quoted}")
    task = begun_with_signals(worldly, database)
    with connected(worldly, database) as connection:
        connection.execute("set standard_conforming_strings = on")
        data = '{"data-collections": ["public.later"]}'
        connection.execute("insert into public.signals values ('s', 'execute-snapshot', %s)", (data,))
    found = rows(read_until_quiet(task, None, 0.4))
    task.stop()
    assert len(found) == len({each[2] for each in found}) == 40


@pytest.mark.parametrize(("locale", "amount"), [("de_DE.utf8", "1234.56"), ("ja_JP.utf8", "1235")])
def test_money_is_told_in_the_unit_of_its_databases_locale(worldly: PostgresServer, locale: str, amount: str) -> None:
    database = worldly.new_database()
    run_sql(worldly, "postgres", f"alter database {database} set lc_monetary = '{locale}'")
    run_sql(worldly, database, "create table t (id int primary key, m money)")
    run_sql(worldly, database, "insert into t values (1, 1234.56::numeric::money), (2, (-1234.56)::numeric::money)")
    task = begun(worldly, database, None, **{"topic.prefix": f"money_{database}"})
    records = read_until_quiet(task, None, 0.2)
    run_sql(worldly, database, "insert into t values (3, 1234.56::numeric::money)")
    records += read_until_quiet(task, None, 0.3)
    task.stop()
    found = [each.value["after"]["m"] for each in records]
    assert found == [Decimal(amount), -Decimal(amount), Decimal(amount)]


def test_a_policy_that_hides_rows_is_an_error_and_no_table_without_them(server: PostgresServer, database: str) -> None:
    role = f"seen_{database}"
    run_sql(
        server,
        database,
        "create table t (id int primary key); insert into t values (1), (2); alter table t enable row level security; "
        f"create policy p on t using (id = 1); create role {role} login replication password 'r'; "
        f"grant select on t to {role}; create publication pub_rls_{database} for all tables",
    )
    user = {"database.user": role, "database.password": "r", "publication.autocreate.mode": "disabled"}
    task = begun(server, database, None, **{"topic.prefix": f"rls_{database}", **user})
    with pytest.raises(ConnectError, match="row-level security policy"):
        read_until_quiet(task, None, 0.3)
    task.stop()


# -- what ends them


def ended(server: PostgresServer, database: str, application: str) -> None:
    """End the task's sessions of a kind, and wait until they are gone."""
    query = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and application_name = %s"
    with connected(server, database) as connection:
        until(lambda: not connection.execute(query, (database, application)).fetchall(), "sessions end", every=0.02)


def test_a_catalogue_connection_that_was_ended_while_idle_is_opened_anew(
    server: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.connectors.cdc")
    run_sql(server, database, "create table t (id int primary key)")
    settings = {"topic.prefix": f"idle_{database}", "snapshot.mode": "no_data", "heartbeat.interval.ms": "1"}
    query = "insert into t select coalesce(max(id), 100) + 1 from t where id >= 100"
    task = begun(server, database, None, **settings, **{"heartbeat.action.query": query})
    run_sql(server, database, "insert into t values (1)")
    read_until_quiet_of(task, lambda found: any(each.value["after"]["id"] == 1 for each in found))
    ended(server, database, "Debezium General")
    run_sql(server, database, "alter table t add v text; insert into t values (2, 'x')")
    found = read_until_quiet_of(task, lambda found: any(each.value["after"]["id"] == 2 for each in found))
    assert found[-1].value["after"]["v"] in ("x", None)
    task.stop()
    assert "has ended, and is opened anew" in caplog.text
    assert "trying again" not in caplog.text, "the stream is not hung up for it"


def read_until_quiet_of(task: Any, is_there: Any) -> list[SourceRecord]:
    found: list[SourceRecord] = []

    def read() -> bool:
        found.extend(each for each in polled(task) if (each.topic or "").endswith(".public.t"))
        return bool(is_there(found))

    until(read, "the rows", every=0)
    return found


def test_a_publication_that_was_dropped_ends_the_task_with_what_to_do(server: PostgresServer, database: str) -> None:
    run_sql(server, database, "create table t (id int primary key)")
    task = begun(server, database, None, **{"topic.prefix": f"drop_{database}", "snapshot.mode": "no_data"})
    run_sql(server, database, "insert into t values (1)")
    assert len(read_until_quiet(task, None, 0.2)) == 1
    run_sql(server, database, f"drop publication pub_drop_{database}; insert into t values (2)")
    with pytest.raises(ConnectError, match=r"(?s)does not exist.*42704.*drop the slot"):
        read_until_quiet(task, None, 2.0)
    task.stop()


def test_a_server_that_refuses_for_long_ends_the_task_and_one_that_is_away_does_not(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)
    role = f"gone_{database}"
    run_sql(
        server,
        database,
        f"create table t (id int primary key); create role {role} superuser login replication password 'r'",
    )
    user = {"database.user": role, "database.password": "r"}
    task = begun(server, database, None, **{"topic.prefix": f"gone_{database}", "snapshot.mode": "no_data", **user})
    assert task.poll() is None
    run_sql(server, database, f"alter role {role} password 'other'")
    for each in ("Debezium Streaming", "Debezium General"):
        ended(server, database, each)
    with pytest.raises(ConnectError, match=r"password authentication failed.*the server is there"):
        for _ in range(2 * capture_task.REFUSALS_MAX):
            task.poll()
    task.stop()


def test_initial_only_makes_no_slot_and_names_one_that_is_there(
    server: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(server, database, "create table t (id int primary key); insert into t values (1)")
    settings = {"topic.prefix": f"only_{database}", "snapshot.mode": "initial_only"}
    slot = f"slot_only_{database}"
    task, store = begun(server, database, None, **settings), Store()
    assert len(read_until_quiet(task, store, 0.2)) == 1
    task.stop()
    with connected(server, database) as connection:
        query = "select count(*) from pg_replication_slots where slot_name = %s"
        assert connection.execute(query, (slot,)).fetchone() == (0,)
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
    begun(server, database, store, **settings).stop()
    assert f"SELECT pg_drop_replication_slot('{slot}')" in caplog.text


def test_a_connector_that_moves_the_slot_itself_is_started_again(server: PostgresServer, database: str) -> None:
    run_sql(server, database, "create table t (id int primary key); create table other (id int)")
    settings = {
        "topic.prefix": f"driver_{database}",
        "lsn.flush.mode": "connector_and_driver",
        "publication.autocreate.mode": "filtered",
        "table.include.list": "public.t",
    }
    store = Store()
    for turn in (1, 2, 3):
        task = begun(server, database, store, **settings)
        run_sql(server, database, f"insert into t values ({turn})")
        told: list[SourceRecord] = []
        until(lambda told=told, task=task: told.extend(read_until_quiet(task, store, 0.2)) or told, "a row", every=0)  # type: ignore[misc]
        assert [each.value["after"]["id"] for each in told] == [turn]
        before = confirmed(server, database)
        run_sql(server, database, f"insert into other select generate_series({turn}, 100)")

        def moved(task: Any = task, before: int = before) -> bool:
            polled(task)
            task.context.store = store
            task.commit()
            return confirmed(server, database) > before

        until(moved, "the slot moves where nothing of its tables comes", every=0)
        task.stop()
        begun(server, database, store, **settings).stop()


def confirmed(server: PostgresServer, database: str) -> int:
    with connected(server, database) as connection:
        query = "select (confirmed_flush_lsn - '0/0')::bigint from pg_replication_slots where slot_name = %s"
        [[found]] = connection.execute(query, (f"slot_driver_{database}",)).fetchall()
    return int(found)


def test_a_snapshot_that_is_made_again_says_what_stays_in_the_topics(
    server: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(server, database, "create table t (id int primary key); insert into t values (1), (2)")
    settings = {"topic.prefix": f"again_{database}", "max.batch.size": "1"}
    task = begun(server, database, None, **settings)
    assert polled(task) and "was broken off" not in caplog.text
    task.stop()
    run_sql(server, database, "delete from t where id = 1")
    task = begun(server, database, None, **settings)
    assert "an earlier snapshot was broken off" in caplog.text
    task.stop()


def test_tables_that_are_parts_of_captured_ones_are_named(
    server: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(
        server,
        database,
        "create table w (id int primary key) partition by range (id); "
        "create table p partition of w default; insert into w values (1)",
    )
    begun(server, database, None, **{"topic.prefix": f"parts_{database}"}).stop()
    assert "Table public.w and its part public.p are both captured" in caplog.text


def test_a_server_that_answers_nothing_is_told_of_and_one_with_nothing_to_tell_is_well(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that sends is stopped, as by a machine that hangs: its connection stays, and nothing comes."""
    monkeypatch.setattr(capture_task, "SILENT_SECONDS_MAX", 1.0)
    run_sql(server, database, "create table t (id int primary key)")
    settings = {"topic.prefix": f"mute_{database}", "snapshot.mode": "no_data", "status.update.interval.ms": "50"}
    task = begun(server, database, None, **settings)
    run_sql(server, database, "insert into t values (1)")
    assert len(read_until_quiet(task, None, 0.2)) == 1
    with connected(server, database) as own:
        asked = "select active_pid from pg_replication_slots where slot_name = %s"
        [(sender,)] = own.execute(asked, [f"slot_mute_{database}"]).fetchall()
    os.kill(sender, signal.SIGSTOP)
    try:
        until(lambda: (polled(task), task.source_state().trouble)[1], every=0)
        assert "has not answered for" in (task.source_state().trouble or "")
    finally:
        os.kill(sender, signal.SIGCONT)
    until(lambda: (polled(task), task.source_state().trouble)[1] is None, every=0)
    state = task.source_state()
    assert state.waiting == 0 and state.facts["last_change_behind_ms"] >= 0
    task.stop()
