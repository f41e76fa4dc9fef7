"""One file that is followed: read where its mark stands, and noticed when it is no longer the file that was read."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from ottla.connectors.files.content import Content, opened
from ottla.connectors.files.framing import Framer, Framing, Rows
from ottla.connectors.files.marks import HEAD_BYTES, TAIL_BYTES, Mark, head_of, tail_of
from ottla.connectors.files.names import FoundFile, is_packed

__all__ = ["FollowedFile", "Piece", "ReplacedError", "Waits"]

HISTORY_MAX = 256
"""How many earlier marks of a file are kept, to know copies that were made before the last."""

HOLE_BYTES = 16
"""How many NULs a file begins with where they are a hole and no text."""

WINDOW_BYTES_MAX = 1 << 26
"""How much is read at once at most, for the sake of one record."""


class ReplacedError(Exception):
    """The file does not hold what was read from it any more: it was truncated, or another one has its inode."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How long a file has to be quiet (seconds) before its end is taken as it is; None for ever."""

    last_line: float | None
    """Before a last line without line end is a line, while the file may grow."""

    event: float
    """Before the last event of several lines has all its lines."""

    rotated: float = 1.0
    """Before the last line of a file is a line once a newer file is written to."""


@dataclass(slots=True, eq=False)
class Piece:
    """Records read from a file, with the bytes they were made of."""

    rows: Rows
    before: Mark
    """The mark that the piece begins at."""

    after: Mark
    data: bytes
    """Begins with `known` bytes that stand before the piece."""

    known: int
    beginning: bytes
    path: str

    def mark(self, index: int) -> Mark:
        """Return the mark behind one record."""
        if index == len(self.rows) - 1:
            return self.after
        end = int(self.rows.ends[index])
        stop = self.known + end
        position = self.before.position + end
        return Mark(
            self.before.inode,
            position,
            self.before.line + self.rows.line_ends(index + 1),
            self.after.head if self.before.head_bytes == HEAD_BYTES else head_of(self.beginning, position),
            tail_of(self.data[max(0, stop - TAIL_BYTES) : stop]),
        )

    def line(self, index: int) -> int:
        """Return the number of a record's first line, from 1."""
        return self.before.line + (self.rows.line_ends(index) if index else 0) + 1

    def position(self, index: int) -> int:
        """Return where a record begins."""
        return self.before.position + (int(self.rows.ends[index - 1]) if index else 0)


class FollowedFile:
    """A file of a log; `mark` is how far its records have been handed out."""

    def __init__(self, found: FoundFile, mark: Mark, now: float) -> None:
        self.found = found
        self.mark = mark
        self.path: str | None = found.path
        """Where the file is, None where it has no name that belongs to the log any more."""

        self.original: FollowedFile | None = None
        """The file that this one is a copy of, as long as that one is followed itself."""

        self.history: deque[Mark] = deque(maxlen=HISTORY_MAX)
        self.done = False
        self.damaged = False
        """True where the file could not be unpacked to its end; it is read again once it has changed."""

        self.changed = now
        self._content: Content | None = None
        self._size = -1
        self._looked = -1
        self._rest = 0
        self._checked = (found.size, found.modified_ns)
        self._beginning = b""
        self._framer: Framer | None = None

    def __str__(self) -> str:
        return self.path or f"{self.found.path} (removed)"

    @property
    def open(self) -> bool:
        """Return whether the file is held open."""
        return self._content is not None

    @property
    def age(self) -> Any:
        """Return what sorts a log's files by age; what is gone is older than what is written to."""
        active, *rest = self.found.age
        return (active and self.path is not None, *rest)

    @property
    def moved(self) -> bool:
        """Return whether the file is no longer where it was found, so that it cannot be opened there."""
        return self.path is not None and self.content() is None

    def seen(self, found: FoundFile) -> bool:
        """Take where the file is now; return whether it has changed since it was seen last."""
        self.path = found.path
        now = (found.size, found.modified_ns)
        changed = now != self._checked
        self.found, self._checked = found, now
        if changed and self.damaged:
            self.damaged = False
            self.close()
        return changed

    def removed(self) -> Content | None:
        """Take that the file has no name any more, and what it has become since it was seen; return it where it is open."""
        self.path = None
        if self._content is not None:
            self.found = replace(
                self.found,
                size=self._content.size(),
                modified_ns=max(self.found.modified_ns, self._content.modified_ns()),
            )
        return self._content

    def content(self) -> Content | None:
        """Return the open file; None where it is gone."""
        if self._content is None and self.path is not None:
            self._content = opened(self.path, self.found.inode)
            self._looked = -1
        return self._content

    def hold(self, content: Content) -> None:
        """Take over the opened file, so that it stays readable and its inode its own, whatever becomes of its name."""
        self._content, self._looked = content, -1

    def close(self) -> None:
        """Close the file; it is opened again when it is read again."""
        if self._content is not None:
            self.damaged = self.damaged or self._content.damaged
            self._content.close()
            self._content = None

    def begin_anew(self, now: float) -> Mark:
        """Read from the beginning from now on, and return the mark that stood before."""
        before, self.mark = self.mark, Mark(self.found.inode)
        self.history.clear()
        self._framer, self._beginning, self._looked, self.changed, self.done = None, b"", -1, now, False
        return before

    def quiet(self, now: float) -> float:
        """Return for how long the file has not grown."""
        content = self.content()
        size = self._size if content is None else content.size()
        if self._size < 0:
            self.changed = now - max(0.0, time.time() - self.found.modified_ns / 1e9)
        elif size != self._size:
            self.changed = now
        self._size = size
        return now - self.changed

    def more(self, now: float, waits: Waits, framing: Framing) -> bool:
        """Return whether it is worth reading: the file has grown, or its end is to be taken as it is."""
        content = self.content()
        if content is None:
            return False
        quiet = self.quiet(now)
        if self._size != self._looked:
            return True
        due = [each for each in (waits.last_line, waits.event if framing.multiline else None) if each is not None]
        if content.damaged:  # what is left of its last line is no line
            return False
        return self.pending and ((bool(due) and quiet >= min(due)) or content.complete())

    @property
    def pending(self) -> bool:
        """Return whether there are bytes that are no whole record yet, as far as the last look showed."""
        return self._looked >= 0 and self._rest > 0

    def read(self, now: float, waits: Waits, framing: Framing, size: int, *, superseded: bool = False) -> Piece | None:
        """Return the next records, of about so many bytes; None where there are no whole ones.

        `superseded` says that a newer file is written to, so this one's end is its end. Raises ReplacedError where the
        file holds something else before its mark, ConnectError where it cannot be read.
        """
        content = self.content()
        if content is None:
            return None
        quiet = self.quiet(now)
        final = (superseded and quiet >= waits.rotated) or (waits.last_line is not None and quiet >= waits.last_line)
        looked = self._size
        self._skip_hole(content)
        framer = self._framer_for(content, framing)
        known = self.mark.tail_bytes
        while True:
            data = content.read(self.mark.position - known, known + size)
            if not self.mark.continues(data[:known]):
                raise ReplacedError
            whole = len(data) < known + size
            ended = whole and (final or content.complete()) and not content.damaged
            settled = whole and quiet >= waits.event
            rows = framer.rows(data[known:], first=self.mark.position == 0, settled=settled, final=ended)
            if rows:
                return self._piece(content, rows, data, known)
            if whole or size >= WINDOW_BYTES_MAX:
                self._looked, self._rest = looked, len(data) - known
                return None
            size *= 4

    def _skip_hole(self, content: Content) -> None:
        """Begin behind the NULs that a truncated file has where its writer went on at its old position."""
        if self.mark.position or is_packed(self.found.path) or content.read(0, HOLE_BYTES) != bytes(HOLE_BYTES):
            return
        place = content.first_data()
        before = content.read(max(0, place - TAIL_BYTES), min(place, TAIL_BYTES))
        self.mark = Mark(self.found.inode, place, 0, head_of(content.read(0, HEAD_BYTES), place), tail_of(before))

    def _framer_for(self, content: Content, framing: Framing) -> Framer:
        """Return what cuts this file; its first bytes may say in which order those of a character stand."""
        if self._framer is None or self.mark.position == 0:
            self._framer = Framer(framing, content.read(0, 4))
        return self._framer

    def _piece(self, content: Content, rows: Rows, data: bytes, known: int) -> Piece:
        end = int(rows.ends[-1])
        before, stop = self.mark, known + end
        if before.head_bytes < HEAD_BYTES:
            self._beginning = (content.read(0, before.position) + data[known:stop])[:HEAD_BYTES]
        position = before.position + end
        head = before.head if before.head_bytes == HEAD_BYTES else head_of(self._beginning, position)
        tail = tail_of(data[max(0, stop - TAIL_BYTES) : stop])
        self.mark = replace(
            before,
            inode=self.found.inode,
            position=position,
            line=before.line + rows.line_ends(len(rows)),
            head=head,
            tail=tail,
        )
        self.history.append(self.mark)
        path = self.path or self.found.path
        return Piece(rows, before, self.mark, data, known, self._beginning, path)
