"""Fetch as a follower speaks it, by hand: the request's writer and the response's reader, versions 13 to 18.

What a follower appends is a view of the frame that was received: nothing is copied. The bytes equal those of the generated
`ottla.wire.messages.fetch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from ottla.base import WireError
from ottla.wire.hot_primitives import read_count, read_uvarint, skip_tags, truncated, uvarint

__all__ = ["REPLICA_FETCH_VERSIONS", "ReplicaFetched", "ReplicaFetchedPartition", "read_replica_fetch", "replica_fetch"]

REPLICA_FETCH_VERSIONS = (13, 18)
"""From 13 on topics go by their ids (KIP-516)."""
REPLICA_STATE_FROM = 15
FETCH = 1

_header = Struct(">hhih")
_head_v13 = Struct(">iiiibii")
_head_v15 = Struct(">iiibii")
_pack_partition = Struct(">iiqiqiB").pack
_pack_int32 = Struct(">i").pack
_pack_size_into = Struct(">i").pack_into
_pack_replica_state = Struct(">BBBiqB").pack
_read_head = Struct(">ihi").unpack_from
_read_partition = Struct(">ihqqq").unpack_from
_partition_size = 30
_read_epoch_end = Struct(">iq").unpack_from

FetchedFrom = tuple[int, int, int, int, int, int]
"""What is asked of a partition: index, leader epoch, offset, epoch of the last record, log start, bytes at most."""


def replica_fetch(
    version: int,
    correlation_id: int,
    client_id: str,
    topics: Mapping[bytes, Sequence[FetchedFrom]],
    forgotten: Mapping[bytes, Sequence[int]],
    *,
    replica_id: int,
    broker_epoch: int,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    session_id: int,
    session_epoch: int,
) -> bytearray:
    """Return a follower's request, with its 4-byte length and header; topics are keyed by id."""
    name = client_id.encode()
    out = bytearray(4)
    out += _header.pack(FETCH, version, correlation_id, len(name))
    out += name
    out.append(0)
    if version >= REPLICA_STATE_FROM:
        out += _head_v15.pack(max_wait_ms, min_bytes, max_bytes, 0, session_id, session_epoch)
    else:
        out += _head_v13.pack(replica_id, max_wait_ms, min_bytes, max_bytes, 0, session_id, session_epoch)
    out += uvarint(len(topics) + 1)
    for topic_id, partitions in topics.items():
        out += topic_id
        out += uvarint(len(partitions) + 1)
        for index, leader_epoch, offset, last_epoch, log_start, partition_max_bytes in partitions:
            out += _pack_partition(index, leader_epoch, offset, last_epoch, log_start, partition_max_bytes, 0)
        out.append(0)
    out += uvarint(len(forgotten) + 1)
    for topic_id, indexes in forgotten.items():
        out += topic_id
        out += uvarint(len(indexes) + 1)
        for index in indexes:
            out += _pack_int32(index)
        out.append(0)
    out.append(1)  # the rack is empty
    if version >= REPLICA_STATE_FROM:
        out += _pack_replica_state(1, 1, 13, replica_id, broker_epoch, 0)
    else:
        out.append(0)
    _pack_size_into(out, 0, len(out) - 4)
    return out


class ReplicaFetchedPartition(NamedTuple):
    """What a leader answers of one partition; -1 for the diverging epoch where the logs agree."""

    topic_id: bytes
    partition: int
    error: int
    high_watermark: int
    log_start_offset: int
    records: memoryview
    diverging_epoch: int
    diverging_end: int


class ReplicaFetched(NamedTuple):
    """A leader's answer."""

    throttle_time_ms: int
    error: int
    session_id: int
    partitions: list[ReplicaFetchedPartition]


def read_replica_fetch(frame: memoryview, version: int) -> ReplicaFetched:
    """Read an answer's frame, without its length; WireError where it is malformed. `records` are views of the frame."""
    try:
        return _read(frame, version)
    except (IndexError, StructError) as error:
        raise WireError(f"malformed Fetch response: {error}") from error


def _read(frame: memoryview, version: int) -> ReplicaFetched:
    pos = skip_tags(frame, 4)
    throttle_time_ms, error, session_id = _read_head(frame, pos)
    pos += 10
    count, pos = read_count(frame, pos, True)
    found: list[ReplicaFetchedPartition] = []
    while count > 0:
        count -= 1
        topic_id = bytes(frame[pos : pos + 16])
        pos += 16
        size, pos = read_count(frame, pos, True)
        while size > 0:
            size -= 1
            partition, pos = _read_fetched(frame, pos, topic_id)
            found.append(partition)
        pos = skip_tags(frame, pos)
    skip_tags(frame, pos)
    return ReplicaFetched(throttle_time_ms, error, session_id, found)


def _read_fetched(frame: memoryview, pos: int, topic_id: bytes) -> tuple[ReplicaFetchedPartition, int]:
    index, error, high_watermark, _, log_start_offset = _read_partition(frame, pos)
    pos += _partition_size
    aborted, pos = read_count(frame, pos, True)
    while aborted > 0:  # a follower finds them in the records
        aborted -= 1
        pos = skip_tags(frame, pos + 16)
    pos += 4
    size, pos = read_uvarint(frame, pos)
    size -= 1
    end = pos + size if size > 0 else pos
    if end > len(frame):
        raise truncated()
    records = frame[pos:end]
    pos = end
    epoch, end_offset = -1, -1
    if frame[pos] == 0:
        pos += 1
    else:
        tags, pos = read_uvarint(frame, pos)
        while tags > 0:
            tags -= 1
            tag, pos = read_uvarint(frame, pos)
            tag_size, pos = read_uvarint(frame, pos)
            if tag == 0:
                epoch, end_offset = _read_epoch_end(frame, pos)
            pos += tag_size
    return (
        ReplicaFetchedPartition(topic_id, index, error, high_watermark, log_start_offset, records, epoch, end_offset),
        pos,
    )
