"""How far a file was read, and by what it is known again: its inode, its first bytes, and those before the position.

A log's offset has the mark of the file that its last record came from, and those of its other files as text, for
Connect's offsets are flat.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ottla.connect import ConnectError

__all__ = ["HEAD_BYTES", "TAIL_BYTES", "Mark", "head_of", "marks_of", "offset_of", "partition_of", "tail_of"]

HEAD_BYTES = 256
"""How many of a file's first bytes it is known by, as far as they were read."""

TAIL_BYTES = 64
"""How many bytes before a position are held against those there later."""


def head_of(beginning: bytes, position: int) -> str:
    """Return how many bytes are known and their digest, of a file's beginning as far as it was read."""
    known = beginning[: min(HEAD_BYTES, position)]
    return f"{len(known)}:{hashlib.blake2b(known, digest_size=8).hexdigest()}"


def tail_of(before: bytes) -> str:
    """Return how many bytes are known and their checksum, of the bytes before a position."""
    known = before[-TAIL_BYTES:]
    return f"{len(known)}:{zlib.crc32(known):08x}"


def _length(digest: str) -> int:
    return int(digest.partition(":")[0])


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a file was read; `inode` is empty where an operator has set the position."""

    inode: str
    position: int = 0
    line: int = 0
    """How many line ends stand before the position."""

    head: str = ""
    tail: str = ""

    @property
    def head_bytes(self) -> int:
        """Return how many first bytes are known."""
        return _length(self.head) if self.head else 0

    @property
    def tail_bytes(self) -> int:
        """Return how many bytes before the position are known."""
        return _length(self.tail) if self.tail else 0

    def begins(self, beginning: bytes) -> bool | None:
        """Return whether a file that begins so may be the marked one; None where it is too short to say."""
        known = self.head_bytes
        if len(beginning) < known:
            return None
        return head_of(beginning, known) == self.head

    def continues(self, before: bytes) -> bool:
        """Return whether these bytes before the position are those that were there."""
        known = self.tail_bytes
        return not known or (len(before) == known and tail_of(before) == self.tail)

    def at(self, inode: str) -> Mark:
        """Return the same mark in another file with the same content."""
        return replace(self, inode=inode)


def partition_of(log: str) -> dict[str, Any]:
    """Return a log's source partition."""
    return {"log": log}


def offset_of(mark: Mark, others: list[Mark]) -> dict[str, Any]:
    """Return the offset behind a mark; `others` are marks in the log's other files."""
    flat = [[each.inode, each.position, each.line, each.head, each.tail] for each in others if each.position]
    offset: dict[str, Any] = {
        "position": mark.position,
        "line": mark.line,
        "inode": mark.inode,
        "head": mark.head,
        "tail": mark.tail,
    }
    if flat:
        offset["others"] = json.dumps(flat, separators=(",", ":"))
    return offset


def marks_of(offset: Mapping[str, Any]) -> list[Mark]:
    """Return a log's marks, the last one used first; raises ConnectError for an offset that holds none."""
    if not offset:
        return []
    try:
        others = [_mark(each) for each in json.loads(offset.get("others") or "[]")]
        keys = ("inode", "position", "line", "head", "tail")
        blank = {"inode": "", "line": 0, "head": "", "tail": ""}
        return [_mark([{**blank, **offset}[key] for key in keys]), *others]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ConnectError(
            "the offset of a log needs 'position', a number of bytes from 0 on; 'line', 'inode', 'head', 'tail' and "
            f"'others' may be left out, and are not written by hand: {dict(offset)}"
        ) from error


def _mark(parts: list[Any]) -> Mark:
    inode, position, line, head, tail = parts
    texts, numbers = (inode, head, tail), (position, line)
    if not all(isinstance(each, str) for each in texts) or any(type(each) is not int or each < 0 for each in numbers):
        raise ValueError(parts)
    made = Mark(inode, position, line, head, tail)
    if made.head_bytes > HEAD_BYTES or made.tail_bytes > TAIL_BYTES:
        raise ValueError(parts)
    return made
