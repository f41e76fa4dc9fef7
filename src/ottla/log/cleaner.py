"""One cleaning of one log: the dirty section's latest offsets, then the segments written again without what is superseded.

It reads segments that no longer change and writes `.cleaned` files beside them, durably, so that it can run in another
process; `Installation` puts them in place. Everything that it is told is in the `CleaningPlan`, and its answer is small.
The lease is a file that the plan's maker created: when it is gone, so is the wish for this cleaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from ottla.base import CorruptionError, KafkaError, StorageError
from ottla.log.batch_filter import BatchFilter
from ottla.log.batch_headers import headers_between
from ottla.log.cleaned_transactions import CleanedTransactions
from ottla.log.cleaning_plan import CleaningAborted, CleaningPlan, CleaningResult, Source
from ottla.log.disk import Disk, File, join
from ottla.log.index_builder import IndexBuilder
from ottla.log.names import CLEANED, INDEX, LOG, TIME_INDEX, TXN_INDEX, file_name
from ottla.log.offset_map import ENTRY_BYTES, OffsetMap
from ottla.log.segment import POSITION_MAX, RELATIVE_OFFSET_MAX
from ottla.log.transaction_index import encode_transactions
from ottla.log.types import AbortedTransaction, CleanedGroup
from ottla.wire import (
    BATCH_OVERHEAD,
    BatchHeader,
    Buffer,
    crc_is_valid,
    read_batch_header,
    record_spans,
    records_payload,
)

__all__ = ["clean"]

BUFFER_BYTES_MIN: Final = 64 * 1024
"""Less at once only makes more system calls."""

Spent = Callable[[int], object]
"""Told of bytes read or written, and may wait."""


def clean(disk: Disk, plan: CleaningPlan, spent: Spent | None = None) -> CleaningResult:
    """Write the cleaned segments of a plan.

    Raises CleaningAborted where the lease is gone, CorruptionError where a segment is damaged, and StorageError
    (NoSpaceError) where the disk fails; nothing that it wrote is left then.
    """
    work = _Cleaning(disk, plan, spent)
    try:
        return work.run()
    except CorruptionError:
        work.undo()
        raise
    except StorageError as error:
        work.undo()
        if not disk.exists(
            plan.lease
        ):  # the folder was renamed, or a segment set aside: nothing is wrong with the disk
            raise CleaningAborted(plan.folder) from error
        raise
    except CleaningAborted:
        work.undo()
        raise
    except KafkaError as error:  # records that are not what their batch says, with the right checksum
        work.undo()
        raise CorruptionError(f"{plan.folder}: {error}") from error


class _Cleaning:
    """The state of one cleaning."""

    def __init__(self, disk: Disk, plan: CleaningPlan, spent: Spent | None) -> None:
        self._disk = disk
        self._plan = plan
        self._spent = spent
        self._written: list[str] = []
        self._result = CleaningResult(plan.first_dirty_offset)

    def run(self) -> CleaningResult:
        plan, result = self._plan, self._result
        offsets = self._offset_map()
        result.cleaned_to = offsets.latest_offset + 1
        result.map_utilization = offsets.size / offsets.capacity
        kept = BatchFilter(
            offsets,
            CleanedTransactions(plan.aborted),
            plan.producers,
            end_offset=plan.end_offset,
            now_ms=plan.now_ms,
            delete_retention_ms=plan.delete_retention_ms,
        )
        for group in groups_of(plan, result.cleaned_to):
            self._clean_group(group, kept)
        if result.groups:
            self._disk.fsync_dir(plan.folder)  # what is swapped in later must not be there without what comes before it
        result.records_read, result.records_kept = kept.records_read, kept.records_kept
        result.records_without_key, result.tombstones_kept = kept.records_without_key, kept.tombstones_kept
        return result

    def undo(self) -> None:
        """Remove what was written, as far as the disk allows; the next start removes the rest."""
        for path in self._written:
            with suppress(StorageError):
                self._disk.unlink(path)

    # -- reading

    def _file(self, source: Source) -> File:
        return self._disk.open(join(self._plan.folder, file_name(source.base_offset, LOG)))

    def _batches(self, source: Source, first_offset: int = 0) -> Iterator[tuple[BatchHeader, Buffer]]:
        """Yield (header, bytes) of each batch that ends at `first_offset` or later; raises where one is not sound."""
        file = self._file(source)
        position = 0
        while position < source.size:
            block = self._block(file, position, source.size)
            at = 0
            while len(block) - at >= BATCH_OVERHEAD:
                header = _header(file, block, at, position + at)
                if header.size > len(block) - at:
                    break
                if header.last_offset >= first_offset:
                    if not crc_is_valid(block, at, header):
                        raise _damaged(file, position + at)
                    yield header, block[at : at + header.size]
                at += header.size
            position += at
        file.close()

    def _block(self, file: File, position: int, end: int) -> memoryview:
        """Return the bytes from a batch's position on: the whole of that one at least."""
        wanted = min(max(self._plan.buffer_bytes, BUFFER_BYTES_MIN), end - position)
        block = memoryview(file.pread(position, wanted))
        size = _header(file, block, 0, position).size
        if size > len(block) and size <= end - position:
            block = memoryview(file.pread(position, size))
        if size > len(block):
            raise _damaged(file, position)
        self._passed(len(block))
        return block

    def _passed(self, size: int) -> None:
        """Count bytes, wait where there were too many, and end where nobody wants the result any more."""
        self._result.bytes_read += size
        self._check_lease()
        if self._spent is not None:
            self._spent(size)

    def _check_lease(self) -> None:
        if not self._disk.exists(self._plan.lease):
            raise CleaningAborted(self._plan.folder)

    # -- first pass

    def _offset_map(self) -> OffsetMap:
        """Return the latest offset of each key in the dirty section, or in as much of it as the buffer holds."""
        plan = self._plan
        dirty = [each for at, each in enumerate(plan.sources) if self._end_of(at) > plan.first_dirty_offset]
        slots = min(max(plan.map_bytes // ENTRY_BYTES, 2), int(self._record_count(dirty) / plan.load_factor) + 2)
        offsets = OffsetMap(slots, plan.load_factor)
        transactions = CleanedTransactions(each for each in plan.aborted if each.last_offset >= plan.first_dirty_offset)
        for at, source in enumerate(plan.sources):
            end = self._end_of(at)
            if end > plan.first_dirty_offset:
                if not self._map_segment(source, offsets, transactions):
                    break
                offsets.latest_offset = max(offsets.latest_offset, end - 1)  # also where offsets lack at its end
        return offsets

    def _end_of(self, at: int) -> int:
        sources = self._plan.sources
        return sources[at + 1].base_offset if at + 1 < len(sources) else self._plan.end_offset

    def _record_count(self, sources: list[Source]) -> int:
        """Return how many records segments have, as their batches' headers say: no map needs to be larger."""
        count = 0
        for source in sources:
            self._check_lease()
            file = self._file(source)
            count += sum(header.record_count for header, _ in headers_between(file, 0, source.size))
            file.close()
        return count

    def _map_segment(self, source: Source, offsets: OffsetMap, transactions: CleanedTransactions) -> bool:
        """Take a segment's keys into the map; False where it is full, which leaves off after the last record put."""
        first_dirty, put = self._plan.first_dirty_offset, offsets.put
        for header, batch in self._batches(source, first_dirty):
            if header.is_control:
                transactions.is_marker_done(header, batch)
            elif not transactions.is_aborted(header) and header.record_count:
                self._result.records_mapped += header.record_count
                payload, base = records_payload(batch, 0, header), header.base_offset
                for span in record_spans(payload, header.record_count):
                    offset, key_end = base + span[3], span[5]
                    if key_end >= 0 and offset >= first_dirty and not put(payload[span[4] : key_end], offset):
                        return False
            offsets.latest_offset = max(offsets.latest_offset, header.last_offset)
        return True

    # -- second pass

    def _clean_group(self, group: tuple[Source, ...], kept: BatchFilter) -> None:
        """Write the segment that takes the place of a group's; where nothing would change, none."""
        plan, result = self._plan, self._result
        target = _Target(self._disk, plan, group[0].base_offset, self._written, self._passed)
        changed = len(group) > 1
        for source in group:
            for header, batch in self._batches(source):
                found = kept.apply(header, batch)
                changed = changed or found is None or found.data is not batch
                if found is not None:
                    target.add(found.header, found.data)
        transactions = kept.take_transactions()
        result.bytes_before += sum(each.size for each in group)
        result.bytes_after += target.size
        if changed:
            result.groups.append(target.finish(tuple(each.base_offset for each in group), transactions))
        else:
            target.discard()


class _Target:
    """The `.cleaned` files of one group."""

    def __init__(self, disk: Disk, plan: CleaningPlan, base_offset: int, written: list[str], passed: Spent) -> None:
        self._disk = disk
        self._folder = plan.folder
        self._base_offset = base_offset
        self._buffer_bytes = max(plan.buffer_bytes, BUFFER_BYTES_MIN)
        self._written = written
        self._passed = passed
        self._builder = IndexBuilder(base_offset, plan.index_interval_bytes)
        self._file = self._create(LOG)
        self._waiting: list[Buffer] = []
        self._waiting_bytes = 0
        self.size = 0

    def _create(self, suffix: str) -> File:
        path = join(self._folder, file_name(self._base_offset, suffix) + CLEANED)
        self._written.append(path)
        file = self._disk.open(path, create=True)
        if file.size():
            file.truncate(0)
        return file

    def add(self, header: BatchHeader, data: Buffer) -> None:
        """Write a batch behind the others."""
        if self.size + len(data) > POSITION_MAX:
            raise CorruptionError(f"{self._file.path}: what is kept of these segments does not fit in one")
        self._builder.add(header, self.size)
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        self.size += len(data)
        if self._waiting_bytes >= self._buffer_bytes:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            self._file.pwrite(self.size - self._waiting_bytes, b"".join(self._waiting))
            self._passed(self._waiting_bytes)
        self._waiting, self._waiting_bytes = [], 0

    def finish(self, bases: tuple[int, ...], transactions: list[AbortedTransaction]) -> CleanedGroup:
        """Write the indexes, make all of it durable, and say what there is."""
        self._write()
        offsets, times = self._builder.encoded()
        parts = {INDEX: offsets, TIME_INDEX: times}
        if transactions:
            parts[TXN_INDEX] = encode_transactions(transactions)
        files = [self._file]
        for suffix, data in parts.items():
            files.append(file := self._create(suffix))
            if data:
                file.pwrite(0, data)
        self._disk.fsync_all(files)
        for file in files:
            file.close()
        return CleanedGroup(bases, self.size, len(offsets), len(times), len(parts.get(TXN_INDEX, b"")))

    def discard(self) -> None:
        """Leave nothing."""
        self._file.close()
        self._disk.unlink(self._file.path)


def groups_of(plan: CleaningPlan, cleaned_to: int) -> Iterator[tuple[Source, ...]]:
    """Yield the segments that become one: neighbours whose bytes and indexes fit into one segment together."""
    group: list[Source] = []
    sources = plan.sources
    for at, source in enumerate(sources):
        if source.base_offset >= cleaned_to:
            break
        end = sources[at + 1].base_offset if at + 1 < len(sources) else plan.end_offset
        if group and not _fits(plan, [*group, source], end):
            yield tuple(group)
            group = []
        group.append(source)
    if group:
        yield tuple(group)


def _fits(plan: CleaningPlan, group: list[Source], end_offset: int) -> bool:
    return (
        sum(each.size for each in group) <= plan.segment_bytes
        and sum(each.offset_index_bytes for each in group) <= plan.segment_index_bytes
        and sum(each.time_index_bytes for each in group) <= plan.segment_index_bytes
        and (not group[-1].size or end_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX)
    )


def _header(file: File, block: memoryview, at: int, position: int) -> BatchHeader:
    try:
        return read_batch_header(block, at)
    except KafkaError as error:
        raise _damaged(file, position + at) from error


def _damaged(file: File, position: int) -> CorruptionError:
    return CorruptionError(f"{file.path}: the batch at position {position} is damaged")
