"""What of a log is on the device: how far its records are, and the files that a flush and a clean end make durable."""

from __future__ import annotations

from ottla.base import CorruptionError, MissingFileError, NoSpaceError, Offset, StorageError, Uuid
from ottla.log.config import INT64_MAX, LogConfig
from ottla.log.disk import TEMPORARY, Disk, File, join, parent, replace_file
from ottla.log.flush_mark import FlushMarks
from ottla.log.leader_epochs import LEADER_EPOCH_FILE, LeaderEpochs
from ottla.log.producer_state import ProducerState
from ottla.log.properties import PARTITION_METADATA_FILE
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.sums_keeper import SumsKeeper

__all__ = ["Durability"]


class Durability:
    """Of one log. `flush` may run on a thread; all other calls belong to the log's own.

    The recovery point never lies above the log's end: a truncation lowers it before the end.
    """

    __slots__ = (
        "_closing",
        "_disk",
        "_epochs",
        "_floor",
        "_flushed",
        "_generation",
        "_is_new",
        "_is_touched",
        "_marks",
        "_opened_end",
        "_parts",
        "_state",
        "_sums",
        "_sync_failure",
        "_was_recovered",
        "flushed_ms",
        "truncated",
    )

    def __init__(
        self,
        disk: Disk,
        parts: Segments,
        epochs: LeaderEpochs,
        state: ProducerState,
        *,
        recovery_point: int,
        log_end_offset: int,
        now_ms: int,
        was_recovered: bool,
        was_cut: bool,
        is_new: bool,
    ) -> None:
        """Begin with a log that has been opened: everything before `recovery_point` is on the device."""
        self._closing: list[File] = []
        """What was opened for the fsync of a clean end alone."""
        self._disk = disk
        self._parts = parts
        self._epochs = epochs
        self._state = state
        self._sums = SumsKeeper(disk, parts, state)
        self._sync_failure: StorageError | None = None
        """A failed fsync, after which nothing is known of what the device has."""
        self._generation = 0
        self.truncated = was_cut
        """True where what was cut off may be on the device still."""
        self._floor = min(recovery_point, log_end_offset)
        self._flushed = (0, self._floor)
        """The generation in which the last flush began, and the log's end then; it counts while the generation lasts."""
        self.flushed_ms = now_ms
        """When a flush ended last: set by the log, which knows the time."""
        self._was_recovered = was_recovered
        self._opened_end = log_end_offset
        self._is_new = is_new
        self._is_touched = False
        """True where a flush has made files durable that are not those of the last clean end."""
        self._marks = FlushMarks()

    @property
    def recovery_point(self) -> Offset:
        """Offset below which everything is on the device."""
        generation, offset = self._flushed
        return Offset(max(self._floor, offset) if generation == self._generation else self._floor)

    @property
    def generation(self) -> int:
        """A number that is another one after each truncation."""
        return self._generation

    def lower(self, offset: int) -> None:
        """Hold the recovery point at or below `offset`, also against a flush that is running: records go from there on."""
        self._floor = min(self.recovery_point, offset)
        self._generation += 1
        self.truncated = True

    def remember(self, error: StorageError) -> None:
        """Let no flush follow a failed fsync; without a descriptor or a file nothing was asked of the device."""
        if not isinstance(error, NoSpaceError | MissingFileError | CorruptionError):
            self._sync_failure = error

    def is_due(self, end: int, config: LogConfig, now_ms: int) -> bool:
        """True where a sealed segment, `flush.messages` or `flush.ms` asks for a flush of a log that ends here."""
        point = self.recovery_point
        assert point <= end, f"the recovery point {point} lies above the log's end {end}"
        unflushed = end - point
        if not unflushed:
            return False
        return (
            point < self._parts.bases[-1]
            or unflushed >= config.flush_messages
            or now_ms - self.flushed_ms >= config.flush_ms
        )

    def flush(self, topic_id: Uuid | None) -> None:
        """Make durable what was appended before the call; see `Log.flush`."""
        parts = self._parts
        before: StorageError | None = self._sync_failure or (parts.trouble if parts.unsettled else None)
        if before is not None:
            raise before.with_traceback(None)
        folder_changed, truncated = parts.folder_changed, self.truncated
        # before the segments are looked at: what is removed from now on stays on the disk until the end
        parts.flushing = True
        try:
            self._flush(topic_id)
        except StorageError as error:
            parts.folder_changed |= folder_changed
            self.truncated |= truncated
            self.remember(error)
            raise
        finally:
            parts.flushing = False

    def _flush(self, topic_id: Uuid | None) -> None:
        epochs, parts = self._epochs, self._parts
        generation, end = self._generation, epochs.log_end_offset
        changes = epochs.changes
        segments = tuple(parts.all)
        folder_changed, parts.folder_changed = parts.folder_changed, False
        self._is_touched |= folder_changed
        truncated, self.truncated = self.truncated, False
        point = self.recovery_point
        mark = segments[-1].newest_mark()
        files: list[File] = []
        new_sealed: list[Segment] = []
        for at, segment in enumerate(segments):
            sealed = at + 1 < len(segments)
            # from the point itself on: what was flushed while it grew has had its indexes finished since
            if not sealed or segments[at + 1].base_offset >= point - truncated:
                files.extend(segment.files_to_sync(sealed=sealed))
                if sealed:
                    segment.transactions.sync()
                    new_sealed.append(segment)
        self._state.write_frozen()
        encoded = epochs.encoded() if changes != epochs.saved else None
        if new_sealed or encoded is not None:
            self._sums.append(new_sealed, encoded)
        if end > point or truncated or folder_changed:  # a truncation and a sealed index have to reach the device too
            self._disk.fsync_all(files)
        if encoded is not None:
            replace_file(self._disk, join(parts.folder, LEADER_EPOCH_FILE), encoded)
            epochs.saved = changes
        elif folder_changed:
            self._disk.fsync_dir(parts.folder)
        if self._is_new:
            identity = self._identity_files(topic_id)
            self._disk.fsync_all(identity, [parent(parts.folder)])
            _close(identity)
            self._is_new = False
        self._marks.leave(self._disk, parts.folder, mark)
        if generation != self._generation:  # truncated meanwhile, and the mark was taken back before it was left
            self._marks.take_back(self._disk, parts.folder)
            self._sums.take_back()
        self._flushed = (generation, end)

    def _identity_files(self, topic_id: Uuid | None) -> list[File]:
        path = join(self._parts.folder, PARTITION_METADATA_FILE)
        return [] if topic_id is None else [self._disk.open(path)]

    # -- a clean end

    @property
    def is_unchanged(self) -> bool:
        """True where the files are as the last clean end left them."""
        epochs = self._epochs
        return (
            not self._was_recovered
            and epochs.log_end_offset == self._opened_end
            and not (self._generation or self._parts.folder_changed or self._is_new or self._is_touched)
            and epochs.changes == epochs.saved
        )

    def check_synced(self) -> None:
        """Raise what an fsync has failed with: asked a second time, it would succeed, and have written nothing."""
        if self._sync_failure is not None:
            raise self._sync_failure.with_traceback(None)

    def begin_close(self, topic_id: Uuid | None, start: int) -> list[File]:
        """Write what a clean end leaves beside the sealed segments; return all files to fsync before `end_close`."""
        point = self.recovery_point
        bases = self._parts.bases
        following = [*bases[1:], INT64_MAX]
        files: list[File] = []
        for segment, end in zip(self._parts.all, following, strict=True):
            if end >= point - self.truncated:
                files.extend(segment.files_to_sync(sealed=True))
                segment.transactions.sync()
        encoded = self._epochs.encoded()
        epochs = self._disk.open(join(self._parts.folder, LEADER_EPOCH_FILE + TEMPORARY), create=True)
        epochs.truncate(0)
        epochs.pwrite(0, encoded)
        snapshot = self._state.newest_path()
        assert snapshot is not None
        sums = self._sums.begin_close(encoded, start, self._epochs.log_end_offset)
        self._closing = [epochs, sums, self._disk.open(snapshot), *self._identity_files(topic_id)]
        return [*files, *self._closing]

    def end_close(self) -> None:
        """Put the new files in their places, now that they are durable."""
        _close(self._closing)
        path = join(self._parts.folder, LEADER_EPOCH_FILE)
        self._disk.rename(path + TEMPORARY, path)
        self._sums.end_close()
        self._flushed = (self._generation, self._epochs.log_end_offset)


def _close(files: list[File]) -> None:
    """Let go of small files that nothing reads again, or each partition would hold three descriptors for them."""
    for file in files:
        file.close()
    files.clear()
