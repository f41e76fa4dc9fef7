"""`.snapshot` files: the producers' state at an offset, which is the file's name.

::

    offset bytes field
         0     2 version                     1
         2     4 CRC-32C                     of everything from offset 6 on
         6     4 count of entries
               8 producer id
               2 producer epoch
               4 last sequence
               8 last offset
               4 last offset delta           of the last batch: its records, less one
               8 timestamp
               4 coordinator epoch
               8 first offset of the open transaction, or -1

Only a producer's last batch is kept, so after a restart a duplicate of an earlier one is out of order instead, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from ottla.base import CorruptionError
from ottla.log.disk import Disk, overwrite
from ottla.log.producers import BatchMark, ProducerEntry
from ottla.wire import crc32c

__all__ = ["decode_snapshot", "encode_snapshot", "write_snapshot"]

VERSION = 1
HEAD = Struct(">hIi")
CRC_END = 6
ENTRY = Struct(">qhiqiqiq")


NO_BATCH = BatchMark(-1, -1, 0, -1)


def encode_snapshot(producers: Iterable[tuple[int, ProducerEntry]]) -> bytes:
    """Return the file's content, of each producer's id and state."""
    rows = []
    for producer_id, entry in producers:
        last = entry.batches[-1] if entry.batches else NO_BATCH
        rows.append(
            ENTRY.pack(
                producer_id,
                entry.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_offset,
            )
        )
    body = len(rows).to_bytes(4, "big") + b"".join(rows)
    return HEAD.pack(VERSION, crc32c(body), len(rows)) + body[4:]


def decode_snapshot(data: bytes, path: str) -> list[tuple[int, ProducerEntry]]:
    """Return (producer id, state) of each entry; raises CorruptionError."""
    if len(data) < HEAD.size:
        raise CorruptionError(f"{path}: {len(data)} bytes are no producer snapshot")
    version, crc, count = HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptionError(f"{path}: version {version} of a producer snapshot is not known")
    if crc32c(data[CRC_END:]) != crc:
        raise CorruptionError(f"{path}: Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}")
    if len(data) != HEAD.size + count * ENTRY.size:
        raise CorruptionError(f"{path}: {count} producers do not fill {len(data)} bytes")
    return [_entry(*row) for row in ENTRY.iter_unpack(data[HEAD.size :])]


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction_offset: int,
) -> tuple[int, ProducerEntry]:
    entry = ProducerEntry()
    entry.epoch = epoch
    entry.coordinator_epoch = coordinator_epoch
    entry.last_timestamp = timestamp
    entry.transaction_offset = transaction_offset
    if last_offset >= 0:
        entry.batches = (BatchMark(last_sequence, last_offset, offset_delta, timestamp),)
    return producer_id, entry


def write_snapshot(disk: Disk, path: str, data: bytes) -> None:
    """Write an encoded snapshot, without waiting for the device: a torn one fails its checksum, and an older one serves."""
    file = disk.open(path, create=True)
    try:
        overwrite(file, data)
    finally:
        file.close()
