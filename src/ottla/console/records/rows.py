"""A record as a row that the page shows, and as the document that a filter looks at. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ottla.console.records.decoding import BINARY, SHOWN_BYTES_MAX, Decoded, decode, registry_frame
from ottla.console.records.reads import Read
from ottla.wire import Record

__all__ = ["Decoders", "document_of", "held_bytes", "row_of", "shortened"]

HEADERS_SHOWN_MAX = 50
HEADER_BYTES_MAX, HEADERS_BYTES_MAX = 8 * 1024, 64 * 1024
"""What is shown of one header, and of all of a record's, unless the record is asked for whole."""
WHOLE_BYTES_MAX = 4 << 20
"""What is shown of a part of a record that is asked for whole: the rest has an address of its own."""
DOCUMENT_BYTES_MAX = 8 << 20
"""A filter reads no JSON that is larger: it is a text."""
ROW_OVERHEAD_BYTES = 512


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
    if data[:1] in (b"{", b"[", b'"') and len(data) <= DOCUMENT_BYTES_MAX:
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


def shortened(record: Record | Read) -> Record | Read:
    """Return a record with as much of each part as `row_of` shows, and how large and how many they are."""
    key, value, most = record.key or b"", record.value or b"", SHOWN_BYTES_MAX + 1
    headers = sum(len(name) + len(each or b"") for name, each in record.headers)
    if len(key) <= most and len(value) <= most and headers <= HEADERS_BYTES_MAX:
        return record
    by: tuple[str | None, str | None] = (None, None)
    sizes = len(key), len(value)
    kept = record.headers[:HEADERS_SHOWN_MAX]
    header_sizes, left_out = tuple(len(each or b"") for _, each in kept), len(record.headers) - len(kept)
    if isinstance(record, Read):
        header_sizes = header_sizes if record.header_bytes is None else record.header_bytes
        left_out += record.headers_left_out
        by = record.key_by, record.value_by
        sizes = (
            len(key) if record.key_bytes is None else record.key_bytes,
            len(value) if record.value_bytes is None else record.value_bytes,
        )
    return Read(
        record.offset,
        record.timestamp,
        None if record.key is None else record.key[:most],
        None if record.value is None else record.value[:most],
        tuple((name, None if each is None else each[: HEADER_BYTES_MAX + 1]) for name, each in kept),
        *(*by, *sizes, header_sizes, left_out),
    )


def held_bytes(record: Record | Read) -> int:
    """Return how much memory a record takes, about."""
    own = len(record.key or b"") + len(record.value or b"") + ROW_OVERHEAD_BYTES
    return own + sum(len(name) + len(value or b"") for name, value in record.headers)


def row_of(partition: int, record: Record | Read, decoders: Decoders, *, whole: bool = False) -> dict[str, object]:
    """Return a record as the page shows it.

    Values of more than 32 KiB are cut, and say so; where the whole is asked for, those of more than 4 MiB.
    """
    most = WHOLE_BYTES_MAX if whole else SHOWN_BYTES_MAX
    key, value = (
        _shown(record.key, decoders.key, most, whole=whole),
        _shown(record.value, decoders.value, most, whole=whole),
    )
    if isinstance(record, Read):
        key |= _said(record.key_by, record.key_bytes)
        value |= _said(record.value_by, record.value_bytes)
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": key,
        "value": value,
        "headers": _headers(record, whole=whole),
        "headers_left_out": max(0, len(record.headers) - HEADERS_SHOWN_MAX)
        + (record.headers_left_out if isinstance(record, Read) else 0),
    }


def _headers(record: Record | Read, *, whole: bool) -> list[dict[str, object]]:
    """Return a record's first headers, each cut where it is long, and where the room for all of them ends."""
    sizes = record.header_bytes if isinstance(record, Read) else None
    most, left = (
        (WHOLE_BYTES_MAX // HEADERS_SHOWN_MAX, WHOLE_BYTES_MAX) if whole else (HEADER_BYTES_MAX, HEADERS_BYTES_MAX)
    )
    found = []
    for at, (name, data) in enumerate(record.headers[:HEADERS_SHOWN_MAX]):
        room = min(most, left)
        shown = _shown(data, None, room, whole=whole) | _said(None, None if sizes is None else sizes[at])
        left -= min(room, len(data or b""))
        found.append({"name": name[:HEADER_BYTES_MAX], **shown})
    return found


def _said(by: str | None, size: int | None) -> dict[str, object]:
    return ({} if by is None else {"by": by}) | ({} if size is None and by is None else {"bytes": size})


def _shown(data: bytes | None, wanted: str | None, most: int, *, whole: bool) -> dict[str, object]:
    if data is None:
        return {"decoder": "null", "text": None, "bytes": 0, "cut": False}
    is_cut = len(data) > most
    part = data[:most] if is_cut else data
    found = decode(part, wanted)
    shown: dict[str, object] = {
        "decoder": found.decoder,
        "text": _text(found, part),
        "bytes": len(data),
        "cut": is_cut,
    }
    if is_cut:
        shown["cut_after_bytes"] = most
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
