"""JSON as Jackson reads and writes it, where that is not how Python does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ottla.base import ExactDecoder, NumberError
from ottla.connect.errors import DataError

__all__ = ["parse_json", "parse_json_at", "quoted"]

_encode = json.JSONEncoder(ensure_ascii=False).encode
_quoted: Callable[[str], str] = json.encoder.encode_basestring
"""What an encoder calls for a text, where it was found out that it is one."""
_SPECIAL = re.compile("[\x00-\x1f\U00010000-\U0010ffff]")
_ESCAPES = re.compile("\\\\(?:u00[0-9a-f]{2}|.)|[\U00010000-\U0010ffff]")
_BLANK = " \t\r\n"
_NUMBER_WITH_ZEROS = re.compile(r'("(?:[^"\\]++|\\.)*+(?:"|\\?\Z))|(?<![\w.+])(-?)0+(?=\d)', re.DOTALL)
_MALFORMED = "Converting byte[] to Kafka Connect data failed due to serialization error: "


def quoted(text: str) -> str:
    """Return a JSON string; control characters without a letter, and what lies beyond 16 bits, as capital digits."""
    if text.isascii() and text.isprintable():
        return _quoted(text)
    encoded = _encode(text)
    if not _SPECIAL.search(text):
        return encoded
    return _ESCAPES.sub(_escaped, encoded)


def _escaped(found: re.Match[str]) -> str:
    piece = found[0]
    if piece[0] == "\\":
        return piece[:4] + piece[4:].upper()
    number = ord(piece) - 0x10000
    return f"\\u{0xD800 + (number >> 10):04X}\\u{0xDC00 + (number & 0x3FF):04X}"


_decoder = ExactDecoder()


def parse_json(data: bytes) -> Any:
    """Return the first JSON value of bytes, fractions as Decimal; raises DataError where there is none.

    Leading zeros are allowed and what follows the value is not looked at, as Kafka has Jackson configured. No bytes at
    all are None.
    """
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        raise DataError(_MALFORMED) from error
    start = len(text) - len(text.lstrip(_BLANK))
    if start == len(text):
        return None
    value, end = parse_json_at(text, start)
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and text[end : end + 1].strip(_BLANK):
        raise DataError(_MALFORMED)
    return value


def parse_json_at(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value that begins at a place in a text, and where it ends; raises DataError."""
    try:
        value, end = _decoder.raw_decode(text, start)
        if not (text[end : end + 1].isdigit() and text[end - 1] == "0"):
            return value, end
    except NumberError as error:
        raise DataError(f"{_MALFORMED}{error}") from error
    except ValueError as error:
        failed: Exception | None = error
    else:
        failed = None
    without_zeros = _NUMBER_WITH_ZEROS.sub(lambda match: match[1] or match[2], text[start:])
    try:
        value, end = _decoder.raw_decode(without_zeros)
        return value, len(text) - len(without_zeros) + end
    except ValueError as error:
        raise DataError(_MALFORMED) from (failed or error)
