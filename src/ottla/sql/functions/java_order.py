"""The order that values have in Java (`compareTo`), where Python's is another one.

A DOUBLE that is no number is greater than all others and -0 less than 0; texts are compared by their units of UTF-16; and
bytes are numbers from -128 to 127 (`ByteBuffer.compareTo`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

__all__ = ["KEYS", "key_of"]

Key = Callable[[Any], Any]
_WIDE: Final = re.compile("[\U00010000-\U0010ffff]")
_SIGNED: Final = bytes(each ^ 0x80 for each in range(256))


def _double(value: float) -> tuple[bool, float, float]:
    return (True, 0.0, 0.0) if value != value else (False, value, math.copysign(1.0, value))


def _text(value: str) -> str:
    return value if value.isascii() else _WIDE.sub(_pair, value)


def _pair(found: re.Match[str]) -> str:
    above = ord(found[0]) - 0x10000
    return chr(0xD800 + (above >> 10)) + chr(0xDC00 + (above & 0x3FF))


def _bytes(value: bytes) -> bytes:
    return value.translate(_SIGNED)


KEYS: Final[dict[str, Key]] = {"DOUBLE": _double, "STRING": _text, "BYTES": _bytes}
"""By base type, what a value is ordered by; others are so by themselves."""


def key_of(values: Iterable[Any]) -> Key | None:
    """Return what values of one type, none of them null, are ordered by; None for themselves."""
    first = next(iter(values), None)
    if isinstance(first, float):
        return _double
    if isinstance(first, str):
        return _text
    return _bytes if isinstance(first, bytes) else None
