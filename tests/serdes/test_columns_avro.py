"""Avro as columns agrees with fastavro, which reads and writes a row at a time."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from random import Random
from typing import Any

import fastavro
import pytest

pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa

from ottla.schemas import SchemaType, parse
from ottla.serdes import SerdeError
from ottla.serdes.columns.avro_reading import read_as
from ottla.serdes.columns.avro_tree import Node, tree_of
from ottla.serdes.columns.avro_writing import joined, write_as
from ottla.serdes.columns.framing import laid_out
from ottla.serdes.columns.rows import BadBytesError, Rows
from ottla.serdes.columns.types import arrow_type_of, branches_of
from tests.schemas import avro_maker

SCHEMAS = 150
ROWS = 7


def tree(text: Any) -> Node:
    return tree_of(parse(SchemaType.AVRO, json.dumps(text)))


def encoded(schema: Any, values: list[Any]) -> pa.Array:
    found = []
    for each in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, each)
        found.append(out.getvalue())
    return pa.array(found, pa.binary())


def read(written: Node, wanted: Node, column: pa.Array) -> pa.Array:
    data, begun, end = laid_out(column)
    found = read_as(written, wanted)(Rows(data, begun, end))
    found.validate(full=True)
    return found


def write(node: Node, column: pa.Array) -> list[bytes]:
    found: list[bytes] = joined(write_as(node, column.type)(column), len(column)).to_pylist()
    return found


def plain(node: Node, value: Any) -> Any:
    """Return fastavro's value as the column has it."""
    if node.kind == "union":
        return _member(node, value)
    if node.kind == "record":
        value = value[1] if isinstance(value, tuple) else value
        return {each.name: plain(each.node, value[each.name]) for each in node.fields}
    if node.kind == "array":
        return [plain(node.items, each) for each in value]  # type: ignore[arg-type]
    if node.kind == "map":
        return [(key, plain(node.items, each)) for key, each in value.items()]  # type: ignore[arg-type]
    return value


def _member(node: Node, value: Any) -> Any:
    others = branches_of(node)
    if value is None or not others:
        return None
    if len(others) == 1:
        return plain(others[0], value)
    kinds = {"boolean": bool, "int": int, "long": int, "float": float, "double": float, "bytes": bytes, "string": str}
    named = value[0] if isinstance(value, tuple) else None
    place = next(
        index
        for index, each in enumerate(others)
        if (
            each.name == named
            if named
            else isinstance(value, kinds.get(each.kind, ())) and isinstance(value, bool) == (each.kind == "boolean")
        )
    )
    return {f"member{index}": plain(each, value) if index == place else None for index, each in enumerate(others)}


def is_plain(node: Node) -> bool:
    """Whether a value's branch of each union is clear: fastavro takes the first that it can be widened to, Java its own."""
    if node.kind == "union":
        wider = {**dict.fromkeys(("long", "float", "double"), "int"), "bytes": "string"}
        kinds = [wider.get(each.kind, each.kind) for each in branches_of(node)]
        return len(set(kinds)) == len(kinds) and all(map(is_plain, node.branches))
    parts = [each.node for each in node.fields] + ([node.items] if node.items else [])
    return all(map(is_plain, parts))


def made(seed: int) -> tuple[Any, Node] | None:
    schema = avro_maker.schema(Random(seed))
    try:
        node = tree(schema)
        read_as(node, node)
    except SerdeError as error:  # it holds itself, or has an array of nothing
        assert "holds itself" in str(error) or "no bytes" in str(error), schema
        return None
    return (schema, node) if is_plain(node) else None


def test_random_schemas_are_read_and_written_as_fastavro_does() -> None:
    compared = 0
    for seed in range(SCHEMAS):
        if (found := made(seed)) is None:
            continue
        schema, node = found
        random = Random(seed)
        parsed = fastavro.parse_schema(schema)
        values = [avro_maker.datum(random, schema, {}) for _ in range(ROWS)]
        column = encoded(parsed, values)
        again = [
            fastavro.schemaless_reader(io.BytesIO(each), parsed, None, return_named_type=True)
            for each in column.to_pylist()
        ]
        rows = read(node, node, column)
        expected = [plain(node, each) for each in again]
        assert repr(rows.to_pylist()) == repr(pa.array(expected, arrow_type_of(node)).to_pylist()), schema
        if node.kind != "null":
            assert write(node, rows) == column.to_pylist(), schema
        compared += 1
    assert compared > SCHEMAS / 4


def test_what_older_schemas_wrote_is_read_as_fastavro_reads_it() -> None:
    compared = 0
    for seed in range(SCHEMAS):
        if (found := made(seed)) is None:
            continue
        schema, written = found
        random = Random(seed)
        newer = avro_maker.changed(random, schema, count=1)
        newer = json.loads(json.dumps(newer).replace("\\u00ff", "y"))  # fastavro takes bytes' defaults for UTF-8
        try:
            wanted = tree(newer)
            read_as(written, wanted)
        except SerdeError as error:
            assert "holds itself" in str(error) or "no bytes" in str(error), (schema, newer)
            continue
        if not is_plain(wanted):
            continue
        old, new = fastavro.parse_schema(schema), fastavro.parse_schema(newer)
        column = encoded(old, [avro_maker.datum(random, schema, {}) for _ in range(ROWS)])
        again = [
            fastavro.schemaless_reader(io.BytesIO(each), old, new, return_named_type=True)
            for each in column.to_pylist()
        ]
        expected = pa.array([plain(wanted, each) for each in again], arrow_type_of(wanted)).to_pylist()
        assert repr(read(written, wanted, column).to_pylist()) == repr(expected), (schema, newer)
        compared += 1
    assert compared > SCHEMAS / 4


def test_bytes_that_are_no_values_are_refused_and_end_nothing() -> None:
    for seed in range(SCHEMAS):
        if (found := made(seed)) is None:
            continue
        random = Random(seed)
        for _ in range(20):
            column = pa.array([random.randbytes(random.randrange(40)) for _ in range(3)], pa.binary())
            try:
                read(found[1], found[1], column)
            except (BadBytesError, pa.ArrowInvalid):
                continue


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 3000])
def test_arrays_of_any_length_are_read_and_written(count: int) -> None:
    schema = {
        "type": "array",
        "items": {
            "type": "record",
            "name": "R",
            "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}],
        },
    }
    values = [
        [{"a": index << 40, "b": None if index % 2 else str(index)} for index in range(each)]
        for each in (count, 0, 2, count, 1)
    ]
    column = encoded(fastavro.parse_schema(schema), values)
    rows = read(tree(schema), tree(schema), column)
    assert rows.to_pylist() == values
    assert write(tree(schema), rows) == column.to_pylist()


@pytest.mark.parametrize(
    "number", [0, 1, -1, 63, -64, 64, 1 << 31, -(1 << 55), (1 << 56) - 1, 1 << 62, (1 << 63) - 1, -(1 << 63)]
)
def test_whole_numbers_of_any_length_are_read_and_written(number: int) -> None:
    column = encoded("long", [number, 1, number])
    rows = read(tree("long"), tree("long"), column)
    assert rows.to_pylist() == [number, 1, number]
    assert write(tree("long"), rows) == column.to_pylist()


@pytest.mark.parametrize("kind", ["bytes", "fixed"])
def test_decimals_of_38_digits_are_read_and_written(kind: str) -> None:
    schema: dict[str, Any] = {"type": kind, "logicalType": "decimal", "precision": 38, "scale": 10}
    schema |= {"name": "D", "size": 17} if kind == "fixed" else {}
    texts = (
        "0",
        "0.0000000001",
        "-0.0000000001",
        "1.28",
        "-1.28",
        "9" * 28 + ".0000000001",
        "-" + "9" * 28 + ".9999999999",
    )
    column = encoded(fastavro.parse_schema(schema), [Decimal(each) for each in texts])
    rows = read(tree(schema), tree(schema), column)
    assert rows.to_pylist() == [Decimal(each) for each in texts]
    assert write(tree(schema), rows) == column.to_pylist()


def test_a_decimal_of_too_many_digits_is_refused() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
    column = pa.array([b"\x04\x27\x10"], pa.binary())  # 1000.0
    with pytest.raises(pa.ArrowInvalid):
        read(tree(schema), tree(schema), column)


def test_a_number_of_39_digits_is_refused_where_38_are_all_that_arrow_has() -> None:
    schema = tree({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0})
    with pytest.raises(pa.ArrowInvalid, match="precision"):
        read(schema, schema, pa.array([b"\x20\x7f" + b"\xff" * 15], pa.binary()))
    for text in ("9" * 39, "340282366920938463463374607431768211455", "1" * 78):
        with pytest.raises(SerdeError, match="does not fit the Avro schema"):
            write(schema, pa.array([text]))


@pytest.mark.parametrize("count", [2, 1 << 40, -(1 << 62)])
def test_a_block_cannot_claim_more_items_than_there_are_bytes(count: int) -> None:
    with pytest.raises(BadBytesError):
        read(
            tree({"type": "array", "items": "long"}), tree({"type": "array", "items": "long"}), encoded("long", [count])
        )


def test_an_array_of_nothing_is_not_read() -> None:
    with pytest.raises(SerdeError, match="no bytes"):
        read_as(tree({"type": "array", "items": "null"}), tree({"type": "array", "items": "null"}))


def test_what_does_not_fit_the_schema_is_refused_by_its_name() -> None:
    node = tree(
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "a", "type": "int"},
                {"name": "c", "type": {"type": "enum", "name": "C", "symbols": ["X"]}},
            ],
        }
    )
    kind = pa.struct([("a", pa.int64()), ("c", pa.string())])
    for value, words in (
        ({"a": None, "c": "X"}, "field a is null"),
        ({"a": 1 << 40, "c": "X"}, "field a does not fit"),
        ({"a": 1, "c": "Y"}, "'Y' is no symbol of the enum C"),
    ):
        with pytest.raises(SerdeError, match=words):
            write(node, pa.array([value], kind))
    with pytest.raises(SerdeError, match="field c is missing"):
        write_as(node, pa.struct([("a", pa.int64())]))


def test_rows_stand_anywhere_in_their_buffer() -> None:
    column = encoded("string", ["none", "ä", "", "x" * 300])[1:]
    rows = read(tree("string"), tree("string"), column)
    assert rows.to_pylist() == ["ä", "", "x" * 300]
    assert write(tree("string"), pa.concat_arrays([pa.array(["y"]), rows])[1:]) == column.to_pylist()
    assert np.array_equal(laid_out(column)[1], [0, 3, 4])


def test_optional_records_in_optional_records_take_no_more_time_than_they_are_many() -> None:
    def nested(depth: int) -> Any:
        inner = "long" if depth == 0 else nested(depth - 1)
        return [
            "null",
            {
                "type": "record",
                "name": f"R{depth}",
                "fields": [{"name": "a", "type": inner, "default": None} if depth else {"name": "a", "type": "long"}],
            },
        ]

    node = tree(nested(20))
    value: Any = {"a": 7}
    for _ in range(20):
        value = {"a": value}
    column = encoded(fastavro.parse_schema(nested(20)), [value, None])
    assert read(node, node, column).to_pylist() == [value, None]
    other = tree(json.loads(json.dumps(nested(20)).replace('"long"', '"string"')))
    with pytest.raises(BadBytesError):
        read(node, other, column)
