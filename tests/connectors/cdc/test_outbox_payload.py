"""An outbox's payload of JSON as a structure: every element of a list is in it, or the payload stays a text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.connect import SchemaBuilder, SourceRecord, Struct, data
from ottla.connect.converters.json import JsonConverter
from ottla.connectors.cdc import EventRouter


def routed(payload: str) -> Any:
    """Return the record that a row of an outbox with this payload becomes."""
    row = SchemaBuilder.struct().optional()
    for name in ("id", "aggregatetype", "aggregateid", "payload"):
        row.field(name, data.STRING)
    event = SchemaBuilder.struct().name("s.open.outbox.Envelope").field("op", data.STRING).field("after", row.build())
    after = Struct(row.build(), id="1", aggregatetype="order", aggregateid="7", payload=payload)
    value = Struct(event.build(), op="c", after=after)
    router = EventRouter()
    router.configure({"table.expand.json.payload": "true"})
    return router.apply(SourceRecord(topic="s.open.outbox", value_schema=value.schema, value=value))


def plain(record: Any) -> Any:
    """Return a record's value as its JSON has it."""
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    return json.loads(converter.from_connect("t", record.value_schema, record.value) or b"")


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ('{"a": [{"x": 1}, {"x": 2, "y": "z"}]}', {"a": [{"x": 1, "y": None}, {"x": 2, "y": "z"}]}),
        ('{"a": [{"x": 1, "y": 2}, {"y": 3}]}', {"a": [{"x": 1, "y": 2}, {"x": None, "y": 3}]}),
        ('{"a": [1, 2.5]}', {"a": [1.0, 2.5]}),
        ('{"a": [1, 3000000000]}', {"a": [1, 3000000000]}),
        ('{"a": [null, 1]}', {"a": [None, 1]}),
        ("[[1], [2.5, null]]", [[1.0], [2.5, None]]),
        ('[{"p": [{"q": 1}]}, {"p": [{"r": true}]}]', [{"p": [{"q": 1, "r": None}]}, {"p": [{"q": None, "r": True}]}]),
        ('[{"p": []}, {"p": [1]}]', [{"p": []}, {"p": [1]}]),
    ],
)
def test_all_elements_of_a_list_are_in_the_structure(payload: str, told: Any) -> None:
    record = routed(payload)
    data.validate_value(record.value_schema, record.value)
    assert plain(record) == told


@pytest.mark.parametrize(
    "payload",
    [
        '{"a": 18446744073709551615}',
        '{"a": [1, 9223372036854775808]}',
        '{"a": [9007199254740993, 0.5]}',
        '{"a": [1, "one"]}',
        '{"a": [{"x": 1}, {"x": "one"}]}',
        '{"a": [true, 1]}',
        '{"a": [[1], 1]}',
        '{"a": 1e400}',
        '{"a": NaN}',
    ],
)
def test_a_payload_that_no_schema_holds_stays_the_text_that_it_was(payload: str) -> None:
    record = routed(payload)
    assert (record.value, record.value_schema.type.name, record.topic) == (payload, "STRING", "outbox.event.order")
