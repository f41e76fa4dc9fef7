"""One entry of `log.dirs`: whose data it is, who uses it, how the last process ended, and the logs in it.

Order at a start: `LogDir.open` takes the lock, then reads identity and checkpoints, and removes the mark of a clean end, so
that a crash from here on counts as one. `open_log` for every log wanted; what `found` names beyond them is stray. Order at
the end: `close` makes every log durable, then the checkpoints, then the mark, then releases the lock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.base import (
    METADATA_TOPIC,
    ConfigError,
    CorruptionError,
    NoSpaceError,
    Offset,
    Rng,
    StorageError,
    TopicPartition,
    Uuid,
    uuid_text,
)
from ottla.log.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    OWN_END_FILE,
    START_OFFSETS,
    forget_deleted_topics,
    forget_starts,
    read_deleted_topics,
    read_offsets,
    read_starts,
    seal_starts,
    write_deleted_topics,
    write_offsets,
    write_starts,
)
from ottla.log.config import LogConfig
from ottla.log.disk import Disk, FileLock, join, parent, replace_file
from ottla.log.identity import Identities
from ottla.log.log import Log
from ottla.log.names import (
    deleted_folder_name,
    future_folder_name,
    is_deleted_folder,
    is_stray_folder,
    parse_folder_name,
    parse_future_name,
    stray_folder_name,
)
from ottla.log.properties import (
    META_FILE,
    PARTITION_METADATA_FILE,
    MetaProperties,
    Owner,
    owner_of,
    read_meta,
    read_topic_id,
    write_meta,
)
from ottla.log.recovery import Progress
from ottla.log.types import RecoveryReport

__all__ = ["FoundLog", "LogDir", "LogDirLockedError", "delete_folder", "is_log_dir", "partition_folders"]

LOCK_FILE = ".lock"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
END_MARKS = (OWN_END_FILE, CLEAN_SHUTDOWN_FILE)
CHECKPOINTS = (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, CLEANED_OFFSETS)


class LogDirLockedError(StorageError):
    """Another process, or another part of this one, uses the log directory."""


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A log's folder as a start found it."""

    partition: TopicPartition
    folder: str
    topic_id: Uuid | None


class _Doomed(NamedTuple):
    """A folder to remove, from when on, and the log that still reads from it."""

    due_ms: int
    folder: str
    log: Log | None


class _Refused(NamedTuple):
    """A folder that the disk did not rename, to be set aside later."""

    partition: TopicPartition
    folder: str
    unique: str
    due_ms: int
    log: Log | None


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
        starts = read_starts(disk, path)
        self._starts_are_ours = starts.is_ours
        self.notes = starts.notes
        """What the start is to tell of the directory's own files, a line each."""
        self._stored = {name: _offsets(disk, path, name) for name in CHECKPOINTS} | {START_OFFSETS: starts.offsets}
        """What the files say."""
        self._writing = disk.mutex()
        """Held while a checkpoint is written: on a thread, and on the loop where a partition's name gets another log."""
        self._named = {each for offsets in self._stored.values() for each in offsets}
        """Every partition that a file may name, or one that is being written."""
        self._recovery_points = dict(self._stored[RECOVERY_POINTS])
        self._start_offsets = dict(self._stored[START_OFFSETS])
        self._high_watermarks = dict(self._stored[HIGH_WATERMARKS])
        self._cleaned = dict(self._stored[CLEANED_OFFSETS])
        self._logs: dict[TopicPartition, Log] = {}
        self._futures: dict[TopicPartition, Log] = {}
        self._future_folders: dict[TopicPartition, str] = {}
        self._identities = Identities(disk)
        self._doomed: list[_Doomed] = []
        self.strays: list[str] = []
        """Folders of logs that were set aside and are never removed by themselves."""
        self.unclaimed: frozenset[TopicPartition] = frozenset()
        """Logs of no topic that the start knew: kept, under a name of their own where a topic needs theirs."""
        self.nested: list[str] = []
        """Log directories in this one that `found` met: never logs of it, whatever their names."""
        self._deleted: dict[Uuid, None] = {}
        """Topics that are said to be deleted, while their folders may still have their names."""
        self._refused: list[_Refused] = []
        """Folders that could not be set aside yet."""

    @classmethod
    def open(cls, disk: Disk, path: str) -> LogDir:
        """Take the directory, making it where it is missing; raises LogDirLockedError where it is in use.

        Raises ConfigError where it is a partition's log: what is deleted with that topic would be all that comes in here.
        """
        if disk.exists(join(path, PARTITION_METADATA_FILE)) and not is_log_dir(disk, path):
            raise ConfigError("log.dirs", path, f"it is the log of a partition ({PARTITION_METADATA_FILE} is in it)")
        _make_folder(disk, path)
        lock = disk.lock(join(path, LOCK_FILE))
        if lock is None:
            raise LogDirLockedError(
                f"Failed to acquire lock on file {LOCK_FILE} in {path}. A Kafka or Ottla instance in another process or "
                "thread is using this directory."
            )
        try:
            opened = cls(disk, path, lock)
            opened._begin()
            return opened
        except BaseException:
            lock.release()
            raise

    def _begin(self) -> None:
        """Remove the marks of the last end, before any log changes, or a crash would pass for a clean end."""
        if self._starts_are_ours:
            seal_starts(self.disk, self.path)  # an earlier version has left none
        else:
            forget_starts(self.disk, self.path)
        marks = [path for name in END_MARKS if self.disk.exists(path := join(self.path, name))]
        for path in marks:
            self.disk.unlink(path)
        if marks:
            self.disk.fsync_dir(self.path)

    def format(self, meta: MetaProperties) -> None:
        """Give an unformatted directory its identity."""
        if not self.disk.exists(join(self.path, START_OFFSETS)):
            write_starts(self.disk, self.path, {})  # so that no start is believed that nobody told
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
            if _may_be_a_logs(entry.name) and is_log_dir(self.disk, folder):
                self.nested.append(folder)
                continue
            if is_deleted_folder(entry.name):
                self._doomed.append(_Doomed(0, folder, None))
                continue
            if is_stray_folder(entry.name):
                self.strays.append(folder)
                continue
            future = parse_future_name(entry.name)
            if future is not None:
                self._future_folders[future] = folder
                continue
            partition = parse_folder_name(entry.name)
            if partition is not None and partition.topic != METADATA_TOPIC:
                topic_id = None
                with suppress(CorruptionError):  # whoever opens the log hears of it
                    topic_id = read_topic_id(self.disk, folder)
                logs.append(FoundLog(partition, folder, topic_id))
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
        folder = self.folder_of(partition)
        return partition in self._logs or (self.disk.exists(folder) and not is_log_dir(self.disk, folder))

    def is_taken(self, partition: TopicPartition) -> bool:
        """True where another log directory has the name that the partition's folder would have."""
        return is_log_dir(self.disk, self.folder_of(partition))

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

        A folder of another topic of this name is set aside: for deletion, or for good where nothing proves that it is
        another's, and where the start has told that it is left as it is. Raises StorageError, also where another log
        directory has the folder's name, and CorruptionError where flushed bytes, or the folder's topic id, are damaged.
        """
        assert partition not in self._logs, f"{partition} is open"
        folder = self.folder_of(partition)
        self._set_refused_aside(folder)
        exists = self.disk.exists(folder)
        if exists and is_log_dir(self.disk, folder):
            raise StorageError(
                f"{folder} is a log directory of its own ({META_FILE} is in it): move it out of {self.path}"
            )
        if exists and topic_id is not None:
            exists = not self._leave_to_another(partition, folder, topic_id, now_ms)
        if not exists:
            self._forget(partition)
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
            is_missing=not exists,
            identities=self._identities,
        )
        log.cleaned_to = min(self._cleaned.get(partition, -1), log.log_end_offset)
        point = self._recovery_points.get(partition, 0)
        if log.log_end_offset < point:  # a truncation that was not stored any more, unless the end was clean
            if exists and self.is_clean:
                log.notes = (*log.notes, _shorter(log, point))
            self._recovery_points[partition] = log.log_end_offset
            try:
                self.write_recovery_points()  # or what is appended now would pass for flushed
            except StorageError:
                log.abandon()
                raise
        self._logs[partition] = log
        self._named.add(partition)
        return log

    def _leave_to_another(self, partition: TopicPartition, folder: str, topic_id: Uuid, now_ms: int) -> bool:
        """Take a partition's name from the folder of another topic; False where it is the topic's own."""
        owner = owner_of(self.disk, folder, topic_id)
        if owner is Owner.ANOTHER and partition not in self.unclaimed:
            self._set_folder_aside(_Refused(partition, folder, "stray", now_ms, None))
        elif owner is not Owner.ASKED:
            target = self._free_name(partition, uuid_text(topic_id), stray_folder_name)
            self._rename(folder, target)
            self.strays.append(target)
        return owner is not Owner.ASKED

    def _rename(self, folder: str, target: str) -> None:
        """Give a log's folder another name; new logs take no name of a file in it any more. Raises StorageError."""
        self._identities.forget()
        self.disk.rename(folder, target)

    def _free_name(self, partition: TopicPartition, unique: str, named: Callable[[TopicPartition, str], str]) -> str:
        count = 0
        target = join(self.path, named(partition, unique))
        while self.disk.exists(target):
            count += 1
            target = join(self.path, named(partition, f"{unique}{count}"))
        return target

    def _forget(self, partition: TopicPartition, *, start_offset: int = 0) -> None:
        """Let no checkpoint say anything of a partition, durably, before its name is that of another log.

        Checkpoints name no topic id: what they said of the one before would be taken for the new one's, and a recovery would
        cut it by that. `start_offset` is where the new one begins. Nearly always the files cannot say anything, and this
        costs nothing.
        """
        if partition not in self._named and not start_offset:
            return
        for offsets in (self._recovery_points, self._start_offsets, self._high_watermarks, self._cleaned):
            offsets.pop(partition, None)
        if start_offset:
            self._start_offsets[partition] = Offset(start_offset)
        with self._writing:
            for name in CHECKPOINTS:
                wanted = start_offset if name == START_OFFSETS else 0
                kept = self._stored[name]
                if kept.get(partition, 0) != wanted:
                    kept = {each: offset for each, offset in kept.items() if each != partition}
                    self._write(name, {**kept, partition: wanted} if wanted else kept)
            self._named.discard(partition)
            if start_offset:
                self._named.add(partition)

    def _write(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace a checkpoint; `_writing` is held. Raises StorageError, and then the file says what it said, or this."""
        if name == START_OFFSETS:
            write_starts(self.disk, self.path, offsets)
        else:
            write_offsets(self.disk, join(self.path, name), offsets)
        self._stored[name] = {each: Offset(offset) for each, offset in offsets.items()}

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
        """Give the copy the name of the partition's log; not durable, and not in use, until `take_future`.

        What the checkpoints say of a log of that name is the copy's from before on. Raises StorageError.
        """
        log = self._futures[partition]
        folder = self.folder_of(partition)
        if self.is_taken(partition):
            raise StorageError(
                f"{folder} is a log directory of its own ({META_FILE} is in it): move it out of {self.path}"
            )
        self._set_refused_aside(folder)
        self._forget(partition, start_offset=log.log_start_offset)
        self._rename(self._future_folders[partition], folder)
        del self._future_folders[partition]
        log.moved(folder)

    def take_future(self, partition: TopicPartition) -> Log:
        """Make the copy the partition's log here, now that it has everything and its name."""
        log = self._logs[partition] = self._futures.pop(partition)
        self._named.add(partition)
        return log

    def unname_future(self, partition: TopicPartition, *, unique: str) -> None:
        """Take the partition's name from a copy that a start found under it, and that lacks records, so that it goes on."""
        folder = join(self.path, future_folder_name(partition, unique))
        log = self._logs[partition]
        self._rename(self.folder_of(partition), folder)
        del self._logs[partition]
        log.moved(folder)
        self._future_folders[partition] = folder
        self._futures[partition] = log

    def drop_future(self, partition: TopicPartition, *, unique: str, now_ms: int) -> None:
        """Give up the copy that is on its way here. Raises StorageError, and then `take_doomed` tries again."""
        log = self._futures.pop(partition, None)
        folder = self._future_folders.pop(partition, None) or (log.folder if log is not None else None)
        if folder is not None:
            self._drop_folder(_Refused(partition, folder, unique, now_ms, log))

    def high_watermark(self, partition: TopicPartition) -> Offset:
        """Return the high watermark that was stored last, at most the log's end; 0 where there is none."""
        stored = self._high_watermarks.get(partition, Offset(0))
        log = self._logs.get(partition)
        return stored if log is None else min(stored, log.log_end_offset)

    def delete_log(self, partition: TopicPartition, *, unique: str, now_ms: int, delay_ms: int) -> None:
        """Set a partition's folder aside at once, under a name with `unique` in it; its files go after a delay.

        Whoever reads the log still can. The rename is not made durable: after a power failure the log may be there again, as
        one that no topic claims. Where it is refused, `take_doomed` tries again, or whoever opens a log of this name; raises
        StorageError then, but for want of room.
        """
        log = self._logs.pop(partition, None)
        for offsets in (self._recovery_points, self._start_offsets, self._high_watermarks, self._cleaned):
            offsets.pop(partition, None)
        self._drop_folder(_Refused(partition, self.folder_of(partition), unique, now_ms + delay_ms, log))

    def note_deleted(self, topic_ids: Iterable[Uuid]) -> None:
        """Have the next start remove the folders of topics that this one may not come to set aside; raises StorageError."""
        self._deleted.update(dict.fromkeys(topic_ids))
        write_deleted_topics(self.disk, self.path, self._deleted)

    def remove_deleted(self, found: Iterable[TopicPartition], *, is_known: Callable[[Uuid], bool], now_ms: int) -> None:
        """Set aside what the process before did not come to, of logs that no topic claims; raises StorageError.

        Both have to say so of the id in `partition.metadata`: that process, that the topic was deleted, and the metadata,
        that there is none.
        """
        gone = read_deleted_topics(self.disk, self.path)
        if not gone:
            return
        for partition in found:
            topic_id = None
            with suppress(CorruptionError):
                topic_id = read_topic_id(self.disk, self.folder_of(partition))
            if topic_id in gone and not is_known(topic_id):
                self.delete_log(partition, unique=uuid_text(topic_id), now_ms=now_ms, delay_ms=0)
        if not self._refused:
            forget_deleted_topics(self.disk, self.path)

    def _drop_folder(self, wanted: _Refused) -> None:
        try:
            if self.disk.exists(wanted.folder):
                self._set_folder_aside(wanted)
        except StorageError as error:
            self._refused.append(wanted)
            if not isinstance(error, NoSpaceError):
                raise

    def _set_folder_aside(self, wanted: _Refused) -> None:
        target = self._free_name(wanted.partition, wanted.unique, deleted_folder_name)
        self._rename(wanted.folder, target)
        if wanted.log is not None:
            wanted.log.moved(target)
        self._doomed.append(_Doomed(wanted.due_ms, target, wanted.log))

    def _set_refused_aside(self, folder: str) -> None:
        """Take the name of this folder from a log that should not have it any more; raises StorageError."""
        for wanted in [each for each in self._refused if each.folder == folder]:
            self._set_folder_aside(wanted)
            self._refused.remove(wanted)

    def take_doomed(self, now_ms: int) -> list[str]:
        """Return the folders whose time has come, and forget them; `delete_folder` removes each, best on a thread.

        No file in them is kept open from now on, or their space would not be free. Folders that could not be set aside
        before are tried again.
        """
        due = [each for each in self._doomed if each.due_ms <= now_ms]
        self._doomed = [each for each in self._doomed if each.due_ms > now_ms]
        for each in due:
            if each.log is not None:
                each.log.abandon()
        refused, self._refused = self._refused, []
        for wanted in refused:
            with suppress(StorageError):
                self._drop_folder(wanted)
        return [each.folder for each in due]

    # -- what survives it; each of these waits for the device, so the shell runs them on a thread, one at a time

    def write_recovery_points(self) -> None:
        """Store how far every log is on the device."""
        with self._writing:
            logs = list(self._logs.items())
            points = {**self._recovery_points, **{partition: log.recovery_point for partition, log in logs}}
            self._write(RECOVERY_POINTS, points)
        if any(log.cleaned_to < self._cleaned.get(each, -1) for each, log in logs):
            self.write_cleaned_offsets()  # truncated: what comes there now is dirty

    def write_cleaned_offsets(self) -> None:
        """Store up to where compaction has cleaned the logs."""
        with self._writing:
            logs = list(self._logs.items())
            cleaned = {**self._cleaned, **{partition: Offset(log.cleaned_to) for partition, log in logs}}
            self._write(CLEANED_OFFSETS, {each: offset for each, offset in cleaned.items() if offset >= 0})
            for partition, log in logs:
                if self._logs.get(partition) is log:
                    self._cleaned[partition] = cleaned[partition]

    def write_start_offsets(self) -> None:
        """Store where every log starts that does not start at 0.

        Also where that is its first segment's base: the removal of older segments may not be on the device yet.
        """
        with self._writing:
            kept = dict(self._start_offsets)
            starts = {**kept, **{partition: log.log_start_offset for partition, log in list(self._logs.items())}}
            self._write(START_OFFSETS, {each: offset for each, offset in starts.items() if offset})

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, tuple[Log, int]]) -> None:
        """Store the partitions' high watermarks, each with the log that it was read of.

        They were read a moment ago: a partition may have been deleted since, and its name may be another log's by now. Of
        that one nothing is said.
        """
        with self._writing:
            logs = dict(self._logs)
            kept = {each: offset for each, offset in list(self._high_watermarks.items()) if each not in logs}
            now = {each: offset for each, (log, offset) in high_watermarks.items() if logs.get(each) is log}
            self._write(HIGH_WATERMARKS, {**kept, **now})

    def close(
        self, *, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, tuple[Log, int]] | None = None
    ) -> None:
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
            for name in END_MARKS:
                replace_file(self.disk, join(self.path, name), mark.encode())
        finally:
            self.release()

    def release(self) -> None:
        """Give the directory up as it is, without the mark of a clean end."""
        for log in (*self._logs.values(), *self._futures.values()):
            log.abandon()
        self._logs.clear()
        self._futures.clear()
        self._lock.release()


def _shorter(log: Log, recovery_point: int) -> str:
    return (
        f"the log ends at offset {log.log_end_offset}, and {RECOVERY_POINTS} says that it had been flushed up to "
        f"{recovery_point} when it was closed: records are missing, or that file is wrong; bring the log back from a copy, "
        "or let another replica lead"
    )


def _make_folder(disk: Disk, path: str) -> None:
    """Make a folder and those above it where they are missing, durably."""
    if disk.exists(path):
        return
    above = parent(path)
    if above not in (".", "/"):
        _make_folder(disk, above)
    disk.mkdir(path)
    disk.fsync_dir(above)


def is_log_dir(disk: Disk, folder: str) -> bool:
    """True for a folder that has an identity of its own, so that it is a log directory and no log. Raises StorageError."""
    return disk.exists(join(folder, META_FILE))


def partition_folders(disk: Disk, path: str) -> list[str]:
    """Return the names of the folders with partitions' logs in a log directory that nobody has to use for it.

    The metadata log is left out. Raises StorageError.
    """
    return [
        entry.name
        for entry in disk.scan(path)
        if entry.is_folder
        and (partition := parse_folder_name(entry.name)) is not None
        and partition.topic != METADATA_TOPIC
        and not is_log_dir(disk, join(path, entry.name))
    ]


def _may_be_a_logs(name: str) -> bool:
    """True for a name that a partition's folder may have, now or while it goes, comes or is kept."""
    return (
        parse_folder_name(name) is not None
        or is_deleted_folder(name)
        or is_stray_folder(name)
        or parse_future_name(name) is not None
    )


def delete_folder(disk: Disk, folder: str) -> None:
    """Remove a folder and everything in it; raises StorageError where it is a log directory, and removes nothing of it."""
    if is_log_dir(disk, folder):
        raise StorageError(f"{folder} is a log directory ({META_FILE} is in it), and is not removed")
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
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return not data, -1  # older versions leave an empty file; nobody leaves any other


def _offsets(disk: Disk, path: str, name: str) -> dict[TopicPartition, Offset]:
    """Return a checkpoint; one that is not whole counts as empty, which only makes recovery read more."""
    try:
        return read_offsets(disk, join(path, name))
    except CorruptionError:
        return {}
