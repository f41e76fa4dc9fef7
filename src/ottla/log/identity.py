"""Giving a new log its `partition.metadata`: the logs of a topic that are made together share a file, by a name for each.

A file of its own costs each log an inode, which on a busy disk takes as long as its folder, and an fsync that has something
to write. Nobody writes into such a file once it is there: who has to, replaces the name.
"""

from __future__ import annotations

from typing import Final

from ottla.base import Uuid
from ottla.log.disk import Disk, join
from ottla.log.properties import PARTITION_METADATA_FILE, encode_topic_id

__all__ = ["Identities", "write_topic_id"]

NAMES_MAX: Final = 128
"""Names of one file: what a damaged one costs stays bounded, and every file system allows as many."""


class Identities:
    """The file that was written last in a log directory, of which new logs of the same topic take a name."""

    __slots__ = ("_disk", "_left", "_path", "_topic_id")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._topic_id: Uuid | None = None
        self._path = ""
        self._left = 0

    def give(self, folder: str, topic_id: Uuid) -> None:
        """Let a log that has no `partition.metadata` have one; it is durable with the log's first flush.

        Raises StorageError, and then the log may have a file without content.
        """
        path = join(folder, PARTITION_METADATA_FILE)
        if topic_id == self._topic_id and self._left and self._disk.link(self._path, path):
            self._left -= 1
            return
        self.forget()
        write_topic_id(self._disk, folder, topic_id)
        self._topic_id, self._path, self._left = topic_id, path, NAMES_MAX - 1

    def forget(self) -> None:
        """Take no more names of that file: a folder has got another name, or goes, and the path may be another log's."""
        self._topic_id = None


def write_topic_id(disk: Disk, folder: str, topic_id: Uuid) -> None:
    """Write a log's `partition.metadata`, where there is none; raises StorageError."""
    file = disk.open(join(folder, PARTITION_METADATA_FILE), create=True)
    try:
        file.pwrite(0, encode_topic_id(topic_id))
    finally:
        file.close()
