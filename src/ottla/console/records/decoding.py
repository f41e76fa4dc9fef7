"""Bytes of a record as a value for people: the first decoder that fits, and why those before it did not.

Pure. Order and rules: what a registry's frame announces (left to `registry_frame`, which says the id; the schema is asked
for elsewhere), JSON, UTF-8 text, whole numbers as Kafka's serializers write them, and hexadecimal digits, which always fit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

__all__ = ["DECODERS", "SHOWN_BYTES_MAX", "Attempt", "Decoded", "decode", "registry_frame"]

SHOWN_BYTES_MAX = 32 * 1024
"""More of a value than this is shown only when one record is asked for."""
MAGIC = 0
FRAME_BYTES = 5


@dataclass(frozen=True, slots=True)
class Attempt:
    """A decoder that was tried, and why it did not fit."""

    decoder: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """What some bytes are: which decoder fitted, the value in JSON's terms, and the attempts before."""

    decoder: str
    value: object
    bytes: int
    attempts: tuple[Attempt, ...] = ()


class _DoesNotFit(Exception):
    """Why a decoder cannot say what some bytes are."""


def registry_frame(data: bytes) -> int | None:
    """Return the schema's id of a value in Confluent's wire format (a zero byte, then four of the id); None for others."""
    if len(data) < FRAME_BYTES or data[0] != MAGIC:
        return None
    return int.from_bytes(data[1:FRAME_BYTES], "big")


def decode(data: bytes | None, wanted: str | None = None) -> Decoded:
    """Return what bytes are by the first decoder that fits, or by the one that is wanted.

    Raises KeyError for a decoder that there is not. A wanted one that does not fit is an attempt, and the others follow.
    """
    if data is None:
        return Decoded("null", None, 0)
    attempts: list[Attempt] = []
    order = [wanted] if wanted else []
    order += [each for each in ORDER if each != wanted]
    for name in order:
        try:
            return Decoded(name, DECODERS[name](data), len(data), tuple(attempts))
        except _DoesNotFit as error:
            attempts.append(Attempt(name, str(error)))
    raise AssertionError("hexadecimal digits fit everything")


def _json(data: bytes) -> object:
    first = data.lstrip()[:1]
    if not first or first not in b'{["-0123456789tfn':
        raise _DoesNotFit("does not begin as JSON does")
    try:
        return json.loads(data, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise _DoesNotFit(f"not JSON: {error}") from None


def _text(data: bytes) -> object:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _DoesNotFit(f"not UTF-8: byte {error.start} is {data[error.start]:#04x}") from None
    odd = next((each for each in text if ord(each) < 0x20 and each not in "\t\n\r"), None)
    if odd is not None:
        raise _DoesNotFit(f"holds the control character {ord(odd):#04x}")
    return text


def _integer(size: int) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        if len(data) != size:
            raise _DoesNotFit(f"{len(data)} bytes, not {size}")
        return int.from_bytes(data, "big", signed=True)

    return read


def _hexadecimal(data: bytes) -> object:
    return data.hex(" ")


DECODERS: dict[str, Callable[[bytes], object]] = {
    "json": _json,
    "text": _text,
    "int32": _integer(4),
    "int64": _integer(8),
    "hex": _hexadecimal,
}
ORDER = ("json", "text", "int32", "int64", "hex")
