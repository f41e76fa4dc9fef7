"""One segment of a log: its bytes, its indexes, and where batches lie in it.

Offsets become positions without decoding a record: by the positions of the latest batches, which are kept in memory, or by
the index and then from batch header to batch header. A reader at the log's end costs no system call to find.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple

from ottla.base import CorruptionError, NoSpaceError, StorageError
from ottla.log.batch_headers import HEAD_BYTES, headers_between
from ottla.log.derived_sums import FileSum, SegmentSum, sum_of
from ottla.log.disk import TEMPORARY, Buffer, Disk, Entry, File, join
from ottla.log.flush_mark import FlushMark
from ottla.log.index import OFFSET_ENTRY, TIME_ENTRY, Index
from ottla.log.index_builder import IndexBuilder
from ottla.log.names import DELETED, INDEX, LOG, TIME_INDEX, TXN_INDEX, file_name
from ottla.log.transaction_index import TransactionIndex
from ottla.log.types import BatchAt, Cut
from ottla.wire import BATCH_OVERHEAD, LENGTH_END, BatchHeader

__all__ = ["Segment"]

RECENT_MAX: Final = 128
"""Batches whose positions are kept: enough for a reader that follows the end, 4 KiB at most."""
RELATIVE_OFFSET_MAX: Final = 0x7FFFFFFF
POSITION_MAX: Final = 0x7FFFFFFF
"""Offsets and positions in an index are 32-bit."""
MENDED_INTERVAL: Final = 4096
"""Bytes between the entries of an index that is built again, as Kafka's `index.interval.bytes` has it."""
_HEAD: Final = Struct(">qi11xi")
_HEAD_END: Final = 27


class _Place(NamedTuple):
    """Where a file of a segment is, what renames it, and what notes that it has been renamed."""

    path: str
    rename: Callable[[str], None]
    moved: Callable[[str], None]


class Segment:
    """A segment. Its end is `size`: bytes beyond it in the file (preallocated) mean nothing."""

    __slots__ = (
        "_disk",
        "_first_timestamp",
        "_is_unsound",
        "_recent_offsets",
        "_recent_positions",
        "base_offset",
        "bytes_since_entry",
        "created_ms",
        "file",
        "folder",
        "max_timestamp",
        "max_timestamp_offset",
        "modified_ms",
        "offset_index",
        "overhangs",
        "size",
        "sum",
        "time_index",
        "transactions",
    )

    def __init__(
        self,
        disk: Disk,
        folder: str,
        base_offset: int,
        sizes: dict[str, Entry],
        created_ms: int,
        file: File | None = None,
    ) -> None:
        """Take the files as a folder's listing shows them; nothing is read. `file` is the data under another name."""
        self._disk = disk
        self.folder = folder
        self.base_offset = base_offset
        names = {suffix: file_name(base_offset, suffix) for suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX)}
        found = {suffix: entry.size for suffix, name in names.items() if (entry := sizes.get(name)) is not None}
        self.file: File = disk.open(join(folder, names[LOG])) if file is None else file
        self.size = found.get(LOG, 0)
        self.overhangs = False
        """True where bytes beyond the end may be whole batches, which must go before anything else is written."""
        self.offset_index = Index(disk, join(folder, names[INDEX]), OFFSET_ENTRY, found.get(INDEX, 0))
        self.time_index = Index(disk, join(folder, names[TIME_INDEX]), TIME_ENTRY, found.get(TIME_INDEX, 0))
        self.transactions = TransactionIndex(disk, join(folder, names[TXN_INDEX]), found.get(TXN_INDEX, 0))
        self.sum: SegmentSum | None = None
        """What the files held when they were known to be right; of the segment as it is where its size is the same."""
        self._is_unsound = False
        """True where the headers do not lead through the segment, so that no index can be made of them."""
        self.created_ms = created_ms
        entry = sizes.get(names[LOG])
        self.modified_ms = entry.modified_ms if entry else created_ms
        self.bytes_since_entry = 0
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        self._first_timestamp: int | None = None
        self._recent_offsets: array[int] | None = None
        self._recent_positions: array[int] | None = None

    @classmethod
    def draft(cls, disk: Disk, folder: str, base_offset: int, now_ms: int, *, preallocate: int = 0) -> Segment:
        """Make a new, empty segment that no start would find, until `place`; with `preallocate` its file has that room."""
        path = join(folder, file_name(base_offset, LOG)) + TEMPORARY
        file = disk.open(path, create=True)
        try:
            file.truncate(preallocate)
        except StorageError:
            _discard(disk, file)
            raise
        return cls._empty(disk, folder, base_offset, now_ms, file)

    @classmethod
    def first(cls, disk: Disk, folder: str, base_offset: int, now_ms: int) -> Segment:
        """Make the first segment in a folder that nothing is in; raises StorageError."""
        file = disk.open(join(folder, file_name(base_offset, LOG)), create=True)
        return cls._empty(disk, folder, base_offset, now_ms, file)

    @classmethod
    def _empty(cls, disk: Disk, folder: str, base_offset: int, now_ms: int, file: File) -> Segment:
        segment = cls(disk, folder, base_offset, {}, now_ms, file)
        segment.offset_index.create()
        segment.time_index.create()
        segment.vouch()
        return segment

    @classmethod
    def create(cls, disk: Disk, folder: str, base_offset: int, now_ms: int, *, preallocate: int = 0) -> Segment:
        """Make a new, empty segment whole or not at all."""
        segment = cls.draft(disk, folder, base_offset, now_ms, preallocate=preallocate)
        try:
            segment.place()
        except StorageError:
            _discard(disk, segment.file)
            for index in (
                segment.offset_index,
                segment.time_index,
            ):  # no later segment need begin where this one would have
                index.close()
                with suppress(StorageError):
                    disk.unlink(index.path)
            raise
        return segment

    def place(self) -> None:
        """Give a draft its name. May be tried again after an error."""
        path = self.file.path
        if path.endswith(TEMPORARY):
            self._disk.unlink(self.transactions.path)  # of a segment that was here, and could not be removed whole
            target = path.removesuffix(TEMPORARY)
            self._disk.rename(path, target)
            self.file.path = target

    # -- writing

    def append(self, data: Buffer, batches: Sequence[tuple[BatchHeader, int, int]], interval: int) -> None:
        """Write stamped batches, each with its place in `data` and its last offset, at the end.

        On an error the segment is as it was, and the error goes on; where the file cannot be cut back now, that is done
        before anything else is written. Once the data is written nothing fails.
        """
        self.append_all((data,), len(data), batches, interval)

    def append_all(
        self,
        buffers: Sequence[Buffer],
        size: int,
        batches: Sequence[tuple[BatchHeader, int, int]],
        interval: int,
    ) -> None:
        """As `append`, of what lies in several buffers and has `size` bytes in all: one write."""
        start = self.size
        if self.overhangs:
            self._cut_file()
        try:
            self.file.pwrite(start, *buffers)
        except StorageError:
            self.overhangs = True
            with suppress(StorageError):
                self._cut_file()
            raise
        self.size = start + size
        offsets, positions = self._recent_offsets, self._recent_positions
        if offsets is None or positions is None:
            offsets = self._recent_offsets = array("q")
            positions = self._recent_positions = array("q")
        for header, at, last_offset in batches:
            offsets.append(last_offset)
            positions.append(start + at)
            self.note(header, last_offset, start + at, interval)
        if len(offsets) > RECENT_MAX:
            del offsets[: -RECENT_MAX // 2]
            del positions[: -RECENT_MAX // 2]

    def note(self, header: BatchHeader, last_offset: int, position: int, interval: int) -> None:
        """Take a batch at the end into account, in the indexes where one is due."""
        timestamp = header.max_timestamp
        if timestamp > self.max_timestamp and header.record_count:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        if self._first_timestamp is None and position == 0:
            self._first_timestamp = timestamp
        if self.bytes_since_entry > interval:
            self.offset_index.append(last_offset - self.base_offset, position)
            self.index_time()
            self.bytes_since_entry = 0
        self.bytes_since_entry += header.batch_length + LENGTH_END

    def index_time(self) -> None:
        """Add the largest timestamp so far to the time index, where it is larger than the last one there."""
        last = self.time_index.last()
        if self.max_timestamp >= 0 and (last is None or self.max_timestamp > last[0]):
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def seal(self) -> None:
        """Finish a segment that gets no more batches: its indexes are completed, nothing stays in memory or open.

        After an error it may still be appended to, or sealed again.
        """
        self.index_time()
        self.settle()
        self._cut_file()
        self.offset_index.file()  # a clean start takes a missing one for damage
        self.time_index.file()
        self._recent_offsets = self._recent_positions = None
        self.offset_index.close()
        self.time_index.close()

    def settle(self) -> None:
        """Do to the files what was done in memory only; raises StorageError, and may be tried again."""
        self.place()
        self.offset_index.write()
        self.time_index.write()
        self.transactions.write()
        if self.overhangs:
            self._cut_file()

    def _cut_file(self) -> None:
        self.file.truncate(self.size)
        self.overhangs = False

    @property
    def appended_end(self) -> int:
        """Offset behind what was appended last; -1 where nothing was since the segment was opened, sealed or cut."""
        offsets = self._recent_offsets
        return -1 if offsets is None else offsets[-1] + 1

    def is_index_full(self, max_bytes: int) -> bool:
        """True where an index has no room for another entry in `segment.index.bytes`."""
        entries = max_bytes // self.offset_index.entry_size
        return len(self.offset_index) >= entries or len(self.time_index) >= max_bytes // TIME_ENTRY.size - 1

    def holds(self, last_offset: int) -> bool:
        """True where an offset can be in this segment's index."""
        return last_offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def cut_at(self, offset: int) -> Cut:
        """Return what is left where everything goes from the first batch with records at `offset` or after; cuts nothing."""
        self._last_time()
        try:
            return self._cut_at(offset)
        except CorruptionError:
            if not self.mend():
                raise
            return self._cut_at(offset)

    def _cut_at(self, offset: int) -> Cut:
        found = self.locate(offset)
        position = self.size if found is None else found.position
        relative = max(offset - self.base_offset, 0)
        times = self.time_index.count_below(relative, field=1)
        last = self.time_index.entry(times - 1) if times else None
        end, start = self.base_offset, 0
        timestamp, timestamp_offset = (last[0], last[1] + self.base_offset) if last else (-1, -1)
        if last is not None and (known := self.locate(timestamp_offset)) is not None and known.position < position:
            start = known.position
        for header, _ in headers_between(self.file, start, position):
            end = header.next_offset
            if header.max_timestamp > timestamp and header.record_count:
                timestamp, timestamp_offset = header.max_timestamp, header.last_offset
        entries = self.offset_index.count_below(relative, field=0)
        assert self.transactions.aborted is not None  # read while an error changes nothing
        return Cut(position, end, entries, times, timestamp, timestamp_offset)

    def cut(self, cut: Cut) -> None:
        """Cut the segment in memory; `settle` follows with the files."""
        self.offset_index.cut(cut.index_entries)
        self.time_index.cut(cut.time_entries)
        self.transactions.cut(cut.end_offset)
        self.overhangs = True
        self.size = cut.position
        self.sum = None  # behind the size: a thread that is in `summed` sees the one, or has its sum cleared
        self.max_timestamp, self.max_timestamp_offset = cut.max_timestamp, cut.max_timestamp_offset
        self._recent_offsets = self._recent_positions = None
        self.bytes_since_entry = 0
        if not cut.position:
            self._first_timestamp = None

    def files_to_sync(self, *, sealed: bool) -> list[File]:
        """Return what has to be fsynced for the segment to be durable; a growing one's indexes can be built again."""
        return [self.file, self.offset_index.file(), self.time_index.file()] if sealed else [self.file]

    def newest_mark(self) -> FlushMark | None:
        """Return the mark of the last batch that was appended since the segment was opened or cut; None without one."""
        positions = self._recent_positions
        return FlushMark.of(self.file, self.base_offset, positions[-1]) if positions else None

    # -- finding

    @property
    def first_timestamp(self) -> int:
        """Largest timestamp of the first batch, from which `segment.ms` counts; -1 where there is none.

        Raises CorruptionError where it is damaged.
        """
        found = self._first_timestamp
        if found is None:
            if self.size < BATCH_OVERHEAD:
                return -1
            header, _ = next(headers_between(self.file, 0, self.size))
            found = self._first_timestamp = header.max_timestamp
        return found

    def locate(self, offset: int) -> BatchAt | None:
        """Return the first batch that has a record at `offset` or after it; None where the segment has none."""
        offsets, positions = self._recent_offsets, self._recent_positions
        if offsets and positions and offset >= offsets[0]:
            at = bisect_left(offsets, offset)
            if at == len(offsets):
                return None
            return BatchAt(positions[at], positions[at + 1] if at + 1 < len(positions) else self.size)
        try:
            entry = self.offset_index.floor(offset - self.base_offset)
            if entry is not None:
                return self._locate_from(entry, offset)
        except CorruptionError:
            if self.mend() and (entry := self.offset_index.floor(offset - self.base_offset)) is not None:
                return self._locate_from(entry, offset)
        # without an index it costs time; where the batches themselves are wrong, this says so
        return self._step_to(offset, 0)

    def _locate_from(self, entry: tuple[int, int], offset: int) -> BatchAt | None:
        """As `locate`, from an entry on: of the batch that ends at the offset, or before it."""
        behind = self.offset_index.above(entry[0]) if self.base_offset + entry[0] < offset else None
        if behind is not None and behind[1] - entry[1] > HEAD_BYTES and entry[1] >= 0:
            found = self._at_entry(behind, offset, self.base_offset + entry[0])
            if found is not None:
                return found
        return self._step_to(offset, entry[1], self.base_offset + entry[0])

    def _at_entry(self, entry: tuple[int, int], offset: int, before: int) -> BatchAt | None:
        """Return the batch of an index entry where it has this offset, and the batch of the entry before ends at `before`.

        With batches above `index.interval.bytes` it has: one short read less than from the entry before.
        """
        position = entry[1]
        data = self.file.pread(position, _HEAD_END)
        if len(data) < _HEAD_END:
            return None
        base_offset, length, last_delta = _HEAD.unpack(data)
        end = position + LENGTH_END + length
        is_batch = length >= BATCH_OVERHEAD - LENGTH_END and end <= self.size
        is_entrys = before < base_offset <= offset and base_offset + last_delta == self.base_offset + entry[0]
        return BatchAt(position, end) if is_batch and is_entrys else None

    def _step_to(self, offset: int, position: int, first_offset: int = -1) -> BatchAt | None:
        """Return the first batch from `position` on that has a record at `offset` or after it.

        With `first_offset` an index says that a batch lies there which ends at that offset, or before; where none does, the
        entry is wrong and would lead past records.
        """
        if first_offset >= 0 and position >= self.size:
            raise self.corrupt(position)
        for at, end, last_offset in self._heads(position):
            if at == position and last_offset > first_offset >= 0:
                raise self.corrupt(position)
            if last_offset >= offset:
                return BatchAt(at, end)
        return None

    def end_of(self, position: int) -> int:
        """Return an offset that is above all records before a position, and near; -1 where the segment's end is near."""
        offsets, positions = self._recent_offsets, self._recent_positions
        if offsets and positions and position > positions[0]:
            return offsets[bisect_left(positions, position) - 1] + 1
        try:
            at = self.offset_index.count_below(position, field=1)
        except CorruptionError:
            if not self.mend():
                return -1
            at = self.offset_index.count_below(position, field=1)
        if at >= len(self.offset_index):
            return -1
        relative, place = self.offset_index.entry(at)
        return self.base_offset + relative if self.offset_index.is_proven else self._beginning_at(place, position)

    def _beginning_at(self, place: int, position: int) -> int:
        """Return the first offset of the batch at a place that an unproven index names; -1 where there is none."""
        if not position <= place < self.size:
            return -1
        with suppress(CorruptionError):
            for header, _ in headers_between(self.file, place, self.size):
                return header.base_offset if header.base_offset >= self.base_offset else -1
        return -1

    def _heads(self, position: int) -> Iterator[tuple[int, int, int]]:
        """Yield (position, end, last offset) of each batch from `position` on."""
        if position < 0:
            raise self.corrupt(position)
        size, file, unpack = self.size, self.file, _HEAD.unpack_from
        block, start = b"", position
        while position < size:
            if position - start + _HEAD_END > len(block):
                start = position
                block = file.pread(position, min(HEAD_BYTES, size - position))
                if len(block) < _HEAD_END:
                    raise self.corrupt(position)
            base_offset, length, last_delta = unpack(block, position - start)
            end = position + LENGTH_END + length
            if length < BATCH_OVERHEAD - LENGTH_END or end > size or last_delta < 0:
                raise self.corrupt(position)
            yield position, end, base_offset + last_delta
            position = end

    def headers_from(self, offset: int) -> Iterator[tuple[BatchHeader, int]]:
        """Yield (header, position) of the batches from the one that holds `offset` on."""
        found = self.locate(offset)
        return iter(()) if found is None else headers_between(self.file, found.position, self.size)

    def base_at(self, position: int) -> int:
        """Return the base offset of the batch at a position."""
        return int.from_bytes(self.file.pread(position, 8), "big")

    def position_of_time(self, timestamp: int) -> int:
        """Return a position at or before the first batch whose largest timestamp is this one or later."""
        self._last_time()
        try:
            entry = self.time_index.floor(timestamp - 1)
            is_right = entry is None or self.time_index.is_proven or self._is_time(entry)
        except CorruptionError:
            is_right = False
        if not is_right:
            entry = self.time_index.floor(timestamp - 1) if self.mend() else None
        found = self.locate(self.base_offset + entry[1]) if entry is not None else None
        return 0 if found is None else found.position

    def _is_time(self, entry: tuple[int, int]) -> bool:
        """Return whether an entry of the time index, of which no sum is known, is of a batch that is here."""
        if not 0 <= entry[1] <= RELATIVE_OFFSET_MAX:
            return False
        offset = self.base_offset + entry[1]
        for header, _ in self.headers_from(offset):
            return header.base_offset <= offset and header.max_timestamp == entry[0]
        return False

    def _last_time(self) -> tuple[int, int] | None:
        """Return the time index's last entry, of an index that is built again where that is wrong."""
        known = self.sum
        if known is not None and known.size == self.size and self._recent_offsets is None:
            is_timed = known.max_timestamp >= 0
            return (known.max_timestamp, known.max_timestamp_offset - self.base_offset) if is_timed else None
        try:
            last = self.time_index.last()
            if last is None or self.time_index.is_proven or self._is_time(last):
                return last
        except CorruptionError:
            pass
        return self.time_index.last() if self.mend() else None

    def load_end(self) -> int:
        """Return the offset after the last batch, from the index's last entry on; notes the largest timestamp too.

        Raises CorruptionError where the bytes from there on are not batches to the end.
        """
        self.offset_index.check()
        self.time_index.check()
        entry = self.offset_index.last()
        position = entry[1] if entry else 0
        if entry is not None and not (0 <= position < self.size and entry[0] >= 0):
            raise self.corrupt(position)
        last = self.time_index.last()
        if last is not None and not (self.time_index.is_proven or self._is_time(last)):
            raise CorruptionError(f"{self.time_index.path} ends with an entry of no batch", self.time_index.path)
        self.max_timestamp, self.max_timestamp_offset = (last[0], last[1] + self.base_offset) if last else (-1, -1)
        end = self.base_offset
        for header, at in headers_between(self.file, position, self.size):
            if header.base_offset < end or (
                entry is not None and at == position and header.last_offset > self.base_offset + entry[0]
            ):
                raise self.corrupt(position)
            end = header.next_offset
            if header.max_timestamp > self.max_timestamp and header.record_count:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
        return end

    def largest_timestamp(self) -> int:
        """Return the largest timestamp, or when the file last changed where no record has one."""
        if self.max_timestamp < 0 and (last := self._last_time()) is not None:
            self.max_timestamp, self.max_timestamp_offset = last[0], last[1] + self.base_offset
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms

    def corrupt(self, position: int) -> CorruptionError:
        """Return the error for bytes that are no batch."""
        return CorruptionError(f"{self.file.path}: no whole batch at position {position}")

    # -- what is known of the files

    def trust(self, known: SegmentSum) -> bool:
        """Believe the index files where they are what they were; False where one has another size, or this is another's."""
        index, times = self.offset_index, self.time_index
        if known.size != self.size:
            return False
        self.transactions.expect(FileSum(known.transaction_bytes, known.transaction_crc))
        if (known.index_bytes, known.time_index_bytes) != (
            len(index) * index.entry_size,
            len(times) * times.entry_size,
        ):
            return False
        index.expect(known.index_crc)
        times.expect(known.time_index_crc)
        self.max_timestamp, self.max_timestamp_offset = known.max_timestamp, known.max_timestamp_offset
        self.sum = known
        return True

    def vouch(self) -> None:
        """Believe the index files as they are: this process has made them."""
        self.offset_index.is_proven = self.time_index.is_proven = self.transactions.is_proven = True
        self.transactions.is_doubtful = False

    def summed(self) -> SegmentSum | None:
        """Return what the files hold of a sealed segment; None where nobody knows whether that is right.

        Raises CorruptionError where it is wrong, and StorageError. May run on a thread: a segment that is cut, or gets other
        indexes, meanwhile has no sum.
        """
        known, index, times, size = self.sum, self.offset_index, self.time_index, self.size
        if known is not None and known.size == size:
            return known
        if not (index.is_proven and times.is_proven and self.transactions.is_proven):
            return None
        if not (index.is_written and times.is_written):
            return None
        last = times.last()
        timestamp, offset = (last[0], last[1] + self.base_offset) if last is not None else (-1, -1)
        sums = sum_of(index.content()), sum_of(times.content()), sum_of(self.transactions.content())
        found = SegmentSum(self.base_offset, size, *sums[0], *sums[1], *sums[2], timestamp, offset)
        self.sum = found
        if (self.size, self.offset_index, self.time_index) != (
            size,
            index,
            times,
        ):  # looked at behind, as it is cleared
            self.sum = None
            return None
        return found

    def mend(self) -> bool:
        """Build both indexes again from the batches' headers; False where those do not lead to the segment's end.

        Others may read the old ones meanwhile, which are objects of their own.
        """
        if self._is_unsound:
            return False
        size, builder = self.size, IndexBuilder(self.base_offset, MENDED_INTERVAL)
        try:
            for header, position in headers_between(self.file, 0, size):
                builder.add(header, position)
        except CorruptionError:
            self._is_unsound = True
            return False
        if size != self.size:  # cut, or appended to, by another thread
            return False
        offsets = Index(self._disk, self.offset_index.path, OFFSET_ENTRY, 0)
        times = Index(self._disk, self.time_index.path, TIME_ENTRY, 0)
        offsets.mend(builder.offset_entries)
        times.mend(builder.time_entries())
        self.offset_index.close()
        self.time_index.close()
        self.offset_index, self.time_index = offsets, times
        self._note_built(builder)
        return True

    def take_indexes(self, builder: IndexBuilder, *, durable: bool) -> None:
        """Have these indexes, in the place of what the files hold; raises StorageError."""
        self.offset_index.replace(builder.offset_entries, durable=durable)
        self.time_index.replace(builder.time_entries(), durable=durable)
        self._note_built(builder)

    def _note_built(self, builder: IndexBuilder) -> None:
        self.max_timestamp, self.max_timestamp_offset = builder.largest
        self.bytes_since_entry = builder.since
        self.sum = None

    # -- the files

    def close(self) -> None:
        """Let every descriptor go."""
        self.file.close()
        self.offset_index.close()
        self.time_index.close()

    def release(self) -> None:
        """Called when the files are removed: whoever still reads the data keeps it, and nobody else its space."""
        self.file.release()
        self.offset_index.close()
        self.time_index.close()

    def paths(self) -> list[str]:
        """Return the segment's files, the data first."""
        return [each.path for each in self._places()]

    def _places(self) -> list[_Place]:
        """Return where each file is, the data first."""
        offsets, times, transactions = self.offset_index, self.time_index, self.transactions
        places = [
            _Place(self.file.path, self.file.rename, self._file_moved),
            _Place(offsets.path, offsets.rename, offsets.moved),
            _Place(times.path, times.rename, times.moved),
        ]
        if transactions.has_file:
            places.append(_Place(transactions.path, transactions.rename, transactions.moved))
        return places

    def _file_moved(self, path: str) -> None:
        self.file.path = path

    @property
    def is_set_aside(self) -> bool:
        """True where the data is set aside, though perhaps not all that belongs to it."""
        return self.file.path.endswith(DELETED)

    def set_aside(self, mark: str = "") -> list[str]:
        """Rename the files to `.deleted`, so that readers may finish; return the new names.

        `mark` keeps those apart that have one name: a base offset is used again when compaction writes a segment anew. The
        data goes first: without it what is left is no segment. After an error this may be tried again. Where there is no
        room for a name, a file goes at once.
        """
        for path, rename, moved in self._places():
            if path.endswith(DELETED):
                continue
            if self._disk.exists(path):
                try:
                    rename(path + mark + DELETED)
                except NoSpaceError:
                    self._disk.unlink(path)
            moved(path + mark + DELETED)
        self.offset_index.close()
        self.time_index.close()
        return self.paths()

    def end_names(self, end: str) -> None:
        """Know the files by their plain names with this behind, as whoever renamed them says."""
        for path, _, moved in self._places():
            moved(path + end)

    def find_files(self) -> None:
        """Make sure that the files are there, so that they may be renamed while others read them; raises StorageError."""
        self.offset_index.file()
        self.time_index.file()
        assert self.transactions.aborted is not None  # read now: its file is found by its name alone

    def take_names(self, end: str) -> None:
        """Give the files their plain names, without this ending, the data first. After an error this may be tried again.

        Others may read them meanwhile, once `find_files` has been called.
        """
        for path, rename, _ in self._places():
            if path.endswith(end):
                rename(path.removesuffix(end))

    def moved(self, folder: str) -> None:
        """Follow a rename of the folder."""
        self.folder = folder
        self.transactions.path = join(folder, self.transactions.path.rpartition("/")[2])
        for path, _, moved in self._places():
            moved(join(folder, path.rpartition("/")[2]))

    def remove(self) -> None:
        """Remove the files at once, the data first; after an error this may be tried again."""
        self.release()
        for path in self.paths():
            self._disk.unlink(path)


def _discard(disk: Disk, file: File) -> None:
    """Remove a draft, as far as the disk allows; a start removes what is left."""
    file.release()
    with suppress(StorageError):
        disk.unlink(file.path)
