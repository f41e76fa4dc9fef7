"""Converters' columns: whatever they convert at once, they convert as they do one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect import ColumnsConverter, Schema, SchemaBuilder, Struct
from ottla.connect.converters import ByteArrayConverter, JsonConverter, StringConverter
from ottla.connect.data import INT64, OPTIONAL_STRING, STRING


def json(*, enveloped: bool) -> JsonConverter:
    made = JsonConverter()
    made.configure({"schemas.enable": str(enveloped).lower()}, is_key=False)
    return made


CONVERTERS = [json(enveloped=True), json(enveloped=False), StringConverter(), ByteArrayConverter()]
SCHEMAS = [None, STRING, OPTIONAL_STRING, SchemaBuilder.string().name("a.Name").build()]
TEXTS = st.lists(st.one_of(st.text(max_size=8), st.sampled_from(['"', "\\", "\n", "😀", "ä", ""])), max_size=5)


def one_by_one(convert: Any, values: list[Any]) -> list[Any] | str:
    try:
        return [convert(each) for each in values]
    except Exception as error:
        return str(error)


@pytest.mark.parametrize("converter", CONVERTERS, ids=["envelope", "plain", "string", "bytes"])
@given(texts=TEXTS, schema=st.sampled_from(SCHEMAS), nulls=st.booleans(), offset=st.integers(0, 2))
def test_strings_become_the_same_bytes_at_once(
    converter: Any, texts: list[str], schema: Any, nulls: bool, offset: int
) -> None:
    assert isinstance(converter, ColumnsConverter)
    values: list[Any] = [*texts, *([None] if nulls else [])]
    column = pa.array(["cut"] * offset + values, pa.string()).slice(offset)
    found = converter.columns_from_connect("topic", schema, column)
    if found is not None:
        assert found.type == pa.binary()
        assert found.to_pylist() == one_by_one(lambda each: converter.from_connect("topic", schema, each), values)


@pytest.mark.parametrize("converter", CONVERTERS, ids=["envelope", "plain", "string", "bytes"])
@given(
    texts=TEXTS,
    schema=st.sampled_from(SCHEMAS),
    extra=st.sampled_from(
        [None, b"", b"{", b'"a" x', b'"', b'""', b'"\xff"', b"7", b' "a"', b'{"schema":null,"payload":"a"}']
    ),
    offset=st.integers(0, 2),
)
def test_bytes_become_the_same_values_at_once(
    converter: Any, texts: list[str], schema: Any, extra: bytes | None, offset: int
) -> None:
    writer = json(enveloped=True) if converter is CONVERTERS[0] else json(enveloped=False)
    data = [writer.from_connect("topic", schema, each) for each in texts]
    for rows in (data, [*data, extra], [extra, *data]):
        column = pa.array([b"cut"] * offset + rows, pa.binary()).slice(offset)
        try:
            found = converter.columns_to_connect("topic", column)
        except Exception:
            found = None  # the loops go on record by record
        if found is not None:
            single = one_by_one(lambda each: converter.to_connect("topic", each), rows)
            assert [(found[0], each) for each in found[1].to_pylist()] == single


def test_plain_lines_do_go_at_once() -> None:
    lines = pa.array([f"line {n}, with ä" for n in range(100)])
    for converter in CONVERTERS[:3]:
        data = converter.columns_from_connect("topic", STRING, lines)
        assert data is not None
        found = converter.columns_to_connect("topic", data)
        assert found is not None
        assert found[1].equals(lines)


def test_writers_of_a_deep_schema_are_made_once_for_each_level() -> None:
    schema: Schema = INT64
    value: Any = 7
    for _ in range(40):  # were they made twice for each, this would end with 2^40 of them
        schema = SchemaBuilder.struct().field("in", schema).build()
        value = Struct(schema).put("in", value)
    assert json(enveloped=False).from_connect("t", schema, value) == b'{"in":' * 40 + b"7" + b"}" * 40
