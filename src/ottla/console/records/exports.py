"""A search's records as a file that is sent as it is made: JSON lines, CSV (RFC 4180), or Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncGenerator
from typing import Any

from ottla.base import OttlaError
from ottla.console.records.decoding import BINARY
from ottla.console.records.scans import Frame

__all__ = ["EXPORT_ROWS_MAX", "FORMATS", "exported"]

FORMATS = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
ROW_GROUP_ROWS, ROW_GROUP_BYTES = 10_000, 32 << 20
EXPORT_ROWS_MAX = 100_000
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How cells begin that spreadsheets take for formulas; an apostrophe before them has them be texts."""


async def exported(frames: AsyncGenerator[Frame, None], kind: str) -> AsyncGenerator[bytes, None]:
    """Yield a file's pieces. A search that breaks off ends the file with a line that says so."""
    if kind == "parquet":
        async for piece in _parquet(frames):
            yield piece
        return
    line = _csv if kind == "csv" else _json
    if kind == "csv":
        yield _row(COLUMNS)
    try:
        async for frame in frames:
            if frame["type"] == "rows":
                rows: Any = frame["rows"]
                yield b"".join(line(row) for row in rows)
            elif frame["type"] == "done" and frame.get("limit"):
                yield _said(kind, f"incomplete: stopped after {frame['limit']}")
    except OttlaError as error:
        yield _said(kind, f"incomplete: {error}")
    finally:
        await frames.aclose()


class _Sink(io.RawIOBase):
    """What a writer has written and nobody has taken yet."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._parts.append(piece)
        self._at += len(piece)
        return len(piece)

    def taken(self) -> bytes:
        """Return it, once."""
        found = b"".join(self._parts)
        self._parts.clear()
        return found


async def _parquet(frames: AsyncGenerator[Frame, None]) -> AsyncGenerator[bytes, None]:
    """Yield a Parquet file's pieces, a row group each; why a search broke off stands in its metadata, `ottla.incomplete`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    header = pa.struct([("name", pa.string()), ("value", pa.string())])
    columns = [("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("ms", tz="UTC"))]
    schema = pa.schema([*columns, ("key", pa.string()), ("value", pa.string()), ("headers", pa.list_(header))])
    sink, incomplete, size = _Sink(), "", 0
    kept: list[dict[str, object]] = []
    writer = pq.ParquetWriter(sink, schema, compression="zstd")

    def write() -> bytes:
        table = pa.Table.from_pylist(kept, schema=schema)
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        kept.clear()
        return sink.taken()

    try:
        async for frame in frames:
            if frame["type"] == "rows":
                rows: Any = frame["rows"]
                kept += map(_columns, rows)
                size += sum(_size(each) for each in rows)
                if len(kept) >= ROW_GROUP_ROWS or size >= ROW_GROUP_BYTES:
                    yield write()
                    size = 0
            elif frame["type"] == "done" and frame.get("limit"):
                incomplete = f"stopped after {frame['limit']}"
    except OttlaError as error:
        incomplete = str(error)
    finally:
        await frames.aclose()
    if kept:
        yield write()
    if incomplete:
        writer.add_key_value_metadata({"ottla.incomplete": _whole(incomplete) or ""})
    writer.close()
    yield sink.taken()


def _size(row: dict[str, Any]) -> int:
    return sum(len(each["text"] or "") for each in (row["key"], row["value"], *row["headers"]))


def _columns(row: dict[str, Any]) -> dict[str, object]:
    """Return a record as Parquet has it; halves of characters, which have no UTF-8, are shown as such."""
    headers = [{"name": _whole(each["name"]), "value": _whole(_text(each))} for each in row["headers"]]
    texts = {name: _whole(_text(row[name])) for name in ("key", "value")}
    return {**{name: row[name] for name in COLUMNS[:3]}, **texts, "headers": headers}


def _text(part: dict[str, Any]) -> str | None:
    """Return a part's text, which says where it is cut."""
    if not part["cut"]:
        return part["text"]  # type: ignore[no-any-return]
    return f"{part['text']}… [cut after {part['cut_after_bytes']} of {part['bytes']} bytes]"


def _whole(text: str | None) -> str | None:
    return None if text is None else text.encode(errors="replace").decode()


def _said(kind: str, text: str) -> bytes:
    return _row((f"# {text}",)) if kind == "csv" else json.dumps({"error": text}).encode() + b"\n"


def _json(row: dict[str, Any]) -> bytes:
    """Return a record as a line; a value that is JSON stands in it as it was written."""
    headers = [[each["name"], _text(each)] for each in row["headers"]]
    parts = [f'"{name}":{json.dumps(row[name])}' for name in COLUMNS[:3]]
    parts += [f'"{name}":{_part(row[name])}' for name in ("key", "value")]
    parts.append(f'"headers":{json.dumps(headers, ensure_ascii=False)}')
    return ("{" + ",".join(parts) + "}\n").encode(errors="replace")


def _part(part: dict[str, Any]) -> str:
    if part["decoder"] in ("json", *BINARY) and not part["cut"] and "\n" not in part["text"] and _is_json(part["text"]):
        return str(part["text"])
    return json.dumps(_text(part), ensure_ascii=False)


def _is_json(text: str) -> bool:
    """Whether a text that Python's decoder takes is JSON to everybody: numbers that are none are words of Python's own."""
    if "NaN" not in text and "Infinity" not in text:
        return True
    words: list[str] = []
    try:
        json.loads(text, parse_constant=words.append, parse_int=str)
    except (ValueError, RecursionError):
        return False
    return not words


def _csv(row: dict[str, Any]) -> bytes:
    headers = json.dumps([[each["name"], _text(each)] for each in row["headers"]], ensure_ascii=False)
    texts = [_text(row["key"]), _text(row["value"]), headers if row["headers"] else ""]
    return _row(
        (row["partition"], row["offset"], row["timestamp"], *("" if each is None else _cell(each) for each in texts))
    )


def _cell(text: str) -> str:
    if not text.startswith(FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return "'" + text
    return text


def _row(cells: tuple[object, ...]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(cells)
    return out.getvalue().encode(errors="replace")
