"""What a log's derived files held when they were known to be right: `derived-sums` in its folder.

Indexes, producer snapshots and `leader-epoch-checkpoint` can all be made again from the records, and Kafka's formats for
most of them have no checksum. So a flush and a clean end leave one for each file here, and a start believes a file only
where it still has it. Looking into all of a thousand segments at a start would be slow: sizes are compared then, contents
when a file is read first.

A line for each segment or file, and its own CRC-32C at the end; the last one counts::

    segment BASE LOG-BYTES INDEX-BYTES CRC TIMEINDEX-BYTES CRC TXNINDEX-BYTES CRC MAX-TIMESTAMP ITS-OFFSET  CRC
    file NAME BYTES CRC  CRC
    ends START-OFFSET END-OFFSET BASE LOG-BYTES  CRC

`ends` is of a clean end, and tells of the last segment, too: where there is more after it now, somebody else has had the log
meanwhile, as Apache Kafka, which leaves this file as it is. Then nothing that it says is of this log.

Lines are appended without waiting for the device. One that is torn, or missing, costs a check of another kind. A line of a
segment that is no more what it was does no harm: a sum that does not fit makes a file be built again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.log.disk import Disk, join
from ottla.wire import crc32c

__all__ = ["DERIVED_SUMS_FILE", "DerivedSums", "Ends", "FileSum", "SegmentSum", "read_sums", "sum_of", "sums_lines"]

DERIVED_SUMS_FILE: Final = "derived-sums"
SEGMENT: Final = "segment"
FILE: Final = "file"
ENDS: Final = "ends"


class FileSum(NamedTuple):
    """A whole file."""

    size: int
    crc: int


class SegmentSum(NamedTuple):
    """A segment's size, and what its index files held then."""

    base_offset: int
    size: int
    """Bytes of its log."""
    index_bytes: int
    index_crc: int
    time_index_bytes: int
    time_index_crc: int
    transaction_bytes: int
    transaction_crc: int
    max_timestamp: int
    max_timestamp_offset: int

    def with_indexes(self, offsets: FileSum, times: FileSum, largest: tuple[int, int]) -> SegmentSum:
        """Return the sum of the same segment with other indexes, and the largest timestamp with its offset."""
        return SegmentSum(
            self.base_offset, self.size, *offsets, *times, self.transaction_bytes, self.transaction_crc, *largest
        )


class Ends(NamedTuple):
    """Where a log began and ended at a clean end, and its last segment then."""

    start_offset: int
    end_offset: int
    last_base: int
    last_size: int
    """Bytes of its log."""


@dataclass(slots=True)
class DerivedSums:
    """What the lines say; `ends` are those of the last clean end, None where there was none."""

    segments: dict[int, SegmentSum] = field(default_factory=dict)
    files: dict[str, FileSum] = field(default_factory=dict)
    ends: Ends | None = None
    is_there: bool = False
    """True where there is a file, whatever it holds: Ottla wrote the log."""

    def after_clean_end(self, last_base: int, last_size: int) -> DerivedSums:
        """Return what still counts after a clean end, of a log whose last segment this is now.

        Nothing where there is more than Ottla left, or where its own last end was not clean: another one wrote it since.
        """
        ends = self.ends
        if ends is not None and (last_base, last_size) <= (ends.last_base, ends.last_size):
            return self
        return DerivedSums(is_there=self.is_there)


def sum_of(data: bytes) -> FileSum:
    """Return the sum of a file with this content."""
    return FileSum(len(data), crc32c(data))


def sums_lines(
    segments: Iterable[SegmentSum],
    files: Iterable[tuple[str, FileSum]] = (),
    ends: Ends | None = None,
) -> bytes:
    """Return lines to append; they begin with a line's end, since what was written last may be torn."""
    lines = [" ".join([SEGMENT, *map(str, each)]) for each in segments]
    lines += [f"{FILE} {name} {each.size} {each.crc}" for name, each in files]
    if ends is not None:
        lines.append(" ".join([ENDS, *map(str, ends)]))
    return b"".join([b"\n%s %d\n" % (line.encode(), crc32c(line.encode())) for line in lines])


def read_sums(disk: Disk, folder: str) -> DerivedSums:
    """Return what a log's folder says of its derived files; a line that is not whole says nothing. Raises StorageError."""
    data = disk.read(join(folder, DERIVED_SUMS_FILE))
    found = DerivedSums(is_there=data is not None)
    for line in (data or b"").split(b"\n"):
        text, _, crc = line.rpartition(b" ")
        if crc == b"%d" % crc32c(text):
            _take(found, text.decode(errors="replace").split(" "))
    return found


def _take(found: DerivedSums, words: list[str]) -> None:
    kind, *rest = words
    try:
        if kind == SEGMENT:
            segment = SegmentSum(*map(int, rest))
            found.segments[segment.base_offset] = segment
        elif kind == FILE:
            found.files[rest[0]] = FileSum(*map(int, rest[1:]))
        elif kind == ENDS:
            found.ends = Ends(*map(int, rest))
    except (TypeError, ValueError, IndexError):
        return  # its checksum is right, so another version wrote it; without the line the file is looked into
