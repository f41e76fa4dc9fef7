"""Bytes that no text has, in values and headers; a record's headers follow from its value, so that readers can tell."""

from __future__ import annotations

from random import Random
from zlib import crc32

from ottla.wire import Header, Record
from tests.sim.ledger import Violation

__all__ = ["check_headers", "headers_of", "hostile_value"]

TAILS = (b"", b"\0", b"\xff\xfe\xfd", b"\xc3", b"\xed\xa0\x80", b"\x80" * 9, b"\0\xff" * 40)
LARGE_BYTES, LARGE_CHANCE = 3_000, 0.02
NAMES = (b"", b"\xff\xfe", b"\xc3", b"a\0b", "ключ".encode(), b"\xed\xa0\x80", b"n" * 50)
CONTENTS = (None, b"", b"\0", b"\xff" * 30, b"c" * 90)


class _Bytes(str):
    """A header's name that is encoded as the bytes that it was made of, whatever they are."""

    __slots__ = ("raw",)
    raw: bytes

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Return the bytes."""
        return self.raw


def _name(raw: bytes) -> str:
    made = _Bytes(raw.decode(errors="replace"))
    made.raw = raw
    return made


def hostile_value(rng: Random, value: bytes) -> bytes:
    """Give a value an end that is no text, and now and then a large one; its first word stays what it is."""
    tail = rng.choice(TAILS)
    if rng.random() < LARGE_CHANCE:
        tail = tail * (LARGE_BYTES // max(1, len(tail)))
    return value + tail


def headers_of(value: bytes) -> tuple[Header, ...]:
    """Return the headers of a record with this value: none, or up to three whose names need not be text."""
    drawn = crc32(value)
    return tuple(
        (_name(NAMES[(drawn >> at) % len(NAMES)]), CONTENTS[(drawn >> (at + 3)) % len(CONTENTS)])
        for at in range(0, 5 * (drawn % 4), 5)
    )


def check_headers(record: Record) -> None:
    """Raise Violation where a record that was written with `headers_of` comes back with others.

    A name that is no text comes back with its bad bytes replaced.
    """
    written = headers_of(record.value or b"")
    same = len(written) == len(record.headers) and all(
        value == found and (str(name) == shown or ("\ufffd" in name and "\ufffd" in shown))
        for (name, value), (shown, found) in zip(written, record.headers, strict=True)
    )
    if not same:
        raise Violation(
            f"{record.value!r} at {record.offset} has headers {record.headers}, and was written with {written}"
        )
