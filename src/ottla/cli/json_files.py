"""JSON files that commands take, with Kafka's words for what is wrong in one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ottla.admin import invalid_request
from ottla.base import OttlaError, TopicPartition

__all__ = ["entries", "field", "file_text", "parsed", "topic_partition"]

KINDS = {str: "String", int: "Integer", list: "JSON array"}
"""What Kafka's tools call the kinds of values."""


class UnreadableError(OttlaError):
    """A file that is not there, or not for us."""


def file_text(path: str) -> bytes:
    """Return a file's bytes; raises UnreadableError in Kafka's words."""
    try:
        return Path(path).read_bytes()
    except OSError:
        raise UnreadableError(f"Unable to read file {path}") from None


def parsed(text: str | bytes, otherwise: str = "The input string is not a valid JSON") -> dict[str, Any]:
    """Return the file's object; raises KafkaError for what is not one."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise invalid_request(otherwise) from None
    if not isinstance(document, dict):
        raise invalid_request(f"Expected JSON object, received {json.dumps(document)}")
    return document


def entries(document: dict[str, Any], name: str) -> list[Any]:
    """Return the list under a name; an empty one where it is missing."""
    return list(field(document, name, list)) if name in document else []


def field(each: Any, name: str, kind: type) -> Any:
    """Return a field of an object; raises KafkaError where it is missing or of another kind."""
    if not isinstance(each, dict):
        raise invalid_request(f"Expected JSON object, received {json.dumps(each)}")
    if name not in each:
        raise invalid_request(f"No such field exists: `{name}`")
    return value(each[name], kind)


def value(found: Any, kind: type) -> Any:
    """Return a value; raises KafkaError where it is of another kind."""
    if not isinstance(found, kind) or isinstance(found, bool):
        raise invalid_request(f"Expected `{KINDS[kind]}` value, received {json.dumps(found)}")
    return found


def topic_partition(each: Any) -> TopicPartition:
    """Return the partition that an object names."""
    return TopicPartition(field(each, "topic", str), field(each, "partition", int))
