"""Fetch requests that are as one before them but for the offset, and their answers: by reads and writes of fixed places.

A client that reads one partition outside of a fetch session sends the same bytes again and again around a correlation id and
an offset, and is answered with the same bytes around three offsets, a size and the records. `fetch_offset_at` says where the
offset stands in a request that was read whole; `FetchShape` finds in another request what differs. Versions 5 to 18; before
5 an answer has no log start.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from ottla.base import WireError
from ottla.wire.hot_fetch import (
    FLEXIBLE_FROM,
    LEADER_EPOCH_FROM,
    LOG_START_OFFSET_FROM,
    REPLICA_STATE_FROM,
    SESSIONS_FROM,
    TOPIC_IDS_FROM,
    Fetch,
    FetchedPartition,
    FetchedTopic,
    read_fetch_request,
    write_fetch_response,
)
from ottla.wire.hot_primitives import pack_int32, uvarint

__all__ = ["FetchAnswers", "FetchShape", "SingleFetch", "fetch_offset_at"]

CORRELATION_AT: Final = 4
CORRELATION_END: Final = 8
OFFSET_BYTES: Final = 8
SIZE_BYTES: Final = 4
UUID_BYTES: Final = 16
_pack_offset_into: Final = Struct(">q").pack_into
_OFFSETS: Final = Struct(">qqq")
_MARKS: Final = (0x7EA1_93C5_D2E8_B4F6, 0x7B3D_A1F0_96C4_E58D, 0x7D92_E4A6_C8B1_F3D5)
"""Where these stand in an answer, the offsets do; the first one marks a request's offset, too."""
_SIZE_MARK: Final = 0x3A5C96
"""Records of this size are larger than what is written between other fields."""


class SingleFetch(NamedTuple):
    """What a request that was read is but for its correlation id and its offset."""

    head: bytes
    """Key and version of the API."""
    beginning: bytes
    """What lies between correlation id and offset."""
    ending: bytes
    """What lies behind the offset."""


def fetch_offset_at(frame: memoryview, version: int, position: int, request: Fetch) -> int:
    """Return where the offset of a request of one partition stands whose body is at `position`; -1 where it is not sure."""
    if version < LOG_START_OFFSET_FROM or len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return -1
    name = request.topics[0].topic.encode()
    at = position + 4 * 3 + 1  # wait, least and most bytes, isolation level
    if version < REPLICA_STATE_FROM:
        at += 4
    if version >= SESSIONS_FROM:
        at += 4 * 2
    if version >= TOPIC_IDS_FROM:
        at += 1 + UUID_BYTES + 1
    elif version >= FLEXIBLE_FROM:
        at += 1 + len(uvarint(len(name) + 1)) + len(name) + 1
    else:
        at += 4 + 2 + len(name) + 4
    at += 4 if version < LEADER_EPOCH_FROM else 8  # the index, and the leader's epoch
    return at if _is_offset(frame, version, position, at) else -1


def _is_offset(frame: memoryview, version: int, position: int, at: int) -> bool:
    """Return whether the offset stands there: another one in that place is read as the request's."""
    if at + OFFSET_BYTES > len(frame):
        return False
    changed = bytearray(frame)
    _pack_offset_into(changed, at, _MARKS[0])
    try:
        again = read_fetch_request(memoryview(changed), version, position)
    except WireError:
        return False
    topics = again.topics
    return len(topics) == 1 and len(topics[0].partitions) == 1 and topics[0].partitions[0].fetch_offset == _MARKS[0]


class FetchShape:
    """Requests of one length with their offset at one place.

    `read` gives (head, correlation id, beginning, offset, ending).
    """

    __slots__ = ("offset_at", "read", "size")

    def __init__(self, offset_at: int, size: int) -> None:
        self.offset_at = offset_at
        self.size = size
        behind = offset_at + OFFSET_BYTES
        self.read = Struct(f">{CORRELATION_AT}si{offset_at - CORRELATION_END}sq{size - behind}s").unpack_from

    def single(self, frame: memoryview) -> SingleFetch:
        """Return what other requests have to be equal to."""
        head, _, beginning, _, ending = self.read(frame)
        return SingleFetch(head, beginning, ending)


class FetchAnswers:
    """The answers to one partition's requests that have records and no error, and what they say of no session."""

    __slots__ = ("_fixed_bytes", "_is_flexible", "_middle", "_pack", "_start", "tail")

    def __init__(
        self,
        version: int,
        name: str,
        topic_id: bytes,
        index: int,
        *,
        aborted_transactions: Sequence[tuple[int, int]] | None,
    ) -> None:
        """Raises ValueError where the offsets cannot be told from the rest."""
        mark, stable, start = _MARKS
        partition = FetchedPartition(
            index, 0, mark, stable, start, None, _SIZE_MARK, aborted_transactions=aborted_transactions
        )
        partition.records = _SIZE_MARK  # what is no buffer is a part of its own
        parts = write_fetch_response(version, 0, [FetchedTopic(name, topic_id, [partition])])
        assert isinstance(parts[0], bytearray)
        head = bytes(parts[0])
        self._is_flexible = version >= FLEXIBLE_FROM
        size = uvarint(_SIZE_MARK + 1) if self._is_flexible else pack_int32(_SIZE_MARK)
        at = head.index(_OFFSETS.pack(*_MARKS))
        self._start = head[CORRELATION_END:at]
        self._middle = head[at + _OFFSETS.size : len(head) - len(size)]
        tail = parts[2] if len(parts) > 2 else b""
        assert isinstance(tail, bytearray | bytes)
        self.tail = bytes(tail)
        """What follows the records."""
        self._fixed_bytes = len(head) - len(size) + len(tail) - SIZE_BYTES
        self._pack = Struct(f">ii{len(self._start)}sqqq{len(self._middle)}s").pack

    def head(
        self, correlation_id: int, high_watermark: int, last_stable_offset: int, log_start_offset: int, size: int
    ) -> bytes:
        """Return what stands before the records of an answer, which are of so many bytes."""
        length = uvarint(size + 1) if self._is_flexible else pack_int32(size)
        head: bytes = self._pack(
            self._fixed_bytes + len(length) + size,
            correlation_id,
            self._start,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            self._middle,
        )
        return head + length
