"""Where the logs of a directory begin, told twice: in Kafka's `log-start-offset-checkpoint`, and with a checksum beside it.

Kafka's file has no checksum: one of another day, or with a digit that has changed, hides records, and has their segments
removed. So the same is written to `log-start-offset-sums` first, durably, with a CRC-32C of it all; and that file is the one
that counts where it is whole. It never tells less than Kafka's: a kill between the two leaves it ahead.

Apache Kafka, and an earlier Ottla, write their checkpoint only. Whether the last one to have the directory knew of ours, its
end tells: `.ottla_cleanshutdown` has what `.kafka_cleanshutdown` has, and both go at a start. Where the one is there without
the other, or they differ, somebody else has been here; then the checkpoint is believed as Kafka believes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.base import CorruptionError, Offset, TopicPartition
from ottla.log.checkpoints import offsets_in, offsets_text, read_offsets, write_offsets
from ottla.log.disk import Disk, join, replace_file
from ottla.wire import crc32c

__all__ = [
    "CLEAN_SHUTDOWN_FILE",
    "OWN_END_FILE",
    "START_OFFSETS",
    "Starts",
    "forget_starts",
    "read_starts",
    "write_starts",
]

CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
OWN_END_FILE: Final = ".ottla_cleanshutdown"
START_OFFSETS: Final = "log-start-offset-checkpoint"
SUMS_FILE: Final = "log-start-offset-sums"
SHOWN_MAX: Final = 10
"""Logs that a line names."""


@dataclass(frozen=True, slots=True)
class Starts:
    """Where logs begin; one that is not named begins at 0, or with its first segment."""

    offsets: Mapping[TopicPartition, Offset]
    is_ours: bool
    """True where the last one to have the directory was an Ottla that knows of the sums."""
    notes: tuple[str, ...] = ()
    """What is not believed, and what is believed without a proof, a line each."""


def read_starts(disk: Disk, path: str) -> Starts:
    """Return where the logs of a directory begin, before the marks of its last end are removed. Raises StorageError."""
    is_ours = disk.read(join(path, CLEAN_SHUTDOWN_FILE)) == disk.read(join(path, OWN_END_FILE))
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
    text = offsets_text(offsets)
    replace_file(disk, join(path, SUMS_FILE), b"%scrc32c %d\n" % (text, crc32c(text)))
    write_offsets(disk, join(path, START_OFFSETS), offsets)


def forget_starts(disk: Disk, path: str) -> None:
    """Let the sums say nothing any more, durably: somebody else has moved starts since. Raises StorageError."""
    if disk.exists(join(path, SUMS_FILE)):
        disk.unlink(join(path, SUMS_FILE))
        disk.fsync_dir(path)


def _read_sums(disk: Disk, path: str) -> dict[TopicPartition, Offset] | None:
    text, found, crc = (disk.read(join(path, SUMS_FILE)) or b"").rpartition(b"crc32c ")
    if not found or not crc.strip().isdigit() or int(crc) != crc32c(text):
        return None
    return offsets_in(text, join(path, SUMS_FILE))


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
