"""The node's log directories: taken, identified, formatted where they are new, failed one by one, closed cleanly.

The directory of the metadata log is one of them, or one more. Where a disk has failed once its directory is not used
again by this process; without any, or without the metadata log's, the node cannot serve.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

from ottla.base import (
    Clock,
    ConfigError,
    Millis,
    Offload,
    Offset,
    Rng,
    StorageError,
    TopicPartition,
    Uuid,
    random_uuid,
    uuid_text,
)
from ottla.broker.formatting import format_directory
from ottla.config import BrokerConfig
from ottla.log import Disk, Log, LogConfig, LogDir, LogDirLockedError, delete_folder, join
from ottla.metadata import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED

__all__ = ["Storage", "StoredLog"]

log = logging.getLogger(__name__)

UNKNOWN_DIRECTORIES = (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING)
"""What the metadata says of a replica whose directory it does not know."""


@dataclass(frozen=True, slots=True)
class StoredLog:
    """An open log, where it lies, and the high watermark that was stored with it."""

    log: Log
    log_dir: LogDir
    high_watermark: Offset


class Storage:
    """The one owner of the log directories; `on_failure` is called when too few are left to go on."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk,
        clock: Clock,
        rng: Rng,
        offload: Offload,
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self.disk = disk
        self.cluster_id = ""
        self.checkpoints = asyncio.Lock()
        """Held while a checkpoint of the recovery points or of the cleaned offsets is written."""
        self._config = config
        self._clock = clock
        self._rng = rng
        self._offload = offload
        self._on_failure = on_failure
        self._dirs: list[LogDir] = []
        self._metadata_dir: LogDir | None = None
        self._failed: dict[str, StorageError] = {}
        self.on_offline: Callable[[], None] = lambda: None
        """Called when a directory has failed, once each."""
        self._found: dict[TopicPartition, LogDir] = {}
        self._twice: dict[TopicPartition, list[LogDir]] = {}
        self._preferred: dict[TopicPartition, LogDir] = {}

    # -- start and end

    def open(self) -> None:
        """Lock every directory, check whose data it holds, and format what is new; find the logs in it.

        Raises LogDirLockedError where another process uses one, StorageError where none can be used, and ConfigError
        where one belongs to another node or cluster. A directory whose disk fails is left out, unless it has the
        metadata log.
        """
        paths = list(dict.fromkeys((*self._config.log_dirs, self._config.metadata_log_dir)))
        for path in paths:
            try:
                opened = LogDir.open(self.disk, path)
            except LogDirLockedError:
                raise
            except StorageError as error:
                if path == self._config.metadata_log_dir:
                    raise
                log.error("Log directory %s is offline: %s", path, error)
                self._failed[path] = error
                continue
            self._dirs.append(opened)
        self._identify()
        metadata_path = self._config.metadata_log_dir
        self._metadata_dir = next(each for each in self._dirs if each.path == metadata_path)
        if metadata_path not in self._config.log_dirs:
            self._dirs.remove(self._metadata_dir)
        if not self._dirs:
            raise StorageError(f"none of the log directories can be used: {', '.join(self._failed)}")
        self._find_logs()

    def _identify(self) -> None:
        """Let every directory be this node's and one cluster's; give new ones their identity."""
        owners = {each.meta.cluster_id: each for each in self._dirs if each.meta is not None}
        for each in self._dirs:
            if each.meta is not None and each.meta.node_id != self._config.node_id:
                raise ConfigError("node.id", self._config.node_id, f"{each.path} belongs to node {each.meta.node_id}")
        if len(owners) > 1:
            first, second = list(owners.values())[:2]
            raise ConfigError("log.dirs", first.path, f"its cluster is not that of {second.path}")
        if not owners and not self._config.is_quorum_of_one:
            path = self._config.metadata_log_dir
            reason = "no `meta.properties` there: format it first, with the id of the cluster (`ottla storage format`)"
            raise ConfigError("log.dirs", path, reason)
        self.cluster_id = next(iter(owners), "") or uuid_text(random_uuid(self._rng))
        for each in self._dirs:
            if each.meta is None:
                format_directory(
                    self._config, each, cluster_id=self.cluster_id, rng=self._rng, now_ms=self._clock.now_ms()
                )

    def _find_logs(self) -> None:
        for log_dir in self._dirs:
            for found in log_dir.found():
                other = self._found.setdefault(found.partition, log_dir)
                if other is not log_dir:  # the last process ended while it put a moved log in its new place
                    self._twice.setdefault(found.partition, [other]).append(log_dir)

    def loaded(self, *, is_known: Callable[[Uuid], bool]) -> None:
        """Name the logs that no topic claims, once the image's have been opened; they are left alone.

        But for those of topics that the last process was told are deleted, and of which the image does not know either
        (`is_known`): they are removed.
        """
        for log_dir in self._dirs:
            unclaimed = [each for each, owner in self._found.items() if owner is log_dir and each not in log_dir.logs]
            if log_dir.path not in self._failed:
                try:
                    log_dir.remove_deleted(unclaimed, is_known=is_known, now_ms=self._clock.now_ms())
                except StorageError as error:
                    log.error("Folders of deleted topics in %s cannot be removed: %s", log_dir.path, error)
            log_dir.unclaimed = frozenset(each for each in unclaimed if log_dir.has_log(each))
            if log_dir.unclaimed:
                stray = ", ".join(sorted(map(str, log_dir.unclaimed)))
                log.warning("%s holds logs of no known topic, which are left as they are: %s", log_dir.path, stray)
            for note in log_dir.notes:
                log.warning("%s", note)
            if log_dir.nested:
                nested = ", ".join(log_dir.nested)
                log.warning("%s holds other log directories, which are no logs of it: %s", log_dir.path, nested)
            if log_dir.strays:
                log.warning("Set aside, and kept until they are removed by hand: %s", ", ".join(log_dir.strays))
        self._found.clear()

    async def close(
        self, high_watermarks: Mapping[LogDir, Mapping[TopicPartition, tuple[Log, Offset]]], *, broker_epoch: int
    ) -> None:
        """Close every log and mark each directory as closed cleanly; one whose disk fails now is only given up."""
        for log_dir in self._opened():
            if log_dir.path in self._failed:
                log_dir.release()
                continue
            close = partial(log_dir.close, broker_epoch=broker_epoch, high_watermarks=high_watermarks.get(log_dir, {}))
            try:
                await self._offload.thread(close)
            except StorageError as error:
                log.error("Log directory %s could not be closed cleanly: %s", log_dir.path, error)

    def release(self) -> None:
        """Give every directory up as it is."""
        for log_dir in self._opened():
            log_dir.release()

    def _opened(self) -> list[LogDir]:
        alone = self._metadata_dir is not None and self._metadata_dir not in self._dirs
        return [*self._dirs, self._metadata_dir] if alone and self._metadata_dir is not None else list(self._dirs)

    # -- identity

    @property
    def directory_ids(self) -> tuple[Uuid, ...]:
        """The ids of the directories that take partitions (KIP-858)."""
        return tuple(each.meta.directory_id for each in self.online if each.meta is not None)

    @property
    def metadata_directory_id(self) -> Uuid:
        """The id of the directory with the metadata log, which is part of a voter's identity (KIP-853)."""
        assert self._metadata_dir is not None and self._metadata_dir.meta is not None
        return self._metadata_dir.meta.directory_id

    @property
    def previous_broker_epoch(self) -> int:
        """The epoch that every directory was closed cleanly with, or -1 where one was not (KIP-966)."""
        epochs = {each.broker_epoch if each.is_clean else -1 for each in self._dirs}
        return epochs.pop() if len(epochs) == 1 else -1

    @property
    def online(self) -> tuple[LogDir, ...]:
        """The directories whose disk has not failed."""
        return tuple(each for each in self._dirs if each.path not in self._failed)

    @property
    def offline(self) -> Mapping[str, StorageError]:
        """The directories whose disk has failed, and how."""
        return self._failed

    @property
    def offline_directory_ids(self) -> tuple[Uuid, ...]:
        """The ids of the directories that have failed since the start."""
        failed = (each for each in self._dirs if each.path in self._failed)
        return tuple(each.meta.directory_id for each in failed if each.meta is not None)

    def ids_of(self, paths: Collection[str]) -> tuple[Uuid, ...]:
        """Return the ids of these directories, of all where `*` is among them."""
        return tuple(
            each.meta.directory_id
            for each in self.online
            if each.meta is not None and ("*" in paths or each.path in paths)
        )

    # -- logs

    def open_log(
        self, key: TopicPartition, topic_id: Uuid, config: LogConfig, directory: Uuid = DIRECTORY_UNASSIGNED
    ) -> StoredLog:
        """Open a partition's log where it lies, or make it: where it was asked for, else in the directory with the fewest.

        `directory` is where the metadata says that it lies. Recovers after a crash. Raises StorageError where it lies in a
        directory that has failed, or no directory is left. A copy that is found elsewhere does not stand in for one that
        lies in a failed directory: it may be what a move has left, and lack what was acknowledged since.
        """
        if key in self._found:
            self._check_online(key, directory)
        if key in self._twice:
            opened, log_dir = self._settle(key, topic_id, config, directory)
        else:
            log_dir = self._found.get(key) or self._place(key, directory)
            if log_dir.path in self._failed:
                raise StorageError(f"{log_dir.path} is offline")
            opened = log_dir.open_log(key, config, now_ms=self._clock.now_ms(), topic_id=topic_id, rng=self._rng)
        report = opened.recovery
        if report is not None:
            log.info(
                "Recovered %s up to offset %d: %d bytes read, %d cut",
                key,
                report.log_end_offset,
                report.scanned_bytes,
                report.cut_bytes,
            )
            for note in (*report.kept_aside, *report.notes):
                log.warning("Recovery of %s: %s", key, note)
        for note in opened.notes:
            log.error("%s in %s: %s", key, log_dir.path, note)
        return StoredLog(opened, log_dir, log_dir.high_watermark(key))

    def has_log(self, key: TopicPartition) -> bool:
        """Return whether there is a folder for a partition's log."""
        return any(each.has_log(key) for each in self.online)

    def _check_online(self, key: TopicPartition, directory: Uuid) -> None:
        """Raise StorageError where the directory, as the metadata names it, has failed, as far as can be told."""
        if self._failed and directory not in (*UNKNOWN_DIRECTORIES, *self.directory_ids):
            raise StorageError(f"{key} lies in a log directory that is offline")

    def _place(self, key: TopicPartition, directory: Uuid) -> LogDir:
        """Return the directory for a log that is in none that was found."""
        online = self.online
        wanted = self._preferred.pop(key, None)
        if wanted is not None and wanted in online:
            return wanted
        self._check_online(key, directory)
        for each in online:  # the metadata may have told us of it only now
            if each.has_log(key):
                return each
        for each in online:
            if each.meta is not None and each.meta.directory_id == directory and not each.is_taken(key):
                return each
        cordoned = set(self._config.settings.cordoned_log_dirs)
        candidates = [each for each in online if each.path not in cordoned and "*" not in cordoned] or list(online)
        if not candidates:
            raise StorageError("every log directory is offline")
        candidates.sort(key=lambda each: len(each.logs))
        return next((each for each in candidates if not each.is_taken(key)), candidates[0])

    def _settle(self, key: TopicPartition, topic_id: Uuid, config: LogConfig, directory: Uuid) -> tuple[Log, LogDir]:
        """Of a log that is in two directories, keep the one that has more; the other holds a part of the same records."""
        dirs = self._twice.pop(key)
        now_ms = self._clock.now_ms()
        opened = [each.open_log(key, config, now_ms=now_ms, topic_id=topic_id, rng=self._rng) for each in dirs]
        best = max(range(len(dirs)), key=lambda at: (opened[at].leader_epochs.latest, opened[at].log_end_offset))
        for at, each in enumerate(dirs):
            unique = self._rng.randbytes(16).hex()
            if at == best:
                continue
            log.warning("%s is in %s and in %s: the former is kept", key, dirs[best].path, each.path)
            if each.meta is not None and each.meta.directory_id == directory:
                each.unname_future(key, unique=unique)
            else:
                each.delete_log(key, unique=unique, now_ms=now_ms, delay_ms=0)
        return opened[best], dirs[best]

    # -- moving between directories (KIP-113)

    def directory_at(self, path: str) -> LogDir | None:
        """Return the log directory with this path, as it is configured or absolute; None where there is none."""
        wanted = os.path.abspath(path)
        return next((each for each in self._dirs if os.path.abspath(each.path) == wanted), None)

    def directory_of(self, path: str) -> LogDir | None:
        """Return the log directory in use that a file or folder lies in, or that this is; None where it is none's."""
        found = [each for each in self._opened() if path == each.path or path.startswith(join(each.path, ""))]
        return max(found, key=lambda each: len(each.path), default=None)

    def is_configured(self, path: str) -> bool:
        """Return whether a path is one of `log.dirs`, also where its disk has failed."""
        return os.path.abspath(path) in {os.path.abspath(each) for each in self._config.log_dirs}

    def prefer(self, key: TopicPartition, log_dir: LogDir) -> None:
        """Remember where a log is to be made that is not here yet."""
        self._preferred[key] = log_dir

    def future_of(self, key: TopicPartition) -> LogDir | None:
        """Return the directory that a copy of a log is on its way to, also where an earlier process has begun it."""
        return next((each for each in self.online if key in each.future_folders or key in each.futures), None)

    def open_future(self, key: TopicPartition, log_dir: LogDir, topic_id: Uuid, config: LogConfig) -> Log:
        """Open the copy of a log that is on its way to a directory, or make it; raises StorageError."""
        found = log_dir.futures.get(key)
        if found is not None:
            return found
        return log_dir.open_future(
            key,
            config,
            now_ms=self._clock.now_ms(),
            unique=self._rng.randbytes(16).hex(),
            topic_id=topic_id,
            rng=self._rng,
        )

    def drop_future(self, key: TopicPartition, log_dir: LogDir) -> None:
        """Give up the copy of a log that is on its way to a directory."""
        log_dir.drop_future(key, unique=self._rng.randbytes(16).hex(), now_ms=self._clock.now_ms())

    def delete_log(self, key: TopicPartition, log_dir: LogDir, *, delay_ms: int) -> None:
        """Set a partition's folder aside now; it is removed after a delay."""
        log_dir.delete_log(key, unique=self._rng.randbytes(16).hex(), now_ms=self._clock.now_ms(), delay_ms=delay_ms)

    def note_deleted(self, topic_ids: Collection[Uuid]) -> None:
        """Have a start remove the folders of deleted topics, should this process end before it sets all of them aside."""
        for log_dir in self.online:
            try:
                log_dir.note_deleted(topic_ids)
            except StorageError as error:  # they are kept then, as those of no known topic
                log.warning("Which topics are deleted cannot be written in %s: %s", log_dir.path, error)

    def take_deleted(self, now_ms: Millis) -> list[Callable[[], None]]:
        """Return what removes the folders whose delay is over, each to be called on a thread."""
        return [
            partial(delete_folder, self.disk, folder) for each in self.online for folder in each.take_doomed(now_ms)
        ]

    # -- failing

    def fail_metadata(self, error: StorageError) -> None:
        """End the node: its metadata log has failed, so that its directory must not pass for closed cleanly either."""
        assert self._metadata_dir is not None
        if not self.fail(self._metadata_dir, error):  # it had failed before, and the node with it
            self._on_failure(error)

    def fail(self, log_dir: LogDir, error: StorageError) -> bool:
        """Use a directory no more; return False where it had failed before."""
        if log_dir.path in self._failed:
            return False
        self._failed[log_dir.path] = error
        log.error("Log directory %s is offline from now on: %s", log_dir.path, error)
        self.on_offline()
        if not self.online or log_dir is self._metadata_dir:
            self._on_failure(error)
        return True
