"""Bringing a log's folder back to a sound state after its process ended anyhow.

What every start does (`tidy`): complete or undo what a deletion or a compaction had begun. What only an unclean one does
(`recover`): read everything above the recovery point, cut it after the last whole batch, and build indexes, epochs and
producers again. Recovery may itself be killed at any moment and run again: a file is only ever replaced at once or cut,
segments go newest first, and the recovery point stays where it was until the first flush, so that little has to be fsynced
here: ten thousand logs recover at the speed of reading them.

Below the recovery point, and the mark of the last flush (`flush_mark.py`), everything was once fsynced; where that does not
read back, it is damage and no torn tail, and CorruptionError says so instead of cutting. Where whole batches follow the
place of a cut, what is cut off is kept aside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from ottla.base import CorruptionError, KafkaError, Millis, Offset
from ottla.log.config import INT64_MAX, LogConfig
from ottla.log.derived_sums import DERIVED_SUMS_FILE, DerivedSums, read_sums, sum_of, sums_lines
from ottla.log.disk import TEMPORARY, Disk, Entry, File, join, replace_file
from ottla.log.epochs_told import epochs_of
from ottla.log.flush_mark import flushed_end
from ottla.log.index_builder import IndexBuilder
from ottla.log.leader_epochs import LEADER_EPOCH_FILE, LeaderEpochs
from ottla.log.names import CLEANED, DELETED, INDEX, LOG, SNAPSHOT, SWAP, TIME_INDEX, base_offset_of, file_name
from ottla.log.producer_state import ProducerState
from ottla.log.segment import RELATIVE_OFFSET_MAX, Segment
from ottla.log.types import RecoveryReport
from ottla.wire import BATCH_OVERHEAD, LENGTH_END, BatchHeader, Buffer, batch_size_at, crc_is_valid, read_batch_header

__all__ = ["Progress", "load_segments", "recover", "tidy", "verified_batches"]

READ_BYTES = 1 << 20
"""Bytes read at once; a larger batch is read whole."""
LOOK_AHEAD_BYTES = 1 << 20
"""How far behind the place of a cut whole batches are looked for."""

DAMAGED = ".damaged"
"""Ends the name of what recovery cut off and kept."""

Progress = Callable[[int, int], object]
"""Told (bytes read so far, bytes to read in all)."""


def tidy(disk: Disk, folder: str) -> dict[str, Entry]:
    """Complete what was being deleted or swapped in when the process ended; return the folder's files by name."""
    entries = {each.name: each for each in disk.scan(folder) if not each.is_folder}
    unfinished = [name for name in entries if name.endswith((DELETED, CLEANED, SWAP, TEMPORARY))]
    if not unfinished:
        return entries
    cleaned = [found[0] for name in unfinished if (found := base_offset_of(name.removesuffix(CLEANED))) is not None]
    first_cleaned = min(cleaned, default=None)
    for name in unfinished:
        swapped = base_offset_of(name.removesuffix(SWAP)) if name.endswith(SWAP) else None
        # what is swapped in at or after an unfinished segment belongs to a split that did not complete
        if swapped is None or (first_cleaned is not None and swapped[0] >= first_cleaned):
            disk.unlink(join(folder, name))
    _complete_swaps(disk, folder)
    disk.fsync_dir(folder)
    return {each.name: each for each in disk.scan(folder) if not each.is_folder}


def _complete_swaps(disk: Disk, folder: str) -> None:
    """Put compacted segments in the place of those that they were made from."""
    names = [each.name for each in disk.scan(folder)]
    swaps = [name for name in names if name.endswith(LOG + SWAP)]
    for name in swaps:
        found = base_offset_of(name.removesuffix(SWAP))
        if found is None:
            continue
        file = disk.open(join(folder, name))
        end = found[0]
        for header, _, _ in verified_batches(file, file.size()):
            end = header.next_offset
        file.close()
        for other in names:
            parsed = base_offset_of(other)
            if parsed is not None and parsed[1] != SNAPSHOT and found[0] <= parsed[0] < max(end, found[0] + 1):
                disk.unlink(join(folder, other))
    there = {each.name for each in disk.scan(folder)}
    for name in names:
        if name.endswith(SWAP):
            plain = name.removesuffix(SWAP)
            if (
                name not in swaps and plain in there
            ):  # of a swap that was given up: what it should replace is still here
                disk.unlink(join(folder, name))
            else:
                disk.rename(join(folder, name), join(folder, plain))


def load_segments(
    disk: Disk, folder: str, entries: dict[str, Entry], log_start_offset: int, now_ms: int
) -> list[Segment]:
    """Return the segments in a folder, ascending; those below the log's start, and indexes without one, are removed."""
    bases = sorted(found[0] for name in entries if (found := base_offset_of(name)) is not None and found[1] == LOG)
    known = set(bases)
    for name in entries:
        found = base_offset_of(name)
        if found is not None and found[1] not in (LOG, SNAPSHOT) and found[0] not in known:
            disk.unlink(join(folder, name))
    while len(bases) > 1 and bases[1] <= log_start_offset:  # deleted before, and back after a power failure
        Segment(disk, folder, bases.pop(0), entries, now_ms).remove()
    return [Segment(disk, folder, base, entries, now_ms) for base in bases]


def recover(
    disk: Disk,
    folder: str,
    config: LogConfig,
    *,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    now_ms: int,
    progress: Progress | None = None,
) -> RecoveryReport:
    """Make a folder sound that was not closed cleanly, so that `Log.open(recovered=...)` takes it.

    Every argument but `progress` can be sent to a worker process, and the report back. Raises CorruptionError for damage
    below the recovery point.
    """
    segments = load_segments(disk, folder, tidy(disk, folder), log_start_offset, now_ms)
    return _Recovery(disk, folder, config, segments, recovery_point, log_start_offset, now_ms, progress).run()


@dataclass(slots=True)
class _Recovery:
    disk: Disk
    folder: str
    config: LogConfig
    segments: list[Segment]
    recovery_point: int
    log_start_offset: int
    now_ms: int
    progress: Progress | None

    def run(self) -> RecoveryReport:
        segments = self.segments
        if not segments:
            return RecoveryReport(Offset(self.log_start_offset))
        # below, not at: a segment that ends at the recovery point was flushed while it grew, its indexes perhaps not since
        first = max((at for at, each in enumerate(segments) if each.base_offset < self.recovery_point), default=0)
        sealed = pairwise(segments[: first + 1])
        sums = read_sums(self.disk, self.folder)
        notes = [note for each, after in sealed if (note := self._check_sealed(each, after.base_offset, sums))]
        self._forget_sums(sums, segments[first:])
        flushed = max(self.recovery_point, flushed_end(self.disk, self.folder))
        epochs, _ = epochs_of(self.disk, self.folder, segments[:first], sums.files.get(LEADER_EPOCH_FILE))
        epochs.truncate_from_end(segments[first].base_offset)
        producers = ProducerState(self.disk, self.folder, self.config.producer_id_expiration_ms)
        producers.know(sums)
        producers.load(segments[:first], self.log_start_offset, segments[first].base_offset, Millis(self.now_ms))
        total = sum(each.size for each in segments[first:])
        done = cut = 0
        kept: list[str] = []
        end = segments[first].base_offset
        for at in range(first, len(segments)):
            segment, later = segments[at], segments[at + 1 :]
            producers.snapshot(segment.base_offset)
            bound = later[0].base_offset if later else INT64_MAX
            builder, position, end = self._scan(segment, bound, epochs, producers)
            done += segment.size
            if self.progress is not None:
                self.progress(done, total)
            invalid = position < segment.size and end < bound
            torn = invalid or (bool(later) and end < bound and not self._may_be_a_gap(end, bound, flushed))
            if invalid and end < flushed:
                raise self._damaged(segment, position, end, flushed)
            if torn:  # before the cut: once that is made, nothing tells of the gap
                cut += self._drop(later, kept)
            cut += self._finish(segment, builder, position, kept if torn else None)
            if torn:
                break
        producers.finish(end)
        return RecoveryReport(
            Offset(end), done, cut, tuple(kept), tuple(notes), epochs.starts, segments[first].base_offset
        )

    def _forget_sums(self, sums: DerivedSums, scanned: list[Segment]) -> None:
        """Let nothing be said of what is built again; before it is, so that a kill leaves no sum of another file."""
        if sums.is_there:
            for segment in scanned:
                sums.segments.pop(segment.base_offset, None)
            files = [each for each in sums.files.items() if self._stays(each[0], scanned)]
            replace_file(
                self.disk,
                join(self.folder, DERIVED_SUMS_FILE),
                sums_lines(sums.segments.values(), files),
                durable=False,
            )

    def _stays(self, name: str, scanned: list[Segment]) -> bool:
        found = base_offset_of(name)
        return found is None or found[1] != SNAPSHOT or found[0] < scanned[0].base_offset

    def _check_sealed(self, segment: Segment, end_offset: int, sums: DerivedSums) -> str | None:
        """Build the indexes of a segment below the recovery point again, where they are missing or not sound."""
        known = sums.segments.get(segment.base_offset)
        is_other = known is not None and known.size == segment.size and not segment.trust(known)
        problem = "another size than it had" if is_other else index_problem(self.disk, segment, end_offset)
        if problem is None:
            return None
        end, builder = 0, IndexBuilder(segment.base_offset, self.config.index_interval_bytes)
        for header, position, _ in verified_batches(segment.file, segment.size):
            builder.add(header, position)
            end = position + header.size
        if end < segment.size:
            raise CorruptionError(
                f"{segment.file.path}: damaged at position {end}, which had been flushed; the segment is left as it is"
            )
        if known is not None:  # what it says of aborted transactions is still to be compared
            offsets, times = map(sum_of, builder.encoded())
            sums.segments[segment.base_offset] = known.with_indexes(offsets, times, builder.largest)
        segment.take_indexes(builder, durable=True)
        segment.close()
        return f"{segment.offset_index.path}: built again ({problem})"

    def _may_be_a_gap(self, end: int, bound: int, flushed: int) -> bool:
        """True where a segment may begin at `bound` though the one before ends at `end`.

        Compaction removes records at a segment's end, below what was flushed and is known to be, whatever the topic's policy
        is by now. Where nothing is known, as without checkpoints, a compacted log is believed. And a gap that no index can
        hold lies between segments. Above that each segment began where the one before ended, a follower's of a compacted
        log too: what is missing there was lost with the power.
        """
        is_believed = not flushed and "compact" in self.config.cleanup_policy
        return bound <= flushed or is_believed or bound - end > RELATIVE_OFFSET_MAX // 2

    def _scan(
        self, segment: Segment, bound: int, epochs: LeaderEpochs, producers: ProducerState
    ) -> tuple[IndexBuilder, int, int]:
        """Read a segment up to its last whole batch; return its indexes, and the position and offset where it ends.

        Batches from `bound` on, where the next segment begins, had been truncated, and the truncation did not survive.
        """
        builder = IndexBuilder(segment.base_offset, self.config.index_interval_bytes)
        position, end = 0, segment.base_offset
        segment.transactions.replace([])  # unread: what is there may be torn, and all of it comes again
        for header, at, batch in verified_batches(segment.file, segment.size):
            if header.base_offset < end or header.next_offset > bound or not segment.holds(header.last_offset):
                break
            builder.add(header, at)
            position, end = at + header.size, header.next_offset
            if header.partition_leader_epoch >= 0:
                epochs.assign(header.partition_leader_epoch, header.base_offset)
            for aborted in producers.replay(header, batch):
                segment.transactions.append(aborted)
        return builder, position, end

    def _finish(self, segment: Segment, builder: IndexBuilder, position: int, kept: list[str] | None) -> int:
        """Cut a segment at `position` and give it its indexes; return how many bytes that cut off."""
        cut = segment.size - position
        if cut:
            if kept is not None and _batches_follow(segment.file, position, segment.size):
                kept.append(self._copy_aside(segment, position))
            segment.file.truncate(position)
            segment.size = position
        segment.take_indexes(builder, durable=False)
        segment.transactions.write()
        segment.close()
        return cut

    def _copy_aside(self, segment: Segment, position: int) -> str:
        """Keep what follows a position in a file of its own; return its name."""
        path = f"{segment.file.path}.{position}{DAMAGED}"
        copy = self.disk.open(path, create=True)
        copy.truncate(0)
        for at in range(position, segment.size, READ_BYTES):
            copy.pwrite(at - position, segment.file.pread(at, min(READ_BYTES, segment.size - at)))
        copy.fsync()
        copy.close()
        return path

    def _damaged(self, segment: Segment, position: int, end: int, flushed: int) -> CorruptionError:
        return CorruptionError(
            f"{segment.file.path}: damaged at position {position} (offset {end}), below the recovery point "
            f"{flushed}: these bytes had been flushed; the log is left as it is"
        )

    def _drop(self, segments: list[Segment], kept: list[str]) -> int:
        """Remove the segments behind a cut, newest first, so that what is left never has a gap; return their bytes."""
        for segment in reversed(segments):
            if segment.size and _batches_follow(segment.file, -1, segment.size):
                segment.close()
                path = f"{segment.file.path}.0{DAMAGED}"
                self.disk.rename(segment.file.path, path)
                kept.append(path)
            segment.remove()
        if segments:
            self.disk.fsync_dir(self.folder)
        return sum(each.size for each in segments)


def index_problem(disk: Disk, segment: Segment, end_offset: int) -> str | None:
    """Say what is wrong with the indexes of a segment that ends at `end_offset`, as sizes and last entries show it."""
    for index, suffix in ((segment.offset_index, INDEX), (segment.time_index, TIME_INDEX)):
        path = join(segment.folder, file_name(segment.base_offset, suffix))
        if not disk.exists(path):
            return f"{suffix} is missing"
        if index.file().size() % index.entry_size:
            return f"{suffix} holds a part of an entry"
    try:
        return _last_problem(segment, end_offset)
    except CorruptionError as error:
        return str(error)


def _last_problem(segment: Segment, end_offset: int) -> str | None:
    last = segment.offset_index.last()
    offsets = end_offset - segment.base_offset
    if last is not None and (not 0 < last[0] < offsets or not 0 <= last[1] < segment.size):
        return f"{INDEX} ends with offset {segment.base_offset + last[0]} at position {last[1]}"
    last = segment.time_index.last()
    if last is not None and (not 0 <= last[1] < offsets or (last[0] <= 0 and len(segment.time_index) > 1)):
        return f"{TIME_INDEX} ends with timestamp {last[0]}"
    return None


def verified_batches(file: File, end: int, position: int = 0) -> Iterator[tuple[BatchHeader, int, memoryview]]:
    """Yield (header, position, bytes) of each whole batch with a right checksum; the first that is not ends the walk.

    The bytes are valid until the next one is asked for.
    """
    block, start = memoryview(b""), position
    while end - position >= BATCH_OVERHEAD:
        if position - start + LENGTH_END > len(block):
            block, start = memoryview(file.pread(position, min(READ_BYTES, end - position))), position
            if len(block) < LENGTH_END:
                return
        size = batch_size_at(block, position - start)
        if size < BATCH_OVERHEAD or size > end - position:
            return
        if position - start + size > len(block):
            block, start = memoryview(file.pread(position, min(max(size, READ_BYTES), end - position))), position
        header = _sound_header(block, position - start, size)
        if header is None:
            return
        yield header, position, block[position - start : position - start + size]
        position += size


def _sound_header(block: Buffer, at: int, size: int) -> BatchHeader | None:
    if len(block) - at < size:
        return None
    try:
        header = read_batch_header(block, at)
    except KafkaError:
        return None
    sound = header.last_offset_delta >= 0 and header.base_offset >= 0 and crc_is_valid(block, at, header)
    return header if sound else None


def _batches_follow(file: File, position: int, end: int) -> bool:
    """True where a whole batch begins somewhere after `position`: then what lies there is damage, not a torn write."""
    data = file.pread(position + 1, min(LOOK_AHEAD_BYTES, end - position - 1))
    magic_at = data.find(2, 16)
    while magic_at >= 0:
        at = magic_at - 16
        if len(data) - at >= BATCH_OVERHEAD and not data[at]:  # offsets stay below 2^56
            size = batch_size_at(data, at)
            if BATCH_OVERHEAD <= size <= len(data) - at and _sound_header(data, at, size) is not None:
                return True
        magic_at = data.find(2, magic_at + 1)
    return False
