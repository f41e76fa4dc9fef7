"""Keys and values of stores as JSON and as text: what the HTTP service answers, and how a key in an address is read."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from ottla.base import ErrorCode, KafkaError
from ottla.streams import Serde, Windowed

__all__ = ["key_of_text", "plain"]

_WHOLE = frozenset({"long", "integer", "int", "short", "byte"})
_REAL = frozenset({"double", "float"})
_TEXT = frozenset({"string", "str"})


def plain(value: Any) -> Any:
    """Return a value made of what JSON has: bytes as text or else base64, dataclasses as objects, times in ISO 8601."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Windowed):
        return {"key": plain(value.key), "start_ms": value.start_ms, "end_ms": value.end_ms}
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(bytes(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    return repr(value)


def _bytes(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def key_of_text(serde: Serde, text: str) -> Any:
    """Return a key that was written as text: by the serde's name, else as JSON, else the text itself.

    Raises KafkaError for a text that cannot be such a key.
    """
    name = serde.name.lower()
    try:
        if name in _TEXT:
            return text
        if name in _WHOLE:
            return int(text)
        if name in _REAL:
            return float(text)
        if name == "uuid":
            return UUID(text)
        if name in ("bytes", "bytearray", "bytebuffer"):
            return text.encode()
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{text!r} is no {serde.name}, which the store's keys are"
        ) from None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    made = getattr(serde, "type", None)
    if isinstance(found, dict) and isinstance(made, type) and dataclasses.is_dataclass(made):
        return made(**found)
    return found
