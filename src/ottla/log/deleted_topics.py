"""Topics whose folders are being set aside a few at a time: `deleted-topics` in a log directory.

A process that is killed in the middle leaves folders under their own names, of which the metadata says nothing any more.
Alone that proves nothing: the metadata may have been lost. So the ids of topics that it said are deleted are written here
before the first of their folders is set aside. A line for each, and its CRC-32C::

    TOPIC-ID  CRC
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.base import Uuid, parse_uuid, uuid_text
from ottla.log.disk import Disk, join, replace_file
from ottla.wire import crc32c

__all__ = ["forget_deleted_topics", "read_deleted_topics", "write_deleted_topics"]

DELETED_TOPICS_FILE: Final = "deleted-topics"
TOPICS_MAX: Final = 10_000
"""Topics that are told of: the latest. Folders of others are kept as those of no known topic."""


def write_deleted_topics(disk: Disk, path: str, topic_ids: Iterable[Uuid]) -> None:
    """Say which topics of a log directory are deleted, latest last; it outlasts the process. Raises StorageError."""
    lines = [uuid_text(each).encode() for each in topic_ids][-TOPICS_MAX:]
    data = b"".join([b"%s %d\n" % (line, crc32c(line)) for line in lines])
    replace_file(disk, join(path, DELETED_TOPICS_FILE), data, durable=False)


def read_deleted_topics(disk: Disk, path: str) -> frozenset[Uuid]:
    """Return the topics that an earlier process said are deleted; a line that is not whole says nothing."""
    found = set()
    for line in (disk.read(join(path, DELETED_TOPICS_FILE)) or b"").split(b"\n"):
        text, _, crc = line.rpartition(b" ")
        if crc.isdigit() and int(crc) == crc32c(text):
            found.add(parse_uuid(text.decode(errors="replace")))
    return frozenset(found)


def forget_deleted_topics(disk: Disk, path: str) -> None:
    """Remove the file, if there is one; raises StorageError."""
    disk.unlink(join(path, DELETED_TOPICS_FILE))
