"""Kafka's checkpoint files: a version, a count, and a line per entry; and Ottla's own files beside them.

`<topic> <partition> <offset>` in the checkpoints of a log directory (recovery points, high watermarks, log start offsets,
cleaned offsets), `<epoch> <start offset>` in a log's `leader-epoch-checkpoint`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.base import CorruptionError, Offset, TopicPartition, Uuid, parse_uuid, uuid_text
from ottla.log.disk import TEMPORARY, Disk, join, replace_file
from ottla.wire import crc32c

__all__ = [
    "CLEAN_SHUTDOWN_FILE",
    "OFFSET_MAX",
    "OWN_END_FILE",
    "START_OFFSETS",
    "Starts",
    "encode_checkpoint",
    "forget_deleted_topics",
    "forget_starts",
    "parse_checkpoint",
    "read_deleted_topics",
    "read_offsets",
    "read_starts",
    "seal_starts",
    "write_deleted_topics",
    "write_offsets",
    "write_starts",
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


def _offsets_in(data: bytes, path: str) -> dict[TopicPartition, Offset]:
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


def _offsets_text(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the content of a log directory's checkpoint."""
    return encode_checkpoint(f"{each.topic} {each.partition} {offsets[each]}" for each in offsets)


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, Offset]:
    """Return a log directory's checkpoint; empty where there is no file."""
    data = disk.read(path)
    return _offsets_in(data, path) if data else {}


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a log directory's checkpoint; it is durable on return, and a crash leaves the old one or the new."""
    replace_file(disk, path, _offsets_text(offsets))


# -- where logs begin, told twice
#
# Kafka's file has no checksum: one of another day, or with a digit that has changed, hides records, and has their segments
# removed. So the same is written to `log-start-offset-sums` first, durably, with a CRC-32C of it all; and that file is the
# one that counts where it is whole. It never tells less than Kafka's: a kill between the two leaves it ahead.
#
# Apache Kafka, and an earlier Ottla, write their checkpoint only. Whether the last one to have the directory knew of ours,
# its end tells: `.ottla_cleanshutdown` has what `.kafka_cleanshutdown` has, and both go at a start. Where the one is there
# without the other, or they differ, somebody else has been here; then the checkpoint is believed as Kafka believes it.
# Where neither is there, Ottla was killed, and so may Kafka have been behind it. Kafka writes its checkpoint under the name
# `log-start-offset-checkpoint.tmp` first, and renames that: so a file of ours has this name, which is gone when Kafka has
# written where logs begin, or an earlier Ottla.

CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
OWN_END_FILE: Final = ".ottla_cleanshutdown"
START_OFFSETS: Final = "log-start-offset-checkpoint"
SUMS_FILE: Final = "log-start-offset-sums"
SEAL_FILE: Final = START_OFFSETS + TEMPORARY
"""Gone as soon as another one writes the checkpoint."""
OWN_TEMPORARY: Final = ".new"
SEAL: Final = b"Apache Kafka takes this file away when it writes log-start-offset-checkpoint, and Ottla looks for it.\n"
SHOWN_MAX: Final = 10
"""Logs that a line names."""


@dataclass(frozen=True, slots=True)
class Starts:
    """Where logs begin; one that is not named begins at 0, or with its first segment."""

    offsets: Mapping[TopicPartition, Offset]
    is_ours: bool
    """True where the last one to say where logs begin was an Ottla that knows of the sums."""
    notes: tuple[str, ...] = ()
    """What is not believed, and what is believed without a proof, a line each."""


def read_starts(disk: Disk, path: str) -> Starts:
    """Return where the logs of a directory begin, before the marks of its last end are removed. Raises StorageError."""
    mark = disk.read(join(path, CLEAN_SHUTDOWN_FILE))
    is_ours = mark == disk.read(join(path, OWN_END_FILE)) and (mark is not None or _is_sealed(disk, path))
    try:
        stored = read_offsets(disk, join(path, START_OFFSETS))
    except CorruptionError:
        stored = {}
    told = _read_sums(disk, path) if is_ours else None
    if told is not None:
        return Starts(told, is_ours, _not_believed(path, stored, told))
    if not stored:
        return Starts(stored, is_ours)
    note = (
        f"{START_OFFSETS} in {path} was written by Apache Kafka or an earlier version, or {SUMS_FILE} is damaged: it is "
        f"believed without a checksum, where it says that {_shown(stored)}"
    )
    return Starts(stored, is_ours, (note,))


def write_starts(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Store where logs begin, durably; raises StorageError, and then the next start finds this or what was there before."""
    text = _offsets_text(offsets)
    replace_file(disk, join(path, SUMS_FILE), b"%scrc32c %d\n" % (text, crc32c(text)))
    replace_file(disk, join(path, START_OFFSETS), text, temporary=join(path, START_OFFSETS + OWN_TEMPORARY))
    seal_starts(disk, path)


def seal_starts(disk: Disk, path: str) -> None:
    """Have the sums count at the next start too, unless another one writes the checkpoint before. Raises StorageError."""
    if disk.exists(join(path, SUMS_FILE)) and not _is_sealed(disk, path):
        replace_file(disk, join(path, SEAL_FILE), SEAL)


def _is_sealed(disk: Disk, path: str) -> bool:
    return disk.read(join(path, SEAL_FILE)) == SEAL


def forget_starts(disk: Disk, path: str) -> None:
    """Let the sums say nothing any more, durably: somebody else has moved starts since. Raises StorageError."""
    if disk.exists(join(path, SUMS_FILE)):
        disk.unlink(join(path, SUMS_FILE))
        disk.fsync_dir(path)


def _read_sums(disk: Disk, path: str) -> dict[TopicPartition, Offset] | None:
    text, found, crc = (disk.read(join(path, SUMS_FILE)) or b"").rpartition(b"crc32c ")
    if not found or crc != b"%d\n" % crc32c(text):
        return None
    return _offsets_in(text, join(path, SUMS_FILE))


def _not_believed(
    path: str, stored: Mapping[TopicPartition, int], told: Mapping[TopicPartition, int]
) -> tuple[str, ...]:
    """Return a line where the checkpoint says more than was ever written to it; less is what a kill leaves."""
    beyond = {each: offset for each, offset in stored.items() if offset > told.get(each, 0)}
    if not beyond:
        return ()
    right = {each: told.get(each, 0) for each in beyond}
    return (
        f"{START_OFFSETS} in {path} is not believed where it says that {_shown(beyond)}: {SUMS_FILE} says that "
        f"{_shown(right)}; nothing is to be done, it is written anew",
    )


def _shown(offsets: Mapping[TopicPartition, int]) -> str:
    names = sorted(offsets, key=str)
    listed = ", ".join(f"{each} begins at {offsets[each]}" for each in names[:SHOWN_MAX])
    return listed if len(names) <= SHOWN_MAX else f"{listed} and {len(names) - SHOWN_MAX} more"


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
        if crc == b"%d" % crc32c(text):
            found.add(parse_uuid(text.decode(errors="replace")))
    return frozenset(found)


def forget_deleted_topics(disk: Disk, path: str) -> None:
    """Remove the file, if there is one; raises StorageError."""
    disk.unlink(join(path, DELETED_TOPICS_FILE))
