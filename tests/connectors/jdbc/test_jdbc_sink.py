"""The JDBC sink against PostgreSQL and SQLite: modes, keys, deletes, tables made and widened, and what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from ottla.base import ConfigError
from ottla.connect import ConnectError, RetriableError, SchemaBuilder, Struct, data
from ottla.connectors.jdbc import JdbcSinkConnector
from ottla.connectors.jdbc.database import open_database
from ottla.connectors.jdbc.sink_keys import sink_def
from ottla.connectors.jdbc.urls import database_url
from tests.connectors.jdbc.conftest import TestDatabase
from tests.connectors.jdbc.worker import Reporter, errors, record, sink

USER = (
    SchemaBuilder.struct()
    .name("user")
    .field("id", data.INT64)
    .field("name", data.OPTIONAL_STRING)
    .field("age", data.OPTIONAL_INT32)
    .build()
)


def user(id_: int, name: str | None = None, age: int | None = None) -> Struct:
    return Struct(USER, id=id_, name=name, age=age)


CREATE = {"auto.create": "true"}
UPSERT = {**CREATE, "insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
KEYED = {**CREATE, "insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "id"}


def rows(database: TestDatabase, table: str = "t", order: str = "id") -> Any:
    return database.run(f"SELECT * FROM {table} ORDER BY {order}")


def test_inserted_records_are_rows_of_a_table_that_is_made(database: TestDatabase) -> None:
    task = sink({**database.props, **CREATE})
    task.put([record(user(1, "Ann", 30)), record(user(2))])
    assert rows(database) == [(1, "Ann", 30), (2, None, None)]


def test_upserts_are_the_same_however_often_they_are_delivered(database: TestDatabase) -> None:
    task = sink({**database.props, **UPSERT})
    delivery = [record(user(1, "Ann")), record(user(2, "Bob")), record(user(1, "Anna", 5))]
    for _ in range(3):
        task.put(delivery)
    assert rows(database) == [(1, "Anna", 5), (2, "Bob", None)]


def test_a_row_that_waits_for_its_parent_has_no_other_written_or_reported_again(postgres: TestDatabase) -> None:
    postgres.run("CREATE TABLE parent (id BIGINT PRIMARY KEY)")
    postgres.run("CREATE TABLE t (id BIGINT REFERENCES parent, name VARCHAR(3), age INT)")
    postgres.run("INSERT INTO parent VALUES (1)")
    reporter = Reporter()
    task = sink({**postgres.props, "max.retries": "10", "retry.backoff.ms": "1"}, reporter)
    delivery = [
        record(user(1, "Ann"), offset=0),
        record(user(1, "too long"), offset=1),
        record(user(1, "Bob"), offset=2),
        record(user(2, "Cal"), offset=3),
    ]
    for _ in range(5):
        with pytest.raises(RetriableError):
            task.put(delivery)
    postgres.run("INSERT INTO parent VALUES (2)")
    task.put(delivery)
    assert [each[1] for each in rows(postgres, order="name")] == ["Ann", "Bob", "Cal"]
    assert [each.offset for each, _ in reporter.reported] == [1]


def test_a_row_that_is_too_large_for_the_database_is_reported_and_holds_nothing_up(postgres: TestDatabase) -> None:
    postgres.run("CREATE TABLE t (id BIGINT, name TEXT, age INT)")
    postgres.run("CREATE INDEX ON t (name)")
    reporter, large = Reporter(), "".join(str(n * 7919) for n in range(20_000))
    task = sink({**postgres.props, "max.retries": "10"}, reporter)
    task.put([record(user(1, "Ann"), offset=0), record(user(2, large), offset=1), record(user(3, "Cal"), offset=2)])
    assert [each[0] for each in rows(postgres)] == [1, 3], "an index row too large is SQLSTATE 54000"
    assert [each.offset for each, _ in reporter.reported] == [1]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("jdbc:postgresql://h/db?ssl=true", {"sslmode": "verify-full"}),
        ("jdbc:postgresql://h/db?ssl", {"sslmode": "verify-full"}),
        ("jdbc:postgresql://h/db?ssl=true&sslmode=require", {"sslmode": "require"}),
        (
            "jdbc:postgresql://h/db?sslmode=verify-ca&sslrootcert=ca.pem",
            {"sslmode": "verify-ca", "sslrootcert": "ca.pem"},
        ),
        ("jdbc:postgresql://h/db?ssl=false", {}),
    ],
)
def test_a_jdbc_url_asks_for_as_much_encryption_as_javas_driver_would(url: str, expected: dict[str, str]) -> None:
    assert dict(database_url(url).query) == expected


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("jdbc:postgresql://h/db?ssl=true&sslfactory=org.postgresql.ssl.NonValidatingFactory", "sslfactory"),
        ("jdbc:postgresql://h/db?kerberosServerName=x", "kerberosServerName"),
        ("jdbc:postgresql://h/db?socketFactory=com.google.cloud.sql.postgres.SocketFactory", "socketFactory"),
        ("jdbc:postgresql://h/db?jaasLogin=true", "jaasLogin"),
        ("jdbc:mysql://h/db?serverRSAPublicKeyFile=key.pem", "serverRSAPublicKeyFile"),
        ("jdbc:mysql://h/db?socksProxyHost=p", "socksProxyHost"),
        ("jdbc:mysql://h/db?sessionVariables=sql_mode=STRICT_ALL_TABLES", "sessionVariables"),
        ("jdbc:mariadb://h/db?credentialType=AWS-IAM", "credentialType"),
        ("jdbc:sqlite:/tmp/db?open_mode=1", "open_mode"),
        ("jdbc:sqlite:/tmp/db?cipher=chacha20", "cipher"),
        ("jdbc:mysql://h/db?sslMode=VERIFY_IDENTITY", "sslMode=VERIFY_IDENTITY"),
        ("jdbc:mysql://h/db?sslMode=required", "sslMode=REQUIRED"),
        ("jdbc:mysql://h/db?useSSL=true&requireSSL=true", "sslMode=REQUIRED"),
        ("jdbc:mysql://h/db?trustCertificateKeyStoreUrl=file:x", "trustCertificateKeyStoreUrl"),
        ("jdbc:mariadb://h/db?sslMode=verify-full", "sslMode=VERIFY_IDENTITY"),
    ],
)
def test_encryption_that_cannot_be_honoured_is_refused_by_name(url: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        database_url(url)


def test_a_url_that_asks_to_read_only_is_one_that_cannot_write(postgres: TestDatabase, sqlite: TestDatabase) -> None:
    sqlite.run("CREATE TABLE other (id INT)")
    for database, parameter in ((postgres, "readOnly=true"), (sqlite, "mode=ro")):
        url = database.props["connection.url"]
        props = {
            **database.props,
            "connection.url": f"{url}{'&' if '?' in url else '?'}{parameter}",
            "max.retries": "0",
        }
        task = sink({**props, **CREATE})
        with pytest.raises(ConnectError, match=r"read-?only"):
            task.put([record(user(1, "Ann"))])
        database.run("CREATE TABLE t (id INT)")  # it is not there


def test_a_password_behind_the_question_mark_is_shown_nowhere() -> None:
    for url in (
        "jdbc:postgresql://h/db?sslpassword=geheim&sslmode=require",
        "postgresql+psycopg://h/db?password=geheim",
    ):
        database = open_database(sink_def().parse({"connection.url": url}))
        assert "geheim" not in database.shown


def test_updates_change_rows_that_are_there_and_make_none(database: TestDatabase) -> None:
    sink({**database.props, **UPSERT}).put([record(user(1, "Ann"))])
    sink({**database.props, **UPSERT, "insert.mode": "update"}).put([record(user(1, "Anna")), record(user(2, "Bob"))])
    assert rows(database) == [(1, "Anna", None)]


def test_a_tombstone_deletes_the_row_of_its_key_in_the_order_of_the_records(database: TestDatabase) -> None:
    task = sink({**database.props, **KEYED, "delete.enabled": "true"})

    def put(*names: tuple[int, str | None]) -> None:
        task.put(
            [record(None if name is None else user(key, name), key=key, key_schema=data.INT64) for key, name in names]
        )

    put((9, None))  # there is no table yet
    put((1, "Ann"), (2, "Bob"), (1, None), (3, "Cid"), (3, None), (3, "Cyd"))
    assert rows(database) == [(2, "Bob", None), (3, "Cyd", None)]
    put((2, None), (3, "Cid"))
    assert rows(database) == [(3, "Cid", None)]


@pytest.mark.parametrize(
    ("type_", "first", "second"),
    [("CHAR(4)", "ab", "ab  "), ("UUID", "A" * 32, "a" * 32), ("TEXT COLLATE caseless", "ab", "AB")],
)
def test_keys_that_are_one_in_the_database_alone_are_written_in_the_records_order(
    postgres: TestDatabase, type_: str, first: str, second: str
) -> None:
    postgres.run("CREATE COLLATION caseless (provider=icu, locale='und-u-ks-level2', deterministic=false)")
    postgres.run(f"CREATE TABLE t (id {type_} PRIMARY KEY, name TEXT)")
    schema = SchemaBuilder.struct().field("name", data.STRING).build()

    def put(mode: str, *pairs: tuple[str, str | None]) -> Any:
        sink({**postgres.props, **KEYED, "insert.mode": mode, "delete.enabled": "true"}).put(
            [
                record(None if name is None else Struct(schema, name=name), key=key, key_schema=data.STRING)
                for key, name in pairs
            ]
        )
        return postgres.run("SELECT name FROM t")

    assert put("upsert", (first, "old"), (second, "new")) == [("new",)]
    assert put("update", (second, "b"), (first, "a"), (second, "c")) == [("c",)]
    assert put("upsert", (first, "kept"), (second, None)) == [], "deleted last"


def test_keys_that_only_sqlite_takes_for_one_are_deleted_in_the_records_order(sqlite: TestDatabase) -> None:
    sqlite.run("CREATE TABLE t (id TEXT COLLATE NOCASE PRIMARY KEY, name TEXT)")
    schema = SchemaBuilder.struct().field("name", data.STRING).build()
    task = sink({**sqlite.props, **KEYED, "delete.enabled": "true"})
    pairs = [("a", "one"), ("A", None), ("b", None), ("B", "two"), ("c", "one"), ("C", "two"), ("c", "three")]
    task.put(
        [
            record(None if name is None else Struct(schema, name=name), key=key, key_schema=data.STRING)
            for key, name in pairs
        ]
    )
    assert sqlite.run("SELECT name FROM t ORDER BY 1") == [("three",), ("two",)]


@pytest.mark.parametrize("made", [False, True])
def test_keys_that_are_no_number_are_one_key(postgres: TestDatabase, made: bool) -> None:
    if made:
        postgres.run("CREATE TABLE t (id DOUBLE PRECISION PRIMARY KEY, name TEXT)")
    schema = SchemaBuilder.struct().field("name", data.STRING).build()
    task = sink({**postgres.props, **KEYED})
    task.put(
        [
            record(Struct(schema, name=name), key=float(key), key_schema=data.FLOAT64)
            for key, name in (("nan", "a"), ("-0", "b"), ("nan", "c"), ("0", "d"), ("inf", "e"))
        ]
    )
    assert postgres.run("SELECT name FROM t ORDER BY id") == [("d",), ("e",), ("c",)]


def test_keys_that_a_trigger_makes_one_are_written_one_after_the_other(postgres: TestDatabase) -> None:
    postgres.run("CREATE TABLE t (id TEXT PRIMARY KEY, name TEXT)")
    postgres.run(
        "CREATE FUNCTION low() RETURNS trigger AS 'BEGIN NEW.id = lower(NEW.id); RETURN NEW; END' LANGUAGE plpgsql"
    )
    postgres.run("CREATE TRIGGER low BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION low()")
    schema = SchemaBuilder.struct().field("name", data.STRING).build()
    task = sink({**postgres.props, **KEYED})
    task.put(
        [
            record(Struct(schema, name=str(number)), key=key, key_schema=data.STRING)
            for number, key in enumerate(["a", "b", "A", "B", "b"])
        ]
    )
    assert postgres.run("SELECT id, name FROM t ORDER BY id") == [("a", "2"), ("b", "4")]


@pytest.mark.parametrize("other", ["INTEGER", "JSONB"])
def test_a_table_whose_column_somebody_alters_is_looked_at_again(postgres: TestDatabase, other: str) -> None:
    postgres.run("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT)")
    reporter = Reporter()
    task = sink({**postgres.props, **UPSERT}, reporter)
    schema = SchemaBuilder.struct().field("id", data.INT64).field("name", data.STRING).build()
    task.put([record(Struct(schema, id=1, name="1"))])
    postgres.run(f"ALTER TABLE t ALTER COLUMN name TYPE {other} USING name::{other}")
    task.put([record(Struct(schema, id=2, name="2"))])
    assert not reporter.reported
    assert [str(name) for _, name in postgres.run("SELECT * FROM t ORDER BY id")] == ["1", "2"]


def test_the_key_may_be_a_struct_and_the_table_its_fields_only(database: TestDatabase) -> None:
    key = SchemaBuilder.struct().field("a", data.STRING).field("b", data.INT32).build()
    task = sink({**database.props, **CREATE, "insert.mode": "upsert", "pk.mode": "record_key"})
    task.put([record(user(1, "Ann"), key=Struct(key, a="x", b=1)), record(user(2, "Bob"), key=Struct(key, a="x", b=1))])
    assert rows(database) == [("x", 1, 2, "Bob", None)]


def test_topic_partition_and_offset_can_be_the_key(database: TestDatabase) -> None:
    task = sink({**database.props, **CREATE, "insert.mode": "upsert", "pk.mode": "kafka"})
    delivery = [record(user(7, "Ann"), offset=3), record(user(7, "Ann"), offset=4)]
    task.put(delivery)
    task.put(delivery)
    assert rows(database, order="__connect_offset") == [("t", 0, 3, 7, "Ann", None), ("t", 0, 4, 7, "Ann", None)]


def test_only_the_fields_of_the_whitelist_and_the_key_are_written(database: TestDatabase) -> None:
    sink({**database.props, **UPSERT, "fields.whitelist": "age"}).put([record(user(1, "Ann", 3))])
    assert rows(database) == [(1, 3)]


def test_tables_are_named_by_the_format_and_each_topic_has_its_own(database: TestDatabase) -> None:
    task = sink({**database.props, **CREATE, "table.name.format": "from_${topic}"})
    task.put([record(user(1), topic="a"), record(user(2), topic="b"), record(user(3), topic="a")])
    assert (rows(database, "from_a"), rows(database, "from_b")) == (
        [(1, None, None), (3, None, None)],
        [(2, None, None)],
    )


def test_a_table_gets_the_columns_that_it_lacks_only_where_that_is_allowed(database: TestDatabase) -> None:
    sink({**database.props, **CREATE}).put([record(user(1, "Ann"))])
    wider = SchemaBuilder.struct().field("id", data.INT64).field("mail", data.OPTIONAL_STRING)
    wider = wider.field("level", SchemaBuilder.int32().default(7).build())
    newer = Struct(wider.build(), id=2, mail="b@c", level=9)
    with pytest.raises(ConnectError, match=r"no column mail, level: add it, or set auto\.evolve=true"):
        sink({**database.props, **CREATE}).put([record(newer)])
    task = sink({**database.props, **CREATE, "auto.evolve": "true"})
    task.put([record(newer), record(user(3, "Cid"))])
    assert rows(database) == [(1, "Ann", None, None, 7), (2, None, None, "b@c", 9), (3, "Cid", None, None, 7)]
    strict = SchemaBuilder.struct().field("id", data.INT64).field("must", data.INT32).build()
    with pytest.raises(ConnectError, match=r"must cannot be added .* neither optional nor has a default"):
        task.put([record(Struct(strict, id=4, must=1))])


def test_a_table_that_is_missing_is_named_with_what_would_make_it(database: TestDatabase) -> None:
    with pytest.raises(ConnectError, match=r"Table t is not there: create it, or set auto\.create=true"):
        sink(database.props).put([record(user(1))])


def test_a_null_is_written_as_its_default_unless_that_is_switched_off(database: TestDatabase) -> None:
    optional = SchemaBuilder.struct().field("id", data.INT64)
    optional = optional.field("level", SchemaBuilder.int32().optional().default(5).build())
    value = Struct(optional.build(), id=1)
    sink({**database.props, **CREATE}).put([record(value)])
    sink({**database.props, **CREATE, "replace.null.with.default": "false"}).put([record(value)])
    assert sorted(rows(database), key=str) == [(1, 5), (1, None)]


def test_values_without_a_schema_go_into_the_columns_that_are_there(database: TestDatabase) -> None:
    database.run("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT, at TIMESTAMP)")
    task = sink({**database.props, **UPSERT, "auto.evolve": "true"})
    task.put(
        [record({"id": 1, "name": "Ann", "at": "2024-01-02 03:04:05"}), record({"id": 2, "name": None, "more": 1.5})]
    )
    task.put([record({"id": 1, "name": None, "unheard": None})])
    assert [row[1] for row in rows(database)] == [None, None]
    assert [row[3] for row in rows(database)] == [None, 1.5]


EVERYTHING: dict[str, tuple[Any, Any]] = {
    "i8": (data.INT8, -128),
    "i16": (data.INT16, 32767),
    "i32": (data.INT32, -(2**31)),
    "i64": (data.INT64, 2**63 - 1),
    "f32": (data.FLOAT32, 1.5),
    "f64": (data.FLOAT64, 1e300),
    "yes": (data.BOOLEAN, True),
    "text": (data.STRING, "grün 'quoted' :colon %s 🙂"),
    "raw": (data.BYTES, b"\x00\xff"),
    "price": (data.decimal_schema(2), Decimal("-12.30")),
    "day": (data.DATE_SCHEMA, date(2024, 2, 29)),
    "hour": (data.TIME_SCHEMA, time(23, 59, 58, 123000)),
    "at": (data.TIMESTAMP_SCHEMA, datetime(2024, 2, 29, 12, 30, 0, 5000, tzinfo=UTC)),
}


def everything(*, optional: bool) -> Struct:
    from tests.connectors.jdbc.test_jdbc_types import optional_of

    builder = SchemaBuilder.struct()
    for name, (schema, _) in EVERYTHING.items():
        builder = builder.field(name, optional_of(schema) if optional else schema)
    made = Struct(builder.build())
    if not optional:
        for name, (_, value) in EVERYTHING.items():
            made.put(name, value)
    return made


def test_every_type_of_connect_has_a_column_that_keeps_it(database: TestDatabase) -> None:
    task = sink({**database.props, **CREATE})
    task.put([record(everything(optional=False))])
    found = dict(zip(EVERYTHING, rows(database, order="i8")[0], strict=True))
    if database.kind == "sqlite":
        texts = {"price": -12.3, "day": "2024-02-29", "hour": "23:59:58.123000", "at": "2024-02-29 12:30:00.005000"}
        assert found == {name: value for name, (_, value) in EVERYTHING.items()} | texts
    else:
        naive = {"at": datetime(2024, 2, 29, 12, 30, 0, 5000)}
        assert found == {name: value for name, (_, value) in EVERYTHING.items()} | naive


def test_every_optional_type_can_be_null(database: TestDatabase) -> None:
    task = sink({**database.props, **CREATE})
    task.put([record(everything(optional=True)) for _ in range(3)])
    assert rows(database, order="i8") == [(None,) * len(EVERYTHING)] * 3


def test_nested_values_are_json_and_lists_are_arrays_where_there_are_arrays(postgres: TestDatabase) -> None:
    inner = SchemaBuilder.struct().field("x", data.INT32).build()
    schema = SchemaBuilder.struct().field("id", data.INT32).field("inner", inner)
    schema = schema.field("map", SchemaBuilder.map(data.STRING, data.INT32).build())
    schema = schema.field("tags", SchemaBuilder.array(data.STRING).build())
    value = Struct(schema.build(), id=1, inner=Struct(inner, x=5), map={"a": 1}, tags=["p", "q"])
    task = sink({**postgres.props, **UPSERT})
    task.put([record(value)])
    task.put([record(value)])
    assert rows(postgres) == [(1, {"x": 5}, {"a": 1}, ["p", "q"])]


def test_times_go_into_columns_as_their_time_zones_say(postgres: TestDatabase) -> None:
    postgres.run("CREATE TABLE t (id INT, zoned TIMESTAMPTZ, naive TIMESTAMP, day DATE, number TIMESTAMP)")
    schema = SchemaBuilder.struct().field("id", data.INT32)
    for name in ("zoned", "naive", "day"):
        schema = schema.field(name, data.TIMESTAMP_SCHEMA)
    schema = schema.field("number", data.INT64)
    at = datetime(2024, 7, 1, 23, 30, tzinfo=UTC)
    value = Struct(schema.build(), id=1, zoned=at, naive=at, day=at, number=int(at.timestamp()) * 1_000_000)
    props = {**postgres.props, "db.timezone": "Europe/Vienna", "timestamp.fields.list": "number"}
    sink(props).put([record(value)])
    sink({**props, "date.timezone": "UTC"}).put([record(value)])
    local = datetime(2024, 7, 2, 1, 30)
    assert rows(postgres) == [(1, at, local, date(2024, 7, 2), local), (1, at, local, date(2024, 7, 1), local)]


def test_enumerations_lengths_and_json_columns_that_are_there_take_texts(postgres: TestDatabase) -> None:
    postgres.run("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    postgres.run(
        'CREATE TABLE t (id INT PRIMARY KEY, mood mood, short VARCHAR(3), fixed CHAR(3), doc JSONB, "odd % \\:n" TEXT)'
    )
    schema = SchemaBuilder.struct().field("id", data.INT32)
    for name in ("mood", "short", "fixed", "doc", "odd % :n"):
        schema = schema.field(name, data.OPTIONAL_STRING)
    built = schema.build()
    task = sink({**postgres.props, **UPSERT})
    value = Struct(
        built, {"id": 1, "mood": "glad", "short": "abc", "fixed": "de", "doc": '{"a": [1]}', "odd % :n": "%s"}
    )
    task.put([record(value)])
    assert rows(postgres) == [(1, "glad", "abc", "de ", {"a": [1]}, "%s")]
    with pytest.raises(ConnectError, match="too long"):  # never cut off
        task.put([record(Struct(built, {"id": 2, "short": "abcd"}))])


@pytest.mark.parametrize("wrong_at", [0, 3, 6])
def test_a_record_that_the_database_refuses_is_reported_and_all_others_are_written(
    database: TestDatabase, wrong_at: int
) -> None:
    database.run("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT CHECK (length(name) < 4), age INT)")
    reporter = Reporter()
    task = sink({**database.props, **UPSERT}, reporter)
    task.put([record(user(each, "long" if each == wrong_at else "ok"), offset=each) for each in range(7)])
    assert [row[0] for row in rows(database)] == [each for each in range(7) if each != wrong_at]
    ((refused, error),) = reporter.reported
    assert refused.offset == wrong_at and f"the record at offset {wrong_at} of t-0" in str(error)
    assert task.context.timeouts == []


def test_a_record_that_makes_no_row_is_reported_or_fails_the_task(database: TestDatabase) -> None:
    bad = record("just text", value_schema=data.STRING, offset=4)
    reporter = Reporter()
    sink({**database.props, **CREATE}, reporter).put([record(user(1)), bad, record(user(2))])
    assert [row[0] for row in rows(database)] == [1, 2] and [each[0] for each in reporter.reported] == [bad]
    with pytest.raises(ConnectError, match=r"needs a struct with a schema, or a map, .* offset 4 of t-0"):
        sink({**database.props, **CREATE}).put([bad])


def test_nothing_of_a_delivery_that_fails_is_written(database: TestDatabase) -> None:
    database.run("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT, age INT)")
    task = sink({**database.props, "batch.size": "2"})
    with pytest.raises(ConnectError, match=r"failed: .*(?i:unique)"):
        task.put([record(user(each)) for each in (1, 2, 3, 4, 1)])
    assert rows(database) == []


def test_a_row_that_refers_to_one_that_is_not_there_yet_is_tried_again(postgres: TestDatabase) -> None:
    postgres.run("CREATE TABLE parent (id BIGINT PRIMARY KEY)")
    postgres.run("CREATE TABLE t (id BIGINT PRIMARY KEY REFERENCES parent, name TEXT, age INT)")
    task = sink({**postgres.props, "retry.backoff.ms": "7"})
    with pytest.raises(RetriableError):
        task.put([record(user(1))])
    postgres.run("INSERT INTO parent VALUES (1)")
    task.put([record(user(1))])
    assert rows(postgres) == [(1, None, None)] and task.context.timeouts == [7]


def test_a_lost_connection_is_tried_again_as_often_as_is_allowed(postgres: TestDatabase) -> None:
    task = sink({**postgres.props, **UPSERT, "max.retries": "1"})
    task.put([record(user(1))])
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    postgres.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
    with pytest.raises(RetriableError):
        task.put([record(user(2))])
    task.put([record(user(2))])
    assert [row[0] for row in rows(postgres)] == [1, 2]


def test_two_tasks_that_make_and_widen_one_table_at_once_both_go_on(postgres: TestDatabase) -> None:
    from threading import Thread

    wider = SchemaBuilder.struct().field("id", data.INT64).field("mail", data.OPTIONAL_STRING).build()
    tasks = [sink({**postgres.props, **UPSERT, "auto.evolve": "true"}) for _ in range(4)]
    failed: list[BaseException] = []

    def run(place: int, task: Any) -> None:
        try:
            task.put([record(user(place))])
            task.put([record(Struct(wider, id=place, mail="m"))])
        except BaseException as error:
            failed.append(error)

    threads = [Thread(target=run, args=each) for each in enumerate(tasks)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [each for each in failed if not isinstance(each, RetriableError)] == []
    for place, task in enumerate(tasks):
        task.put([record(user(place)), record(Struct(wider, id=place, mail="m"))])
    assert rows(postgres) == [(each, None, None, "m") for each in range(4)]


def test_names_are_quoted_or_left_to_the_database(postgres: TestDatabase) -> None:
    mixed = SchemaBuilder.struct().field("Id", data.INT32).field("Some Name", data.STRING).build()
    sink({**postgres.props, **CREATE, "table.name.format": "Of_${topic}"}).put(
        [record(Struct(mixed, {"Id": 1, "Some Name": "x"}))]
    )
    assert postgres.run('SELECT "Id", "Some Name" FROM "Of_t"') == [(1, "x")]
    plain = SchemaBuilder.struct().field("Id", data.INT32).build()
    for _ in range(2):
        task = sink({**postgres.props, **CREATE, "table.name.format": "NoQuotes", "quote.sql.identifiers": "never"})
        task.put([record(Struct(plain, Id=1))])
    assert postgres.run("SELECT id FROM noquotes") == [(1,), (1,)]


def test_a_topics_dot_parts_schema_and_table(postgres: TestDatabase) -> None:
    postgres.run("CREATE SCHEMA shop")
    sink({**postgres.props, **CREATE}).put([record(user(1), topic="shop.users")])
    assert postgres.run("SELECT id FROM shop.users") == [(1,)]


@pytest.mark.parametrize(
    ("changes", "key", "said"),
    [
        ({"insert.mode": "upsert"}, "pk.mode", "needs a primary key"),
        ({"insert.mode": "sideways"}, "insert.mode", "one of"),
        ({"delete.enabled": "true"}, "delete.enabled", "needs pk.mode=record_key"),
        ({"pk.mode": "kafka", "pk.fields": "a,b"}, "pk.fields", "three names"),
        ({"topics": "missing_one"}, "auto.create", "no table missing_one"),
        ({"connection.url": "jdbc:oracle:thin:@x"}, "connection.url", "jdbc:oracle: is not known here"),
        ({"connection.url": "nonsense"}, "connection.url", "expected a JDBC URL"),
        (
            {"connection.url": "mssql+pymssql://h/db"},
            "connection.url",
            "is not installed here: pip install",
        ),
        ({"dialect.name": "MySqlDatabaseDialect"}, "dialect.name", "dialect is sqlite"),
        ({"db.timezone": "Mars/Olympus"}, "db.timezone", "a time zone"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_before_anything_runs(
    sqlite: TestDatabase, changes: dict[str, str], key: str, said: str
) -> None:
    found = errors(JdbcSinkConnector(), {**sqlite.props, **changes})
    assert said in " ".join(found[key]), found


def test_a_password_is_shown_nowhere(postgres: TestDatabase) -> None:
    secret = "Wr0ng-and-secret"
    for props in (
        {**postgres.props, "connection.password": secret},
        {
            **postgres.props,
            "connection.url": postgres.props["connection.url"] + f"?password={secret}",
            "connection.password": "",
        },
        {"connection.url": f"postgresql://u:{secret}@127.0.0.1:1/x"},
    ):
        props = {key: value for key, value in props.items() if value}
        found = errors(JdbcSinkConnector(), {**props, "connection.attempts": "1"})
        assert found and secret not in str(found)
        task = JdbcSinkConnector.task_class()
        task.context = None
        task.start({**props, "connection.attempts": "1"})
        with pytest.raises(ConnectError) as caught:
            task._database.connect()
        assert secret not in str(caught.value) and caught.value.__suppress_context__
