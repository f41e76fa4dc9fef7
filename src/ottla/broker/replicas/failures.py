"""What a failure of the disk costs: decided here, and nowhere else in the broker.

::

    what failed                                              what it costs
    NoSpaceError: bytes, inodes, quota, descriptors          the answer; nothing happened, it may be asked again
    a record, or a batch's records, that cannot be decoded   nothing: brokers hand them out as they are
    CorruptionError: bytes that are not what was written     the partition's answer, which says CORRUPT_MESSAGE; the rest
                                                             of the partition is served
    MissingFileError: a file of a partition vanished         the partition: it is offline until a restart, and the
                                                             controller is told, so that another copy leads
    MissingFileError: a file that was set aside meanwhile    the answer
    any failure in a partition that is held no longer        nothing
    any other StorageError (EIO, EROFS, ...)                 the log directory that has the path: all in it is offline;
    a log directory that vanished                            as that
    the same in the metadata log, or in the last directory   the node; a metadata log without room is the driver's `room`

The path decides, not what was worked for: to move a replica off a failing disk touches two of them. A failure whose path
lies in no log directory costs the answer. What a partition's files have shown stays visible (`LocalPartition.damage`) in
metrics, DescribeLogDirs and `ottla doctor` until a restart, or until the damaged file is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum

from ottla.base import CorruptionError, ErrorCode, MissingFileError, NoSpaceError, StorageError
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.storage import Storage
from ottla.log import LogDir, join

__all__ = ["Cost", "Failures", "code_of"]

log = logging.getLogger(__name__)

IDENTITY = "meta.properties"
"""Every log directory has it: where it is gone, so is the directory, or the disk that was mounted there."""


class Cost(Enum):
    """What a failure costs, the least first."""

    NOTHING = "nothing"
    ANSWER = "answer"
    DAMAGE = "damage"
    PARTITION = "partition"
    DIRECTORY = "directory"


def code_of(error: StorageError) -> ErrorCode:
    """Return how a read of a partition is answered that met this failure."""
    return ErrorCode.CORRUPT_MESSAGE if isinstance(error, CorruptionError) else ErrorCode.KAFKA_STORAGE_ERROR


class Failures:
    """The judge of one broker; `dir_failed` takes everything in a directory offline, `partition_failed` one partition."""

    def __init__(
        self,
        storage: Storage,
        *,
        is_held: Callable[[LocalPartition], bool],
        dir_failed: Callable[[LogDir, StorageError], None],
        partition_failed: Callable[[LocalPartition], None],
    ) -> None:
        self._storage = storage
        self._is_held = is_held
        self._dir_failed = dir_failed
        self._partition_failed = partition_failed

    def met(self, error: StorageError, partition: LocalPartition | None = None) -> ErrorCode:
        """Let a failure cost what it costs; `partition` is the one that was worked for. Returns `code_of` it."""
        cost, log_dir = self._judge(error, partition)
        if cost is Cost.DIRECTORY:
            assert log_dir is not None
            self._dir_failed(log_dir, error)
        elif cost is Cost.PARTITION:
            assert partition is not None
            log.error("Partition %s is offline from now on: %s", partition.key, error)
            partition.damage = error
            self._partition_failed(partition)
        elif cost is Cost.DAMAGE:
            assert partition is not None
            if partition.damage is None or str(partition.damage) != str(error):  # once, however often it is read
                log.error("Partition %s is damaged, and served where it is not: %s", partition.key, error)
            partition.damage = error
        else:
            level = logging.DEBUG if cost is Cost.NOTHING else logging.WARNING
            log.log(
                level, "%s failed, which costs no more: %s", "A request" if partition is None else partition.key, error
            )
        return code_of(error)

    def cost_of(self, error: StorageError, partition: LocalPartition | None = None) -> Cost:
        """Return what a failure would cost."""
        return self._judge(error, partition)[0]

    def _judge(self, error: StorageError, partition: LocalPartition | None) -> tuple[Cost, LogDir | None]:
        if partition is not None and not self._is_held(partition):
            return Cost.NOTHING, None
        if isinstance(error, NoSpaceError):
            return Cost.ANSWER, None
        if isinstance(error, CorruptionError):
            return (Cost.ANSWER if partition is None else Cost.DAMAGE), None
        log_dir = self._storage.directory_of(error.path)
        if log_dir is None:
            return Cost.ANSWER, None
        if not isinstance(error, MissingFileError) or self._is_gone(join(log_dir.path, IDENTITY)):
            return Cost.DIRECTORY, log_dir
        return (Cost.PARTITION if partition is not None and self._is_lost(partition, error.path) else Cost.ANSWER), None

    def _is_lost(self, partition: LocalPartition, path: str) -> bool:
        """Return whether a partition's file is missing indeed, and was not set aside or put in place meanwhile."""
        own = any(path in segment.paths() for segment in partition.log.segments)
        return self._is_gone(path if own else partition.log.folder)

    def _is_gone(self, path: str) -> bool:
        try:
            return not self._storage.disk.exists(path)
        except StorageError:
            return False
