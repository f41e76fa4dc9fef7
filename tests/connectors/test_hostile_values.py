"""Hostile values through formats and converters: each comes back equal, or is refused as a `DataError`."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest

from ottla.connect import DataError, Schema, SchemaBuilder, Struct, converters, data
from ottla.connectors.storage import AvroFormat, ParquetFormat, read_avro, read_parquet
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
        if label in FAR:  # times of Java's that Python has not are there for others
            with pytest.raises(DataError, match=f"A value of this {name} file cannot be read"):
                list(read(io.BytesIO(file))[1])
            continue
        [back] = read(io.BytesIO(file))[1]
        assert same(value, back.values[0]), (label, back.values[0])


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
    with pytest.raises(DataError, match=r"a-b and a\.b"):
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
