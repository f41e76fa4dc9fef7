"""Functions between bytes, numbers and texts of them."""

from __future__ import annotations

import base64
import binascii
import struct

from ottla.sql.errors import EvaluationError
from ottla.sql.functions.registry import scalar

_ORDERS = {"BIG_ENDIAN": ">", "LITTLE_ENDIAN": "<"}


def _refused(encoding: str) -> EvaluationError:
    return EvaluationError(f"Supported input encodings are: hex, utf8, ascii and base64, not {encoding}")


@scalar("TO_BYTES", "STRING, STRING -> BYTES")
def to_bytes(text: str, encoding: str) -> bytes:
    """The bytes that a text says in hex, utf8, ascii or base64."""
    try:
        match encoding.lower():
            case "hex":
                plain = text[2:-1] if text[:2].upper() == "X'" and text.endswith("'") else text.removeprefix("0x")
                return bytes.fromhex(plain if len(plain) % 2 == 0 else f"0{plain}")
            case "utf8":
                return text.encode()
            case "ascii":
                return text.encode("ascii", "replace")
            case "base64":
                return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise EvaluationError(f"'{text}' is no {encoding}: {error}") from None
    raise _refused(encoding)


@scalar("FROM_BYTES", "BYTES, STRING -> STRING")
def from_bytes(value: bytes, encoding: str) -> str:
    """Bytes as a text in hex, utf8, ascii or base64."""
    match encoding.lower():
        case "hex":
            return value.hex()
        case "utf8":
            return value.decode(errors="replace")
        case "ascii":
            return value.decode("ascii", "replace")
        case "base64":
            return base64.b64encode(value).decode()
    raise _refused(encoding)


@scalar("ENCODE", "STRING, STRING, STRING -> STRING")
def encode(text: str, of: str, to: str) -> str:
    """A text of one encoding in another."""
    return from_bytes(to_bytes(text, of), to)


def _unpacked(value: bytes, letter: str, order: str) -> object:
    if order not in _ORDERS:
        raise EvaluationError(f"Byte order must be BIG_ENDIAN or LITTLE_ENDIAN, not {order}")
    size = struct.calcsize(f">{letter}")
    if len(value) != size:
        raise EvaluationError(f"Number of bytes must be equal to {size}, but found {len(value)}")
    return struct.unpack(_ORDERS[order] + letter, value)[0]


@scalar("BIGINT_FROM_BYTES", "BYTES -> BIGINT")
def bigint_from_bytes(value: bytes) -> object:
    """Eight bytes as a number, the highest first."""
    return _unpacked(value, "q", "BIG_ENDIAN")


@scalar("BIGINT_FROM_BYTES", "BYTES, STRING -> BIGINT")
def bigint_from_bytes_in(value: bytes, order: str) -> object:
    """Eight bytes as a number, in an order."""
    return _unpacked(value, "q", order)


@scalar("INT_FROM_BYTES", "BYTES -> INTEGER")
def int_from_bytes(value: bytes) -> object:
    """Four bytes as a number, the highest first."""
    return _unpacked(value, "i", "BIG_ENDIAN")


@scalar("INT_FROM_BYTES", "BYTES, STRING -> INTEGER")
def int_from_bytes_in(value: bytes, order: str) -> object:
    """Four bytes as a number, in an order."""
    return _unpacked(value, "i", order)


@scalar("DOUBLE_FROM_BYTES", "BYTES -> DOUBLE")
def double_from_bytes(value: bytes) -> object:
    """Eight bytes as a DOUBLE, the highest first."""
    return _unpacked(value, "d", "BIG_ENDIAN")


@scalar("DOUBLE_FROM_BYTES", "BYTES, STRING -> DOUBLE")
def double_from_bytes_in(value: bytes, order: str) -> object:
    """Eight bytes as a DOUBLE, in an order."""
    return _unpacked(value, "d", order)
