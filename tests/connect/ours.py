"""Ottla's answers to the questions that the oracle's JVM is asked, in the same JSON."""

from __future__ import annotations

import base64
from typing import Any

from ottla.base import OttlaError
from ottla.connect import converters
from ottla.connect.data import SchemaAndValue, parse_value, to_text
from ottla.connect.errors import java_name_of
from tests.connect.described import schema_from_json, schema_to_json, value_from_json, value_to_json

Json = Any


def answer(asked: Json) -> Json:
    """Return the answer, or the error with its Java class and message."""
    try:
        return ANSWERS[asked["op"]](asked)
    except OttlaError as error:
        return {"error": java_name_of(error), "message": str(error)}


def pair(found: SchemaAndValue) -> Json:
    return {"schema": schema_to_json(found.schema), "value": value_to_json(found.value, found.schema)}


def text(asked: Json) -> Json:
    schema = schema_from_json(asked["schema"])
    return to_text(value_from_json(asked["value"], schema))


def data(asked: Json) -> bytes | None:
    return None if asked["data"] is None else base64.b64decode(asked["data"])


def encoded(found: bytes | None) -> Json:
    return None if found is None else base64.b64encode(found).decode()


def converter(asked: Json) -> Any:
    made = STOCK[asked["class"]]()
    made.configure(asked["config"], is_key=asked.get("key", False))
    return made


def header_converter(asked: Json) -> Any:
    made = STOCK[asked["class"]]()
    made.configure_header(asked["config"])
    return made


def from_connect(asked: Json) -> Json:
    schema = schema_from_json(asked["schema"])
    return encoded(converter(asked).from_connect("t", schema, value_from_json(asked["value"], schema)))


def from_header(asked: Json) -> Json:
    schema = schema_from_json(asked["schema"])
    return encoded(header_converter(asked).from_header("t", "h", schema, value_from_json(asked["value"], schema)))


STOCK = {each.java_name: each for each in (getattr(converters, name) for name in converters.__all__)}
ANSWERS = {
    "parse": lambda asked: pair(parse_value(asked["text"])),
    "text": text,
    "from": from_connect,
    "to": lambda asked: pair(converter(asked).to_connect("t", data(asked))),
    "header_from": from_header,
    "header_to": lambda asked: pair(header_converter(asked).to_header("t", "h", data(asked))),
}
