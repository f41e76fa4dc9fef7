"""Functions between bytes, numbers and texts of them."""

from __future__ import annotations

import base64
import re
import struct

from ottla.sql.errors import EvaluationError
from ottla.sql.expressions.casts import bytes_of_base64
from ottla.sql.functions.registry import scalar

_ORDERS = {"BIG_ENDIAN": ">", "LITTLE_ENDIAN": "<"}
_ENCODINGS = ("hex", "utf8", "ascii", "base64")
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})*")
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/\-_=]")


def _encoding(name: str) -> str:
    if name.lower() not in _ENCODINGS:
        raise EvaluationError(
            f"Unknown encoding type '{name}'. Supported formats are 'hex', 'utf8', 'ascii', and 'base64'."
        )
    return name.lower()


def _bytes_of_hex(text: str) -> bytes:
    if not _HEX.fullmatch(text):
        raise EvaluationError(f"'{text}' is no hexadecimal number of whole bytes")
    return bytes.fromhex(text)


@scalar("TO_BYTES", "STRING, STRING -> BYTES")
def to_bytes(text: str, encoding: str) -> bytes:
    """The bytes that a text says in hex, utf8, ascii or base64."""
    match _encoding(encoding):
        case "hex":
            return _bytes_of_hex(text)
        case "utf8":
            return text.encode(errors="replace")
        case "ascii":
            return text.encode("ascii", "replace")
        case _:
            return bytes_of_base64(text)


@scalar("FROM_BYTES", "BYTES, STRING -> STRING")
def from_bytes(value: bytes, encoding: str) -> str:
    """Bytes as a text in hex, utf8, ascii or base64."""
    match _encoding(encoding):
        case "hex":
            return value.hex().upper()
        case "utf8":
            return value.decode(errors="replace")
        case "ascii":
            return value.decode("ascii", "replace")
        case _:
            return base64.b64encode(value).decode()


@scalar("ENCODE", "STRING, STRING, STRING -> STRING")
def encode(text: str, of: str, to: str) -> str:
    """A text of one encoding in another: hex, with `0x` in front or in `X''`, utf8, ascii or base64."""
    one, other = of.lower(), to.lower()
    if one == other or one not in _ENCODINGS or other not in _ENCODINGS:
        raise EvaluationError("Supported input and output encodings are: hex, utf8, ascii and base64")
    if one == "hex":
        value = _bytes_of_hex(_bare_hex(text))
    elif one == "base64":
        value = _lenient_base64(text)
    else:
        value = text.encode("ascii" if one == "ascii" else "utf-8", "replace")
    return value.hex() if other == "hex" else from_bytes(value, other)


def _bare_hex(text: str) -> str:
    if text.startswith("0x"):
        return f"0{text[2:]}" if len(text) % 2 else text[2:]
    if text[:2] in ("x'", "X'") and text.endswith("'") and len(text) > 2:
        return text[2:-1]
    return text


def _lenient_base64(text: str) -> bytes:
    """As Apache Commons reads base64: both alphabets, and what is in neither is passed over."""
    kept = _NOT_BASE64.sub("", text).replace("-", "+").replace("_", "/").split("=", 1)[0]
    kept = kept[:-1] if len(kept) % 4 == 1 else kept
    return base64.b64decode(kept + "=" * (-len(kept) % 4))


def _unpacked(value: bytes, letter: str, order: str) -> object:
    known = _ORDERS.get(order.upper())
    if known is None:
        raise EvaluationError(f"Byte order must be BIG_ENDIAN or LITTLE_ENDIAN. Unknown byte order '{order}'.")
    size = struct.calcsize(f">{letter}")
    if len(value) != size:
        raise EvaluationError(f"Number of bytes must be equal to {size}, but found {len(value)}")
    return struct.unpack(known + letter, value)[0]


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
