"""A piece of a file cut into what becomes records: lines, or events of several lines.

Nothing is remembered between pieces: what is no whole record yet is read again with what follows it. So a position says
all there is to say.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.connect import ConnectError
from ottla.connect import data as connect_data
from ottla.connectors.files.lines import cut
from ottla.java import JavaPattern

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Framer", "Framing", "Rows"]

_UTF8 = "utf-8"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Framing:
    """How a file's bytes become records."""

    encoding: str = _UTF8
    """As Python calls it."""

    errors: str = "replace"
    """What becomes of bytes that are no text: U+FFFD (`replace`), or an error (`strict`)."""

    bytes_max: int = 1 << 20
    """Of one record."""

    too_long: str = "split"
    """What becomes of longer ones: `split`, `truncate`, `fail`."""

    start: JavaPattern | None = None
    """Found in the first line of each event."""

    further: JavaPattern | None = None
    """Found in each line of an event but the first."""

    lines_max: int = 500
    """Of one event."""

    @property
    def multiline(self) -> bool:
        """Return whether several lines can be one record."""
        return self.start is not None or self.further is not None


@dataclass(slots=True, eq=False)
class Rows:
    """What becomes records, with the byte behind each and how many line ends stand before that, within the piece."""

    texts: list[str] = field(default_factory=list)
    ends: Any = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    """Of each record: how many line ends stand before its end; empty where each record is a line."""

    column: pa.Array | None = None
    """The texts where they are lines of UTF-8; `texts` is empty then."""

    def __len__(self) -> int:
        return len(self.ends)

    def line_ends(self, count: int) -> int:
        """Return how many line ends stand before the end of the first `count` records."""
        return self.lines[count - 1] if self.lines else count

    def array(self) -> pa.Array:
        """Return the texts as one array."""
        import pyarrow as pa

        return pa.array(self.texts, pa.string()) if self.column is None else self.column

    def values(self) -> list[str]:
        """Return the texts one by one."""
        return self.texts if self.column is None else self.column.to_pylist()


@dataclass(slots=True)
class _Line:
    text: str
    end: int
    breaks: int
    """How many line ends it has: 0 for a part of a line that was split."""

    size: int


class Framer:
    """Cuts one file's pieces; the byte order of UTF-16 and UTF-32 is found in the file's first bytes."""

    def __init__(self, framing: Framing, beginning: bytes) -> None:
        self._framing = framing
        self._codec, self._bom = _codec(framing.encoding, beginning)
        self._break = "\n".encode(self._codec)
        self._return = "\r".encode(self._codec)
        self._errors = connect_data.AS_JAVA if framing.errors == "replace" else framing.errors
        self._plain = self._codec == _UTF8 and framing.errors == "replace" and not framing.multiline

    def rows(self, data: bytes, *, first: bool, settled: bool, final: bool) -> Rows:
        """Return the whole records of a piece that begins behind the last one.

        `first` says that it is the file's first piece, `settled` that the last event has all its lines, `final` that the
        last line has all its bytes. Raises ConnectError for a record that is too long, where that is asked for.
        """
        skipped = len(self._bom) if first and data.startswith(self._bom) else 0
        if self._plain and not skipped and not final:
            lines = cut(data, lone_returns=False)
            if len(lines) and self._fit(lines.ends):
                return Rows(ends=lines.ends, column=lines.values)
        rows = Rows()
        found = self._lines(data, skipped, final=final)
        if self._framing.multiline:
            self._events(found, rows, settled=settled or final)
        else:
            for each in found:
                rows.texts.append(each.text)
                rows.lines.append((rows.lines[-1] if rows.lines else 0) + each.breaks)
                rows.ends.append(each.end)
        return rows

    def _fit(self, ends: Any) -> bool:
        import numpy as np

        limit = self._framing.bytes_max
        return int(ends[0]) <= limit and (len(ends) == 1 or int(np.diff(ends).max()) <= limit)

    def _lines(self, data: bytes, start: int, *, final: bool) -> Iterator[_Line]:
        """Yield the whole lines, those that are too long in the way that is asked for."""
        width, limit = len(self._break), self._framing.bytes_max
        while start < len(data):
            stop = self._find_break(data, start)
            if stop < 0:
                if len(data) - start > limit and self._framing.too_long != "truncate":
                    yield from self._too_long(data, start, len(data), 0)
                elif final:
                    yield from self._one(data, start, len(data), len(data), 0)
                return
            yield from self._one(data, start, stop, stop + width, 1)
            start = stop + width

    def _find_break(self, data: bytes, start: int) -> int:
        place = data.find(self._break, start)
        while place >= 0 and (place - start) % len(self._break):
            place = data.find(self._break, place + 1)
        return place

    def _one(self, data: bytes, start: int, stop: int, end: int, breaks: int) -> Iterator[_Line]:
        if stop - start > self._framing.bytes_max:
            yield from self._too_long(data, start, stop, breaks, end)
            return
        if breaks and data.endswith(self._return, start, stop):
            stop -= len(self._return)
        yield self._line(data, start, stop, end, breaks)

    def _line(self, data: bytes, start: int, stop: int, end: int, breaks: int) -> _Line:
        try:
            return _Line(data[start:stop].decode(self._codec, self._errors), end, breaks, stop - start)
        except UnicodeDecodeError as error:
            raise ConnectError(f"a line is no {self._codec}: {error.reason}") from error

    def _too_long(self, data: bytes, start: int, stop: int, breaks: int, end: int | None = None) -> Iterator[_Line]:
        """Yield what becomes of a line that is too long; `end` is None where its line end is not there yet."""
        limit = self._framing.bytes_max
        if self._framing.too_long == "fail":
            raise ConnectError(
                f"a line has more than {limit} bytes; raise 'record.bytes.max', or set 'record.too.long' to split or "
                "truncate"
            )
        if self._framing.too_long == "truncate":
            yield self._line(data, start, self._cut(data, start), stop if end is None else end, breaks)
            return
        while stop - start > limit:
            cut_at = self._cut(data, start)
            yield self._line(data, start, cut_at, cut_at, 0)
            start = cut_at
        if end is not None:
            yield from self._one(data, start, stop, end, breaks)

    def _cut(self, data: bytes, start: int) -> int:
        """Return where to cut a line that is too long: at its largest length, but within no character."""
        place = start + self._framing.bytes_max // len(self._break) * len(self._break)
        if self._codec == _UTF8:
            for back in range(min(4, place - start - 1)):
                if data[place - back] & 0xC0 != 0x80:
                    return place - back
        return place

    def _events(self, found: Iterator[_Line], rows: Rows, *, settled: bool) -> None:
        event: list[_Line] = []
        size = passed = 0
        for line in found:
            begins = not event or self._begins(line.text)
            if event and (
                begins or len(event) >= self._framing.lines_max or size + line.size > self._framing.bytes_max
            ):
                passed = _close(event, rows, passed)
                size = 0
            event.append(line)
            size += line.size + 1
        if event and settled:
            _close(event, rows, passed)

    def _begins(self, text: str) -> bool:
        """Return whether a line begins an event."""
        framing = self._framing
        if framing.start is not None:
            return framing.start.search(text) is not None
        return framing.further is None or framing.further.search(text) is None


def _close(event: list[_Line], rows: Rows, passed: int) -> int:
    """Make a record of an event's lines, and return how many line ends stand before its end."""
    passed += sum(each.breaks for each in event)
    rows.texts.append("\n".join([each.text for each in event]))
    rows.ends.append(event[-1].end)
    rows.lines.append(passed)
    event.clear()
    return passed


def _codec(encoding: str, beginning: bytes) -> tuple[str, bytes]:
    """Return the codec of a file, with its byte order, and the byte order mark that it may begin with."""
    name = codecs.lookup(encoding).name
    if name in ("utf-8", "utf-8-sig"):
        return _UTF8, _BOM
    for width, marks in (("utf-16", (b"\xff\xfe", b"\xfe\xff")), ("utf-32", (b"\xff\xfe\0\0", b"\0\0\xfe\xff"))):
        if name.startswith(width):
            little, big = marks
            wide = big if name.endswith("be") or (name == width and beginning.startswith(big)) else little
            return width + ("-be" if wide is big else "-le"), wide
    return name, b"\0no mark"
