"""Bytes of a record as a value for people: the first decoder that fits, and why those before it did not.

Pure. Order and rules: what a registry's frame announces (left to `registry_frame`, which says the id; the schema is asked
for elsewhere), JSON, UTF-8 text, MessagePack and CBOR, whole numbers as Kafka's serializers write them, and hexadecimal
digits, which always fit. Nearly every byte is a number in MessagePack and in CBOR: unless one of them is asked for, only
maps and lists that end where the bytes end are taken for such.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO

from ottla.base import ExactDecoder, bring_extra

__all__ = ["BINARY", "DECODERS", "SHOWN_BYTES_MAX", "Attempt", "Decoded", "decode", "registry_frame"]

SHOWN_BYTES_MAX = 32 * 1024
"""More of a value than this is shown only when one record is asked for."""
MAGIC = 0
FRAME_BYTES = 5
DEPTH_MAX = 100
_DECODER = ExactDecoder(float)
SHARING_TAGS = (25, 28, 29, 256)
"""CBOR's tags by which a value stands for another: a few bytes of them would unfold to gigabytes."""


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
            value = DECODERS[name](data)
            if name in BINARY and name != wanted and not isinstance(value, dict | list):
                raise _DoesNotFit("is a single value, as nearly any bytes are")
            return Decoded(name, value, len(data), tuple(attempts))
        except _DoesNotFit as error:
            attempts.append(Attempt(name, str(error)))
    raise AssertionError("hexadecimal digits fit everything")


def _json(data: bytes) -> object:
    first = data.lstrip()[:1]
    if not first or first not in b'{["-0123456789tfn':
        raise _DoesNotFit("does not begin as JSON does")
    try:
        return _DECODER.of_bytes(data)
    except ValueError as error:
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


def _msgpack(data: bytes) -> object:
    try:
        import msgpack
    except ImportError:
        raise _DoesNotFit(f"the package msgpack is not installed ({bring_extra('console')})") from None
    if not data:
        raise _DoesNotFit("no bytes")
    try:
        return _plain(msgpack.unpackb(data, strict_map_key=False, timestamp=3))
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise _DoesNotFit(f"not MessagePack: {error or type(error).__name__}") from None


def _cbor(data: bytes) -> object:
    try:
        from cbor2 import CBORDecodeError, load
    except ImportError:
        raise _DoesNotFit(f"the package cbor2 is not installed ({bring_extra('console')})") from None
    if not data:
        raise _DoesNotFit("no bytes")
    stream = BytesIO(data)
    try:
        found = load(stream, semantic_decoders=dict.fromkeys(SHARING_TAGS, _refused), max_depth=DEPTH_MAX)
    except (CBORDecodeError, ValueError, TypeError, RecursionError, OverflowError, MemoryError) as error:
        raise _DoesNotFit(f"not CBOR: {error or type(error).__name__}") from None
    if stream.tell() != len(data):
        raise _DoesNotFit(f"not CBOR: {len(data) - stream.tell()} bytes follow its value")
    return _plain(found)


def _refused(*_: object) -> object:
    raise ValueError("values that refer to others are not unfolded here")


def _plain(value: object, depth: int = 0) -> object:
    """Return a value in JSON's terms: bytes in base64, times as texts, names of maps as texts."""
    if depth > DEPTH_MAX:
        raise _DoesNotFit(f"is nested more than {DEPTH_MAX} deep")
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    if isinstance(value, Mapping):
        return {
            each if isinstance(each, str) else str(_plain(each, depth + 1)): _plain(one, depth + 1)
            for each, one in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each, depth + 1) for each in value]
    return str(value)


def _hexadecimal(data: bytes) -> object:
    return data.hex(" ")


DECODERS: dict[str, Callable[[bytes], object]] = {
    "json": _json,
    "text": _text,
    "msgpack": _msgpack,
    "cbor": _cbor,
    "int32": _integer(4),
    "int64": _integer(8),
    "hex": _hexadecimal,
}
ORDER = ("json", "text", "msgpack", "cbor", "int32", "int64", "hex")
BINARY = frozenset({"msgpack", "cbor"})
