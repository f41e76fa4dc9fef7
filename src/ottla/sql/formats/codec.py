"""What every format gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.sql.errors import ValueRefused

Values = tuple[object, ...]
"""A key's or a value's columns, in their order."""


class FormatError(ValueRefused):
    """Bytes that are no row of a format, or a row that it cannot hold."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Values ↔ bytes; None is a record's missing key or value, both ways. Both raise FormatError."""

    encode: Callable[[Values | None], bytes | None]
    decode: Callable[[bytes | None], Values | None]
