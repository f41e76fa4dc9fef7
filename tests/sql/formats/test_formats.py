"""Rows become the bytes that ksqlDB writes, and again the rows; what cannot be read says why."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.sql import SqlError
from ottla.sql.formats import FormatError, codec
from ottla.sql.formats.json import json_codec
from ottla.sql.schema import SqlColumn
from ottla.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)

INTEGERS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PLAIN: dict[SqlType, st.SearchStrategy[object]] = {
    INTEGER: INTEGERS,
    BIGINT: st.integers(-(2**63), 2**63 - 1),
    DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    BOOLEAN: st.booleans(),
    STRING: TEXTS,
    BYTES: st.binary(max_size=8),
    DecimalType(6, 2): st.decimals(-9999, 9999, places=2),
    TIMESTAMP: st.integers(0, 2**40),
}
PARTS: dict[SqlType, st.SearchStrategy[object]] = {
    ArrayType(INTEGER): st.lists(st.none() | INTEGERS, max_size=3),
    MapType(STRING, BIGINT): st.dictionaries(TEXTS, INTEGERS, max_size=3),
    MapType(INTEGER, STRING): st.dictionaries(INTEGERS, TEXTS, max_size=3),
    StructType((("P", INTEGER), ("q", STRING))): st.fixed_dictionaries({"P": INTEGERS, "q": st.none() | TEXTS}),
}


def columns(*types: SqlType) -> list[SqlColumn]:
    return [SqlColumn(f"C{at}", type_) for at, type_ in enumerate(types)]


def rows(types: dict[SqlType, st.SearchStrategy[object]]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.tuples(*(st.none() | each for each in types.values()))


@given(rows({**PLAIN, **PARTS}))
def test_json_gives_back_what_it_wrote(row: tuple[object, ...]) -> None:
    json = json_codec(columns(*PLAIN, *PARTS), wrapped=True)
    assert json.decode(json.encode(row)) == row


@pytest.mark.parametrize("format_", ["JSON", "JSON_SR", "AVRO"])
@pytest.mark.parametrize(
    "type_", [MapType(INTEGER, STRING), ArrayType(MapType(BIGINT, STRING)), MapType(STRING, MapType(DATE, STRING))]
)
def test_a_map_whose_keys_are_no_texts_is_refused(format_: str, type_: SqlType) -> None:
    with pytest.raises(SqlError, match="with STRING keys"):
        codec(format_, columns(StructType((("P", type_),))))


@given(rows(PLAIN).map(lambda row: tuple(None if each in ("", b"") else each for each in row)))
def test_delimited_gives_back_what_it_wrote(row: tuple[object, ...]) -> None:
    delimited = codec("DELIMITED", columns(*PLAIN))
    assert delimited.decode(delimited.encode(row)) == row


@given(st.binary(max_size=40))
def test_whatever_bytes_are_read_or_refused(data: bytes) -> None:
    for format_ in ("JSON", "DELIMITED"):
        try:
            codec(format_, columns(INTEGER, ArrayType(STRING)) if format_ == "JSON" else columns(INTEGER)).decode(data)
        except FormatError as error:
            assert str(error)


def test_json_is_written_as_ksqldb_writes_it() -> None:
    json = codec("JSON", columns(DecimalType(4, 2), DOUBLE, BYTES, STRING, DATE, INTEGER))
    written = json.encode((Decimal("1.10"), 1e10, b"\x01", 'a"é', 3, None))
    assert written == '{"C0":1.10,"C1":1.0E10,"C2":"AQ==","C3":"a\\"é","C4":3,"C5":null}'.encode()
    assert json.encode(None) is None and json.decode(None) is None and json.decode(b"null") is None
    alone = codec("JSON", columns(INTEGER), wrapped=False)
    assert alone.encode((5,)) == b"5" and alone.decode(b"5") == (5,) and alone.encode((None,)) is None


@pytest.mark.parametrize(
    ("type_", "given_", "value"),
    [
        (STRING, b"12.50", "12.50"),
        (STRING, b'{"b": [1, true]}', '{"b":[1,true]}'),
        (STRING, b'["x", 1]', "[x, 1]"),
        (INTEGER, b'"42"', 42),
        (INTEGER, b"1.9", 1),
        (DOUBLE, b"1", 1.0),
        (DecimalType(4, 2), b"1.5", Decimal("1.50")),
        (DecimalType(4, 2), b'"1.50"', Decimal("1.50")),
    ],
)
def test_json_takes_what_ksqldb_takes_for_a_type(type_: SqlType, given_: bytes, value: object) -> None:
    assert codec("JSON", columns(type_)).decode(b'{"c0": ' + given_ + b"}") == (value,)


@pytest.mark.parametrize(
    ("format_", "types", "data", "message"),
    [
        ("JSON", (INTEGER,), b'{"C0": true}', "Can't convert type. sourceType: BooleanNode, requiredType: INTEGER"),
        ("JSON", (BOOLEAN,), b'{"C0": "true"}', "sourceType: TextNode, requiredType: BOOLEAN, path: $.C0"),
        ("JSON", (INTEGER,), b"{", "Failed to deserialize JSON"),
        ("JSON", (INTEGER,), b"[" * 100_000, "Failed to deserialize JSON"),
        (
            "JSON",
            (DecimalType(4, 2),),
            b'{"C0": 1.234}',
            "Cannot fit decimal '1.234' into DECIMAL(4, 2) without rounding",
        ),
        ("JSON", (DecimalType(4, 2),), b'{"C0": 1e999}', "Numeric field overflow"),
        (
            "JSON",
            (DecimalType(4, 2),),
            b'{"C0": 1e999999}',
            "a number has more than 1,000 digits, or an exponent beyond",
        ),
        ("DELIMITED", (INTEGER, INTEGER), b"1", "Unexpected field count, csvFields:1 schemaFields:2"),
        ("DELIMITED", (INTEGER,), b"x", "Error deserializing delimited row"),
        ("KAFKA", (INTEGER,), b"12", "Size of data received by a deserializer of INTEGER is not 4: 2"),
    ],
)
def test_what_is_no_row_is_refused(format_: str, types: tuple[SqlType, ...], data: bytes, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        codec(format_, columns(*types)).decode(data)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("format_", "types", "message"),
    [
        (
            "KAFKA",
            (INTEGER, INTEGER),
            "The 'KAFKA' format only supports a single field. Got: [`C0` INTEGER, `C1` INTEGER]",
        ),
        ("KAFKA", (BOOLEAN,), "The 'KAFKA' format does not support type 'BOOLEAN'"),
        ("DELIMITED", (ArrayType(INTEGER),), "The 'DELIMITED' format does not support type 'ARRAY', column: `C0`"),
        ("NONE", (INTEGER,), "The 'NONE' format can only be used when no columns are defined."),
        ("XML", (INTEGER,), "Unknown format: XML"),
    ],
)
def test_a_format_refuses_columns_that_it_cannot_hold(format_: str, types: tuple[SqlType, ...], message: str) -> None:
    with pytest.raises(SqlError) as refused:
        codec(format_, columns(*types))
    assert message in str(refused.value)


def test_delimited_sets_quotes_where_commons_csv_does() -> None:
    delimited = codec("DELIMITED", columns(STRING, STRING, INTEGER))
    assert delimited.encode(("-a", 'b,"c', -1)) == b'"-a","b,""c",-1'
    assert delimited.encode(("", "", 1)) == b'"",,1'
    assert codec("DELIMITED", columns(STRING, INTEGER), delimiter="|").encode(("a,b", 1)) == b"a,b|1"


def test_delimited_tells_null_from_an_empty_text_where_a_line_begins() -> None:
    two, one = codec("DELIMITED", columns(STRING, INTEGER)), codec("DELIMITED", columns(STRING))
    assert two.encode((None, None)) == b"," and two.encode(("", None)) == b'"",'
    assert one.encode((None,)) == b"" and one.encode(("",)) == b'""'
    assert two.decode(b",") == two.decode(b'"",""') == (None, None)
    with pytest.raises(FormatError, match="No fields in record"):
        one.decode(b"")


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b"x,1", ("x", 1)),
        (b'"x" ,+1', ("x", 1)),
        (b'"a""b",1', ('a"b', 1)),
        (b'"a\nb",1', ("a\nb", 1)),
        (b"x, 1", None),
        (b"x,1.0", None),
        (b"x,2147483648", None),
        (b'"a"b",1', None),
        (b'"a,1', None),
    ],
)
def test_delimited_reads_quotes_and_whole_numbers_as_java_does(line: bytes, row: tuple[object, ...] | None) -> None:
    delimited = codec("DELIMITED", columns(STRING, INTEGER))
    if row is not None:
        assert delimited.decode(line) == row
        return
    with pytest.raises(FormatError):
        delimited.decode(line)


@pytest.mark.parametrize(
    ("text", "value"), [("1f", 1.0), (" 1e3 ", 1000.0), ("0x1p3", 8.0), ("1.D", 1.0), ("1_0", None)]
)
def test_delimited_reads_doubles_as_java_does(text: str, value: float | None) -> None:
    delimited = codec("DELIMITED", columns(DOUBLE))
    if value is not None:
        assert delimited.decode(text.encode()) == (value,)
        return
    with pytest.raises(FormatError):
        delimited.decode(text.encode())


def test_kafka_writes_what_kafkas_serializers_write() -> None:
    assert codec("KAFKA", columns(BIGINT)).encode((1,)) == b"\0\0\0\0\0\0\0\1"
    assert codec("KAFKA", columns(STRING)).decode("é".encode()) == ("é",)
    assert codec("KAFKA", []).encode(()) is None


@pytest.mark.parametrize("format_", ["JSON", "DELIMITED", "KAFKA"])
def test_half_a_character_is_written_as_a_question_mark(format_: str) -> None:
    """As Java's encoder does; a record must not fail for it."""
    written = codec(format_, columns(STRING)).encode(("a\ud800",))
    assert written is not None and b"a?" in written
