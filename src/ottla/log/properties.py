"""The small text files that say whose data this is: `meta.properties` of a log directory, `partition.metadata` of a log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ottla.base import ZERO_UUID, CorruptionError, NodeId, Uuid, parse_uuid, uuid_text
from ottla.log.disk import Disk, join, replace_file
from ottla.log.flush_mark import FLUSH_MARK_FILE
from ottla.log.names import LOG, file_name
from ottla.wire import crc32c

__all__ = [
    "META_FILE",
    "PARTITION_METADATA_FILE",
    "MetaProperties",
    "Owner",
    "encode_topic_id",
    "owner_of",
    "read_meta",
    "read_topic_id",
    "write_meta",
]

META_FILE = "meta.properties"
PARTITION_METADATA_FILE = "partition.metadata"
META_VERSION = 1
CHECKSUM_MARK = b"\ncrc32c: "
CHECKSUM_LEN = 8
"""Hexadecimal digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """Identity of a log directory (KRaft, version 1)."""

    cluster_id: str
    node_id: NodeId
    directory_id: Uuid


def read_meta(disk: Disk, folder: str) -> MetaProperties | None:
    """Return a log directory's identity; None where it is not formatted. Raises CorruptionError for what is not whole."""
    path = join(folder, META_FILE)
    data = disk.read(path)
    if data is None:
        return None
    values = _parse(data)
    try:
        if int(values["version"]) != META_VERSION:
            raise CorruptionError(f"{path}: version {values['version']} is not known; {META_VERSION} is")
        return MetaProperties(
            cluster_id=values["cluster.id"],
            node_id=NodeId(int(values["node.id"])),
            directory_id=parse_uuid(values["directory.id"]),
        )
    except KeyError as error:
        raise CorruptionError(f"{path}: {error.args[0]} is missing") from error
    except ValueError as error:
        raise CorruptionError(f"{path}: {error}") from error


def write_meta(disk: Disk, folder: str, meta: MetaProperties) -> None:
    """Give a log directory its identity; durable on return."""
    lines = {
        "cluster.id": meta.cluster_id,
        "directory.id": uuid_text(meta.directory_id),
        "node.id": str(meta.node_id),
        "version": str(META_VERSION),
    }
    text = "#\n" + "".join(f"{key}={value}\n" for key, value in lines.items())
    replace_file(disk, join(folder, META_FILE), text.encode())


def _parse(data: bytes) -> dict[str, str]:
    values = {}
    for line in data.decode(errors="replace").splitlines():
        key, found, value = line.partition("=")
        if found and not line.lstrip().startswith(("#", "!")):
            values[key.strip()] = value.strip().replace("\\", "")  # Java escapes = and : in values
    return values


class Owner(Enum):
    """Whose log a folder holds, as far as its `partition.metadata` tells."""

    ASKED = "the topic's that was asked for, or nobody's"
    ANOTHER = "another topic's, as a checksum proves"
    UNPROVEN = "another topic's, or this one's: the file is gone, or as Kafka writes it, and nothing tells"


def owner_of(disk: Disk, folder: str, topic_id: Uuid) -> Owner:
    """Return whether a log's folder belongs to the topic with this id.

    Records that were never flushed, without the file, are nobody's: it becomes durable with the first flush, so nothing of
    them had been promised to outlast the machine, and after a loss of power they may be a deleted topic's, whose folder has
    its old name again. Kafka takes such a folder for a stray, too. Raises CorruptionError where the file names another topic
    and its checksum says that nobody has written that, so that it may be this one's log: nothing may be done with it by
    itself.
    """
    path = join(folder, PARTITION_METADATA_FILE)
    data = disk.read(path) or b""
    if _is_unwritten(data):
        return Owner.UNPROVEN if _has_unflushed_records(disk, folder) else Owner.ASKED
    found = _parsed_topic_id(path, data)
    if found is None or found == topic_id:
        return Owner.ASKED
    head, mark, checksum = data.partition(CHECKSUM_MARK)
    if len(checksum) < CHECKSUM_LEN:
        return Owner.UNPROVEN
    if not mark or checksum != b"%08x" % crc32c(head):
        raise CorruptionError(f"{path}: the topic id is damaged; {uuid_text(topic_id)} was expected", path)
    return Owner.ANOTHER


def read_topic_id(disk: Disk, folder: str) -> Uuid | None:
    """Return the topic id in a log's `partition.metadata`; None where there is none, or a start of it only.

    The file is made durable with the log's first flush. What a crash left of it until then counts as none: the cluster's
    metadata says it again. Raises CorruptionError for a version that is not known.
    """
    path = join(folder, PARTITION_METADATA_FILE)
    return _parsed_topic_id(path, disk.read(path) or b"")


def _has_unflushed_records(disk: Disk, folder: str) -> bool:
    """True where a log was written to, or does not begin at offset 0, and no flush has left its mark."""
    entries = {entry.name: entry.size for entry in disk.scan(folder)}
    if FLUSH_MARK_FILE in entries:
        return False
    return any(size or name != file_name(0, LOG) for name, size in entries.items() if name.endswith(LOG))


def _is_unwritten(data: bytes) -> bool:
    """True for what the process or the machine has left that stopped before the file was written."""
    return len(data) < TOPIC_ID_LEN or not any(data)


def _parsed_topic_id(path: str, data: bytes) -> Uuid | None:
    if _is_unwritten(data):
        return None
    values = dict(line.split(": ", 1) for line in data.decode(errors="replace").splitlines() if ": " in line)
    try:
        version, topic_id = int(values["version"]), parse_uuid(values["topic_id"])
    except (KeyError, ValueError):
        return None
    if version != 0:
        raise CorruptionError(f"{path}: version {version} is not known; 0 is")
    return topic_id


def encode_topic_id(topic_id: Uuid) -> bytes:
    """Return the content of a `partition.metadata`: Kafka's two lines, and a checksum of them in a third.

    Kafka reads the first two lines and nothing behind them.
    """
    text = _two_lines(topic_id)
    return text + CHECKSUM_MARK + b"%08x" % crc32c(text)


def _two_lines(topic_id: Uuid) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


TOPIC_ID_LEN = len(_two_lines(ZERO_UUID))
