"""The JDBC source against PostgreSQL and SQLite: what each mode reads, where it goes on, and what it says beforehand."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ottla.connect import ConnectError
from ottla.connectors.jdbc import JdbcSourceConnector
from tests.connectors.contexts import Store
from tests.connectors.jdbc.conftest import TestDatabase
from tests.connectors.jdbc.worker import errors, read_all, source_tasks, values
from tools.postgres import PASSWORD, private_cluster
from tools.postgres import USER as SUPERUSER

INCREMENTING = {"mode": "incrementing"}
BY_TIME = {"mode": "timestamp", "timestamp.column.name": "at"}
BOTH = {"mode": "timestamp+incrementing", "timestamp.column.name": "at", "incrementing.column.name": "id"}


def make(database: TestDatabase, table: str = "t") -> None:
    serial = "SERIAL" if database.has_schemas else "INTEGER"
    database.run(f"CREATE TABLE {table} (id {serial} PRIMARY KEY, name TEXT, at TIMESTAMP NOT NULL)")


def add(database: TestDatabase, *names: str, at: datetime | None = None, table: str = "t") -> None:
    moment = (at or datetime.now(UTC) - timedelta(seconds=5)).replace(tzinfo=None)
    for name in names:
        database.run(f"INSERT INTO {table} (name, at) VALUES (:name, :at)", name=name, at=moment)


def names(records: Any) -> list[str]:
    return [each.value["name"] for each in records]


def test_bulk_reads_every_row_each_time(database: TestDatabase) -> None:
    make(database)
    add(database, "a", "b")
    (task,) = source_tasks({**database.props, "mode": "bulk", "topic.prefix": "db-"})
    assert [names(task.poll()) for _ in range(2)] == [["a", "b"], ["a", "b"]]
    record = task.poll()[0]
    assert (record.topic, record.key, record.partition) == ("db-t", None, None)
    assert dict(record.source_partition) == {"protocol": "1", "table": database.full_name("t")}


def test_incrementing_reads_each_row_once_and_goes_on_at_its_offset(database: TestDatabase) -> None:
    make(database)
    add(database, "a", "b")
    store = Store()
    (task,) = source_tasks({**database.props, **INCREMENTING}, store)
    assert names(read_all(task, store)) == ["a", "b"]
    add(database, "c")
    assert names(read_all(task, store)) == ["c"]
    task.stop()
    add(database, "d")
    (task,) = source_tasks({**database.props, **INCREMENTING}, store)
    assert names(read_all(task, store)) == ["d"]
    assert store.get({"protocol": "1", "table": database.full_name("t")}) == {"incrementing": 4}


def test_offsets_of_the_first_protocol_are_gone_on_from(database: TestDatabase) -> None:
    make(database)
    add(database, "a", "b")
    store = Store()
    store.put({"table": "t"}, {"incrementing": 1})
    (task,) = source_tasks({**database.props, **INCREMENTING}, store)
    assert names(read_all(task)) == ["b"]


def test_a_task_that_is_killed_between_any_two_records_loses_and_repeats_nothing(database: TestDatabase) -> None:
    make(database)
    add(database, *(f"n{each}" for each in range(25)))
    for mode in (INCREMENTING, BOTH):
        store, seen = Store(), []
        for keep in (1, 3, 4, 2, 100):
            (task,) = source_tasks({**database.props, **mode, "batch.max.rows": "4"}, store)
            batch = task.poll() or []
            kept = batch[:keep]  # the worker came to store so many, then it was killed
            store.take(kept)
            seen += names(kept)
            task.stop()
        (task,) = source_tasks({**database.props, **mode, "batch.max.rows": "4"}, store)
        seen += names(read_all(task, store))
        assert seen == [f"n{each}" for each in range(25)], mode


def test_rows_of_one_time_are_never_lost_however_they_are_cut(database: TestDatabase) -> None:
    make(database)
    begin = datetime(2024, 1, 1, 10, 0, tzinfo=UTC)
    for group in range(4):
        add(database, *(f"n{group}{each}" for each in range(5)), at=begin + timedelta(milliseconds=group))
    for keep in (1, 5, 7, 19):
        store = Store()
        (task,) = source_tasks({**database.props, **BY_TIME, "batch.max.rows": "3"}, store)
        records = read_all(task)
        store.take(records[:keep])
        task.stop()
        (task,) = source_tasks({**database.props, **BY_TIME, "batch.max.rows": "3"}, store)
        again = names(read_all(task))
        whole = names(records)
        assert len(whole) == 20 and whole[keep:] == again[len(again) - len(whole[keep:]) :]  # none is missing
        assert len(again) - len(whole[keep:]) < 5  # no more than one group comes twice
    assert store.get(records[0].source_partition)["timestamp"] == 1704103200002  # the last group was cut


def test_timestamps_find_rows_that_were_changed(database: TestDatabase) -> None:
    make(database)
    add(database, "a", "b", at=datetime(2024, 1, 1, tzinfo=UTC))
    for mode in (BY_TIME, BOTH):
        store = Store()
        (task,) = source_tasks({**database.props, **mode}, store)
        assert sorted(names(read_all(task, store))) == ["a", "b"]
        database.run("UPDATE t SET at = :at, name = 'c' WHERE name = 'a'", at=datetime(2024, 2, 1))
        assert names(read_all(task, store)) == ["c"]
        assert read_all(task, store) == []
        database.run("UPDATE t SET at = :at, name = 'a' WHERE name = 'c'", at=datetime(2024, 1, 1))


def test_rows_younger_than_the_delay_wait(database: TestDatabase) -> None:
    make(database)
    add(database, "old", at=datetime.now(UTC) - timedelta(hours=2))
    add(database, "new", at=datetime.now(UTC) - timedelta(minutes=30))
    (task,) = source_tasks({**database.props, **BY_TIME, "timestamp.delay.interval.ms": "3600000"})
    assert names(read_all(task)) == ["old"]


def test_reading_by_time_begins_where_it_is_told_to(database: TestDatabase) -> None:
    make(database)
    for year in (1960, 2001, 2020):
        add(database, str(year), at=datetime(year, 1, 1, tzinfo=UTC))
    for initial, found in ((None, ["1960", "2001", "2020"]), ("1000000000000", ["2020"]), ("-1", [])):
        more = {} if initial is None else {"timestamp.initial": initial}
        (task,) = source_tasks({**database.props, **BY_TIME, **more})
        assert names(read_all(task)) == found


def test_the_first_time_that_is_not_null_counts(database: TestDatabase) -> None:
    database.run("CREATE TABLE t (name TEXT, changed TIMESTAMP, at TIMESTAMP NOT NULL)")
    add(database, "a", "b", at=datetime(2024, 1, 1, tzinfo=UTC))
    store = Store()
    (task,) = source_tasks({**database.props, "mode": "timestamp", "timestamp.column.name": "changed,at"}, store)
    assert names(read_all(task, store)) == ["a", "b"]
    database.run("UPDATE t SET changed = :at WHERE name = 'a'", at=datetime(2024, 1, 2))
    assert names(read_all(task, store)) == ["a"]


def test_times_of_the_database_are_in_its_time_zone(database: TestDatabase) -> None:
    make(database)
    database.run("INSERT INTO t (name, at) VALUES ('a', :at)", at=datetime(2024, 7, 1, 12, 0))
    store = Store()
    props = {**database.props, **BOTH, "db.timezone": "America/New_York"}
    (task,) = source_tasks(props, store)
    (record,) = read_all(task, store)
    assert record.value["at"] == datetime(2024, 7, 1, 16, 0, tzinfo=UTC)
    assert record.source_offset["timestamp"] == 1719849600000
    assert read_all(source_tasks(props, store)[0]) == []


def test_a_query_may_join_filter_and_have_a_suffix(database: TestDatabase) -> None:
    make(database)
    make(database, "u")
    add(database, "a", "b", "c")
    add(database, "x", "y", "z", table="u")
    query = "SELECT t.id AS id, t.name, u.name AS other FROM t JOIN u ON u.id = t.id WHERE t.name <> 'b:%d'"
    more = {"query": query, "topic.prefix": "joined", "incrementing.column.name": "id", "query.suffix": "LIMIT 2"}
    store = Store()
    (task,) = source_tasks({**database.props, **INCREMENTING, **more}, store)
    assert [values(task.poll(), "name", "other") for _ in range(2)] == [[("a", "x"), ("b", "y")], [("c", "z")]]
    store.put({"query": "query"}, {"incrementing": 2})
    (task,) = source_tasks({**database.props, **INCREMENTING, **more}, store)
    assert names(read_all(task)) == ["c"]


def test_batches_are_as_large_as_they_may_be(database: TestDatabase) -> None:
    make(database)
    add(database, *map(str, range(7)))
    (task,) = source_tasks({**database.props, **INCREMENTING, "batch.max.rows": "3"})
    assert [len(task.poll() or ()) for _ in range(4)] == [3, 3, 1, 0]


def test_more_rows_than_a_page_come_in_order_without_waiting(
    sqlite: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.connectors.jdbc import readings

    monkeypatch.setattr(readings, "PAGE_ROWS", 10)
    make(sqlite)
    add(sqlite, *map(str, range(35)))
    for mode in (INCREMENTING, BOTH):
        (task,) = source_tasks({**sqlite.props, **mode, "poll.interval.ms": "600000", "batch.max.rows": "7"})
        assert names(read_all(task)) == list(map(str, range(35)))


def test_a_writer_is_not_kept_out_while_rows_are_read(database: TestDatabase) -> None:
    make(database)
    add(database, *map(str, range(9)))
    for mode in (INCREMENTING, {"mode": "bulk"}):
        (task,) = source_tasks({**database.props, **mode, "batch.max.rows": "2"})
        assert len(task.poll()) == 2
        add(database, "while reading")  # SQLite would say "database is locked"


def test_a_table_that_changes_while_it_is_read_changes_the_schema(database: TestDatabase) -> None:
    make(database)
    add(database, "a")
    (task,) = source_tasks({**database.props, **INCREMENTING})
    first = read_all(task)[0].value_schema
    database.run("ALTER TABLE t ADD COLUMN level BIGINT DEFAULT 3")
    add(database, "b")
    (record,) = read_all(task)
    assert record.value["level"] == 3 and first.field("level") is None
    database.run("ALTER TABLE t DROP COLUMN level")
    database.run("ALTER TABLE t RENAME COLUMN name TO title")
    database.run("INSERT INTO t (title, at) VALUES ('c', '2024-01-01')")
    (record,) = read_all(task)
    assert [each.name for each in record.value_schema.fields] == ["id", "title", "at"] and record.value["title"] == "c"


def test_a_column_that_may_be_null_by_now_becomes_optional(postgres: TestDatabase) -> None:
    postgres.run("CREATE TABLE t (id SERIAL PRIMARY KEY, name TEXT NOT NULL)")
    postgres.run("INSERT INTO t (name) VALUES ('a')")
    (task,) = source_tasks({**postgres.props, **INCREMENTING})
    assert not read_all(task)[0].value_schema.field("name").schema.optional
    postgres.run("ALTER TABLE t ALTER name DROP NOT NULL")
    postgres.run("INSERT INTO t (name) VALUES (NULL)")
    (record,) = read_all(task)
    assert record.value["name"] is None and record.value_schema.field("name").schema.optional


def test_a_counted_column_is_found_by_itself(postgres: TestDatabase) -> None:
    for name, column in (("a", "BIGSERIAL"), ("b", "INT GENERATED ALWAYS AS IDENTITY")):
        postgres.run(f"CREATE TABLE {name} (name TEXT, n {column})")
        postgres.run(f"INSERT INTO {name} (name) VALUES ('x')")
    (task,) = source_tasks({**postgres.props, **INCREMENTING})
    assert [dict(each.source_offset) for each in (task.poll() + task.poll())] == [{"incrementing": 1}] * 2


def test_rows_inserted_while_polling_come_exactly_once(database: TestDatabase) -> None:
    make(database)
    store, found = Store(), []
    done = threading.Event()

    def write() -> None:
        for each in range(60):
            add(database, str(each))
        done.set()

    (task,) = source_tasks({**database.props, **INCREMENTING, "batch.max.rows": "5"}, store)
    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set() or len(found) < 60:
        found += names(read_all(task, store))
    writer.join()
    assert found == list(map(str, range(60)))


def test_tables_are_chosen_by_name_and_expression(database: TestDatabase) -> None:
    for table in ("orders", "orders_old", "users"):
        make(database, table)
    full = database.full_name("orders")
    for props, tables in (
        ({}, {"orders", "orders_old", "users"}),
        ({"table.whitelist": f"users,{full}"}, {"orders", "users"}),
        ({"table.blacklist": "users"}, {"orders", "orders_old"}),
        ({"table.include.list": "order.*"}, {"orders", "orders_old"}),
        ({"table.include.list": "order.*", "table.exclude.list": ".*_old"}, {"orders"}),
    ):
        (task,) = source_tasks({**database.props, **INCREMENTING, **props})
        task.poll()
        assert {each.topic for each in _origins(task)} == tables


def _origins(task: Any) -> list[Any]:
    return [each.origin for each in task._readings]


def test_views_are_read_where_they_are_asked_for(database: TestDatabase) -> None:
    make(database)
    database.run("CREATE VIEW v AS SELECT id, name FROM t WHERE id > 1")
    add(database, "a", "b")
    props = {**database.props, "mode": "bulk", "table.types": "VIEW"}
    (task,) = source_tasks(props)
    assert [(each.topic, each.value["name"]) for each in task.poll()] == [("v", "b")]


def test_schemas_are_chosen_by_a_pattern_and_same_names_refused(postgres: TestDatabase) -> None:
    postgres.run("CREATE SCHEMA shop_eu")
    postgres.run("CREATE SCHEMA shop_us")
    for schema in ("shop_eu", "shop_us"):
        make(postgres, f"{schema}.orders")
    add(postgres, "a", table="shop_eu.orders")
    (task,) = source_tasks({**postgres.props, **INCREMENTING, "schema.pattern": "%\\_eu".replace("\\", "")})
    assert [dict(each.source_partition)["table"] for each in task.poll()] == ["shop_eu.orders"]
    said = errors(
        JdbcSourceConnector(), {**postgres.props, **INCREMENTING, "topic.prefix": "", "schema.pattern": "shop%"}
    )
    assert "shop_eu.orders, shop_us.orders" in " ".join(said["schema.pattern"])


def test_tables_are_spread_over_tasks_and_come_back_together(database: TestDatabase) -> None:
    for each in range(5):
        make(database, f"t{each}")
        add(database, str(each), table=f"t{each}")
    tasks = source_tasks({**database.props, **INCREMENTING}, tasks_max=2)
    shares = []
    for task in tasks:
        found = [each for _ in range(4) for each in task.poll() or ()]
        shares.append([each.topic for each in found])
    assert sorted(map(len, shares)) == [2, 3] and sorted(shares[0] + shares[1]) == [f"t{each}" for each in range(5)]
    assert len(source_tasks({**database.props, **INCREMENTING}, tasks_max=9)) == 5


class Asked:
    """A connector's context that notes that other tasks were asked for."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def request_task_reconfiguration(self) -> None:
        self.asked.set()

    def raise_error(self, error: BaseException) -> None:
        raise AssertionError(error)


def test_a_table_that_is_made_later_gets_its_task(database: TestDatabase) -> None:
    connector = JdbcSourceConnector()
    connector.context = Asked()
    connector.start({**database.props, **INCREMENTING, "topic.prefix": "", "table.poll.interval.ms": "20"})
    try:
        assert connector.task_configs(3) == []
        make(database)
        assert connector.context.asked.wait(20)
        (config,) = connector.task_configs(3)
        assert '"t"' in config["tables"]
    finally:
        connector.stop()


def test_a_server_that_goes_and_comes_back_is_read_on_without_loss_or_repetition() -> None:
    import sqlalchemy as sa

    with private_cluster() as server:
        props = {
            "connection.url": server.jdbc_url("postgres"),
            "connection.user": SUPERUSER,
            "connection.password": PASSWORD,
            "connection.backoff.ms": "50",
            "connection.attempts": "100",
        }
        database = TestDatabase("postgresql", sa.create_engine(server.url, poolclass=sa.NullPool), props)
        make(database)
        add(database, *map(str, range(10)))
        store = Store()
        (task,) = source_tasks({**props, **INCREMENTING, "batch.max.rows": "3"}, store)
        found = names(task.poll())
        server.kill()
        assert task.poll() is None  # noted, to be tried again
        assert "failed" in (task.source_state().trouble or "")
        server.start()
        deadline = time.monotonic() + 30
        while len(found) < 10 and time.monotonic() < deadline:
            found += names(task.poll() or ())
        assert found == list(map(str, range(10)))
        assert task.source_state().trouble is None
        database.engine.dispose()


def test_a_stop_does_not_wait_for_a_statement_or_an_interval(postgres: TestDatabase) -> None:
    make(postgres)
    props = {**postgres.props, "mode": "bulk", "query": "SELECT pg_sleep(60), 1 AS one", "topic.prefix": "q"}
    (task,) = source_tasks({**props, "poll.interval.ms": "600000"})
    polling = threading.Thread(target=task.poll)
    polling.start()
    seen = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    deadline = time.monotonic() + 20
    while postgres.run(seen) == [(0,)] and time.monotonic() < deadline:
        pass
    begin = time.monotonic()
    task.stop()
    polling.join(20)
    assert not polling.is_alive() and time.monotonic() - begin < 20


@pytest.mark.parametrize(
    ("changes", "key", "said"),
    [
        ({"mode": "sometimes"}, "mode", "one of"),
        ({"incrementing.column.name": "nope"}, "incrementing.column.name", "no column nope; it has id, name, at, note"),
        ({"incrementing.column.name": "name"}, "incrementing.column.name", "must be a whole number"),
        ({"mode": "timestamp"}, "timestamp.column.name", "needs the column of times"),
        ({"mode": "timestamp", "timestamp.column.name": "name"}, "timestamp.column.name", "must be a timestamp"),
        ({"mode": "timestamp", "timestamp.column.name": "note"}, "timestamp.column.name", "may be null"),
        ({"table.whitelist": "nope"}, "table.whitelist", "no table nope"),
        ({"table.whitelist": "t", "query": "SELECT 1"}, "query", "cannot both be read"),
        ({"query": "SELECT FROM WHERE", "mode": "bulk", "topic.prefix": "q"}, "query", "syntax error"),
        ({"query": "SELECT 1 AS id"}, "incrementing.column.name", "its name was expected"),
        ({"topic.prefix": "a b"}, "topic.prefix", "letters, digits"),
        ({"table.include.list": "("}, "table.include.list", "Invalid regex"),
        ({"batch.max.rows": "0"}, "batch.max.rows", "at least 1"),
        ({"table.types": "SEQUENCE"}, "table.types", "TABLE, VIEW"),
        ({"connection.url": "jdbc:sqlite:/nowhere/at/all.db"}, "connection.url", "unable to open database file"),
        ({"connection.url": "jdbc:postgresql://127.0.0.1:1/x"}, "connection.url", "cannot be connected to"),
    ],
)
def test_what_cannot_work_is_said_before_anything_runs(
    sqlite: TestDatabase, changes: dict[str, str], key: str, said: str
) -> None:
    make(sqlite)
    sqlite.run("ALTER TABLE t ADD COLUMN note TIMESTAMP")
    found = errors(JdbcSourceConnector(), {**sqlite.props, **INCREMENTING, "topic.prefix": "", **changes})
    assert said in " ".join(found[key]), found


def test_only_modes_in_which_each_row_has_a_place_are_exactly_once() -> None:
    capable = {
        mode: JdbcSourceConnector().exactly_once_support({"mode": mode})
        for mode in ("bulk", "incrementing", "timestamp")
    }
    assert capable == {"bulk": False, "incrementing": True, "timestamp": False}
    assert JdbcSourceConnector().exactly_once_support({"mode": "timestamp+incrementing"}) is True


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        ({"file": "x"}, {"incrementing": 1}),
        ({"query": "query"}, {"incrementing": "x"}),
        ({"table": "t"}, {"timestamp": 1.5}),
    ],
)
def test_offsets_that_are_none_of_ours_are_refused(partition: dict[str, str], offset: dict[str, Any]) -> None:
    with pytest.raises(ConnectError):
        JdbcSourceConnector().alter_offsets({}, [(partition, offset)])
    assert JdbcSourceConnector().alter_offsets({}, [({"protocol": "1", "table": "t"}, None)])


def test_an_isolation_level_is_the_connections(postgres: TestDatabase) -> None:
    query = "SELECT current_setting('transaction_isolation') AS level"
    more = {"mode": "bulk", "query": query, "topic.prefix": "q", "transaction.isolation.mode": "SERIALIZABLE"}
    (task,) = source_tasks({**postgres.props, **more})
    assert values(task.poll(), "level") == [("serializable",)]
