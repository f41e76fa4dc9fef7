"""Texts of the server's character sets: each value that a column may hold, as the server itself tells it. Pure.

Python's codecs of the same names differ in some characters, and end at bytes that the server has and they have not. So sets
of one byte a character are tables (`charset_facts`, which `tools/ask_charsets.py` has asked a server for), and the others
a codec with the characters in which it differs. What has no character is `?`, as in the server's own conversion.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from ottla.connect import DataError
from ottla.connectors.cdc.mysql.charset_facts import DIFFERENCES, HIGH_HALVES, LOW_HALVES

__all__ = ["CODEC", "decoder_of"]

Decode = Callable[[bytes], str]
_UNKNOWN: Final = "?"
_EUC: Final = re.compile(rb"\x8f[\xa1-\xfe]{2}|[\x8e\xa1-\xfe][\xa1-\xfe]|.", re.DOTALL)
_SHIFTED: Final = re.compile(rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]|.", re.DOTALL)
_KOREAN: Final = re.compile(rb"[\x81-\xfe][\x41-\x5a\x61-\x7a\x81-\xfe]|.", re.DOTALL)
_TAIWANESE: Final = re.compile(rb"[\xa1-\xf9][\x40-\x7e\xa1-\xfe]|.", re.DOTALL)
_CHINESE: Final = re.compile(rb"[\xa1-\xf7][\xa1-\xfe]|.", re.DOTALL)
_LONG_CHINESE: Final = re.compile(rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]|.", re.DOTALL)
MULTI_BYTE: Final[Mapping[str, tuple[str, re.Pattern[bytes]]]] = {
    "sjis": ("shift_jis", _SHIFTED),
    "cp932": ("cp932", _SHIFTED),
    "ujis": ("euc_jp", _EUC),
    "eucjpms": ("euc_jp", _EUC),
    "euckr": ("cp949", _KOREAN),
    "big5": ("big5", _TAIWANESE),
    "gb2312": ("gb2312", _CHINESE),
    "gbk": ("gbk", _LONG_CHINESE),
}
"""Python's codec that is nearest, and how characters are told apart."""
CODEC: Final = "utf8_of_servers"
"""A codec of UTF-8 for the driver: a server's UTF-8 may have halves of characters, which Python refuses."""


@cache
def decoder_of(charset: str | None) -> Decode:
    """Return what reads texts of a character set; raises DataError for one that is not known."""
    name = charset or "utf8mb4"
    if (unicode := _UNICODE.get(name)) is not None:
        return unicode
    if name in HIGH_HALVES:
        return _of_table(LOW_HALVES.get(name, "".join(map(chr, range(128)))) + HIGH_HALVES[name])
    if name in MULTI_BYTE:
        return _of_codec(*MULTI_BYTE[name], _differences(name))
    raise DataError(f"Texts of character set {charset} cannot be read here: convert the column to utf8mb4")


def _of_table(table: str) -> Decode:
    decode = codecs.charmap_decode
    return lambda data: decode(data, "strict", table)[0]


def _differences(name: str) -> dict[bytes, str]:
    """The characters that a set has otherwise than its codec: runs of them, each from its first one on."""
    found: dict[bytes, str] = {}
    for begin, texts in DIFFERENCES.get(name, ()):
        first = bytes.fromhex(begin)
        texts = texts if isinstance(texts, str) else "".join(map(chr, range(*texts)))
        found |= {first[:-1] + bytes([first[-1] + at]): each for at, each in enumerate(texts)}
    return found


def _of_codec(codec: str, pattern: re.Pattern[bytes], differences: Mapping[bytes, str]) -> Decode:
    wrong = [each for each in differences if _decoded(each, codec) is not None]
    """Which the codec would take for another character, without a word."""

    def one(match: re.Match[bytes]) -> str:
        data = match[0]
        if (known := differences.get(data)) is not None:
            return known
        return _UNKNOWN if (found := _decoded(data, codec)) is None else found

    def decode(data: bytes) -> str:
        if data.isascii():
            return data.decode("ascii")
        if not any(each in data for each in wrong):
            try:
                return data.decode(codec)
            except UnicodeDecodeError:
                pass  # it has characters that are told one by one
        return "".join(map(one, pattern.finditer(data)))

    return decode


def _decoded(data: bytes, codec: str) -> str | None:
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return None


def _utf8(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _of_units(codec: str, size: int) -> Decode:
    """Characters of so many bytes each, halves of characters among them: the server tells those as UTF-8 of their own."""

    def decode(data: bytes) -> str:
        units = (int.from_bytes(data[at : at + size], "big") for at in range(0, len(data), size))
        return _utf8("".join(map(chr, units)).encode("utf-8", "surrogatepass"))

    def quick(data: bytes) -> str:
        try:
            found = data.decode(codec)
        except UnicodeDecodeError:
            return decode(data)
        return found if len(found) * size == len(data) else decode(data)

    return quick


_UNICODE: Final[Mapping[str, Decode]] = {
    **dict.fromkeys(("utf8mb4", "utf8", "utf8mb3"), _utf8),
    "utf16": lambda data: data.decode("utf-16-be", "replace"),
    "utf16le": lambda data: data.decode("utf-16-le", "replace"),
    "ucs2": _of_units("utf-16-be", 2),
    "utf32": _of_units("utf-32-be", 4),
    "gb18030": lambda data: data.decode("gb18030", "replace"),
}


def _codec(name: str) -> codecs.CodecInfo | None:
    if name != CODEC:
        return None
    return codecs.CodecInfo(
        codecs.utf_8_encode, lambda data, errors="strict": codecs.utf_8_decode(data, "replace", True), name=CODEC
    )


codecs.register(_codec)
