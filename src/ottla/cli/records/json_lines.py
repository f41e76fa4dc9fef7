"""Records as JSON lines that go round: what `ottla consume -o jsonl` writes, `ottla produce -o jsonl` reads.

Text stands as a string, bytes that are no text as `{"base64": "…"}`, and nothing as null, so that every record comes
back as it was.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any

from ottla.base import ErrorCode, KafkaError
from ottla.cli.records.line_reader import Line

__all__ = ["read_json_lines"]


def read_json_lines(lines: Iterable[bytes], *, keep_partition: bool = False) -> Iterator[Line]:
    """Yield the records; raises KafkaError that names the line for what is none.

    Key, value, headers, topic and timestamp count; the partition only with `keep_partition`, and offsets never.
    """
    for number, text in enumerate(lines, 1):
        if text.strip():
            try:
                yield _line(json.loads(text), keep_partition=keep_partition)
            except UnicodeDecodeError:
                raise KafkaError(ErrorCode.INVALID_RECORD, f"line {number} is no record: it is not UTF-8") from None
            except json.JSONDecodeError as error:
                message = f"line {number} is no record: it is not JSON, from column {error.colno} on: {error.msg}"
                raise KafkaError(ErrorCode.INVALID_RECORD, message) from None
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise KafkaError(ErrorCode.INVALID_RECORD, f"line {number} is no record: {error}") from None


def _line(document: Any, *, keep_partition: bool) -> Line:
    if not isinstance(document, dict):
        raise TypeError("an object with key, value, headers is expected")
    if "value" not in document and "key" not in document:
        raise TypeError("it has neither value nor key")
    headers = document.get("headers") or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    topic = document.get("topic")
    return Line(
        key=_bytes(document.get("key")),
        value=_bytes(document.get("value")),
        headers=[(str(name), _bytes(value)) for name, value in pairs],
        topic=topic if isinstance(topic, str) else None,
        partition=int(document.get("partition", -1)) if keep_partition else -1,
        timestamp=max(0, int(document.get("timestamp") or 0)),
    )


def _bytes(field: Any) -> bytes | None:
    """Return a field's bytes: text, base64, null, or any other JSON value as its own text."""
    match field:
        case None:
            return None
        case str():
            return field.encode()
        case {"base64": str(text)} if len(field) == 1:
            return b64decode(text, validate=True)
    return json.dumps(field, ensure_ascii=False, separators=(",", ":")).encode()
