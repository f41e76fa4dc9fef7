"""A record as a row that the page shows, and as the document that a filter looks at. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ottla.console.records.decoding import BINARY, SHOWN_BYTES_MAX, Decoded, decode, registry_frame
from ottla.console.records.reads import Read
from ottla.wire import Record

__all__ = ["Decoders", "document_of", "row_of"]

HEADERS_SHOWN_MAX = 50


@dataclass(frozen=True, slots=True)
class Decoders:
    """Decoders that somebody has asked for; None takes the first that fits."""

    key: str | None = None
    value: str | None = None


def document_of(topic: str, partition: int, record: Record | Read) -> dict[str, object]:
    """Return what a filter sees of a record: values in JSON's terms, numbers as floats, texts where they are texts."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _quick(record.key),
        "value": _quick(record.value),
        "headers": {name: _quick(value) for name, value in record.headers},
    }


def _quick(data: bytes | None) -> object:
    if data is None:
        return None
    if data[:1] in (b"{", b"[", b'"'):
        try:
            found: object = json.loads(data)
        except (ValueError, RecursionError):
            pass
        else:
            return found
    if len(data) in (4, 8) or not data.isascii():
        return decode(data).value
    text = data.decode()
    return _number(text) if text[:1] in "-0123456789" else text


def _number(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def row_of(partition: int, record: Record | Read, decoders: Decoders, *, whole: bool = False) -> dict[str, object]:
    """Return a record as the page shows it; values of more than 32 KiB are cut unless the whole is asked for."""
    key, value = _shown(record.key, decoders.key, whole=whole), _shown(record.value, decoders.value, whole=whole)
    if isinstance(record, Read):
        key |= {} if record.key_by is None else {"by": record.key_by, "bytes": record.key_bytes}
        value |= {} if record.value_by is None else {"by": record.value_by, "bytes": record.value_bytes}
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": key,
        "value": value,
        "headers": [
            {"name": name, **_shown(value, None, whole=whole)} for name, value in record.headers[:HEADERS_SHOWN_MAX]
        ],
        "headers_left_out": max(0, len(record.headers) - HEADERS_SHOWN_MAX),
    }


def _shown(data: bytes | None, wanted: str | None, *, whole: bool) -> dict[str, object]:
    if data is None:
        return {"decoder": "null", "text": None, "bytes": 0, "cut": False}
    is_cut = not whole and len(data) > SHOWN_BYTES_MAX
    found = decode(data[:SHOWN_BYTES_MAX] if is_cut else data, wanted)
    shown: dict[str, object] = {
        "decoder": found.decoder,
        "text": _text(found, data[:SHOWN_BYTES_MAX] if is_cut else data),
        "bytes": len(data),
        "cut": is_cut,
    }
    if (schema := registry_frame(data)) is not None and found.decoder == "hex":
        shown["schema_id"] = schema
    if whole:
        shown["attempts"] = [{"decoder": each.decoder, "reason": each.reason} for each in found.attempts]
    return shown


def _text(found: Decoded, data: bytes) -> str:
    """JSON as it was written, so that no digit of a number changes; all else as its decoder says."""
    if found.decoder == "json":
        return data.decode(errors="replace")
    return json.dumps(found.value, ensure_ascii=False) if found.decoder in BINARY else str(found.value)
