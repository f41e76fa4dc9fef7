"""Rows in columns: whatever is made of many rows at once equals what is made of them one by one."""

from __future__ import annotations

import json
from struct import pack
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect import SourceColumns, SourceRecord
from ottla.connect.converters import JsonConverter
from ottla.connectors.cdc.catalog import CatalogColumn, CatalogTable, TableId
from ottla.connectors.cdc.change_runs import ROWS_MIN, ChangeRun, Span
from ottla.connectors.cdc.column_kinds import ColumnType
from ottla.connectors.cdc.column_masks import column_rules
from ottla.connectors.cdc.events import Events
from ottla.connectors.cdc.postgres_events import postgres_dialect
from ottla.connectors.cdc.raw_columns import columns_of_csv, columns_of_messages
from ottla.connectors.cdc.refused import Refused
from ottla.connectors.cdc.replication import Keepalive
from ottla.connectors.cdc.server import plain_settings
from ottla.connectors.cdc.settings import POSTGRES_DEF, Selection, kind_settings

BASE = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "database.hostname": "h",
    "database.user": "u",
    "database.dbname": "d",
    "topic.prefix": "p",
}
NUMERIC_10_2 = (10 << 16 | 2) + 4
SAMPLES: dict[str, tuple[ColumnType, list[str]]] = {
    "bool": (ColumnType(16, "bool"), ["t", "f"]),
    "int2": (ColumnType(21, "int2"), ["-32768", "0", "32767"]),
    "int4": (ColumnType(23, "int4"), ["-2147483648", "7"]),
    "int8": (ColumnType(20, "int8"), ["-9223372036854775808", "9223372036854775807"]),
    "float4": (ColumnType(700, "float4"), ["1.1", "3e+30", "0.1", "16777216"]),
    "float8": (ColumnType(701, "float8"), ["1.1", "1e-300", "Infinity", "-Infinity", "NaN", "100"]),
    "numeric": (ColumnType(1700, "numeric", NUMERIC_10_2), ["0.00", "-0.01", "12345678.90", "1.28", "-1.28", "327.68"]),
    "any numeric": (ColumnType(1700, "numeric"), ["1.5", "1000"]),
    "text": (ColumnType(25, "text"), ["", "a", 'with "quotes"', "back\\slash", "new\nline", "ü", "😀"]),
    "varchar": (ColumnType(1043, "varchar", 24), ["short"]),
    "uuid": (ColumnType(2950, "uuid"), ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    "jsonb": (ColumnType(3802, "jsonb"), ['{"a": 1}']),
    "bytea": (ColumnType(17, "bytea"), ["\\x", "\\x00ff"]),
    "date": (ColumnType(1082, "date"), ["2026-11-27", "1969-12-31"]),
    "far date": (ColumnType(1082, "date"), ["infinity", "-infinity", "0044-03-15 BC", "20000-01-01"]),
    "timestamp": (ColumnType(1114, "timestamp"), ["2026-11-27 10:20:30.5", "1969-12-31 23:59:59.999999"]),
    "timestamp(3)": (ColumnType(1114, "timestamp", 3), ["2026-11-27 10:20:30.5", "1969-12-31 23:59:59.001"]),
    "far timestamp": (ColumnType(1114, "timestamp"), ["infinity", "-infinity"]),
    "timestamptz": (ColumnType(1184, "timestamptz"), ["2026-11-27 10:20:30+00", "2026-11-27 10:20:30.123456+00"]),
    "long numeric": (
        ColumnType(1700, "numeric", (78 << 16) + 4),
        ["340282366920938463463374607431768211455", "-" + "9" * 78, "9" * 38, "0", "1" * 39],
    ),
    "long fraction": (ColumnType(1700, "numeric", (60 << 16 | 2) + 4), ["-" + "9" * 36 + ".99", "1" * 40 + ".00"]),
    "oids": (ColumnType(30, "oidvector", element=ColumnType(26, "oid")), ["16 17", ""]),
    "boxes": (
        ColumnType(1020, "_box", element=ColumnType(603, "box", delimiter=";")),
        ["{(1,1),(0,0);(3,4),(2,2)}", "{NULL}"],
    ),
    "far timestamptz": (ColumnType(1184, "timestamptz"), ["infinity", "0001-01-01 00:00:00+00 BC"]),
    "time": (ColumnType(1083, "time"), ["10:20:30.123456", "24:00:00"]),
    "interval": (ColumnType(1186, "interval"), ["P1DT2H"]),
    "bit": (ColumnType(1560, "bit", 1), ["1", "0"]),
    "bits": (ColumnType(1560, "bit", 8), ["10000001"]),
    "money": (ColumnType(790, "money"), ["$12.50"]),
    "point": (ColumnType(600, "point"), ["(1,2)"]),
    "enum": (ColumnType(99_999, "mood", labels=("happy", "sad")), ["happy"]),
    "array": (ColumnType(1007, "_int4", element=ColumnType(23, "int4")), ["{1,2,NULL}", "{}"]),
    "texts": (ColumnType(1009, "_text", element=ColumnType(25, "text")), ['{a,"b \\" c",NULL}']),
    "dates": (ColumnType(1182, "_date", element=ColumnType(1082, "date")), ["{2026-11-27,infinity}"]),
    "any numerics": (ColumnType(1231, "_numeric", element=ColumnType(1700, "numeric")), ["{1.5,NULL}"]),
}
MODES: list[dict[str, str]] = [
    {},
    {"time.precision.mode": "connect", "decimal.handling.mode": "string", "binary.handling.mode": "hex"},
    {"time.precision.mode": "isostring", "decimal.handling.mode": "double", "interval.handling.mode": "string"},
    {"time.precision.mode": "nanoseconds", "field.name.adjustment.mode": "avro"},
    {"column.mask.with.3.chars": "public.t.v", "tombstones.on.delete": "false"},
    {"message.key.columns": "public.t:id,v"},
]


def message(kind: bytes, *columns: bytes | None, lsn: int = 77) -> bytes:
    """Return a change of table 5, with the replication protocol's header."""
    body = b"".join(b"n" if each is None else b"t" + pack(">I", len(each)) + each for each in columns)
    return b"w" + pack(">QQQ", lsn, lsn, 0) + kind + pack(">I", 5) + b"N" + pack(">H", len(columns)) + body


def table_events(type_: ColumnType, settings: dict[str, str]) -> Any:
    found = plain_settings(POSTGRES_DEF.parse({**BASE, **settings}))
    events = Events(found, postgres_dialect(found, kind_settings(found)), Selection.of(found), column_rules(settings))
    columns = (CatalogColumn("id", ColumnType(20, "int8"), True, None), CatalogColumn("v", type_, False, None))
    return events.table(CatalogTable(TableId("public", "t"), columns, ("id",)))


def run_of(table: Any, texts: list[bytes | None], *, kind: bytes = b"I", spans: int = 1) -> ChangeRun:
    rows = [message(kind, str(at).encode(), text, lsn=1000 + at) for at, text in enumerate(texts)]
    share = len(rows) // spans
    counts = [share] * (spans - 1) + [len(rows) - share * (spans - 1)]
    made = [Span(1_700_000_000_000_000 + at, 7 + at, 500 + at, count) for at, count in enumerate(counts)]
    head = ChangeRun.head_of(rows[0])
    assert head is not None
    return ChangeRun(table, head, rows, made, {"lsn_commit": 9})


def told(found: list[SourceRecord | SourceColumns]) -> list[tuple[Any, ...]]:
    """Return keys and values as JSON's converter writes them, but the time of making."""
    rows = [row for each in found for row in (each.records() if isinstance(each, SourceColumns) else [each])]
    converter = JsonConverter()
    made = []
    for row in rows:
        key = converter.from_connect("t", row.key_schema, row.key)
        value = json.loads(converter.from_connect("t", row.value_schema, row.value) or b"null")
        for name in ("ts_ms", "ts_us", "ts_ns"):
            value["payload"].pop(name)
        made.append((row.topic, key, value, row.headers, row.source_partition))
    return made


@pytest.mark.parametrize("settings", MODES, ids=lambda each: ",".join(each.values()) or "defaults")
@pytest.mark.parametrize("name", SAMPLES)
def test_many_rows_at_once_are_what_they_are_one_by_one(name: str, settings: dict[str, str]) -> None:
    type_, samples = SAMPLES[name]
    texts = [*(each.encode() for each in samples), None] * ROWS_MIN
    for kind, spans in ((b"I", 1), (b"U", 3)):
        run = run_of(table_events(type_, settings), texts, kind=kind, spans=spans)
        at_once, one_by_one = run.made(Refused()), [row for text in range(len(texts)) for row in single(run, text)]
        assert told(at_once) == told(one_by_one)
        for each in at_once:
            if isinstance(each, SourceColumns):
                assert written_at_once(each) == told(one_by_one)


def single(run: ChangeRun, at: int) -> list[SourceRecord | SourceColumns]:
    """Return one row of a run, made by itself."""
    spans = [each for each in run.spans for _ in range(each.count)]
    span = Span(spans[at].commit_us, spans[at].xid, spans[at].last_commit_lsn, 1)
    return ChangeRun(run.table, run.head, [run.messages[at]], [span], run.source_offset).made(Refused())


def written_at_once(columns: SourceColumns) -> list[tuple[Any, ...]]:
    """Return what `told` does, written by the converter's columns."""
    converter = JsonConverter()
    assert columns.keys is not None
    keys = converter.columns_from_connect("t", columns.key_schema, columns.keys)
    values = converter.columns_from_connect("t", columns.schema, columns.values)
    assert keys is not None and values is not None
    made = []
    for key, data in zip(keys.to_pylist(), values.to_pylist(), strict=True):
        value = json.loads(data)
        for name in ("ts_ms", "ts_us", "ts_ns"):
            value["payload"].pop(name)
        made.append((columns.topic, key, value, columns.headers, columns.source_partition))
    return made


@pytest.mark.parametrize(
    "name",
    [
        *(
            "bool",
            "int2",
            "int8",
            "float8",
            "numeric",
            "any numeric",
            "text",
            "uuid",
            "date",
            "timestamp",
            "timestamptz",
        ),
        *("bytea", "array", "texts"),
    ],
)
def test_usual_types_do_stand_in_columns(name: str) -> None:
    type_, samples = SAMPLES[name]
    [found] = run_of(table_events(type_, {}), [each.encode() for each in samples] * ROWS_MIN).made(Refused())
    assert isinstance(found, SourceColumns) and found.source_offset == {"lsn_commit": 9}


def test_a_value_that_was_not_sent_is_made_as_one_by_one() -> None:
    run = run_of(table_events(ColumnType(25, "text"), {}), [b"x"] * ROWS_MIN, kind=b"U")
    run.messages[3] = run.messages[3][: -len(b"t\0\0\0\1x")] + b"u"
    found = run.made(Refused())
    assert len(found) == ROWS_MIN
    assert told(found)[3][2]["payload"]["after"]["v"] == "__debezium_unavailable_value"


def test_the_last_row_is_taken_off_a_run_with_its_own_place() -> None:
    run = run_of(table_events(ColumnType(25, "text"), {}), [b"x"] * 40, spans=3)
    rest, last = run.without_last({"lsn_commit": 8})
    assert rest is not None
    assert told([*rest.made(Refused()), *last.made(Refused())]) == told(run.made(Refused()))
    assert (rest.source_offset, last.source_offset) == ({"lsn_commit": 8}, {"lsn_commit": 9})
    assert last.without_last({})[0] is None


TEXT = st.none() | st.binary(max_size=200) | st.just(b"x" * 300)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=20), st.booleans())
def test_columns_of_messages_are_their_rows(rows: list[tuple[bytes | None, bytes | None]], long: bool) -> None:
    messages = [message(b"I", *row) for row in rows]
    found = columns_of_messages(messages, 33, 2)
    assert found is not None
    assert [*zip(*(each.to_pylist() for each in found), strict=True)] == rows


@given(st.integers(25, 60), st.binary(max_size=4), st.integers(0, 3))
def test_bytes_that_are_no_row_are_no_columns_and_read_nothing_of_others(cut: int, junk: bytes, at: int) -> None:
    whole = [message(b"I", b"1", b"some text") for _ in range(4)]
    broken = [*whole]
    broken[at] = whole[at][:cut] + junk
    found = columns_of_messages(broken, 33, 2)
    if found is not None:
        assert [each[0].as_py() for each in found] == [b"1", b"some text"] or at == 0
        assert len(broken[at]) >= 33 and found[0].to_pylist().count(b"1") >= 3


def test_lines_of_csv_are_their_columns() -> None:
    lines = [b'1,"a ""q"", \n,x",,""\n', b'2,b,3.5,"\r"\n', b",,,\n", b'"\\.",t,f,"NULL"\n']
    rows = [*zip(*(each.to_pylist() for each in columns_of_csv(lines, 4)), strict=True)]
    assert rows[0] == (b"1", b'a "q", \n,x', None, b"")
    assert rows[1:] == [(b"2", b"b", b"3.5", b"\r"), (None,) * 4, (b"\\.", b"t", b"f", b"NULL")]
    [alone] = columns_of_csv([b"1\n", b"\n", b'""\n'], 1)
    assert alone.to_pylist() == [b"1", None, b""]
    with pytest.raises(pa.ArrowInvalid):
        columns_of_csv([b"1,2\n"], 3)


def test_a_run_takes_what_is_like_it_up_to_the_first_that_is_not() -> None:
    table = table_events(ColumnType(25, "text"), {})
    run = run_of(table, [b"a"] * 2)
    like = [message(b"I", b"7", b"b"), message(b"I", b"8", None)]
    for other in (Keepalive(5), message(b"U", b"7", b"b"), message(b"I", b"7"), b""):
        before = len(run.messages)
        assert run.extend([other, *like, other, *like], 1) == len(like)
        assert (run.messages[before:], run.spans[-1].count) == (like, len(run.messages))
    assert run.extend(like, 2) == 0
    assert run.uncounted == 4 * len(like)
