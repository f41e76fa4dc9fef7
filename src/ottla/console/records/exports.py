"""A search's records as a file that is sent as it is made: JSON lines, or CSV (RFC 4180)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncGenerator
from typing import Any

from ottla.base import OttlaError
from ottla.console.records.scans import Frame

__all__ = ["EXPORT_ROWS_MAX", "FORMATS", "exported"]

FORMATS = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
EXPORT_ROWS_MAX = 100_000
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How cells begin that spreadsheets take for formulas; an apostrophe before them has them be texts."""


async def exported(frames: AsyncGenerator[Frame, None], kind: str) -> AsyncGenerator[bytes, None]:
    """Yield a file's pieces. A search that breaks off ends the file with a line that says so."""
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


def _said(kind: str, text: str) -> bytes:
    return _row((f"# {text}",)) if kind == "csv" else json.dumps({"error": text}).encode() + b"\n"


def _json(row: dict[str, Any]) -> bytes:
    """Return a record as a line; a value that is JSON stands in it as it was written."""
    headers = [[each["name"], each["text"]] for each in row["headers"]]
    parts = [f'"{name}":{json.dumps(row[name])}' for name in COLUMNS[:3]]
    parts += [f'"{name}":{_part(row[name])}' for name in ("key", "value")]
    parts.append(f'"headers":{json.dumps(headers, ensure_ascii=False)}')
    return ("{" + ",".join(parts) + "}\n").encode(errors="replace")


def _part(part: dict[str, Any]) -> str:
    if part["decoder"] == "json" and not part["cut"] and "\n" not in part["text"]:
        return str(part["text"])
    return json.dumps(part["text"], ensure_ascii=False)


def _csv(row: dict[str, Any]) -> bytes:
    headers = json.dumps([[each["name"], each["text"]] for each in row["headers"]], ensure_ascii=False)
    texts = [row["key"]["text"], row["value"]["text"], headers if row["headers"] else ""]
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
