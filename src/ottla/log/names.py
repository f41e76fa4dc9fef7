"""Names of the files in a log's folder, and of the folder."""

from __future__ import annotations

import re

from ottla.base import TopicPartition

__all__ = [
    "CLEANED",
    "DELETED",
    "INDEX",
    "LOG",
    "SNAPSHOT",
    "SWAP",
    "TIME_INDEX",
    "TXN_INDEX",
    "base_offset_of",
    "deleted_folder_name",
    "file_name",
    "future_folder_name",
    "is_deleted_folder",
    "is_stray_folder",
    "parse_folder_name",
    "parse_future_name",
    "stray_folder_name",
]

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
"""Ends the name of a file that is to be removed."""
CLEANED = ".cleaned"
"""Ends the name of what compaction has not finished."""
SWAP = ".swap"
"""Ends the name of what compaction has finished and not yet put in place."""

_OFFSET_NAME = re.compile(r"(\d{20})(\.(?:log|index|timeindex|txnindex|snapshot))")
_FOLDER = re.compile(r"(.+)-(\d+)")
_FUTURE_FOLDER = re.compile(r"(.+)-(\d+)\.\w+-future")
_DELETED_FOLDER = re.compile(r"(.+)-(\d+)\.(\S+)-(?:delete|stray|future)")
_NAME_MAX = 255


def file_name(offset: int, suffix: str) -> str:
    """Return the name of the file of this kind that begins at an offset."""
    return f"{offset:020d}{suffix}"


def base_offset_of(name: str) -> tuple[int, str] | None:
    """Return (offset, suffix) of a segment's file; None for any other name."""
    found = _OFFSET_NAME.fullmatch(name)
    return (int(found[1]), found[2]) if found else None


def parse_folder_name(name: str) -> TopicPartition | None:
    """Return the partition whose log a folder of this name holds; None where it holds none."""
    found = _FOLDER.fullmatch(name)
    return TopicPartition(found[1], int(found[2])) if found and not is_deleted_folder(name) else None


def parse_future_name(name: str) -> TopicPartition | None:
    """Return the partition of which a folder of this name holds a copy on its way here; None for any other name."""
    found = _FUTURE_FOLDER.fullmatch(name)
    return TopicPartition(found[1], int(found[2])) if found else None


def future_folder_name(partition: TopicPartition, unique: str) -> str:
    """Return the name of the folder in which a partition's log is copied from another log directory (KIP-113)."""
    suffix = f"-{partition.partition}.{unique}-future"
    return partition.topic[: _NAME_MAX - len(suffix)] + suffix


def is_deleted_folder(name: str) -> bool:
    """True for the folder of a log that is to be removed."""
    return name.endswith("-delete") and _DELETED_FOLDER.fullmatch(name) is not None


def deleted_folder_name(partition: TopicPartition, unique: str) -> str:
    """Return the name that a log's folder gets when its partition is deleted; a long topic name is cut to fit."""
    suffix = f"-{partition.partition}.{unique}-delete"
    return partition.topic[: _NAME_MAX - len(suffix)] + suffix


def is_stray_folder(name: str) -> bool:
    """True for the folder of a log of no known topic, which is kept until somebody removes it by hand."""
    return name.endswith("-stray") and _DELETED_FOLDER.fullmatch(name) is not None


def stray_folder_name(partition: TopicPartition, unique: str) -> str:
    """Return the name of the folder of a log that may be another topic's, as Kafka names it; a long topic name is cut."""
    suffix = f"-{partition.partition}.{unique}-stray"
    return partition.topic[: _NAME_MAX - len(suffix)] + suffix
