"""Fetch, by hand: the request's reader and the response's writer, versions 4 to 18, records sent as they are stored.

Attributes are named as in the generated `ottla.wire.messages.fetch`, whose bytes these equal. Versions before 12 have int16
and int32 lengths, from 12 on compact ones and tagged fields; from 13 on a topic is its id; from 15 on the replica's id is a
tagged field, which is read into the same attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import Final

from ottla.base import ZERO_UUID, WireError
from ottla.wire.hot_primitives import (
    nullable_compact_string,
    nullable_string,
    pack_int32,
    read_compact_string,
    read_count,
    read_int32,
    read_string,
    read_uvarint,
    skip_tags,
    too_many,
    truncated,
    uvarint,
)
from ottla.wire.hot_produce import NodeEndpoint, node_endpoints_tag
from ottla.wire.message import REQUEST_ELEMENTS_MAX

__all__ = [
    "Fetch",
    "FetchPartition",
    "FetchTopic",
    "FetchWriter",
    "FetchedPartition",
    "FetchedTopic",
    "ForgottenTopic",
    "read_fetch_request",
    "write_fetch_response",
]

FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
REPLICA_STATE_FROM: Final = 15
ENDPOINTS_FROM: Final = 16
DIRECTORY_ID_FROM: Final = 17
HIGH_WATERMARK_FROM: Final = 18
SESSIONS_FROM: Final = 7
RACK_FROM: Final = 11
LEADER_EPOCH_FROM: Final = 9
LOG_START_OFFSET_FROM: Final = 5
INT64_MAX: Final = 0x7FFFFFFFFFFFFFFF
INLINE_BYTES_MAX: Final = 1024
"""Records up to this size are copied between the other fields: one part less is worth more."""

_head_v4: Final = Struct(">iiiib")
_head_v7: Final = Struct(">iiiibii")
_head_v15: Final = Struct(">iiibii")
_partition_v4: Final = Struct(">iqi")
_partition_v5: Final = Struct(">iqqi")
_partition_v9: Final = Struct(">iiqqi")
_partition_v12: Final = Struct(">iiqiqi")
_read_partition_v12: Final = _partition_v12.unpack_from
_partition_v12_size: Final = _partition_v12.size
_read_int64: Final = Struct(">q").unpack_from
_read_replica_state: Final = Struct(">iq").unpack_from
_pack_throttle: Final = Struct(">i").pack
_pack_throttle_session: Final = Struct(">ihi").pack
_pack_partition_v4: Final = Struct(">ihqq").pack
_pack_partition_v5: Final = Struct(">ihqqq").pack
_pack_aborted: Final = Struct(">qq").pack
_pack_epoch_offset: Final = Struct(">BBiqB").pack
_pack_leader: Final = Struct(">BBiiB").pack
_pack_snapshot: Final = Struct(">BBqiB").pack
_pack_prefix_into: Final = Struct(">ii").pack_into


class FetchPartition:
    """One partition in a Fetch request."""

    __slots__ = (
        *("current_leader_epoch", "fetch_offset", "high_watermark", "last_fetched_epoch", "log_start_offset"),
        *("partition", "partition_max_bytes", "replica_directory_id"),
    )

    def __init__(
        self,
        partition: int,
        current_leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        partition_max_bytes: int,
        replica_directory_id: bytes = ZERO_UUID,
        high_watermark: int = INT64_MAX,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark


class FetchTopic:
    """One topic in a Fetch request, by name before version 13 and by id from then on."""

    __slots__ = ("partitions", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: bytes, partitions: list[FetchPartition]) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class ForgottenTopic:
    """Partitions that leave the fetch session (KIP-227)."""

    __slots__ = ("partitions", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: bytes, partitions: list[int]) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class Fetch:
    """A Fetch request; `replica_id` is -1 for a consumer, in every version."""

    __slots__ = (
        *("cluster_id", "forgotten_topics_data", "isolation_level", "max_bytes", "max_wait_ms", "min_bytes"),
        *("rack_id", "replica_epoch", "replica_id", "session_epoch", "session_id", "topics"),
    )

    def __init__(
        self,
        replica_id: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        session_id: int = 0,
        session_epoch: int = -1,
    ) -> None:
        self.cluster_id: str | None = None
        self.replica_id = replica_id
        self.replica_epoch = -1
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics: list[FetchTopic] = []
        self.forgotten_topics_data: list[ForgottenTopic] = []
        self.rack_id = ""


def read_fetch_request(data: memoryview, version: int, pos: int = 0) -> Fetch:
    """Read the request whose body begins at `pos`; WireError where it is malformed."""
    try:
        return _read_fetch(data, version, pos)
    except (IndexError, StructError, UnicodeDecodeError) as error:
        raise WireError(f"malformed Fetch request: {error}") from error


def _read_fetch(data: memoryview, version: int, pos: int) -> Fetch:
    flexible = version >= FLEXIBLE_FROM
    if version >= REPLICA_STATE_FROM:
        max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch = _head_v15.unpack_from(data, pos)
        fetch = Fetch(-1, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch)
        pos += _head_v15.size
    elif version >= SESSIONS_FROM:
        replica, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch = _head_v7.unpack_from(data, pos)
        fetch = Fetch(replica, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch)
        pos += _head_v7.size
    else:
        replica, max_wait, min_bytes, max_bytes, isolation = _head_v4.unpack_from(data, pos)
        fetch = Fetch(replica, max_wait, min_bytes, max_bytes, isolation)
        pos += _head_v4.size
    count, pos = read_count(data, pos, flexible)
    if count < 0:
        raise WireError("Topics is null")
    elements = count
    while count > 0:
        count -= 1
        name, topic_id, pos = _read_topic(data, version, pos)
        partitions, pos = _read_partitions(data, version, pos)
        elements += len(partitions)
        if elements > REQUEST_ELEMENTS_MAX:
            raise too_many()
        fetch.topics.append(FetchTopic(name, topic_id, partitions))
        if flexible:
            pos = skip_tags(data, pos)
    if version >= SESSIONS_FROM:
        pos = _read_forgotten(data, version, pos, fetch)
    if version >= RACK_FROM:
        rack, pos = read_compact_string(data, pos) if flexible else read_string(data, pos)
        if rack is None:
            raise WireError("RackId is null")
        fetch.rack_id = rack
    if flexible and data[pos] != 0:
        _read_request_tags(data, version, pos, fetch)
    return fetch


def _read_topic(data: memoryview, version: int, pos: int) -> tuple[str, bytes, int]:
    """Return (name, id, position after it): one of the two, as the version has it."""
    if version >= TOPIC_IDS_FROM:
        end = pos + 16
        if end > len(data):
            raise truncated()
        return "", bytes(data[pos:end]), end
    name, pos = read_compact_string(data, pos) if version >= FLEXIBLE_FROM else read_string(data, pos)
    if name is None:
        raise WireError("a topic's name is null")
    return name, ZERO_UUID, pos


def _read_partitions(data: memoryview, version: int, pos: int) -> tuple[list[FetchPartition], int]:
    count, pos = read_count(data, pos, version >= FLEXIBLE_FROM)
    if count < 0:
        raise WireError("Partitions is null")
    partitions: list[FetchPartition] = []
    if version < FLEXIBLE_FROM:
        return partitions, _read_plain_partitions(data, version, pos, count, partitions)
    while count > 0:
        count -= 1
        index, epoch, offset, fetched_epoch, start, max_bytes = _read_partition_v12(data, pos)
        pos += _partition_v12_size
        partition = FetchPartition(index, epoch, offset, fetched_epoch, start, max_bytes)
        if data[pos] == 0:
            pos += 1
        else:
            pos = _read_partition_tags(data, version, pos, partition)
        partitions.append(partition)
    return partitions, pos


def _read_plain_partitions(
    data: memoryview, version: int, pos: int, count: int, partitions: list[FetchPartition]
) -> int:
    """Append the partitions of a version before 12; return the position after them."""
    epoch = start = -1
    while count > 0:
        count -= 1
        if version >= LEADER_EPOCH_FROM:
            index, epoch, offset, start, max_bytes = _partition_v9.unpack_from(data, pos)
            pos += _partition_v9.size
        elif version >= LOG_START_OFFSET_FROM:
            index, offset, start, max_bytes = _partition_v5.unpack_from(data, pos)
            pos += _partition_v5.size
        else:
            index, offset, max_bytes = _partition_v4.unpack_from(data, pos)
            pos += _partition_v4.size
        partitions.append(FetchPartition(index, epoch, offset, -1, start, max_bytes))
    return pos


def _read_partition_tags(data: memoryview, version: int, pos: int, partition: FetchPartition) -> int:
    count, pos = read_uvarint(data, pos)
    while count > 0:
        count -= 1
        tag, pos = read_uvarint(data, pos)
        size, pos = read_uvarint(data, pos)
        if size > len(data) - pos:
            raise truncated()
        if tag == 0 and version >= DIRECTORY_ID_FROM:
            check_tag_size(size, 16)
            partition.replica_directory_id = bytes(data[pos : pos + 16])
        elif tag == 1 and version >= HIGH_WATERMARK_FROM:
            check_tag_size(size, 8)
            partition.high_watermark = _read_int64(data, pos)[0]
        pos += size
    return pos


def _read_forgotten(data: memoryview, version: int, pos: int, fetch: Fetch) -> int:
    flexible = version >= FLEXIBLE_FROM
    count, pos = read_count(data, pos, flexible)
    if count < 0:
        raise WireError("ForgottenTopicsData is null")
    elements = count
    while count > 0:
        count -= 1
        name, topic_id, pos = _read_topic(data, version, pos)
        size, pos = read_count(data, pos, flexible)
        if size < 0:
            raise WireError("Partitions is null")
        elements += size
        if elements > REQUEST_ELEMENTS_MAX:
            raise too_many()
        partitions: list[int] = []
        while size > 0:
            size -= 1
            partitions.append(read_int32(data, pos)[0])
            pos += 4
        fetch.forgotten_topics_data.append(ForgottenTopic(name, topic_id, partitions))
        if flexible:
            pos = skip_tags(data, pos)
    return pos


def _read_request_tags(data: memoryview, version: int, pos: int, fetch: Fetch) -> None:
    count, pos = read_uvarint(data, pos)
    while count > 0:
        count -= 1
        tag, pos = read_uvarint(data, pos)
        size, pos = read_uvarint(data, pos)
        end = pos + size
        if end > len(data):
            raise truncated()
        if tag == 0:
            fetch.cluster_id, pos = read_compact_string(data, pos)
            check_tag_size(end, pos)
        elif tag == 1 and version >= REPLICA_STATE_FROM:
            fetch.replica_id, fetch.replica_epoch = _read_replica_state(data, pos)
            check_tag_size(end, skip_tags(data, pos + 12))
        pos = end


def check_tag_size(declared: int, found: int) -> None:
    """Refuse a tagged field whose size is not that of its type."""
    if declared != found:
        raise WireError("a tagged field's size is not that of its content")


class FetchedPartition:
    """One partition's answer to Fetch.

    `records` is bytes-like, or whatever the shell sends `records_size` bytes from (a slice of a file); None is null.
    """

    __slots__ = (
        *("aborted_transactions", "diverging_end_offset", "diverging_epoch", "error_code", "high_watermark"),
        *("last_stable_offset", "leader_epoch", "leader_id", "log_start_offset", "partition_index"),
        *("preferred_read_replica", "records", "records_size", "snapshot_end_offset", "snapshot_epoch"),
    )

    def __init__(
        self,
        partition_index: int,
        error_code: int = 0,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        records: object = b"",
        records_size: int = 0,
        aborted_transactions: Sequence[tuple[int, int]] | None = None,
        preferred_read_replica: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.records_size = records_size
        self.aborted_transactions = aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.diverging_epoch = -1
        self.diverging_end_offset = -1
        self.leader_id = -1
        self.leader_epoch = -1
        self.snapshot_end_offset = -1
        self.snapshot_epoch = -1


class FetchedTopic:
    """One topic's answers to Fetch."""

    __slots__ = ("partitions", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: bytes, partitions: list[FetchedPartition]) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


def write_fetch_response(
    version: int,
    correlation_id: int,
    responses: list[FetchedTopic],
    throttle_time_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[object]:
    """Return the whole answer as parts to send in order: bytearrays, and each partition's `records` as it was given."""
    writer = FetchWriter(version, correlation_id, len(responses), throttle_time_ms, error_code, session_id)
    for topic in responses:
        writer.begin(topic)
        writer.add(topic.partitions)
        writer.end()
    return writer.finish(node_endpoints)


class FetchWriter:
    """An answer that is written bit by bit: `begin`, `add` and `end` for each topic, then `finish`."""

    __slots__ = ("_correlation_id", "_flexible", "_head", "_out", "_parts", "_sent", "_version")

    def __init__(
        self,
        version: int,
        correlation_id: int,
        topics: int,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
    ) -> None:
        """Write what stands before the topics, of which there are so many."""
        self._version = version
        self._correlation_id = correlation_id
        self._flexible = flexible = version >= FLEXIBLE_FROM
        self._head = head = bytearray(8)
        self._parts: list[object] = [head]
        self._sent = 0
        if flexible:
            head += b"\x00"
        if version >= SESSIONS_FROM:
            head += _pack_throttle_session(throttle_time_ms, error_code, session_id)
        else:
            head += _pack_throttle(throttle_time_ms)
        head += uvarint(topics + 1) if flexible else pack_int32(topics)
        self._out = head

    def begin(self, topic: FetchedTopic) -> None:
        """Write what stands before a topic's partitions."""
        out = self._out
        if self._version >= TOPIC_IDS_FROM:
            out += topic.topic_id
        elif self._flexible:
            out += nullable_compact_string(topic.topic)
        else:
            out += nullable_string(topic.topic)
        out += uvarint(len(topic.partitions) + 1) if self._flexible else pack_int32(len(topic.partitions))

    def add(self, partitions: Sequence[FetchedPartition]) -> None:
        """Write some of the topic's partitions."""
        version, flexible, out = self._version, self._flexible, self._out
        for partition in partitions:
            _write_partition(out, partition, version)
            records = partition.records
            if records is None:
                out += b"\x00" if flexible else b"\xff\xff\xff\xff"
            else:
                size = partition.records_size
                out += uvarint(size + 1) if flexible else pack_int32(size)
                if size > INLINE_BYTES_MAX or not isinstance(records, bytes | bytearray | memoryview):
                    self._sent += len(out) + size
                    self._out = out = bytearray()
                    self._parts.append(records)
                    self._parts.append(out)
                elif size:
                    out += records
            if flexible:
                _write_partition_tags(out, partition)

    def end(self) -> None:
        """End a topic."""
        if self._flexible:
            self._out += b"\x00"

    def finish(self, node_endpoints: Sequence[NodeEndpoint] = ()) -> list[object]:
        """Return the whole answer, as `write_fetch_response` does."""
        out = self._out
        if self._flexible:
            out += node_endpoints_tag(node_endpoints if self._version >= ENDPOINTS_FROM else ())
        if not out:
            self._parts.pop()
        _pack_prefix_into(self._head, 0, self._sent + len(out) - 4, self._correlation_id)
        return self._parts


def _write_partition(out: bytearray, partition: FetchedPartition, version: int) -> None:
    """Append the fields before the records."""
    if version >= LOG_START_OFFSET_FROM:
        out += _pack_partition_v5(
            partition.partition_index,
            partition.error_code,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
        )
    else:
        out += _pack_partition_v4(
            partition.partition_index, partition.error_code, partition.high_watermark, partition.last_stable_offset
        )
    aborted = partition.aborted_transactions
    if version >= FLEXIBLE_FROM:
        if aborted is None:
            out += b"\x00"
        else:
            out += uvarint(len(aborted) + 1)
            for producer_id, first_offset in aborted:
                out += _pack_aborted(producer_id, first_offset) + b"\x00"
    else:
        out += pack_int32(-1 if aborted is None else len(aborted))
        for producer_id, first_offset in aborted or ():
            out += _pack_aborted(producer_id, first_offset)
    if version >= RACK_FROM:
        out += pack_int32(partition.preferred_read_replica)


def _write_partition_tags(out: bytearray, partition: FetchedPartition) -> None:
    """Append the tagged fields that follow the records: 0 diverging epoch, 1 current leader, 2 snapshot id."""
    fields: list[bytes] = []
    if partition.diverging_epoch != -1 or partition.diverging_end_offset != -1:
        fields.append(_pack_epoch_offset(0, 13, partition.diverging_epoch, partition.diverging_end_offset, 0))
    if partition.leader_id != -1 or partition.leader_epoch != -1:
        fields.append(_pack_leader(1, 9, partition.leader_id, partition.leader_epoch, 0))
    if partition.snapshot_end_offset != -1 or partition.snapshot_epoch != -1:
        fields.append(_pack_snapshot(2, 13, partition.snapshot_end_offset, partition.snapshot_epoch, 0))
    out += uvarint(len(fields))
    for field in fields:
        out += field
