"""Records that are mended before they are sent again, by assignments in SQL's terms. Pure.

Values in JSON are changed as documents: what is not assigned stays as it was written, numbers digit by digit. A value that
is no JSON is a text, where it is UTF-8, and can be set as a whole. What cannot be mended says why.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ottla.admin import Fixed, FixError, Mended
from ottla.base import decimal_of_text
from ottla.sql import Change, document_changes

if TYPE_CHECKING:
    from ottla.wire import Record

__all__ = ["Fix"]


class _Number(Decimal):
    """A number with its digits as they were written."""

    written: str

    def __new__(cls, written: str) -> _Number:
        found = super().__new__(cls, decimal_of_text(written))
        found.written = written
        return found


class Fix:
    """Assignments that were understood."""

    def __init__(self, text: str) -> None:
        """Raises SqlError for what is no assignment."""
        self.text = text
        self._changes: Sequence[Change] = document_changes(text)

    def apply(self, record: Record, headers: tuple[tuple[str, bytes | None], ...]) -> Fixed:
        """Return a record mended, with these headers for its own; raises FixError where it is not what that needs."""
        document: dict[str, Any] = {"key": _parsed(record.key), "value": _parsed(record.value)}
        document["headers"] = {name: _parsed(value) for name, value in headers}
        seen = {**document, "timestamp": record.timestamp, "offset": record.offset}
        mended, sets = [], [(each, each.evaluate(_plain(seen))) for each in self._changes]
        for change, after in sets:
            before = _set(document, change.path, after, change.text)
            if before != after or type(before) is not type(after):
                mended.append(Mended(change.text, _shown(before), _shown(after)))
        roots = {str(change.path[0]) for change, _ in sets}
        if "headers" in roots:
            names = dict.fromkeys(str(change.path[1]) for change, _ in sets if change.path[0] == "headers")
            kept = [(name, value) for name, value in headers if name not in names]
            headers = (*kept, *((name, _bytes(document["headers"][name])) for name in names))
        return Fixed(
            _bytes(document["key"], record.key) if "key" in roots else record.key,
            _bytes(document["value"], record.value) if "value" in roots else record.value,
            headers,
            tuple(mended),
        )


def _parsed(data: bytes | None) -> Any:
    """Return JSON, a text, or the bytes themselves where they are neither."""
    if data is None:
        return None
    try:
        return json.loads(data, parse_float=_Number)
    except (ValueError, RecursionError):
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data


def _plain(value: Any) -> Any:
    """Return a document as expressions see it: numbers as numbers."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return Decimal(value) if isinstance(value, _Number) else value


def _set(document: dict[str, Any], path: tuple[str | int, ...], after: object, text: str) -> object:
    """Set one place of a document, and return what was there."""
    at: Any = document
    for step, following in pairwise(path):
        below = _get(at, step, text)
        if below is None and isinstance(at, dict) and isinstance(following, str):
            below = at[str(step)] = {}
        at = below
    last = path[-1]
    before = _get(at, last, text)
    if isinstance(at, dict):
        at[str(last)] = after
    else:
        at[_index(at, last, text)] = after
    return before


def _get(at: Any, step: str | int, text: str) -> Any:
    if isinstance(at, dict):
        return at.get(str(step))
    if isinstance(at, list):
        return at[_index(at, step, text)]
    raise FixError(f"{text} cannot be set: what is above it is no document")


def _index(at: list[Any], step: str | int, text: str) -> int:
    if not isinstance(step, int) or not step or not -len(at) <= step <= len(at):
        raise FixError(f"{text} cannot be set: there is no such element")
    return step - 1 if step > 0 else step


def _bytes(value: Any, like: bytes | None = None) -> bytes | None:
    """Return a part of a record as bytes: JSON for what is a document or a number, spaced as `like` is; a text as it is."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str) and not (like or b"").startswith(b'"'):
        return value.encode(errors="replace")
    mark = secrets.token_hex(8)
    separators = (", ", ": ") if like is None or b'": ' in like else (",", ":")
    try:
        marked = _marked(value, mark)
        text = json.dumps(marked, ensure_ascii=False, separators=separators)
        if any("\ud800" <= each < "\ue000" for each in text):  # halves of characters have no UTF-8
            text = json.dumps(marked, separators=separators)
    except (ValueError, RecursionError) as error:
        raise FixError(f"What it gives is no JSON: {error}") from None
    return re.sub(f'"{mark}:([^"]*)"', lambda each: each.group(1), text).encode()


def _marked(value: Any, mark: str) -> Any:
    """Return a document whose numbers stand as marked texts, so that their digits stay."""
    if isinstance(value, dict):
        return {name: _marked(each, mark) for name, each in value.items()}
    if isinstance(value, list):
        return [_marked(each, mark) for each in value]
    if isinstance(value, _Number):
        return f"{mark}:{value.written}"
    if isinstance(value, Decimal | float) and not math.isfinite(value):
        raise FixError("What it gives is no number")
    if isinstance(value, Decimal):
        return f"{mark}:{value}"
    if isinstance(value, bytes):
        raise FixError("Bytes that are no text cannot stand in JSON")
    return value


def _shown(value: object) -> object:
    """Return a value for people: as it stands in JSON."""
    if value is None or isinstance(value, str | bool | int):
        return value
    found = _bytes(value)
    return None if found is None else found.decode(errors="replace")
