"""Ottla's answers to the questions that the oracle's JVM is asked, in the same JSON."""

from __future__ import annotations

from typing import Any

from ottla.base import OttlaError
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


ANSWERS = {
    "parse": lambda asked: pair(parse_value(asked["text"])),
    "text": text,
}
