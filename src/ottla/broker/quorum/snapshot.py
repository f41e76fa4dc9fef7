"""Snapshots of cluster metadata as files: record batches between a header and a footer (KIP-630), as Kafka writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ottla.base import CorruptionError, KafkaError, LeaderEpoch, Offset
from ottla.log import Disk, join
from ottla.metadata import EMPTY_IMAGE, Image, Record, apply_all, lowered, snapshot_records
from ottla.raft import SnapshotId, VoterHistory, control_batch, observed, read_batches, record_batch
from ottla.wire import (
    ControlType,
    control_type,
    decode_metadata_record,
    encode,
    encode_metadata_record,
    iter_batch_records,
)
from ottla.wire.messages.snapshot_footer_record import SnapshotFooterRecord
from ottla.wire.messages.snapshot_header_record import SnapshotHeaderRecord

__all__ = [
    "BOOTSTRAP_FILE",
    "FORMAT_SNAPSHOT",
    "Snapshot",
    "encode_records",
    "image_chunks",
    "list_snapshots",
    "read_records",
    "read_snapshot",
    "snapshot_chunks",
    "snapshot_name",
]

BOOTSTRAP_FILE = "bootstrap.checkpoint"
"""What formatting leaves for the first leader, in the folder above the log's."""

FORMAT_SNAPSHOT = SnapshotId()
"""The snapshot that formatting leaves: no record yet, only who votes."""

RECORDS_PER_CHUNK = 500
"""Records encoded before others get the loop again: about two milliseconds of Python."""

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a snapshot holds: the image, and the voters where the quorum records them."""

    image: Image
    voters: VoterHistory | None


def snapshot_name(snapshot: SnapshotId) -> str:
    """Return the file's name: end offset and epoch."""
    return f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"


def list_snapshots(disk: Disk, folder: str) -> list[tuple[SnapshotId, int]]:
    """Return the whole snapshots of a folder with their sizes, oldest first."""
    found = []
    for entry in disk.scan(folder):
        match = _NAME.fullmatch(entry.name)
        if match:
            found.append((SnapshotId(Offset(int(match[1])), LeaderEpoch(int(match[2]))), entry.size))
    return sorted(found)


def encode_records(records: Iterable[Record], metadata_version: int) -> list[bytes]:
    """Return records as values of the metadata log, each in the version that this `metadata.version` has."""
    return [encode_metadata_record(*lowered(each, metadata_version)) for each in records]


def snapshot_chunks(
    records: Iterable[Record], *, metadata_version: int, voters: VoterHistory | None, timestamp: int, written_at: int
) -> Iterator[bytes]:
    """Yield a snapshot's bytes, batch by batch; `timestamp` is that of the last record of the log that it holds."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=timestamp)
    head = [(ControlType.SNAPSHOT_HEADER, encode(header, 0)), *(voters.as_records() if voters else ())]
    yield control_batch(head, 0, 0, written_at)
    offset = len(head)
    waiting: list[Record] = []
    for record in records:
        waiting.append(record)
        if len(waiting) == RECORDS_PER_CHUNK:
            yield record_batch(encode_records(waiting, metadata_version), offset, 0, written_at)
            offset += len(waiting)
            waiting = []
    if waiting:
        yield record_batch(encode_records(waiting, metadata_version), offset, 0, written_at)
        offset += len(waiting)
    yield control_batch(
        [(ControlType.SNAPSHOT_FOOTER, encode(SnapshotFooterRecord(version=0), 0))], offset, 0, written_at
    )


def image_chunks(image: Image, voters: VoterHistory, *, timestamp: int, written_at: int) -> Iterator[bytes]:
    """Yield the bytes of an image's snapshot."""
    return snapshot_chunks(
        snapshot_records(image),
        metadata_version=image.metadata_version,
        voters=voters,
        timestamp=timestamp,
        written_at=written_at,
    )


def read_records(data: bytes, what: str) -> tuple[list[Record], VoterHistory | None]:
    """Return a snapshot's records and voters; raises CorruptionError where it is not whole."""
    start = VoterHistory()
    voters = start
    records: list[Record] = []
    ended = False
    try:
        for batch in read_batches(data):
            if batch.header.is_control:
                voters = observed(voters, batch)
                kinds = [control_type(each.key) for each in iter_batch_records(batch.data, 0, batch.header)]
                ended = ControlType.SNAPSHOT_FOOTER in kinds
            else:
                records += decoded(iter_batch_records(batch.data, 0, batch.header))
    except KafkaError as error:
        raise CorruptionError(f"{what}: {error}") from error
    if not ended:
        raise CorruptionError(f"{what}: no footer at its end")
    return records, None if voters is start else VoterHistory(voters.eras[-1:])


def decoded(records: Iterable[object]) -> list[Record]:
    """Return the metadata records that log records hold."""
    return [decode_metadata_record(each.value)[0] for each in records]  # type: ignore[attr-defined]


def read_snapshot(disk: Disk, folder: str, snapshot: SnapshotId) -> Snapshot:
    """Return what a snapshot of a folder holds; raises CorruptionError where it is missing or not whole."""
    path = join(folder, snapshot_name(snapshot))
    data = disk.read(path)
    if data is None:
        raise CorruptionError(f"{path}: no such snapshot")
    records, voters = read_records(data, path)
    offset = Offset(snapshot.end_offset - 1)
    image = apply_all(EMPTY_IMAGE, records, Offset(0), snapshot.epoch) if records else EMPTY_IMAGE
    image = replace(image, offset=offset, epoch=snapshot.epoch)
    if voters is not None:
        voters = VoterHistory.starting(
            voters.latest,
            kraft_version=voters.kraft_version,
            offset=-1 if snapshot == FORMAT_SNAPSHOT else offset,
        )
    return Snapshot(image, voters)
