"""Produce requests that begin as one before them did, and their answers: by two reads and one write of fixed places.

A client that writes to one partition sends the same bytes again and again, from the client id to the partition's index, and
is answered with the same bytes around two offsets. `beginning_end` says where that beginning ends in a request that was read
whole; `Shape` finds in another request what differs: the correlation id and the records. Versions 5 to 13; before 5 an
answer has no log start.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from ottla.wire.hot_primitives import uvarint
from ottla.wire.hot_produce import (
    FLEXIBLE_FROM,
    LOG_START_OFFSET_FROM,
    TOPIC_IDS_FROM,
    Produce,
    ProducedPartition,
    ProducedTopic,
    write_produce_response,
)

__all__ = ["AnswerTemplate", "Beginning", "Shape", "beginning_end"]

CORRELATION_AT: Final = 4
CORRELATION_END: Final = 8
TAIL_BYTES: Final = 3
"""Empty tagged fields of partition, topic and request."""
SIZE_BYTES: Final = 4
_read_tail: Final = Struct(">HB").unpack_from
TOPICS_AT: Final = 1 + 2 + 4
"""Where the number of topics stands in a body with compact lengths."""
ONE: Final = 2
"""One element, as compact lengths say it."""
_FIXED_FLEXIBLE: Final = 1 + 2 + 4 + 1 + 1 + 4
"""No transactional id, acks, timeout, one topic; then one partition and its index."""
_FIXED_PLAIN: Final = 2 + 2 + 4 + 4 + 2 + 4 + 4
_OFFSETS: Final = Struct(">qqq")
_MARKS: Final = (0x7EA1_93C5_D2E8_B4F6, -1, 0x7D92_E4A6_C8B1_F3D5)
"""Where these stand in an answer, the offsets do."""


class Beginning(NamedTuple):
    """What requests have in common: key and version of the API, and what lies between correlation id and records."""

    head: bytes
    rest: bytes


def beginning_end(frame: memoryview, version: int, position: int, request: Produce) -> int:
    """Return where the beginning of a request ends whose body is at `position`; -1 where it has not the usual shape.

    That is one partition, outside of transactions.
    """
    if version < LOG_START_OFFSET_FROM or request.transactional_id is not None or len(request.topic_data) != 1:
        return -1
    topic = request.topic_data[0]
    if len(topic.partition_data) != 1:
        return -1
    name = topic.name.encode()
    if version < FLEXIBLE_FROM:
        return position + _FIXED_PLAIN + len(name)
    size = b"" if version >= TOPIC_IDS_FROM else uvarint(len(name) + 1)
    end = position + _FIXED_FLEXIBLE + (len(size) + len(name) if size else 16)
    topics = position + TOPICS_AT
    is_usual = (
        frame[position] == 0
        and frame[topics] == ONE
        and frame[topics + 1 : topics + 1 + len(size)] == size
        and frame[end - SIZE_BYTES - 1] == ONE
    )
    return end if is_usual else -1


class Shape:
    """Requests whose beginnings end at one place; `read` gives (head, correlation id, rest of the beginning, size)."""

    __slots__ = ("end", "is_flexible", "read", "size_min")

    def __init__(self, end: int, *, is_flexible: bool) -> None:
        self.end = end
        self.is_flexible = is_flexible
        layout = Struct(f">{CORRELATION_AT}si{end - CORRELATION_END}sI")
        self.read = layout.unpack_from
        self.size_min = layout.size
        """A shorter request cannot be read so."""

    def beginning_of(self, frame: memoryview) -> Beginning:
        """Return the beginning of a request."""
        return Beginning(bytes(frame[:CORRELATION_AT]), bytes(frame[CORRELATION_END : self.end]))

    def records_of(self, frame: memoryview, size: int) -> memoryview | None:
        """Return the records of a request, whose size is among the four bytes behind the beginning; None if it has others.

        What has more than records behind its beginning, or other tagged fields than none, is read by the whole reader.
        """
        start = self.end + SIZE_BYTES
        total = len(frame)
        if not self.is_flexible:
            return frame[start:] if total - start == size else None
        if size < 0x8000_0000:
            size, start = size >> 24, start - 3
        elif not size & 0x80_0000:
            size, start = (size >> 24) & 0x7F | (size >> 9) & 0x3F80, start - 2
        elif not size & 0x8000:
            size, start = (size >> 24) & 0x7F | (size >> 9) & 0x3F80 | (size << 6) & 0x1F_C000, start - 1
        elif not size & 0x80:
            size = (size >> 24) & 0x7F | (size >> 9) & 0x3F80 | (size << 6) & 0x1F_C000 | (size << 21) & 0xFE0_0000
        else:
            return None
        end = start + size - 1
        if size == 0 or end + TAIL_BYTES != total or _read_tail(frame, end) != (0, 0):
            return None
        return frame[start:end]


class AnswerTemplate:
    """The answers to one beginning's requests, where no error met their records."""

    __slots__ = ("_pack", "_size", "_start", "_tail")

    def __init__(self, version: int, name: str, topic_id: bytes, index: int) -> None:
        """Raises ValueError where the offsets cannot be told from the rest."""
        mark, time, start = _MARKS
        answer = write_produce_response(
            version, 0, [ProducedTopic(name, topic_id, [ProducedPartition(index, 0, mark, time, start)])]
        )
        at = answer.index(_OFFSETS.pack(*_MARKS))
        self._start = answer[CORRELATION_END:at]
        self._tail = answer[at + _OFFSETS.size :]
        self._size = len(answer) - SIZE_BYTES
        self._pack = Struct(f">ii{len(self._start)}sqqq{len(self._tail)}s").pack

    def filled(self, correlation_id: int, base_offset: int, log_start_offset: int) -> bytes:
        """Return the whole answer: length, header, body. Records have their own times."""
        answer: bytes = self._pack(
            self._size, correlation_id, self._start, base_offset, -1, log_start_offset, self._tail
        )
        return answer
