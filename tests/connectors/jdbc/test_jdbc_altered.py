"""Tables whose columns get other types while they are read or written: no value changes, and a loss is told."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from ottla.connect import ConnectError, SchemaBuilder, Struct, data
from ottla.connectors.jdbc.column_types import TypeMapping
from ottla.connectors.jdbc.database import open_database
from ottla.connectors.jdbc.positions import Position
from ottla.connectors.jdbc.readings import Plan, Reading, TableOrigin
from ottla.connectors.jdbc.source_keys import source_def
from ottla.connectors.jdbc.tables import TableName, TableShape
from tests.connectors.contexts import Store
from tests.connectors.jdbc.conftest import TestDatabase
from tests.connectors.jdbc.worker import Reporter, read_all, record, sink, source_tasks

INCREMENTING = {"mode": "incrementing", "incrementing.column.name": "id"}
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}


def alter(database: TestDatabase, type_: str) -> None:
    """Give column `v` of table `t` another type."""
    if database.kind == "postgresql":
        database.run(f"ALTER TABLE t ALTER v TYPE {type_} USING v\\:\\:{type_}")
    elif database.kind == "mariadb":
        database.run(f"ALTER TABLE t MODIFY v {type_}")
    else:  # it has no other way
        database.run(f"CREATE TABLE made (id INTEGER PRIMARY KEY, v {type_})")
        database.run("INSERT INTO made SELECT * FROM t")
        database.run("DROP TABLE t")
        database.run("ALTER TABLE made RENAME TO t")


ALTERED: tuple[tuple[str, str, str, str, Any], ...] = (
    ("BOOLEAN", "true", "VARCHAR(9)", "'false'", "false"),
    ("INTEGER", "1", "NUMERIC(6,3)", "1.999", Decimal("1.999")),
    ("INTEGER", "1", "BIGINT", "3000000000", 3000000000),
    ("INTEGER", "1", "DOUBLE PRECISION", "1.5", 1.5),
    ("NUMERIC(6,2)", "1.25", "NUMERIC(9,5)", "1.23456", Decimal("1.23456")),
    ("VARCHAR(19)", "'2024-01-02'", "DATE", "'2024-01-03'", date(2024, 1, 3)),
    ("DATE", "'2024-01-02'", "TIMESTAMP", "'2024-01-03 04:05:06'", datetime(2024, 1, 3, 4, 5, 6, tzinfo=UTC)),
)


@pytest.mark.parametrize(("before", "first", "after", "literal", "value"), ALTERED)
def test_a_column_that_gets_another_type_is_told_as_that_type(
    each_database: TestDatabase, before: str, first: str, after: str, literal: str, value: Any
) -> None:
    database = each_database
    database.run(f"CREATE TABLE t (id {database.number} PRIMARY KEY, v {before})")
    database.run(f"INSERT INTO t (v) VALUES ({first})")
    store = Store()
    (task,) = source_tasks({**database.props, **INCREMENTING}, store)
    assert len(read_all(task, store)) == 1
    alter(database, after)
    database.run(f"INSERT INTO t (v) VALUES ({literal.replace(':', chr(92) + ':')})")
    if database.kind == "mariadb" and after == "TIMESTAMP":
        value -= timedelta(hours=3)  # the server's clock
    (found,) = read_all(task, store)
    assert (found.value["v"], type(found.value["v"])) == (value, type(value))
    found.value.validate()


def test_a_column_that_gets_a_zone_is_read_by_time_from_the_right_moment(postgres: TestDatabase) -> None:
    postgres.run("CREATE TABLE t (id SERIAL PRIMARY KEY, at TIMESTAMP NOT NULL)")
    zone = {"db.timezone": "Europe/Vienna"}
    props = {**postgres.props, "mode": "timestamp", "timestamp.column.name": "at", **zone}
    store = Store()
    postgres.run("INSERT INTO t (at) VALUES ('2024-07-01 12:00:00')".replace(":", "\\:"))
    (task,) = source_tasks(props, store)
    assert len(read_all(task, store)) == 1
    postgres.run("ALTER TABLE t ALTER at TYPE TIMESTAMPTZ USING at AT TIME ZONE 'Europe/Vienna'")
    postgres.run("INSERT INTO t (at) VALUES ('2024-07-01 10:30:00+00')".replace(":", "\\:"))
    (found,) = read_all(task, store)
    assert found.value["at"] == datetime(2024, 7, 1, 10, 30, tzinfo=UTC)


def test_a_table_that_is_altered_between_the_look_and_the_statement_is_looked_at_again(sqlite: TestDatabase) -> None:
    """The others lock a table that was read from until the transaction's end."""
    sqlite.run("CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER)")
    sqlite.run("INSERT INTO t (v) VALUES (1)")
    looks = []

    class Altered(TableOrigin):
        def shape(self, connection: sa.Connection) -> TableShape:
            found = super().shape(connection)
            looks.append(found)
            if len(looks) == 1:
                alter(sqlite, "NUMERIC(6,3)")
            return found

    database = open_database(source_def().parse({**sqlite.props, "mode": "bulk", "topic.prefix": ""}))
    origin = Altered(TableName(None, "t"), TypeMapping(database.dialect), topic="t", partition={})
    with database.connect() as connection:
        (found,) = Reading(origin, Plan("bulk"), database.dialect, Position()).records(connection)
    found.value.validate()
    assert len(looks) == 2 and str(found.value["v"]) == "1.000"


@pytest.mark.parametrize(
    ("type_", "value", "said"),
    [
        ("INTEGER", "'abc'", "whole number"),
        ("INTEGER", "1.5", "whole number"),
        ("BOOLEAN", "2", "true or false"),
        ("BOOLEAN", "'false'", "true or false"),
        ("DATE", "'2024-01-02 03:04:05'", "time of day"),
        ("BLOB", "'text'", "bytes"),
        ("TEXT", "X'ff00'", "text"),
        ("TIME", "'10:00:00+02:00'", "zone"),
        ("DOUBLE PRECISION", "'x'", "number"),
    ],
)
def test_a_value_that_is_none_of_its_columns_type_is_an_error_by_name(
    sqlite: TestDatabase, type_: str, value: str, said: str
) -> None:
    sqlite.run(f"CREATE TABLE t (id INTEGER PRIMARY KEY, v {type_})")
    sqlite.run(f"INSERT INTO t (v) VALUES ({value})".replace(":", "\\:"))
    (task,) = source_tasks({**sqlite.props, "mode": "bulk"})
    with pytest.raises(ConnectError, match=f"Column v .*{said}"):
        task.poll()


def test_whole_numbers_beyond_signed_ones_keep_their_value_or_are_an_error(mariadb: TestDatabase) -> None:
    mariadb.run(
        "CREATE TABLE t (id INT PRIMARY KEY, a TINYINT UNSIGNED, b SMALLINT UNSIGNED, c INT UNSIGNED, d BIGINT UNSIGNED, "
        "e TIME(6))"
    )
    mariadb.run("INSERT INTO t VALUES (1, 255, 65535, 4294967295, 9223372036854775807, NULL)")
    (task,) = source_tasks({**mariadb.props, "mode": "bulk"})
    (found,) = task.poll()
    found.value.validate()
    assert list(found.value.to_dict().values())[1:5] == [255, 65535, 4294967295, 9223372036854775807]
    for column, literal in (("d", "18446744073709551615"), ("e", "'-01\\:00\\:00'"), ("e", "'25\\:00\\:00'")):
        mariadb.run("DELETE FROM t")
        mariadb.run(f"INSERT INTO t (id, {column}) VALUES (1, {literal})")
        (task,) = source_tasks({**mariadb.props, "mode": "bulk"})
        with pytest.raises(ConnectError, match=f"Column {column} holds a value"):
            task.poll()


def test_a_float_of_mariadb_is_told_with_all_its_digits(mariadb: TestDatabase) -> None:
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY, v FLOAT, w DOUBLE)")
    mariadb.run("INSERT INTO t VALUES (1, 16777215, 0.1)")
    (task,) = source_tasks({**mariadb.props, "mode": "bulk"})
    (found,) = task.poll()
    assert (found.value["v"], found.value["w"]) == (16777215.0, 0.1)


def test_a_role_that_shortens_numbers_shortens_none_that_are_told(postgres: TestDatabase) -> None:
    postgres.run("CREATE TABLE t (id INT PRIMARY KEY, v DOUBLE PRECISION, at DATE)")
    postgres.run("INSERT INTO t VALUES (1, 0.1 + 0.2\\:\\:float8, '2024-02-01')")
    postgres.run("ALTER DATABASE postgres SET extra_float_digits = 0")
    postgres.run("ALTER DATABASE postgres SET datestyle = 'SQL, DMY'")
    try:
        (task,) = source_tasks({**postgres.props, "mode": "bulk"})
        (found,) = task.poll()
    finally:
        postgres.run("ALTER DATABASE postgres RESET ALL")
    assert (found.value["v"], found.value["at"]) == (0.1 + 0.2, date(2024, 2, 1))


# The sink


def struct(schema: Any, **more: Any) -> Struct:
    made = SchemaBuilder.struct().field("id", data.INT64).field("v", schema).build()
    return Struct(made, id=more["id"], v=more["v"])


AT = datetime(2024, 7, 1, 10, 0, tzinfo=UTC)
SINK_ALTERED: tuple[tuple[str, str, Any, Any, Any, Any], ...] = (
    ("TIMESTAMP", "TIMESTAMPTZ", data.TIMESTAMP_SCHEMA, AT, AT, "postgresql"),
    ("DATETIME(6)", "TIMESTAMP(6)", data.TIMESTAMP_SCHEMA, AT, datetime(2024, 7, 1, 13, 0), "mariadb"),
    ("REAL", "DOUBLE PRECISION", data.FLOAT64, 0.5, 0.1, "postgresql"),
    ("INTEGER", "BIGINT", data.INT64, 1, 3_000_000_000, "postgresql"),
    ("VARCHAR(2)", "TEXT", data.STRING, "ab", "abc", "postgresql"),
    ("INTEGER", "NUMERIC(9,2)", data.decimal_schema(2), Decimal("1.00"), Decimal("1.25"), "postgresql"),
)


@pytest.mark.parametrize(("before", "after", "schema", "first", "value", "kind"), SINK_ALTERED)
def test_a_column_that_gets_another_type_gets_the_values_that_the_records_have(
    request: pytest.FixtureRequest, before: str, after: str, schema: Any, first: Any, value: Any, kind: str
) -> None:
    database: TestDatabase = request.getfixturevalue("postgres" if kind == "postgresql" else kind)
    database.run(f"CREATE TABLE t (id BIGINT PRIMARY KEY, v {before})")
    reporter = Reporter()
    task = sink({**database.props, **UPSERT, "db.timezone": "Europe/Vienna"}, reporter)
    task.put([record(struct(schema, id=1, v=first))])
    alter(database, after)
    told = AT if isinstance(value, datetime) else value
    task.put([record(struct(schema, id=2, v=told), offset=1)])
    assert not reporter.reported
    [(found,)] = database.run("SELECT v FROM t WHERE id = 2")
    assert found == value


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_delivery_that_also_widens_an_altered_table_binds_all_its_rows_for_the_new_types(
    postgres: TestDatabase, mode: str
) -> None:
    postgres.run("CREATE TABLE t (id BIGINT PRIMARY KEY, v TIMESTAMP)")
    narrow = SchemaBuilder.struct().field("id", data.INT64).field("v", data.TIMESTAMP_SCHEMA).build()
    wide = SchemaBuilder.struct().field("id", data.INT64).field("v", data.TIMESTAMP_SCHEMA)
    wide_schema = wide.field("more", data.OPTIONAL_STRING).build()
    reporter = Reporter()
    own = {**UPSERT, "insert.mode": mode, "auto.evolve": "true", "db.timezone": "Europe/Vienna"}
    task = sink({**postgres.props, **own}, reporter)
    task.put([record(Struct(narrow, id=1, v=AT))])
    alter(postgres, "TIMESTAMPTZ")
    late = [Struct(narrow, id=2, v=AT), Struct(wide_schema, id=3, v=AT, more="x"), Struct(narrow, id=4, v=AT)]
    task.put([record(each, offset=1 + at) for at, each in enumerate(late)])
    assert not reporter.reported
    assert [row[0] for row in postgres.run("SELECT v FROM t WHERE id > 1 ORDER BY id")] == [AT, AT, AT]


@pytest.mark.parametrize(
    ("type_", "schema", "value"),
    [
        ("NUMERIC(9,2)", data.decimal_schema(4), Decimal("1.2345")),
        ("INTEGER", data.decimal_schema(1), Decimal("1.5")),
        ("INTEGER", data.FLOAT64, 1.5),
        ("FLOAT(24)", data.FLOAT64, 0.1),
        ("DOUBLE PRECISION", data.INT64, (1 << 53) + 1),
        ("DOUBLE PRECISION", data.decimal_schema(3), Decimal("12345678901234567.125")),
        ("NUMERIC(9,2)", data.FLOAT64, 1.125),
    ],
)
def test_a_number_that_its_column_would_round_is_refused(
    each_database: TestDatabase, type_: str, schema: Any, value: Any
) -> None:
    database = each_database
    if database.kind == "sqlite" and not type_.startswith("DOUBLE"):
        pytest.skip("its columns keep such numbers as they are")
    database.run(f"CREATE TABLE t (id BIGINT PRIMARY KEY, v {type_})")
    reporter = Reporter()
    task = sink({**database.props, **UPSERT}, reporter)
    good = {data.FLOAT64: 2.0, data.INT64: 2}.get(schema, Decimal(2).quantize(Decimal(1).scaleb(-_scale(schema))))
    task.put([record(struct(schema, id=1, v=value)), record(struct(schema, id=2, v=good), offset=1)])
    assert [each.offset for each, _ in reporter.reported] == [0]
    assert "would round" in str(reporter.reported[0][1])
    assert [(id_, float(v)) for id_, v in database.run("SELECT id, v FROM t")] == [(2, 2.0)]


@pytest.mark.parametrize("schema", [data.INT16, data.INT32, data.INT64])
def test_a_number_is_refused_by_a_column_of_booleans(postgres: TestDatabase, schema: Any) -> None:
    postgres.run("CREATE TABLE t (id BIGINT PRIMARY KEY, v BOOLEAN)")
    reporter = Reporter()
    task = sink({**postgres.props, **UPSERT}, reporter)
    numbers = [0, 1, 2, 32_767] + ([395_449] if schema is not data.INT16 else [])
    task.put([record(struct(schema, id=at, v=each), offset=at) for at, each in enumerate(numbers)])
    assert [each.offset for each, _ in reporter.reported] == list(range(len(numbers)))
    assert postgres.run("SELECT count(*) FROM t") == [(0,)]


def _scale(schema: Any) -> int:
    return int(schema.parameter("scale") or 0)


def test_no_mode_of_a_server_shortens_what_is_written(mariadb: TestDatabase) -> None:
    mariadb.run("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(2))")
    mode = mariadb.run("SELECT @@GLOBAL.sql_mode")[0][0]
    mariadb.run("SET GLOBAL sql_mode = ''")
    try:
        reporter = Reporter()
        task = sink({**mariadb.props, **UPSERT}, reporter)
        task.put([record(struct(data.STRING, id=1, v="abc"))])
    finally:
        with mariadb.engine.begin() as connection:
            connection.execute(sa.text("SET GLOBAL sql_mode = :mode"), {"mode": mode})
    assert len(reporter.reported) == 1 and mariadb.run("SELECT * FROM t") == []
