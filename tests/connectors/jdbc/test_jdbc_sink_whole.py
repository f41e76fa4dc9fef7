"""What the sink must not lose, overwrite or write twice: names of tables, keys that are another row's, changes of tables."""

from __future__ import annotations

import gc
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.connect import ConnectError, SchemaBuilder, Struct, data
from ottla.connectors.jdbc import JdbcSinkConnector
from ottla.connectors.jdbc.sink_batches import PREPARED_MAX
from ottla.connectors.jdbc.sink_shapes import Shape
from tests.connectors.contexts import Store
from tests.connectors.jdbc.conftest import TestDatabase
from tests.connectors.jdbc.worker import Reporter, errors, read_all, record, sink, source_tasks

CREATE = {"auto.create": "true"}
UPSERT = {**CREATE, "insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
NAMED = SchemaBuilder.struct().field("id", data.INT64).field("name", data.OPTIONAL_STRING).build()


def named(id_: int, name: str | None = None) -> Struct:
    return Struct(NAMED, id=id_, name=name)


@pytest.mark.parametrize("format_", ["copy.${topic}", "${topic}"])
def test_a_part_of_a_name_that_the_database_cannot_have_is_refused_and_no_other_table_written(
    postgres: TestDatabase, format_: str
) -> None:
    postgres.run("CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT)")
    postgres.run("INSERT INTO orders VALUES (1, 'the source')")
    props = {**postgres.props, **UPSERT, "table.name.format": format_}
    with pytest.raises(ConnectError, match=r"shop.*in double quotes"):
        sink(props).put([record(named(1, "another"), topic="shop.public.orders")])
    assert postgres.run("SELECT * FROM orders") == [(1, "the source")]
    said = errors(JdbcSinkConnector(), {**props, "topics": "shop.public.orders"})
    assert "in double quotes" in " ".join(said["table.name.format"])


def test_the_first_of_three_parts_may_be_the_database_and_quotes_make_one_part_of_all(postgres: TestDatabase) -> None:
    sink({**postgres.props, **UPSERT}).put([record(named(1), topic="postgres.public.orders")])
    assert postgres.run("SELECT * FROM orders") == [(1, None)]
    one = {**postgres.props, **UPSERT, "table.name.format": '"${topic}"'}
    for tenant in ("a", "b"):
        sink(one).put([record(named(2, tenant), topic=f"{tenant}.public.orders")])
        assert postgres.run(f'SELECT * FROM "{tenant}.public.orders"') == [(2, tenant)]


@pytest.mark.parametrize("format_", ['"a"b', '"a', "a..b", ".b", "a."])
def test_a_table_name_that_is_no_name_is_refused(postgres: TestDatabase, format_: str) -> None:
    said = errors(JdbcSinkConnector(), {**postgres.props, **UPSERT, "topics": "t", "table.name.format": format_})
    assert "table.name.format" in said


@pytest.mark.parametrize("unique", ["UNIQUE (mail)", "UNIQUE (mail), UNIQUE (id, mail)"])
def test_an_upsert_whose_other_unique_key_is_another_rows_changes_no_row(
    each_database: TestDatabase, unique: str
) -> None:
    database = each_database
    database.run(f"CREATE TABLE t (id BIGINT PRIMARY KEY, mail VARCHAR(20), {unique})")
    schema = SchemaBuilder.struct().field("id", data.INT64).field("mail", data.STRING).build()
    reporter = Reporter()
    task = sink({**database.props, **UPSERT}, reporter)
    pairs = [(1, "ann@x"), (2, "bob@x"), (3, "ann@x"), (2, "bert@x"), (4, "bob@x")]
    for offset, (id_, mail) in enumerate(pairs):
        task.put([record(Struct(schema, id=id_, mail=mail), offset=offset)])
    assert database.run("SELECT * FROM t ORDER BY id") == [(1, "ann@x"), (2, "bert@x"), (4, "bob@x")]
    assert [each.offset for each, _ in reporter.reported] == [2]


def test_an_upsert_by_a_key_that_is_not_the_tables_own_finds_its_row_by_that_key(mariadb: TestDatabase) -> None:
    mariadb.run("CREATE TABLE t (id BIGINT, name VARCHAR(9) PRIMARY KEY)")
    task = sink({**mariadb.props, **UPSERT}, reporter := Reporter())
    task.put([record(named(1, "a")), record(named(1, "b"), offset=1), record(named(2, "b"), offset=2)])
    assert mariadb.run("SELECT * FROM t") == [(1, "b")] and len(reporter.reported) == 1


def test_a_source_reads_up_to_the_databases_own_now_whatever_its_clocks_zone(mariadb: TestDatabase) -> None:
    mariadb.run(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, at DATETIME(3) NOT NULL, stamp TIMESTAMP(3) NOT NULL)"
    )
    for minutes in (200, 61, 1, -61):
        mariadb.run(
            f"INSERT INTO t (at, stamp) VALUES (UTC_TIMESTAMP(3) - INTERVAL {minutes} MINUTE, "
            f"NOW(3) - INTERVAL {minutes} MINUTE)"
        )
    for column in ("at", "stamp"):
        for delay, count in ((0, 3), (3_600_000, 2)):
            props = {"mode": "timestamp", "timestamp.column.name": column, "timestamp.delay.interval.ms": str(delay)}
            store = Store()
            (task,) = source_tasks({**mariadb.props, **props}, store)
            found = read_all(task, store)
            assert [each.value["id"] for each in found] == [1, 2, 3][:count]
            assert abs(found[0].value["at"] - found[0].value["stamp"]).total_seconds() < 5


def test_a_moment_in_a_timestamp_column_comes_back_as_it_went(mariadb: TestDatabase) -> None:
    mariadb.run("CREATE TABLE t (id BIGINT PRIMARY KEY, at TIMESTAMP(3) NULL)")
    schema = SchemaBuilder.struct().field("id", data.INT64).field("at", data.TIMESTAMP_SCHEMA).build()
    moments = [datetime(2024, 10, 27, hour, 30, tzinfo=UTC) for hour in (0, 1)]  # 02:30 in Vienna, twice
    zone = {"db.timezone": "Europe/Vienna"}
    sink({**mariadb.props, **UPSERT, **zone}).put(
        [record(Struct(schema, id=place, at=at), offset=place) for place, at in enumerate(moments)]
    )
    (task,) = source_tasks({**mariadb.props, **zone, "mode": "bulk"})
    assert [each.value["at"] for each in task.poll()] == moments


def wider(id_: int, more: Any = "x") -> Struct:
    schema = SchemaBuilder.struct().field("id", data.INT64).field("more", data.OPTIONAL_STRING).build()
    return Struct(schema, id=id_, more=more)


@pytest.mark.parametrize("key", ["auto.evolve", "auto.create"])
def test_a_delivery_that_changes_a_table_and_fails_writes_no_row_twice(each_database: TestDatabase, key: str) -> None:
    database = each_database
    for table in ("t", "last"):
        database.run(f"CREATE TABLE {table} (id BIGINT, name VARCHAR(9), CHECK (id < 100))")
    reporter = Reporter()
    task = sink({**database.props, key: "true"}, reporter)
    changing = record(wider(2), offset=1) if key == "auto.evolve" else record(named(2), topic="made", offset=1)
    task.put([record(named(1)), changing, record(named(100), topic="last", offset=2), record(named(3), offset=3)])
    assert [each.offset for each, _ in reporter.reported] == [2]
    assert sorted(row[0] for row in database.run("SELECT id FROM t")) == ([1, 2, 3] if key == "auto.evolve" else [1, 3])


def test_a_delivery_is_not_written_in_part_where_its_change_of_a_table_is_refused(each_database: TestDatabase) -> None:
    each_database.run("CREATE TABLE t (id BIGINT, name VARCHAR(9))")
    strict = SchemaBuilder.struct().field("id", data.INT64).field("must", data.INT32).build()
    task = sink({**each_database.props, "auto.evolve": "true"})
    with pytest.raises(ConnectError, match="must cannot be added"):
        task.put([record(named(1)), record(wider(2), offset=1), record(Struct(strict, id=3, must=1), offset=2)])
    assert each_database.run("SELECT id FROM t") == []


def test_what_is_kept_of_shapes_is_bounded(sqlite: TestDatabase) -> None:
    sqlite.run("CREATE TABLE t (id BIGINT, name TEXT)")
    task = sink(sqlite.props)
    for number in range(0, 3 * PREPARED_MAX, 500):
        many = []
        for each in range(number, number + 500):
            schema = SchemaBuilder.struct().name(f"s{each}").field("id", data.INT64).build()
            many.append(record(Struct(schema, id=each), offset=each))
        task.put(many)
    assert sqlite.run("SELECT count(*) FROM t") == [(3 * PREPARED_MAX,)]
    gc.collect()
    assert sum(isinstance(each, Shape) for each in gc.get_objects()) <= 2 * PREPARED_MAX + 500
