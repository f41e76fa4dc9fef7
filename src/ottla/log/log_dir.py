"""One entry of `log.dirs`: whose data it is, who uses it, how the last process ended, and the logs in it.

Order at a start: `LogDir.open` takes the lock, then reads identity and checkpoints, and removes the mark of a clean end, so
that a crash from here on counts as one. `open_log` for every log wanted; what `found` names beyond them is stray. Order at
the end: `close` makes every log durable, then the checkpoints, then the mark, then releases the lock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.base import CorruptionError, Offset, Rng, StorageError, TopicPartition, Uuid
from ottla.log.checkpoints import read_offsets, write_offsets
from ottla.log.config import LogConfig
from ottla.log.disk import Disk, FileLock, join, parent, replace_file
from ottla.log.log import Log
from ottla.log.names import (
    deleted_folder_name,
    future_folder_name,
    is_deleted_folder,
    parse_folder_name,
    parse_future_name,
)
from ottla.log.properties import MetaProperties, read_meta, read_topic_id, write_meta
from ottla.log.recovery import Progress
from ottla.log.types import RecoveryReport

__all__ = ["FoundLog", "LogDir", "LogDirLockedError", "delete_folder"]

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
METADATA_TOPIC = "__cluster_metadata"
"""Its log is the quorum's, which opens it itself; it is in no checkpoint."""


class LogDirLockedError(StorageError):
    """Another process, or another part of this one, uses the log directory."""


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A log's folder as a start found it."""

    partition: TopicPartition
    folder: str
    topic_id: Uuid | None


class LogDir:
    """A log directory in use by this process."""

    def __init__(self, disk: Disk, path: str, lock: FileLock) -> None:
        """Use `LogDir.open`."""
        self.disk = disk
        self.path = path
        self.meta: MetaProperties | None = read_meta(disk, path)
        """Whose data it is; None before `format`."""
        self._lock = lock
        self.is_clean, self.broker_epoch = _read_clean_shutdown(disk, path)
        """Whether the last process ended cleanly, and the broker epoch that it had (KIP-966); -1 where it is not known."""
        self._recovery_points = _offsets(disk, path, RECOVERY_POINTS)
        self._start_offsets = _offsets(disk, path, START_OFFSETS)
        self._high_watermarks = _offsets(disk, path, HIGH_WATERMARKS)
        self._cleaned = _offsets(disk, path, CLEANED_OFFSETS)
        self._logs: dict[TopicPartition, Log] = {}
        self._futures: dict[TopicPartition, Log] = {}
        self._future_folders: dict[TopicPartition, str] = {}
        self._doomed: list[tuple[int, str]] = []

    @classmethod
    def open(cls, disk: Disk, path: str) -> LogDir:
        """Take the directory, making it where it is missing; raises LogDirLockedError where it is in use."""
        _make_folder(disk, path)
        lock = disk.lock(join(path, LOCK_FILE))
        if lock is None:
            raise LogDirLockedError(
                f"Failed to acquire lock on file {LOCK_FILE} in {path}. A Kafka or Ottla instance in another process or "
                "thread is using this directory."
            )
        try:
            opened = cls(disk, path, lock)
            if disk.exists(join(path, CLEAN_SHUTDOWN_FILE)):
                disk.unlink(join(path, CLEAN_SHUTDOWN_FILE))
                disk.fsync_dir(path)  # before any log changes, or a crash would pass for a clean end
            return opened
        except BaseException:
            lock.release()
            raise

    def format(self, meta: MetaProperties) -> None:
        """Give an unformatted directory its identity."""
        write_meta(self.disk, self.path, meta)
        self.meta = meta

    # -- its logs

    def found(self) -> list[FoundLog]:
        """Return the logs on disk; what is being deleted is noted for `take_doomed`, and the metadata log is left out."""
        logs = []
        for entry in self.disk.scan(self.path):
            folder = join(self.path, entry.name)
            if not entry.is_folder:
                continue
            if is_deleted_folder(entry.name):
                self._doomed.append((0, folder))
                continue
            future = parse_future_name(entry.name)
            if future is not None:
                self._future_folders[future] = folder
                continue
            partition = parse_folder_name(entry.name)
            if partition is not None and partition.topic != METADATA_TOPIC:
                logs.append(FoundLog(partition, folder, read_topic_id(self.disk, folder)))
        return logs

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """The logs that are open."""
        return self._logs

    @property
    def futures(self) -> Mapping[TopicPartition, Log]:
        """The copies on their way here that are open (KIP-113)."""
        return self._futures

    @property
    def future_folders(self) -> Mapping[TopicPartition, str]:
        """Where such copies lie, also those that an earlier process has begun."""
        return self._future_folders

    def has_log(self, partition: TopicPartition) -> bool:
        """True where the directory has a folder for this partition."""
        return partition in self._logs or self.disk.exists(self.folder_of(partition))

    def folder_of(self, partition: TopicPartition) -> str:
        """Return where a partition's log lies, or would lie."""
        return join(self.path, str(partition))

    def recovery_arguments(self, partition: TopicPartition) -> dict[str, Any] | None:
        """Return what `recover` needs to know of this log, to run it in a worker process before `open_log(recovered=...)`.

        None where the last end was clean.
        """
        if self.is_clean:
            return None
        return {
            "recovery_point": self._recovery_points.get(partition, 0),
            "log_start_offset": self._start_offsets.get(partition, 0),
        }

    def open_log(
        self,
        partition: TopicPartition,
        config: LogConfig,
        *,
        now_ms: int,
        topic_id: Uuid | None = None,
        rng: Rng | None = None,
        recovered: RecoveryReport | None = None,
        progress: Progress | None = None,
    ) -> Log:
        """Open a partition's log, or make it; recovers it after an unclean end, unless that was done (`recovered`).

        A folder of another topic of this name is set aside for deletion. Raises StorageError, and CorruptionError where
        flushed bytes are damaged.
        """
        assert partition not in self._logs, f"{partition} is open"
        folder = self.folder_of(partition)
        exists = self.disk.exists(folder)
        if exists and topic_id is not None and read_topic_id(self.disk, folder) not in (None, topic_id):
            self._set_folder_aside(partition, folder, "stray", now_ms)
            exists = False
        if not exists:
            self._recovery_points.pop(partition, None)
            self._start_offsets.pop(partition, None)
            self._high_watermarks.pop(partition, None)
            self._cleaned.pop(partition, None)
        log = Log.open(
            self.disk,
            folder,
            config,
            now_ms=now_ms,
            recovery_point=self._recovery_points.get(partition, 0),
            log_start_offset=self._start_offsets.get(partition, 0),
            clean=not exists or self.is_clean,
            recovered=recovered,
            topic_id=topic_id,
            rng=rng,
            progress=progress,
        )
        self._logs[partition] = log
        log.cleaned_to = min(self._cleaned.get(partition, -1), log.log_end_offset)
        if log.log_end_offset < self._recovery_points.get(partition, 0):  # a truncation that was not stored any more
            self.write_recovery_points()  # or what is appended now would pass for flushed
        return log

    def open_future(
        self,
        partition: TopicPartition,
        config: LogConfig,
        *,
        now_ms: int,
        unique: str,
        topic_id: Uuid | None = None,
        rng: Rng | None = None,
    ) -> Log:
        """Open the copy of a partition's log that is on its way here, or make it; what is there of another topic goes.

        No checkpoint knows it, so that after an unclean end all of it is read. Raises StorageError.
        """
        folder = self._future_folders.get(partition)
        if folder is not None and read_topic_id(self.disk, folder) not in (None, topic_id):
            self.drop_future(partition, unique=unique, now_ms=now_ms)
            folder = None
        clean = folder is None or self.is_clean
        if folder is None:
            folder = join(self.path, future_folder_name(partition, unique))
        log = Log.open(self.disk, folder, config, now_ms=now_ms, clean=clean, topic_id=topic_id, rng=rng)
        self._future_folders[partition] = folder
        self._futures[partition] = log
        return log

    def name_future(self, partition: TopicPartition) -> None:
        """Give the copy the name of the partition's log; not durable, and not in use, until `take_future`."""
        log = self._futures[partition]
        folder = self.folder_of(partition)
        self.disk.rename(self._future_folders.pop(partition), folder)
        log.moved(folder)

    def take_future(self, partition: TopicPartition) -> Log:
        """Make the copy the partition's log here, now that it has everything and its name."""
        for offsets in (self._recovery_points, self._start_offsets, self._high_watermarks, self._cleaned):
            offsets.pop(partition, None)
        log = self._logs[partition] = self._futures.pop(partition)
        return log

    def unname_future(self, partition: TopicPartition, *, unique: str) -> None:
        """Take the partition's name from a copy that a start found under it, and that lacks records, so that it goes on."""
        folder = join(self.path, future_folder_name(partition, unique))
        log = self._logs.pop(partition)
        self.disk.rename(self.folder_of(partition), folder)
        log.moved(folder)
        self._future_folders[partition] = folder
        self._futures[partition] = log

    def drop_future(self, partition: TopicPartition, *, unique: str, now_ms: int) -> None:
        """Give up the copy that is on its way here."""
        log = self._futures.pop(partition, None)
        folder = self._future_folders.pop(partition, None) or (log.folder if log is not None else None)
        if folder is not None and self.disk.exists(folder):
            target = self._set_folder_aside(partition, folder, unique, now_ms)
            if log is not None:
                log.moved(target)

    def high_watermark(self, partition: TopicPartition) -> Offset:
        """Return the high watermark that was stored last; 0 where there is none."""
        return self._high_watermarks.get(partition, Offset(0))

    def delete_log(self, partition: TopicPartition, *, unique: str, now_ms: int, delay_ms: int) -> None:
        """Set a partition's folder aside at once, under a name with `unique` in it; its files go after a delay.

        Whoever reads the log still can. The rename is not made durable: after a power failure the log may be there again, as
        one that no topic claims.
        """
        log = self._logs.pop(partition, None)
        folder = self.folder_of(partition)
        for offsets in (self._recovery_points, self._start_offsets, self._high_watermarks, self._cleaned):
            offsets.pop(partition, None)
        if self.disk.exists(folder):
            target = self._set_folder_aside(partition, folder, unique, now_ms + delay_ms)
            if log is not None:
                log.moved(target)

    def _set_folder_aside(self, partition: TopicPartition, folder: str, unique: str, due_ms: int) -> str:
        count = 0
        target = join(self.path, deleted_folder_name(partition, unique))
        while self.disk.exists(target):
            count += 1
            target = join(self.path, deleted_folder_name(partition, f"{unique}{count}"))
        self.disk.rename(folder, target)
        self._doomed.append((due_ms, target))
        return target

    def take_doomed(self, now_ms: int) -> list[str]:
        """Return the folders whose time has come, and forget them; `delete_folder` removes each, best on a thread."""
        due = [folder for time, folder in self._doomed if time <= now_ms]
        self._doomed = [each for each in self._doomed if each[0] > now_ms]
        return due

    # -- what survives it; each of these waits for the device, so the shell runs them on a thread, one at a time

    def write_recovery_points(self) -> None:
        """Store how far every log is on the device."""
        points = dict(self._recovery_points)
        points.update({partition: log.recovery_point for partition, log in list(self._logs.items())})
        write_offsets(self.disk, join(self.path, RECOVERY_POINTS), points)
        if any(log.cleaned_to < self._cleaned.get(each, -1) for each, log in list(self._logs.items())):
            self.write_cleaned_offsets()  # truncated: what comes there now is dirty

    def write_cleaned_offsets(self) -> None:
        """Store up to where compaction has cleaned the logs."""
        logs = list(self._logs.items())
        self._cleaned.update({partition: Offset(log.cleaned_to) for partition, log in logs})
        cleaned = {partition: offset for partition, offset in self._cleaned.items() if offset >= 0}
        write_offsets(self.disk, join(self.path, CLEANED_OFFSETS), cleaned)

    def write_start_offsets(self) -> None:
        """Store where every log starts that does not start at 0.

        Also where that is its first segment's base: the removal of older segments may not be on the device yet.
        """
        starts = {partition: log.log_start_offset for partition, log in list(self._logs.items())}
        kept = {each: offset for each, offset in self._start_offsets.items() if each not in starts}
        moved = {each: offset for each, offset in starts.items() if offset}
        write_offsets(self.disk, join(self.path, START_OFFSETS), {**kept, **moved})

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Store the partitions' high watermarks."""
        kept = {each: offset for each, offset in self._high_watermarks.items() if each not in self._logs}
        write_offsets(self.disk, join(self.path, HIGH_WATERMARKS), {**kept, **high_watermarks})

    def close(self, *, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Close every log, store the checkpoints and leave the mark of a clean end; then the lock is released.

        Where anything fails the mark is not left, so that the next start recovers, and the error goes on.
        """
        try:
            logs = [*self._logs.values(), *self._futures.values()]
            self.disk.fsync_all([file for log in logs for file in log.begin_close()])
            folders = [log.folder for log in logs if log.end_close()]
            self.disk.fsync_all([], [*folders, self.path])
            self.write_recovery_points()
            self.write_start_offsets()
            if high_watermarks is not None:
                self.write_high_watermarks(high_watermarks)
            mark = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
            replace_file(self.disk, join(self.path, CLEAN_SHUTDOWN_FILE), mark.encode())
        finally:
            self.release()

    def release(self) -> None:
        """Give the directory up as it is, without the mark of a clean end."""
        for log in (*self._logs.values(), *self._futures.values()):
            log.abandon()
        self._logs.clear()
        self._futures.clear()
        self._lock.release()


def _make_folder(disk: Disk, path: str) -> None:
    """Make a folder and those above it where they are missing, durably."""
    if disk.exists(path):
        return
    above = parent(path)
    if above not in (".", "/"):
        _make_folder(disk, above)
    disk.mkdir(path)
    disk.fsync_dir(above)


def delete_folder(disk: Disk, folder: str) -> None:
    """Remove a folder and everything in it."""
    for entry in disk.scan(folder):
        path = join(folder, entry.name)
        if entry.is_folder:
            delete_folder(disk, path)
        else:
            disk.unlink(path)
    disk.rmdir(folder)


def _read_clean_shutdown(disk: Disk, path: str) -> tuple[bool, int]:
    data = disk.read(join(path, CLEAN_SHUTDOWN_FILE))
    if data is None:
        return False, -1
    try:
        return True, int(json.loads(data)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return True, -1  # an empty file, as older versions leave


def _offsets(disk: Disk, path: str, name: str) -> dict[TopicPartition, Offset]:
    """Return a checkpoint; one that is not whole counts as empty, which only makes recovery read more."""
    try:
        return read_offsets(disk, join(path, name))
    except CorruptionError:
        return {}
