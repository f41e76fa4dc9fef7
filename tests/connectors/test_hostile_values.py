"""Hostile values through formats and converters: each comes back equal, or is refused as a `DataError`."""

from __future__ import annotations

import io
import math
from typing import Any

import pyarrow as pa
import pytest

from ottla.connect import DataError, Schema, SchemaBuilder, Struct, converters, data
from ottla.connectors.s3.readers import values_of
from ottla.connectors.storage import AvroFormat, BytesFormat, JsonFormat, ParquetFormat, read_avro, read_parquet
from tests.hostile_values import HOSTILE, NAMES, RAW, same

FORMATS: dict[str, tuple[Any, Any]] = {"Avro": (AvroFormat, read_avro), "Parquet": (ParquetFormat, read_parquet)}
REFUSED = {
    "text: half a surrogate pair",
    "float: too large",
    "decimal: 1000 digits",
    "decimal: 65 digits",
    "decimal: infinite",
    "decimal: no number",
    "decimal: of another scale",
    "decimal: with an exponent",
    *(f"int{bits} too large" for bits in (8, 16, 32, 64)),
    "int64 huge",
}
FAR = {"a day BC", "a day of the year 10000", "no day any more", "24:00", "a moment BC", "a moment of the year 10000"}
FAR = {f"time: {each}" for each in (*FAR, "infinite")}


def written(form: Any, schema: Schema, *values: Any) -> bytes:
    """Return a file of values, which the format has taken one by one before."""
    file = io.BytesIO()
    taken = [form.convert("t", schema, each) for each in values]
    encoder = form.encoder(schema, file, "name")
    for each in taken:
        encoder.add(each)
    encoder.finish()
    return file.getvalue()


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_has_each_value_as_it_was_or_its_record_is_refused_before_it_counts(name: str) -> None:
    cls, read = FORMATS[name]
    refused = REFUSED | ({"decimal: 39 digits", "time: 24:00"} if name == "Parquet" else set())
    for label, kind, value in HOSTILE:
        schema = SchemaBuilder.struct().field("v", kind).build()
        record = Struct(schema)
        record.values[0] = value
        if label in refused:
            with pytest.raises(DataError):
                cls({}).convert("t", schema, record)
            continue
        file = written(cls({}), schema, record)
        if label in FAR - {"time: 24:00"}:  # times of Java's that Python has not are there for others
            with pytest.raises(DataError, match=f"A value of this {name} file cannot be read"):
                list(read(io.BytesIO(file))[1])
            continue
        [back] = read(io.BytesIO(file))[1]
        assert same(value, back.values[0]), (label, back.values[0])


def json_values(label: str, schema: Schema, value: Any) -> Any:
    """Return what a line of JSON without its schema says of a value, as Kafka's converter writes it."""
    converter = json_converter(schemas_enable="false")
    return converter.to_connect("t", converter.from_connect("t", schema, value)).value


def test_lines_of_json_have_what_the_converter_says_and_refuse_what_it_refuses() -> None:
    form = JsonFormat({})
    for label, schema, value in HOSTILE:
        if label in REFUSED - {"decimal: 1000 digits", "decimal: 65 digits"}:
            with pytest.raises(DataError):
                form.convert("t", schema, value)
            continue
        line = form.convert("t", schema, value)
        assert line.count(b"\n") == 1 and line.endswith(b"\n"), label
        [(_, back)] = values_of(io.BytesIO(line), "JsonFormat", {})
        assert same(json_values(label, schema, value), back), (label, back)


@pytest.mark.parametrize("name", ["String", "ByteArray"])
def test_lines_of_text_and_bytes_come_back_by_a_separator_that_no_value_has(name: str) -> None:
    settings = {"format.bytearray.separator": "\x1e--end--"}
    form = BytesFormat(settings, text=name == "String")
    taken = (str, bytes) if name == "String" else (bytes,)
    for label, schema, value in HOSTILE:
        if not isinstance(value, taken) or label == "text: half a surrogate pair":
            with pytest.raises(DataError):
                form.convert("t", schema, value)
            continue
        line = form.convert("t", schema, value)
        read = values_of(io.BytesIO(line), f"{name}Format", settings)
        wanted = value
        if name == "String" and isinstance(value, bytes):
            try:
                wanted = value.decode()
            except UnicodeDecodeError:
                with pytest.raises(DataError, match="no UTF-8 text"):
                    list(read)
                continue
        assert [each for _, each in read] == [wanted], label


@pytest.mark.parametrize(
    "form", [JsonFormat({}), BytesFormat({}, text=True), BytesFormat({})], ids=["json", "text", "bytes"]
)
def test_a_column_of_hostile_values_becomes_the_lines_that_its_rows_become(form: Any) -> None:
    for label, schema, value in HOSTILE:
        if not isinstance(value, str | bytes) or label == "text: half a surrogate pair":
            continue
        block = form.block(pa.array([value, value]))
        if block is not None:
            assert bytes(block) == 2 * form.convert("t", schema, value), label


@pytest.mark.parametrize("name", ["Json", "String", "ByteArray", "Avro", "Parquet"])
def test_whatever_bytes_an_object_has_its_format_takes_them_or_refuses_them(name: str) -> None:
    for raw in RAW:
        try:
            list(values_of(io.BytesIO(raw or b""), f"{name}Format", {}))
        except DataError as error:
            assert str(error)


@pytest.mark.parametrize("name", FORMATS)
def test_fields_with_odd_names_keep_them_or_are_refused(name: str) -> None:
    cls, read = FORMATS[name]
    for field in NAMES:
        schema = SchemaBuilder.struct().field(field, data.STRING).build()
        try:
            file = written(cls({}), schema, Struct(schema, {field: "x"}))
        except DataError as error:
            assert "name" in str(error)
            continue
        found, rows = read(io.BytesIO(file))
        assert [each.name for each in found.fields] == [field] and [each.values for each in rows] == [["x"]]


def test_names_that_avro_would_make_one_are_refused() -> None:
    schema = SchemaBuilder.struct().field("a-b", data.STRING).field("a.b", data.STRING).build()
    with pytest.raises(DataError, match=r"same name in Avro: a-b, a\.b"):
        AvroFormat({"scrub.invalid.names": True}).convert("t", schema, Struct(schema, {"a-b": "1", "a.b": "2"}))


def json_converter(**settings: str) -> converters.JsonConverter:
    made = converters.JsonConverter()
    made.configure({key.replace("_", "."): value for key, value in settings.items()}, is_key=False)
    return made


@pytest.mark.parametrize("decimals", ["BASE64", "NUMERIC"])
def test_json_with_schemas_gives_each_value_back_or_refuses_it(decimals: str) -> None:
    converter = json_converter(schemas_enable="true", decimal_format=decimals)
    refused = REFUSED - {"decimal: 1000 digits", "decimal: 65 digits"}
    if decimals == "NUMERIC":
        refused -= {"decimal: of another scale", "decimal: with an exponent"}
    for label, schema, value in HOSTILE:
        if label in refused:
            with pytest.raises(DataError):
                converter.from_connect("t", schema, value)
            continue
        text = converter.from_connect("t", schema, value)
        if label in FAR - {"time: 24:00"}:
            with pytest.raises(DataError, match="is outside the years 1 to 9999"):
                converter.to_connect("t", text)
            continue
        back = converter.to_connect("t", text).value
        if isinstance(value, float) and not math.isfinite(value):
            assert back == 0, "as in Kafka, which writes a text and reads it as a number"
            continue
        assert same(value, back) or (decimals == "NUMERIC" and value == back), (label, back)


@pytest.mark.parametrize("name", [each for each in converters.__all__ if each.endswith("Converter")])
def test_whatever_bytes_a_topic_has_a_converter_takes_them_or_refuses_them(name: str) -> None:
    for settings in ({"schemas.enable": "true"}, {"schemas.enable": "false"}):
        converter = getattr(converters, name)()
        if not hasattr(converter, "to_connect"):
            continue
        converter.configure(settings, is_key=False)
        for raw in RAW:
            try:
                converter.to_connect("t", raw)
            except DataError as error:
                assert str(error)
