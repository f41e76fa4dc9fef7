"""Kafka's checkpoint files: a version, a count, and a line per entry; and Ottla's own `deleted-topics`.

`<topic> <partition> <offset>` in the checkpoints of a log directory (recovery points, high watermarks, log start offsets,
cleaned offsets), `<epoch> <start offset>` in a log's `leader-epoch-checkpoint`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.base import CorruptionError, Offset, TopicPartition, Uuid, parse_uuid, uuid_text
from ottla.log.disk import Disk, join, replace_file
from ottla.wire import crc32c

__all__ = [
    "OFFSET_MAX",
    "encode_checkpoint",
    "forget_deleted_topics",
    "offsets_in",
    "offsets_text",
    "parse_checkpoint",
    "read_deleted_topics",
    "read_offsets",
    "write_deleted_topics",
    "write_offsets",
]

VERSION = 0
OFFSET_MAX = (1 << 63) - 1


def encode_checkpoint(lines: Iterable[str]) -> bytes:
    """Return a checkpoint file's content."""
    rows = list(lines)
    return "\n".join([str(VERSION), str(len(rows)), *rows, ""]).encode()


def parse_checkpoint(data: bytes, path: str) -> list[list[str]]:
    """Return each entry's words; raises CorruptionError for anything that is not a whole checkpoint."""
    try:
        lines = data.decode().splitlines()
        version, count = int(lines[0]), int(lines[1])
        rows = [line.split() for line in lines[2:] if line]
    except (ValueError, IndexError) as error:
        raise CorruptionError(f"{path}: malformed checkpoint file") from error
    if version != VERSION:
        raise CorruptionError(f"{path}: checkpoint version {version} is not known")
    if len(rows) != count:
        raise CorruptionError(f"{path}: {count} entries are announced, {len(rows)} are there")
    return rows


def offsets_in(data: bytes, path: str) -> dict[TopicPartition, Offset]:
    """Return what the content of a log directory's checkpoint says; raises CorruptionError where it is not whole."""
    try:
        found = {
            TopicPartition(topic, int(partition)): Offset(int(offset))
            for topic, partition, offset in parse_checkpoint(data, path)
        }
    except ValueError as error:
        raise CorruptionError(f"{path}: malformed line in checkpoint file") from error
    if any(not 0 <= offset <= OFFSET_MAX or each.partition < 0 for each, offset in found.items()):
        raise CorruptionError(f"{path}: an offset or a partition that cannot be")
    return found


def offsets_text(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the content of a log directory's checkpoint."""
    return encode_checkpoint(f"{each.topic} {each.partition} {offsets[each]}" for each in offsets)


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, Offset]:
    """Return a log directory's checkpoint; empty where there is no file."""
    data = disk.read(path)
    return offsets_in(data, path) if data else {}


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a log directory's checkpoint; it is durable on return, and a crash leaves the old one or the new."""
    replace_file(disk, path, offsets_text(offsets))


# -- topics that are deleted

DELETED_TOPICS_FILE: Final = "deleted-topics"
"""Topics whose folders are being set aside a few at a time, a line with the id and its CRC-32C for each. A process that is
killed in the middle leaves folders of which the metadata says nothing any more. Alone that proves nothing, since the
metadata may have been lost: so what it said is written before the first folder is set aside."""
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
