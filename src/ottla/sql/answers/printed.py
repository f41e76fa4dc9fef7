"""PRINT: records as text, by what their bytes look like."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ottla.sql.expressions.times import timestamp_text
from ottla.streams import Record

JSON_TEXT, STRING_TEXT, LONG_TEXT, INT_TEXT = "JSON", "KAFKA_STRING", "KAFKA_BIGINT", "KAFKA_INT"
UNKNOWN, NULL_TEXT = "¯\\_(ツ)_/¯ - no data processed", "<null>"
_MAGIC = 0
"""The first byte of what a schema registry's serializers write."""


def formats_text(records: Sequence[Record]) -> str:
    """The two lines that say what keys and values look like."""
    keys, values = _looks([each.key for each in records]), _looks([each.value for each in records])
    return f"Key format: {keys}\nValue format: {values}\n"


def record_text(record: Record) -> str:
    """A record as PRINT shows it."""
    time = timestamp_text(record.timestamp).replace("-", "/").replace("T", " ") if record.timestamp >= 0 else "unknown"
    return (
        f"rowtime: {time} Z, key: {_shown(record.key)}, value: {_shown(record.value)}, partition: {record.partition}\n"
    )


def _looks(found: Sequence[bytes | None]) -> str:
    known = list(dict.fromkeys(_format(each) for each in found if each is not None))
    return " or ".join(known) if known else UNKNOWN


def _format(data: bytes) -> str:
    if data[:1] == bytes([_MAGIC]) and len(data) > 5:
        return "AVRO or PROTOBUF or JSON_SR"
    if _json(data):
        return JSON_TEXT
    if _is_text(data):
        return STRING_TEXT
    return LONG_TEXT if len(data) == 8 else INT_TEXT if len(data) == 4 else "BYTES"


def _json(data: bytes) -> bool:
    if data[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _is_text(data: bytes) -> bool:
    try:
        return all(each.isprintable() or each.isspace() for each in data.decode())
    except UnicodeDecodeError:
        return False


def _shown(data: bytes | None) -> str:
    if data is None:
        return NULL_TEXT
    if _is_text(data):
        return data.decode()
    if len(data) in (4, 8):
        return str(int.from_bytes(data, "big", signed=True))
    return f"0x{data.hex().upper()}"
