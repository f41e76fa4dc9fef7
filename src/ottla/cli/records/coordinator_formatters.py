"""Records of internal topics as JSON, as Kafka's formatters for them print it: one document after the other, no lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ottla.base import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, ErrorCode, KafkaError, OttlaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.cli.records.record_reader import ConsumedRecord

__all__ = ["COORDINATOR_FORMATTERS", "coordinator_formatter"]


COORDINATOR_FORMATTERS: dict[str, tuple[str, frozenset[int]]] = {
    "OffsetsMessageFormatter": (OFFSETS_TOPIC, frozenset({0, 1})),
    "GroupMetadataMessageFormatter": (OFFSETS_TOPIC, frozenset({2})),
    "ShareGroupMessageFormatter": (OFFSETS_TOPIC, frozenset(range(10, 16))),
    "TransactionLogMessageFormatter": (TRANSACTIONS_TOPIC, frozenset({0})),
    "ShareGroupStateMessageFormatter": (SHARE_STATE_TOPIC, frozenset({0, 1})),
}
"""Formatter -> the topic whose records it reads, and the types of records that it prints."""


def coordinator_formatter(name: str) -> Callable[[ConsumedRecord], bytes]:
    """Return a formatter of COORDINATOR_FORMATTERS; it prints nothing for a record of another type."""
    topic, types = COORDINATOR_FORMATTERS[name]

    def render(record: ConsumedRecord) -> bytes:
        if record.key is None:
            return b""
        try:
            document = _document(topic, types, record.key, record.value)
        except OttlaError as error:
            message = f"Could not read record at offset {record.offset} due to: {error}"
            raise KafkaError(ErrorCode.INVALID_RECORD, message) from error
        return b"" if document is None else json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

    return render


def _document(topic: str, types: frozenset[int], key_data: bytes, value_data: bytes | None) -> dict[str, Any] | None:
    """Return what is printed, or None where the record is of a type that is not asked for, or not known."""
    from ottla.wire import decode_coordinator_key, decode_coordinator_value, json_form

    if int.from_bytes(key_data[:2], "big") not in types:
        return None
    key = decode_coordinator_key(topic, key_data)
    if key is None:
        return None
    document: dict[str, Any] = {"key": {"type": key.API_KEY, "data": json_form(key, 0)}, "value": None}
    if value_data is None:
        return document
    found = decode_coordinator_value(topic, key, value_data)
    if found is None:
        return None
    value, version = found
    return document | {"value": {"version": version, "data": json_form(value, version)}}
