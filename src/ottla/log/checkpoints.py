"""Kafka's checkpoint files: a version, a count, and a line per entry.

`<topic> <partition> <offset>` in the checkpoints of a log directory (recovery points, high watermarks, log start offsets,
cleaned offsets), `<epoch> <start offset>` in a log's `leader-epoch-checkpoint`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.base import CorruptionError, Offset, TopicPartition
from ottla.log.disk import Disk, replace_file

__all__ = ["OFFSET_MAX", "encode_checkpoint", "parse_checkpoint", "read_offsets", "write_offsets"]

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


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, Offset]:
    """Return a log directory's checkpoint; empty where there is no file."""
    data = disk.read(path)
    if not data:
        return {}
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


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a log directory's checkpoint; it is durable on return, and a crash leaves the old one or the new."""
    replace_file(disk, path, encode_checkpoint(f"{each.topic} {each.partition} {offsets[each]}" for each in offsets))
