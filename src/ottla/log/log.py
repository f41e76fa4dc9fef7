"""A partition's log: the one owner of a folder of segments, and everything that is done to it.

Durability: an append is with the operating system when it returns, and survives the end of the process; it survives a power
failure once `flush` has returned, which moves `recovery_point`. A start after anything but a clean end reads what lies above
the recovery point. So the caller stores recovery points (`LogDir.write_recovery_points`) after flushes, and after a
truncation before it appends again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress

from ottla.base import Millis, NoSpaceError, Offset, Rng, StorageError, Uuid
from ottla.log.admission import (
    Batch,
    JoinedAppend,
    admit,
    admit_joined,
    admit_replicated,
    check_producers,
    duplicate_of,
    next_run,
)
from ottla.log.config import LogConfig
from ottla.log.disk import Disk, File, parent
from ottla.log.durability import Durability
from ottla.log.identity import Identities
from ottla.log.index import TIME_ENTRY
from ottla.log.leader_epochs import LeaderEpochs
from ottla.log.lookup import offset_of_max_timestamp, offset_of_time
from ottla.log.producer_state import Doubt, Examined, ProducerState
from ottla.log.producers import BatchMark, ProducerAppend, Producers
from ottla.log.recovery import Progress
from ottla.log.refusals import not_next, out_of_range, start_beyond_end, too_large
from ottla.log.retention import expired_count
from ottla.log.segment import RELATIVE_OFFSET_MAX, Segment
from ottla.log.segments import Segments
from ottla.log.startup import load_or_recover
from ottla.log.types import (
    AbortedTransaction,
    AppendInfo,
    AppendOrigin,
    LogSlice,
    RecoveryReport,
    TimestampOffset,
)
from ottla.wire import LENGTH_END, BatchHeader, WritableBuffer, place_batch

__all__ = ["Log"]

CLIENT, RAFT = AppendOrigin.CLIENT, AppendOrigin.RAFT
COORDINATOR, REPLICATION = AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION


class Log:
    """One partition's records. All calls belong to one thread but `flush` and the look-ups by time, which say so."""

    __slots__ = (
        "_bases",
        "_disk",
        "_durability",
        "_now_ms",
        "_parts",
        "_rng",
        "_roll_jitter_ms",
        "_segments",
        "_state",
        "cleaned_to",
        "config",
        "folder",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "name",
        "notes",
        "producers",
        "recovery",
        "topic_id",
    )

    def __init__(
        self,
        disk: Disk,
        folder: str,
        config: LogConfig,
        *,
        segments: list[Segment],
        epochs: LeaderEpochs,
        state: ProducerState,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        now_ms: int,
        topic_id: Uuid | None,
        rng: Rng | None,
        recovery: RecoveryReport | None,
        is_new: bool,
        notes: tuple[str, ...] = (),
    ) -> None:
        """Take the parts of a sound folder; `Log.open` finds them."""
        self._disk = disk
        self.folder = folder
        self.name = folder.rpartition("/")[2]
        self.config = config
        """May be replaced at any time."""
        self.topic_id = topic_id
        self.leader_epochs = epochs
        self.log_start_offset = Offset(log_start_offset)
        """At most `log_end_offset`; it may lie inside the first segment."""
        self.log_end_offset = Offset(log_end_offset)
        """Behind the last batch of the last segment; `leader_epochs` and `producers` end there, too."""
        self.recovery = recovery
        """What recovery did when the log was opened; None after a clean start."""
        self.notes = notes
        """What is missing though the last end was clean, a line each."""
        self.cleaned_to = -1
        """Offset below which compaction has left each key once; -1 where it never ran."""
        self.producers: Producers = state.producers
        self._state = state
        self._parts = Segments(disk, folder, segments, state)
        self._segments, self._bases = self._parts.all, self._parts.bases
        self._rng = rng
        self._roll_jitter_ms = self._draw_jitter()
        self._parts.folder_changed = recovery is not None or is_new
        self._durability = Durability(
            disk,
            self._parts,
            epochs,
            state,
            recovery_point=recovery_point,
            log_end_offset=log_end_offset,
            now_ms=now_ms,
            was_recovered=recovery is not None,
            was_cut=recovery is not None and recovery.cut_bytes > 0,
            is_new=is_new,
        )
        self._now_ms = now_ms

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        config: LogConfig,
        *,
        now_ms: int,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean: bool = False,
        topic_id: Uuid | None = None,
        rng: Rng | None = None,
        progress: Progress | None = None,
        recovered: RecoveryReport | None = None,
        is_missing: bool = False,
        identities: Identities | None = None,
    ) -> Log:
        """Open the log in a folder, making both where they are missing, which with `is_missing` is known of both.

        After a clean end (`clean`) nothing is scanned; otherwise `recover` runs first, or has run (`recovered`). With a
        `topic_id`, a log without `partition.metadata` gets one, by `identities` where all is new. `rng` draws
        `segment.jitter.ms`.
        """
        found = load_or_recover(
            disk,
            folder,
            config,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now_ms=now_ms,
            clean=clean,
            topic_id=topic_id,
            recovered=recovered,
            progress=progress,
            is_missing=is_missing,
            identities=identities,
        )
        return cls(
            disk,
            folder,
            config,
            segments=found.segments,
            epochs=found.epochs,
            state=found.state,
            log_start_offset=found.log_start_offset,
            log_end_offset=found.log_end_offset,
            # after a clean end everything was made durable before its mark was left
            recovery_point=found.log_end_offset if found.recovery is None else recovery_point,
            now_ms=now_ms,
            topic_id=found.topic_id,
            rng=rng,
            recovery=found.recovery,
            is_new=found.is_new,
            notes=found.notes,
        )

    # -- what it holds

    @property
    def size(self) -> int:
        """Bytes of all segments, indexes aside."""
        return sum(each.size for each in self._segments)

    @property
    def segment_count(self) -> int:
        """Segments, the active one included."""
        return len(self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, oldest first; the last one is active."""
        return tuple(self._segments)

    @property
    def truncations(self) -> int:
        """A number that is another one after each truncation."""
        return self._durability.generation

    @property
    def is_settled(self) -> bool:
        """True where every segment has its files under their own names, as it has unless the disk failed."""
        return self._parts.is_settled

    @property
    def last_stable_offset(self) -> Offset:
        """Where the oldest open transaction begins, or the log's end; `stable_until` respects replication too."""
        first = self.producers.first_open_offset
        return self.log_end_offset if first is None else max(first, self.log_start_offset)

    def stable_until(self, high_watermark: int) -> Offset:
        """Return the last stable offset: below it every transaction has ended and its marker is replicated (KIP-98).

        Never below the log's start: of a transaction that has lost its first records, the others begin there.
        """
        unstable = self.producers.first_unstable_offset(high_watermark)
        if unstable is None or unstable >= high_watermark:
            return Offset(high_watermark)
        return max(unstable, self.log_start_offset)

    @property
    def recovery_point(self) -> Offset:
        """Offset below which everything is on the device."""
        return self._durability.recovery_point

    @property
    def unflushed(self) -> int:
        """Records above the recovery point."""
        return self.log_end_offset - self.recovery_point

    # -- appending

    def append(
        self,
        records: WritableBuffer,
        *,
        leader_epoch: int = -1,
        now_ms: int | None = None,
        origin: AppendOrigin = CLIENT,
    ) -> AppendInfo:
        """Append whole batches whose checksums were verified; they are with the operating system on return.

        From a client or a coordinator they get their offsets, the leader's epoch and, where the topic says so, the time, in
        place; a client's producer is checked, and a batch that it sent before is answered without appending. From RAFT or
        REPLICATION the batches keep what they carry. Raises KafkaError where they are refused, StorageError (NoSpaceError)
        where they cannot be written; the log is then as it was.
        """
        if self._parts.unsettled:
            self._parts.settle()
        config = self.config
        now = self._now_ms if now_ms is None else now_ms
        self._now_ms = now
        stamps_time = config.message_timestamp_type == "LogAppendTime" and (origin is CLIENT or origin is COORDINATOR)
        batches, first_offset, max_timestamp = admit(
            records,
            self.name,
            self.log_end_offset,
            leader_epoch,
            origin,
            config.max_message_bytes,
            now if stamps_time else -1,
        )
        if not batches:
            return AppendInfo.nothing(self.log_end_offset, self.log_start_offset)
        size = len(records)
        producers: list[ProducerAppend] = []
        if len(batches) > 1 or batches[0][0].producer_id >= 0:
            checked = check_producers(records, batches, self.producers, origin)
            if isinstance(checked, BatchMark):
                return duplicate_of(checked, config.log_append_time, self.log_start_offset, size)
            producers = checked
        last_offset = batches[-1][2]
        segment = self._segments[-1]
        if segment.size + size > config.segment_bytes or self._is_roll_due(segment, max_timestamp, last_offset, now):
            if size > config.segment_bytes:
                raise too_large(self.name, size, config.segment_bytes)
            segment = self._rolled(now, first_offset, last_offset)
        segment.append(records, batches, config.index_interval_bytes)
        segment.modified_ms = now
        self._appended(batches, producers, leader_epoch, origin)
        time = max_timestamp if stamps_time or batches[0][0].is_log_append_time else -1
        return AppendInfo._make((first_offset, last_offset, max_timestamp, time, self.log_start_offset, size, False))

    def plan_joined(self, batches: Sequence[tuple[WritableBuffer, BatchHeader]], *, now_ms: int) -> JoinedAppend | None:
        """Return what `append_planned` writes of clients' batches, each sound and outside of transactions.

        None where one of them is not what usually comes: `append` has to take them one by one then. Nothing has happened
        yet, and the plan holds until something else is done with the log.
        """
        if self._parts.unsettled:
            self._parts.settle()
        planned = admit_joined(batches, self.producers, self.log_end_offset, self.config.max_message_bytes)
        if planned is None or not self._has_room(self._segments[-1], planned, now_ms):
            return None
        return planned

    def append_planned(self, planned: JoinedAppend, *, leader_epoch: int, now_ms: int) -> int:
        """Append what was planned by one write, and return its first offset.

        All is as after `append` for each batch, or, where this raises StorageError, as before, the buffers too: memory
        changes once the bytes are written.
        """
        segment, placed, buffers = self._segments[-1], planned.placed, planned.buffers
        assert planned.first_offset == self.log_end_offset, "something else was appended behind the plan"
        self._now_ms = now_ms
        for at, (header, _, last_offset) in enumerate(placed):
            place_batch(buffers[at], last_offset - header.last_offset_delta, header.batch_length, leader_epoch)
        try:
            segment.append_all(buffers, planned.size, placed, self.config.index_interval_bytes)
        except StorageError:
            for at, (header, _, _) in enumerate(placed):
                place_batch(buffers[at], header.base_offset, header.batch_length, header.partition_leader_epoch)
            raise
        segment.modified_ms = now_ms
        self._appended(placed, planned.producers, leader_epoch, CLIENT)
        return planned.first_offset

    def _has_room(self, segment: Segment, planned: JoinedAppend, now_ms: int) -> bool:
        """Return whether none of the batches has to begin a new segment."""
        config = self.config
        return (
            segment.size > 0
            and segment.size + planned.size <= config.segment_bytes
            and not segment.is_index_full(config.segment_index_bytes - len(planned.placed) * TIME_ENTRY.size)
            and not self._is_roll_due(segment, planned.max_timestamp, planned.placed[-1][2], now_ms)
        )

    def append_replicated(self, records: WritableBuffer, *, leader_epoch: int, now_ms: int) -> int:
        """Append what a leader of this epoch sent, as it is, and return how many bytes of it: of the whole batches.

        Checksums are verified here. Raises KafkaError where the bytes are not what follows in this log, StorageError where
        they cannot be written; the log is then as it was, or has the first of them.
        """
        if self._parts.unsettled:
            self._parts.settle()
        self._now_ms = now_ms
        batches, size, has_producers = admit_replicated(records, self.name, self.log_end_offset, leader_epoch)
        if batches and batches[0][0].base_offset < self.log_end_offset:  # this batch holds the leader's first record
            if self.log_end_offset > self.log_start_offset or self._segments[-1].size:
                raise not_next(self.name, batches[0][0].base_offset, self.log_end_offset)
            # any recovery scans this batch, since it reaches to the recovery point: nothing needs to be stored before
            self.truncate_fully_and_start_at(batches[0][0].base_offset)
            if self._parts.unsettled:
                self._parts.settle()
        config = self.config
        limit = config.segment_bytes
        total, rest, left = size, records, batches
        while left:
            header, _, last_offset = left[0]
            segment = self._segments[-1]
            due = self._is_roll_due(segment, header.max_timestamp, last_offset, now_ms)
            if due or (segment.size and segment.size + header.batch_length + LENGTH_END > limit):
                segment = self._rolled(now_ms, header.base_offset, last_offset)
            run, run_size, left = next_run(left, size, room=limit - segment.size, holds=segment.holds)
            data = rest if run_size == len(rest) else memoryview(rest)[:run_size]
            checked = check_producers(data, run, self.producers, REPLICATION) if has_producers else []
            assert not isinstance(checked, BatchMark), "duplicates are a client's"
            segment.append(data, run, config.index_interval_bytes)
            segment.modified_ms = now_ms
            self._appended(run, checked, -1, REPLICATION)
            if left:
                rest, size = memoryview(rest)[run_size:], size - run_size
        return total

    def _appended(
        self, batches: list[Batch], producers: list[ProducerAppend], leader_epoch: int, origin: AppendOrigin
    ) -> None:
        """Take into account what was written."""
        epochs = self.leader_epochs
        kept = origin is RAFT or origin is REPLICATION
        for header, _, last_offset in batches if kept else batches[:1]:
            epoch = header.partition_leader_epoch if kept else leader_epoch
            if epoch >= 0 and epoch != epochs.latest:
                epochs.assign(epoch, last_offset - header.last_offset_delta)
        self.log_end_offset = end = Offset(batches[-1][2] + 1)
        epochs.log_end_offset = end
        self.producers.end_offset = end
        if producers:
            for aborted in self.producers.update(*producers):
                self._segments[-1].transactions.append(aborted)

    def begin_epoch(self, leader_epoch: int) -> None:
        """Note that this replica leads from the log's end on."""
        if leader_epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, self.log_end_offset)

    # -- rolling

    def _is_roll_due(self, segment: Segment, max_timestamp: int, last_offset: int, now_ms: int) -> bool:
        if not segment.size:
            return not segment.holds(last_offset)
        first = segment.first_timestamp
        waited = max_timestamp - first if first >= 0 and max_timestamp >= 0 else now_ms - segment.created_ms
        config = self.config
        if waited > config.segment_ms - self._roll_jitter_ms or not segment.holds(last_offset):
            return True
        entry_is_due = segment.bytes_since_entry > config.index_interval_bytes
        return entry_is_due and segment.is_index_full(config.segment_index_bytes)

    def roll(self, now_ms: int | None = None) -> None:
        """Begin a new segment; an empty one stays as it is."""
        if self._segments[-1].size:
            self._rolled(self._now_ms if now_ms is None else now_ms)

    def _rolled(self, now_ms: int, first_offset: int = -1, last_offset: int = -1) -> Segment:
        """Seal the active segment and begin the next, for a batch of these offsets; a gap would look like a lost tail.

        Whole or not at all: what fails does so before the new segment is in use, and leaves nothing that a start would find.
        """
        if self._parts.unsettled:
            self._parts.settle()
        active = self._segments[-1]
        assert active.appended_end in (-1, self.log_end_offset), "the last segment's end is the log's"
        if active.size:
            active.seal()
            if self._durability.truncated:
                # were what it cut off back after a power failure, it would overlap the next segment
                self._sync(active.file)
        base_offset = self.log_end_offset if last_offset - self.log_end_offset <= RELATIVE_OFFSET_MAX else first_offset
        self._state.snapshot_soon(base_offset)
        segment = self._parts.begin(base_offset, now_ms, self._preallocated)
        self._roll_jitter_ms = self._draw_jitter()
        return segment

    @property
    def _preallocated(self) -> int:
        return self.config.segment_bytes if self.config.preallocate else 0

    def _sync(self, file: File) -> None:
        try:
            file.fsync()
        except StorageError as error:
            self._durability.remember(error)
            raise

    def _draw_jitter(self) -> int:
        jitter = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return self._rng.randrange(jitter) if self._rng is not None and jitter > 0 else 0

    # -- reading

    def read(
        self, offset: int, *, max_bytes: int, upper_bound: int | None = None, min_one_batch: bool = False
    ) -> LogSlice:
        """Return the bytes from the batch that holds `offset` on: of one segment, below `upper_bound`, at most `max_bytes`.

        The last batch may be cut off by `max_bytes`; the first is there whole, or with `min_one_batch` even where it is
        larger, or the slice is empty. Raises OFFSET_OUT_OF_RANGE outside of the log.
        """
        end = self.log_end_offset
        if offset < self.log_start_offset or offset > end:
            raise out_of_range(self.name, offset, self.log_start_offset, end)
        bound = end if upper_bound is None or upper_bound > end else upper_bound
        return self._parts.read(offset, end, bound, max_bytes, min_one_batch)

    def aborted_transactions(
        self, offset: int, upper_bound: int, found: LogSlice | None = None
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions with records from `offset` to `upper_bound`, as read_committed fetches need.

        With the slice that was read from `offset`, only those with records in it: about, since its end is known by indexes.
        """
        return self._parts.aborted(offset, upper_bound, found)

    def known_aborted(
        self, offset: int, upper_bound: int, found: LogSlice | None = None
    ) -> tuple[list[AbortedTransaction], Doubt | None]:
        """As `aborted_transactions`, without reading whole segments, as that may.

        Where that is to be done first, it returns what `examine` has to look into, and some of the transactions only.
        """
        return self._parts.known_aborted(offset, upper_bound, found)

    def take_examined(self, found: Examined) -> None:
        """Believe what the log says of itself, unless it was truncated meanwhile."""
        self._parts.take(found)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Return the first record with this timestamp or a later one; reads the disk, and may run on a thread."""
        return offset_of_time(tuple(self._segments), timestamp, self.log_start_offset, self.log_end_offset)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """Return the first record with the largest timestamp; reads the disk, and may run on a thread."""
        return offset_of_max_timestamp(tuple(self._segments), self.log_start_offset)

    # -- removing

    def truncate_to(self, offset: int) -> None:
        """Remove the records from `offset` on, and the whole batch that holds it.

        With batches 0-4 and 5-9 in segment 0 and 10-14 in segment 10: `truncate_to(10)` leaves segment 10 empty,
        `truncate_to(9)` removes segment 10 and leaves 0-4, `truncate_to(15)` does nothing.

        Whole or not at all: raises StorageError where what has to be read cannot be, and nothing has changed then. What the
        disk does not do at once, it does before the next append, flush or clean end, which raise what keeps it from that.
        """
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(offset)
            return
        if offset < self._bases[0]:
            self.truncate_fully_and_start_at(offset)
            return
        self._parts.pay(self._now_ms, self.config.file_delete_delay_ms)
        kept = bisect_right(self._bases, offset)
        self._segments[kept - 1].transactions.look()
        cut = self._segments[kept - 1].cut_at(offset)
        # not `offset`, where a batch holds it or it lies in a gap: the next segment begins where this one's batches end
        end = cut.end_offset
        if end < self.log_start_offset:  # the batch that held the log's start goes: nothing readable is left
            self.truncate_fully_and_start_at(self.log_start_offset)
            return
        producers = self._state.read(self._segments[:kept], self.log_start_offset, end, Millis(self._now_ms))
        self._durability.lower(min(offset, end))
        self._parts.cut(kept, cut)
        self._set_end(end)
        self.leader_epochs.truncate_from_end(end)
        self._state.adopt(producers, self.log_start_offset, end)
        self._parts.try_to_settle()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove every record; the log goes on, empty, at `offset`. Whole or not at all, as `truncate_to`."""
        self._parts.pay(self._now_ms, self.config.file_delete_delay_ms)
        self._parts.restart(offset, self._now_ms, self._preallocated)
        self._durability.lower(offset)
        self._state.clear(offset)
        self.leader_epochs.clear()
        self.log_start_offset = Offset(offset)
        self._set_end(offset)
        self._parts.try_to_settle()

    def _set_end(self, end: int) -> None:
        assert self._bases[-1] <= end and self.log_start_offset <= end, f"{self.name}: cut to {end}"
        self.cleaned_to = min(self.cleaned_to, self._bases[-1])
        self.log_end_offset = self.leader_epochs.log_end_offset = Offset(end)

    def delete_records_before(self, offset: int) -> None:
        """Move the log's start up to `offset`, at most its end; segments wholly below it are set aside at once.

        The new start is durable once `LogDir.write_start_offsets` has stored it.
        """
        if offset > self.log_end_offset:
            raise start_beyond_end(self.name, offset, self.log_end_offset)
        if offset <= self.log_start_offset:
            return
        self._start_at(offset)
        with suppress(
            StorageError
        ):  # the records are gone from the log; the files follow, at the latest with housekeeping
            self._set_aside(self._count_below_start())

    def _start_at(self, offset: int) -> None:
        assert self.log_start_offset <= offset <= self.log_end_offset, f"{self.name}: to start at {offset}"
        self.log_start_offset = Offset(offset)
        self.leader_epochs.truncate_from_start(offset)
        self.producers.forget_before(offset)

    def _count_below_start(self) -> int:
        return max(bisect_right(self._bases, self.log_start_offset) - 1, 0)

    def housekeep(self, now_ms: int, *, high_watermark: int | None = None) -> list[str]:
        """Apply retention and forget expired producers; return the files to unlink now (best on a thread).

        Only whole segments below the high watermark go, oldest first; where every record of the active one has expired it is
        rolled, so that a segment is always there. What the disk refused to do before is tried again first; raises
        StorageError where it fails, but on a full disk the rest is done, since it makes room.
        """
        self._now_ms = now_ms
        with suppress(NoSpaceError):
            self._parts.pay(now_ms, self.config.file_delete_delay_ms)
            self._set_aside(self._count_below_start())
        replicated = self.log_end_offset if high_watermark is None else high_watermark
        count = expired_count(
            self._segments, self.config, self.log_start_offset, self.log_end_offset, replicated, now_ms
        )
        if count == len(self._segments):
            try:
                self._rolled(now_ms)
            except NoSpaceError:
                count -= 1
        if count:
            if self._bases[count] > self.log_start_offset:
                self._start_at(self._bases[count])
            with suppress(StorageError):  # the next round tries again before anything else, and says what is wrong
                self._set_aside(count)
        self.producers.expire(now_ms)
        return [] if self._parts.flushing else self._parts.trash.take_due(now_ms)

    @property
    def exchanges(self) -> Segments:
        """What puts cleaned segments in place; see `Installation`."""
        return self._parts

    def _set_aside(self, count: int) -> None:
        self._parts.set_aside(count, self._now_ms, self.config.file_delete_delay_ms)

    # -- making durable

    def is_flush_due(self, now_ms: int) -> bool:
        """True where a sealed segment, `flush.messages` or `flush.ms` asks for a flush."""
        return self._durability.is_due(self.log_end_offset, self.config, now_ms)

    def settle(self) -> None:
        """Do with the files what a truncation could not do at once, before a flush; raises StorageError."""
        if self._parts.unsettled:
            self._parts.settle()

    def flush(self, *, now_ms: int | None = None) -> None:
        """Make durable what was appended before the call, and move the recovery point there.

        Waits for the device: the shell runs it on a thread, one at a time for a log, beside appends. StorageError means that
        nothing is known of what reached the device: the log must not be used again (never retry an fsync). NoSpaceError
        and MissingFileError mean that a file could not be opened or written: that asked nothing of the device, and may be
        tried again.
        """
        self._durability.flush(self.topic_id)
        self._durability.flushed_ms = self._now_ms if now_ms is None else now_ms

    def close(self) -> None:
        """Make everything durable and let go of every file; after this, and a clean shutdown's mark, nothing is scanned.

        Waits for the device.
        """
        files = self.begin_close()
        self._disk.fsync_all(files)
        if self.end_close():
            self._disk.fsync_all([], [self.folder, parent(self.folder)])

    def begin_close(self) -> list[File]:
        """Write everything that a clean end leaves; return the files to fsync before `end_close`. No append may follow.

        Nothing is to be done where the log did not change since it was opened after a clean end. Many logs' files may be
        fsynced together.
        """
        if self._durability.is_unchanged:
            return []
        self._durability.check_synced()
        self._parts.pay(self._now_ms, self.config.file_delete_delay_ms)
        self._set_aside(self._count_below_start())
        self._segments[-1].seal()
        self._state.snapshot(self.log_end_offset)
        return self._durability.begin_close(self.topic_id, self.log_start_offset)

    def end_close(self) -> bool:
        """Let go of every file, now that they are durable; True where the folder and the one above are to be fsynced."""
        changed = not self._durability.is_unchanged
        if changed:
            self._durability.end_close()
        self.abandon()
        return changed

    def abandon(self) -> None:
        """Let go of every file as it is, as when the process ends or the folder is removed."""
        self._parts.close()

    def moved(self, folder: str) -> None:
        """Follow a rename of the folder."""
        self._parts.moved(folder)
        self._state.moved(folder)
        self.folder = folder
