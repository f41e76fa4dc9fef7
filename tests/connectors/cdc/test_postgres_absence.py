"""What counts as a server that is away, and is tried again; and what an operator has to change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.connect import ConnectError
from ottla.connectors.cdc import capture_task
from ottla.connectors.cdc.replication import ServerAwayError, ServerLacksError, ServerSaysError, asking_error
from ottla.connectors.cdc.server import opened_catalog, plain_settings
from ottla.connectors.cdc.settings import POSTGRES_DEF
from tests.connectors.cdc.replay import begun, connected, read_until_quiet, run_sql
from tests.connectors.cdc.test_signals import SIGNALS, begun_with_signals, signal
from tests.connectors.contexts import Store, polled
from tests.waiting import until
from tools.postgres import PASSWORD, USER, PostgresServer, missing, private_cluster

pytestmark = pytest.mark.timeout(180)
TABLES = 900
"""More than the small server has locks for."""


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("08006", ServerAwayError), ("40001", ServerAwayError), ("40P01", ServerAwayError), ("53300", ServerAwayError),
        ("57014", ServerAwayError), ("57P01", ServerAwayError), ("57P03", ServerAwayError), ("57P05", ServerAwayError),
        ("53000", ServerLacksError), ("53100", ServerLacksError), ("53200", ServerLacksError),
        ("53400", ServerLacksError), ("25006", ServerSaysError), ("42704", ServerSaysError), ("55000", ServerSaysError),
        ("55P03", ServerSaysError), ("58P01", ServerSaysError), ("XX000", ServerSaysError), (None, ServerSaysError),
    ],
)  # fmt: skip
def test_each_class_of_errors_passes_or_is_for_an_operator(code: str | None, kind: type[ConnectError]) -> None:
    assert type(asking_error("words", code, is_lost=False)) is kind
    assert type(asking_error("words", code, is_lost=True)) is ServerAwayError


@pytest.fixture(scope="module")
def small() -> Iterator[PostgresServer]:
    """A server with few locks, and a database with more tables than that."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    few = {"max_locks_per_transaction": "10", "max_connections": "6", "superuser_reserved_connections": "0"}
    with private_cluster({"wal_level": "logical", "max_wal_senders": "3", **few}) as found:
        run_sql(found, "postgres", f"{SIGNALS}; create table t (id int primary key); insert into t values (1)")
        with connected(found, "postgres") as connection:
            for each in range(TABLES):
                connection.execute(f"create table many_{each} ()".encode())
        yield found


def test_a_snapshot_of_a_signal_for_which_locks_lack_is_given_up_with_what_to_do_and_the_stream_goes_on(
    small: PostgresServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)
    store = Store()
    task = begun_with_signals(small, "postgres", store, **{"snapshot.mode": "no_data"})
    read_until_quiet(task, store, 0.2)
    signal(small, "postgres", "execute-snapshot", data_collections=["public.many_.*"], type="blocking")
    run_sql(small, "postgres", "insert into t values (2)")
    found: list[Any] = []
    until(lambda: found.extend(polled(task)) or "is ended" in caplog.text, "an end of the tries", every=0)
    until(lambda: found.extend(polled(task)) or any("many" not in r.topic and "t" in r.topic for r in found), every=0)
    task.stop()
    tries = [each.getMessage() for each in caplog.records if "trying again" in each.getMessage()]
    assert len(tries) == capture_task.LACKS_MAX
    [error] = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert "set max_locks_per_transaction higher" in error and "many_0" in error


def test_a_first_snapshot_for_which_locks_lack_says_what_to_do(small: PostgresServer) -> None:
    with pytest.raises(ServerLacksError, match="set max_locks_per_transaction higher"):
        begun(small, "postgres", None, **{"topic.prefix": "first"})


def test_a_stream_that_is_short_of_something_each_time_ends_after_few_tries_and_says_what_to_do(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)
    run_sql(server, database, "create table t (id int primary key)")
    short = "do $$ begin raise exception 'no room' using errcode = '53100'; end $$"
    settings = {"heartbeat.interval.ms": "1", "heartbeat.action.query": short, "slot.retry.delay.ms": "100"}
    task = begun(server, database, None, **{"topic.prefix": f"room_{database}", **settings})
    with pytest.raises(ConnectError, match=r"(?s)no room.*make room on it \(tried 6 times\)"):
        until(lambda: task.poll() and None, every=0)
    task.stop()


def test_a_chunk_that_is_short_of_something_each_time_is_given_up_and_the_stream_goes_on(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)
    run_sql(server, database, f"{SIGNALS}; create table later (id int primary key); insert into later values (1)")
    with connected(server, database) as connection:
        connection.execute(
            "create function full_disk() returns trigger language plpgsql as $$ begin if new.type like 'snapshot-%' then "
            "raise exception 'no room' using errcode = '53100'; end if; return new; end $$"
        )
        connection.execute("create trigger t before insert on signals for each row execute function full_disk()")
    store = Store()
    settings = {"snapshot.mode": "no_data", "slot.retry.delay.ms": "100", "skipped.operations": "c"}  # nothing is told
    task = begun_with_signals(server, database, store, **settings)
    read_until_quiet(task, store, 0.2)
    for count in (1, 2):  # the tries of one are not those of the next, nor the stream's own
        signal(server, database, "execute-snapshot", data_collections=["public.later"])
        ended = "The incremental snapshot is ended"
        until(lambda: (polled(task) and None) or caplog.text.count(ended) == count, every=0)  # noqa: B023
    run_sql(server, database, "update later set id = 2")
    until(lambda: any("later" in each.topic for each in polled(task)), "the stream", every=0)
    task.stop()


@pytest.mark.parametrize("what", ["the stream", "the catalogue"])
def test_a_statement_of_the_captures_that_somebody_cancels_is_tried_again(
    server: PostgresServer, database: str, what: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)
    run_sql(server, database, "create table t (id int primary key)")
    settings = {"topic.prefix": f"cancel_{database}", "snapshot.mode": "no_data", "slot.retry.delay.ms": "100"}
    if what == "the catalogue":
        cancel = "select pg_cancel_backend(pg_backend_pid())"
        query = f"do $$ begin if not exists (select from t where id = 2) then perform ({cancel}); end if; end $$"
        settings |= {"heartbeat.interval.ms": "1", "heartbeat.action.query": query}
    task = begun(server, database, None, **settings)
    if what == "the stream":
        read_until_quiet(task, None, 0.2)
        run_sql(
            server,
            database,
            f"select pg_cancel_backend(active_pid) from pg_replication_slots where database = '{database}'",
        )
    found: list[Any] = []
    until(lambda: found.extend(polled(task)) or "canceling statement due to user request" in caplog.text, every=0)
    run_sql(server, database, "insert into t values (2)")
    until(lambda: found.extend(polled(task)) or any(each.topic.endswith(".t") for each in found), "the row", every=0)
    task.stop()


def test_a_server_that_is_away_when_offsets_are_looked_at_does_not_have_the_slot_dropped(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.connectors.cdc import source_task

    run_sql(server, database, "create table t (id int primary key); insert into t values (1)")
    settings, store = {"topic.prefix": f"when_{database}", "snapshot.mode": "when_needed"}, Store()
    task = begun(server, database, store, **settings)
    read_until_quiet(task, store, 0.2)
    task.stop()

    def away(*given: Any) -> int:
        raise ServerAwayError("gone")

    with monkeypatch.context() as patched, pytest.raises(ServerAwayError):
        patched.setattr(source_task, "prepared_slot", away)
        begun(server, database, store, **settings)
    task = begun(server, database, store, **settings)
    assert read_until_quiet(task, store, 0.2) == [], "the slot was there, and nothing is read anew"
    task.stop()


def test_a_server_with_too_many_connections_is_tried_for_as_long_as_that_takes(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(capture_task, "REFUSALS_MAX", 3)
    run_sql(server, database, f"create role crowd_{database} login replication superuser password 'x'")
    run_sql(server, database, "create table t (id int primary key)")
    user = {"database.user": f"crowd_{database}", "database.password": "x"}
    settings = {"topic.prefix": f"crowd_{database}", "snapshot.mode": "no_data", "slot.retry.delay.ms": "100"}
    task = begun(server, database, None, **user, **settings)
    read_until_quiet(task, None, 0.2)
    run_sql(server, database, f"alter role crowd_{database} nosuperuser connection limit 0")
    run_sql(
        server, database, f"select pg_terminate_backend(pid) from pg_stat_activity where usename = 'crowd_{database}'"
    )
    until(lambda: polled(task) or caplog.text.count("too many connections") > 8, "tries", every=0)
    run_sql(server, database, f"alter role crowd_{database} superuser connection limit 9; insert into t values (1)")
    until(lambda: any(each.topic.endswith(".t") for each in polled(task)), "the row", every=0)
    task.stop()


def test_a_user_who_owns_nothing_captures_by_the_publication_that_the_owner_has_made(
    server: PostgresServer, database: str
) -> None:
    user = f"guest_{database}"
    run_sql(
        server,
        database,
        "create table t (id int primary key); create table u (id int primary key); insert into t values (1)",
    )
    run_sql(
        server,
        database,
        f"create user {user} with replication password 'x'; grant select on all tables in schema public to {user}",
    )
    settings = {
        "topic.prefix": user,
        "database.user": user,
        "database.password": "x",
        "table.include.list": r"public\.t",
    }
    settings |= {"publication.autocreate.mode": "filtered", "publication.name": "of_the_owner"}
    with pytest.raises(ConnectError, match=r"permission denied.*Let the owner.*create publication"):
        begun(server, database, None, **settings)
    run_sql(server, database, "create publication of_the_owner for table u")
    with pytest.raises(
        ConnectError, match=r"must be owner.*Let the owner.*alter publication .* set table \"public\"\.\"t\""
    ):
        begun(server, database, None, **settings)
    run_sql(server, database, "create table p (id int) partition by range (id); grant select on p to public")
    for tables in ("t", "t, u", "t, p"):
        run_sql(server, database, f"alter publication of_the_owner set table {tables}")
        task = begun(server, database, None, **settings, **{"slot.name": f"guest_{len(tables)}_{tables[-1]}"})
        assert len(read_until_quiet(task, None, 0.2)) == 1
        task.stop()


def test_settings_of_debeziums_that_do_nothing_here_are_named(
    server: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = (
        "converters",
        "errors.max.retries",
        "post.processors",
        "snapshot.select.statement.overrides",
        "topic.naming.strategy",
    )
    task = begun(server, database, None, **{"topic.prefix": f"no_{database}", **dict.fromkeys(given, "x")})
    task.stop()
    assert f"These settings have no effect here: {', '.join(given)}" in caplog.text


def test_a_publication_for_all_tables_is_taken_as_it_is(server: PostgresServer, database: str) -> None:
    run_sql(server, database, "create table t (id int primary key); insert into t values (1); create table u ()")
    run_sql(server, database, f"create publication all_{database} for all tables")
    settings = {"topic.prefix": f"all_{database}", "publication.name": f"all_{database}"}
    settings |= {"publication.autocreate.mode": "filtered", "table.include.list": r"public\.t"}
    task = begun(server, database, None, **settings)
    assert len(read_until_quiet(task, None, 0.2)) == 1
    task.stop()


@pytest.mark.parametrize("is_within", [True, False])
def test_a_server_that_goes_away_while_a_name_is_converted_is_away(server: PostgresServer, is_within: bool) -> None:
    name = f"latin_{is_within}".lower()
    run_sql(server, "postgres", f"create database {name} encoding 'LATIN1' locale 'C' template template0")
    props = {"database.hostname": "127.0.0.1", "database.port": str(server.port), "database.user": USER}
    props |= {"database.password": PASSWORD, "database.dbname": name, "topic.prefix": "p"}
    catalog = opened_catalog(plain_settings(POSTGRES_DEF.parse(props)))
    if is_within:
        catalog.run("begin")
    assert catalog.converted(b"caf\xe9") == "café".encode()
    run_sql(server, name, f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}' "
            "and pid <> pg_backend_pid()")  # fmt: skip
    with pytest.raises(ServerAwayError):
        catalog.converted(b"caf\xe8")
    catalog.close()
