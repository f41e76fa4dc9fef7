"""Hostile values and bytes through serdes: equal on the way back, or refused as a `SerializationError`, and soon."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.connect import SchemaType
from ottla.streams.errors import SerializationError
from ottla.streams.serdes.basic import ListSerde
from ottla.streams.serdes.choice import serde_of
from tests.hostile_values import HOSTILE, RAW, same


@dataclass
class Account:
    id: int
    name: str
    balance: float = 0.0


NAMES = ("string", "bytes", "short", "integer", "long", "float", "double", "boolean", "uuid", "void", "json")
SERDES = (*map(serde_of, NAMES), serde_of(Account), *(ListSerde(serde_of(each)) for each in ("string", "long", "uuid")))
KINDS = {
    "string": SchemaType.STRING,
    "bytes": SchemaType.BYTES,
    "short": SchemaType.INT16,
    "integer": SchemaType.INT32,
    "long": SchemaType.INT64,
    "float": SchemaType.FLOAT32,
    "double": SchemaType.FLOAT64,
}
BROKEN = (
    struct.pack(">bii", 1, (1 << 31) - 1, -4),  # an element that ends where it begins
    struct.pack(">bi", 1, (1 << 31) - 1),
    struct.pack(">bii", 0, -1, 5),
    b'{"id":1e400,"name":"x"}',
    b'{"id":NaN,"name":1}',
    b'{"id":1,"name":"\xff"}',
    b'{"id":' + b"9" * 5000 + b"}",
)


@pytest.mark.parametrize("serde", SERDES, ids=lambda each: each.name)
@pytest.mark.timeout(60)
def test_whatever_bytes_a_topic_has_a_serde_takes_them_or_refuses_them(serde: Any) -> None:
    for raw in (*RAW, *BROKEN):
        try:
            serde.deserialize(raw)
        except SerializationError as error:
            assert str(error)


@pytest.mark.parametrize("name", KINDS)
def test_values_of_a_serdes_kind_come_back_or_are_refused(name: str) -> None:
    serde = serde_of(name)
    for label, schema, value in HOSTILE:
        if schema.type is not KINDS[name] or (schema.name is not None and value is not None):
            continue
        if "too large" in label or label == "int64 huge":
            with pytest.raises(SerializationError):
                serde.serialize(value)
            continue
        back = serde.deserialize(serde.serialize(value))
        if label == "text: half a surrogate pair":
            assert back == "a?b", "as Java encodes it"
            continue
        assert same(value, back), (label, back)


def test_json_texts_numbers_and_lists_come_back(name: str = "json") -> None:
    serde = serde_of(name)
    plain = (SchemaType.STRING, SchemaType.INT64, SchemaType.FLOAT64, SchemaType.ARRAY, SchemaType.MAP)
    for label, schema, value in HOSTILE:
        if schema.type in plain and schema.name is None:
            assert same(value, serde.deserialize(serde.serialize(value))), label
