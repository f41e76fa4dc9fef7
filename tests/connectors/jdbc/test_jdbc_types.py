"""Types both ways: what a column becomes, and that what the source reads the sink writes back as it was."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from ottla.connect import ConnectError, DataError, Schema, SchemaBuilder, data
from ottla.connectors.jdbc.column_types import TypeMapping
from ottla.connectors.jdbc.dialects import dialect_of
from tests.connectors.jdbc.conftest import TestDatabase
from tests.connectors.jdbc.worker import record, sink, source_tasks, values


def optional_of(schema: Schema) -> Schema:
    """Return a schema that allows null."""
    builder = SchemaBuilder(schema.type).name(schema.name).version(schema.version).parameters(schema.parameters)
    return builder.optional().build()


AT = datetime(2024, 2, 29, 12, 30, 0, 123456, tzinfo=UTC)
COLUMNS: tuple[tuple[str, str, Schema, Any], ...] = (
    ("SMALLINT", "-5", data.INT16, -5),
    ("INTEGER", "7", data.INT32, 7),
    ("BIGINT", "9223372036854775807", data.INT64, 2**63 - 1),
    ("REAL", "1.5", data.FLOAT32, 1.5),
    ("DOUBLE PRECISION", "1e300", data.FLOAT64, 1e300),
    ("NUMERIC(10,2)", "3.5", data.decimal_schema(2), Decimal("3.50")),
    ("NUMERIC", "4.25", data.decimal_schema(38), Decimal("4.25")),
    ("BOOLEAN", "true", data.BOOLEAN, True),
    ("TEXT", "'grün'", data.STRING, "grün"),
    ("VARCHAR(9)", "'abc'", data.STRING, "abc"),
    ("DATE", "'2024-02-29'", data.DATE_SCHEMA, date(2024, 2, 29)),
    ("TIME", "'23:59:58.5'", data.TIME_SCHEMA, time(23, 59, 58, 500000)),
    ("TIMESTAMP", "'2024-02-29 12:30:00.123456'", data.TIMESTAMP_SCHEMA, AT),
)
POSTGRES: tuple[tuple[str, str, Schema, Any], ...] = (
    ("TIMESTAMPTZ", "'2024-02-29 13:30:00.123456+01'", data.TIMESTAMP_SCHEMA, AT),
    ("BYTEA", r"'\xdead'", data.BYTES, b"\xde\xad"),
    ("CHAR(4)", "'ab'", data.STRING, "ab  "),
    ("JSONB", """'{"a": [1, null]}'""", data.STRING, '{"a": [1, null]}'),
    ("UUID", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", data.STRING, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("INET", "'10.0.0.1'", data.STRING, "10.0.0.1"),
    ("INTERVAL", "'1 day 2 hours'", data.STRING, "1 day 02:00:00"),
    ("TIMETZ", "'10:00+02'", data.STRING, "10:00:00+02"),
    ("INT4RANGE", "'[1,5)'", data.STRING, "[1,5)"),
    ("INTEGER[]", "'{1,NULL}'", SchemaBuilder.array(data.OPTIONAL_INT32).build(), [1, None]),
    ("TEXT[]", "'{a}'", SchemaBuilder.array(data.OPTIONAL_STRING).build(), ["a"]),
)
SQLITE: tuple[tuple[str, str, Schema, Any], ...] = (
    ("BLOB", "x'dead'", data.BYTES, b"\xde\xad"),
    ("DATETIME", "'2024-02-29T12:30:00.123456'", data.TIMESTAMP_SCHEMA, AT),
    ("TIMESTAMP", "1709209800123", data.TIMESTAMP_SCHEMA, AT.replace(microsecond=123000)),
)


def columns_of(database: TestDatabase) -> list[tuple[str, str, Schema, Any]]:
    own = POSTGRES if database.kind == "postgresql" else SQLITE
    found = []
    for type_, literal, schema, value in (*COLUMNS, *own):
        if database.kind == "sqlite":  # every integer has 64 bits, and every float
            schema = data.INT64 if type_ == "INTEGER" else data.FLOAT64 if type_ == "REAL" else schema
        found.append((type_, literal, schema, value))
    return found


def filled(database: TestDatabase, name: str = "t") -> None:
    """Make a table of every type, each once NOT NULL and once not, with a row of values and nulls."""
    columns = columns_of(database)
    listed = [f"c{place} {each[0]} NOT NULL, n{place} {each[0]}" for place, each in enumerate(columns)]
    database.run(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, {', '.join(listed)})")
    values = ", ".join(f"{each[1]}, NULL" for each in columns).replace(":", "\\:")
    database.run(f"INSERT INTO {name} VALUES (1, {values})")


def test_every_columns_type_becomes_connects_optional_where_it_may_be_null(database: TestDatabase) -> None:
    filled(database)
    (task,) = source_tasks({**database.props, "mode": "bulk"})
    (found,) = task.poll()
    for place, (type_, _, schema, value) in enumerate(columns_of(database)):
        assert found.value_schema.field(f"c{place}").schema == schema, type_
        assert found.value_schema.field(f"n{place}").schema.optional, type_
        got = found.value[f"c{place}"]
        assert (got, type(got)) == (value, type(value)), type_
        assert found.value[f"n{place}"] is None, type_
    found.value.validate()


def test_a_querys_columns_have_the_types_of_their_tables(database: TestDatabase) -> None:
    filled(database)
    (task,) = source_tasks(
        {**database.props, "mode": "bulk", "query": "SELECT * FROM t WHERE id = 1;", "topic.prefix": "q"}
    )
    (found,) = task.poll()
    for place, (type_, _, schema, value) in enumerate(columns_of(database)):
        wanted = schema if schema.type.name == "ARRAY" else optional_of(schema)
        assert found.value_schema.field(f"c{place}").schema.type == wanted.type, type_
        assert found.value_schema.field(f"c{place}").schema.name == wanted.name, type_
        assert found.value[f"c{place}"] == value, type_
    assert (found.topic, found.value_schema.name, dict(found.source_partition)) == ("q", None, {"query": "query"})


def test_what_the_source_reads_the_sink_writes_back_as_it_was(database: TestDatabase) -> None:
    filled(database)
    (task,) = source_tasks({**database.props, "mode": "bulk"})
    (found,) = task.poll()
    task.stop()
    sink({**database.props, "auto.create": "true", "pk.mode": "record_value", "pk.fields": "id"}).put(
        [record(found.value, topic="copy")]
    )
    (task,) = source_tasks({**database.props, "mode": "bulk", "table.whitelist": "copy"})
    (again,) = task.poll()
    assert again.value.to_dict() == found.value.to_dict()


def test_defaults_that_are_plain_values_stand_in_the_schema_where_null_cannot(database: TestDatabase) -> None:
    database.run(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a BIGINT NOT NULL DEFAULT -7, b TEXT NOT NULL DEFAULT 'it''s', "
        "c NUMERIC(4,1) NOT NULL DEFAULT 1.5, d BOOLEAN NOT NULL DEFAULT true, e BIGINT DEFAULT 3, "
        "f TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, g TEXT NOT NULL DEFAULT '', "
        "h DOUBLE PRECISION NOT NULL DEFAULT 2.5)"
    )
    database.run("INSERT INTO t (id) VALUES (1)")
    (task,) = source_tasks({**database.props, "mode": "bulk"})
    (found,) = task.poll()
    defaults = {field.name: field.schema.default for field in found.value_schema.fields}
    wanted = {"a": -7, "b": "it's", "c": Decimal("1.5"), "d": True, "g": "", "h": 2.5}
    assert defaults == {"id": None, "e": None, "f": None, **wanted}


@pytest.mark.parametrize(
    ("mapping", "kinds"),
    [
        ("none", "Decimal Decimal Decimal Decimal Decimal"),
        ("precision_only", "INT8 INT32 Decimal Decimal Decimal"),
        ("best_fit", "INT8 INT32 FLOAT64 Decimal Decimal"),
        ("best_fit_eager_double", "INT8 INT32 FLOAT64 FLOAT64 FLOAT64"),
    ],
)
def test_numerics_become_what_numeric_mapping_says(postgres: TestDatabase, mapping: str, kinds: str) -> None:
    postgres.run("CREATE TABLE t (a NUMERIC(2), b NUMERIC(9), c NUMERIC(9,3), d NUMERIC(30,5), e NUMERIC)")
    postgres.run("INSERT INTO t VALUES (1, 2, 3.5, 4.5, 5.5)")
    (task,) = source_tasks({**postgres.props, "mode": "bulk", "numeric.mapping": mapping})
    (found,) = task.poll()
    names = [
        each.schema.name.rpartition(".")[2] if each.schema.name else str(each.schema.type)
        for each in found.value_schema.fields
    ]
    assert " ".join(names) == kinds
    assert [float(each) for each in found.value.to_dict().values()] == [1, 2, 3.5, 4.5, 5.5]


@pytest.mark.parametrize(
    ("granularity", "value"),
    [
        ("connect_logical", AT),
        ("micros_long", 1709209800123456),
        ("nanos_long", 1709209800123456000),
        ("nanos_string", "1709209800123456000"),
        ("micros_iso_datetime_string", "2024-02-29T12:30:00.123456"),
        ("nanos_iso_datetime_string", "2024-02-29T12:30:00.123456000"),
    ],
)
def test_timestamps_become_what_their_granularity_says(postgres: TestDatabase, granularity: str, value: Any) -> None:
    postgres.run("CREATE TABLE t (at TIMESTAMP)")
    postgres.run("INSERT INTO t VALUES ('2024-02-29 13\\:30\\:00.123456')")
    props = {**postgres.props, "mode": "bulk", "timestamp.granularity": granularity, "db.timezone": "Europe/Vienna"}
    (task,) = source_tasks(props)
    (found,) = task.poll()
    assert found.value["at"] == value


@pytest.mark.parametrize(("literal", "said"), [("'NaN'", "no decimal"), ("1e-39", "more than the 38 digits")])
def test_a_number_that_connect_cannot_say_fails_by_name_and_is_never_rounded(
    postgres: TestDatabase, literal: str, said: str
) -> None:
    postgres.run("CREATE TABLE t (price NUMERIC)")
    postgres.run(f"INSERT INTO t VALUES ({literal})")
    (task,) = source_tasks({**postgres.props, "mode": "bulk"})
    with pytest.raises(ConnectError, match=f"Column price .*{said}"):
        task.poll()


def test_texts_of_numbers_have_bounds_and_numbers_of_any_length_are_read() -> None:
    mapping = TypeMapping(dialect_of("sqlite", zone=ZoneInfo("UTC"), quote=True))
    convert = mapping.column("price", sa.Numeric(38, 2), optional=False).convert
    assert convert is not None
    assert convert("1.50") == convert(1.5) == convert(Decimal("1.5")) == Decimal("1.50")
    for text in ("1e300000", "1e1000000", "1_000", "Infinity"):
        with pytest.raises(DataError, match=r"Column price .* number"):
            convert(text)
    long = Decimal("9" * 130_000)
    assert convert(long) == long
    with pytest.raises(DataError, match=r"Column price .*more than 200,000 digits"):
        convert(Decimal("1e300000"))


def test_columns_with_a_collation_of_their_own_are_columns_as_others_are(postgres: TestDatabase) -> None:
    postgres.run("""CREATE TABLE t (id INT PRIMARY KEY, a TEXT COLLATE "C", b JSON, c VARCHAR(9) COLLATE "POSIX")""")
    postgres.run("""INSERT INTO t VALUES (1, 'x', '{"a"\\: 1}', 'y')""")
    [task] = source_tasks({**postgres.props, "mode": "bulk"})
    assert values(task.poll(), "a", "b", "c") == [("x", '{"a": 1}', "y")]
