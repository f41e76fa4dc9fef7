"""Produce, by hand: the request's reader and the response's writer, versions 3 to 13, without a copy of any record.

Attributes are named as in the generated `ottla.wire.messages.produce`, whose bytes these equal. Versions before 9 have
int16 and int32 lengths, from 9 on compact ones and tagged fields; from 13 on a topic is its id.
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
from ottla.wire.message import REQUEST_ELEMENTS_MAX

__all__ = [
    "NodeEndpoint",
    "Produce",
    "ProducePartition",
    "ProduceTopic",
    "ProducedPartition",
    "ProducedTopic",
    "node_endpoints_tag",
    "read_produce_request",
    "write_produce_response",
]

FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
CURRENT_LEADER_FROM: Final = 10
RECORD_ERRORS_FROM: Final = 8
LOG_START_OFFSET_FROM: Final = 5

_read_acks_timeout: Final = Struct(">hi").unpack_from
_acks_timeout_size: Final = 6
SINGLE_SIZE_MIN: Final = 32
"""Bytes of the shortest request with one partition, so that no fixed-size read of such a one can fail."""
SINGLE_TAIL_MIN: Final = 3
"""Empty tagged fields of partition, topic and request."""
NO_TAGS: Final = (0, 0)
_single_by_id: Final = Struct(">BhiB16sBiB")
_read_single_by_id: Final = _single_by_id.unpack_from
_single_by_id_size: Final = _single_by_id.size
_single_by_name: Final = Struct(">BhiBB")
_read_single_by_name: Final = _single_by_name.unpack_from
_single_by_name_size: Final = _single_by_name.size
_single_partition: Final = Struct(">BiB")
_read_single_partition: Final = _single_partition.unpack_from
_single_partition_size: Final = _single_partition.size
_read_tail: Final = Struct(">HB").unpack_from
_answer_by_id: Final = Struct(">iiBB16sBihqqqHBBiB")
_pack_answer_by_id: Final = _answer_by_id.pack
_pack_answer_head: Final = Struct(">iiBBB").pack
_answer_tail: Final = Struct(">BihqqqHBBiB")
_pack_answer_tail: Final = _answer_tail.pack
_answer_by_id_size: Final = _answer_by_id.size - 4
_answer_size: Final = 7 + _answer_tail.size
_pack_partition: Final = Struct(">ihqqq").pack
_pack_partition_v3: Final = Struct(">ihqq").pack
_pack_leader: Final = Struct(">BBBiiB").pack
_pack_prefix: Final = Struct(">ii").pack


class ProducePartition:
    """One partition's records in a Produce request: a writable view of the frame, or None."""

    __slots__ = ("index", "records")

    def __init__(self, index: int, records: memoryview | None) -> None:
        self.index = index
        self.records = records


class ProduceTopic:
    """One topic in a Produce request, by name before version 13 and by id from then on."""

    __slots__ = ("name", "partition_data", "topic_id")

    def __init__(self, name: str, topic_id: bytes, partition_data: list[ProducePartition]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = partition_data


class Produce:
    """A Produce request."""

    __slots__ = ("acks", "timeout_ms", "topic_data", "transactional_id")

    def __init__(
        self, transactional_id: str | None, acks: int, timeout_ms: int, topic_data: list[ProduceTopic]
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = topic_data


def read_produce_request(data: memoryview, version: int, pos: int = 0) -> Produce:
    """Read the request whose body begins at `pos`; WireError where it is malformed. Records are views into `data`."""
    try:
        if version < FLEXIBLE_FROM:
            return _read_plain(data, pos)
        if len(data) - pos >= SINGLE_SIZE_MIN:
            single = _read_single(data, version, pos)
            if single is not None:
                return single
        return _read_flexible(data, version, pos)
    except (IndexError, StructError, UnicodeDecodeError) as error:
        raise WireError(f"malformed Produce request: {error}") from error


def _read_single(data: memoryview, version: int, pos: int) -> Produce | None:
    """Read what most requests are, in few steps: no transaction, one topic, one partition. None for any other shape."""
    transaction: int
    acks: int
    timeout_ms: int
    topics: int
    partitions: int
    index: int
    size: int
    if version >= TOPIC_IDS_FROM:
        transaction, acks, timeout_ms, topics, topic_id, partitions, index, size = _read_single_by_id(data, pos)
        name = ""
        pos += _single_by_id_size
    else:
        transaction, acks, timeout_ms, topics, size = _read_single_by_name(data, pos)
        end = pos + size + _single_by_name_size - 1
        if topics != 2 or size == 0 or size >= 0x80 or len(data) - end < SINGLE_SIZE_MIN - _single_by_name_size:
            return None
        name = str(data[pos + _single_by_name_size : end], "utf-8")
        topic_id = ZERO_UUID
        partitions, index, size = _read_single_partition(data, end)
        pos = end + _single_partition_size
    if transaction != 0 or topics != 2 or partitions != 2 or size == 0:
        return None
    if size >= 0x80:
        size, pos = read_uvarint(data, pos - 1)
    end = pos + size - 1
    if end + SINGLE_TAIL_MIN != len(data) or _read_tail(data, end) != NO_TAGS:
        return None
    return Produce(None, acks, timeout_ms, [ProduceTopic(name, topic_id, [ProducePartition(index, data[pos:end])])])


def _read_flexible(data: memoryview, version: int, pos: int) -> Produce:
    transactional_id: str | None = None
    if data[pos] == 0:
        pos += 1
    else:
        transactional_id, pos = read_compact_string(data, pos)
    acks: int
    timeout_ms: int
    acks, timeout_ms = _read_acks_timeout(data, pos)
    topics: list[ProduceTopic] = []
    count: int = data[pos + _acks_timeout_size]
    if count < 0x80:
        count -= 1
        pos += _acks_timeout_size + 1
    else:
        count, pos = read_count(data, pos + _acks_timeout_size, True)
    if count < 0:
        raise WireError("TopicData is null")
    total = len(data)
    elements = count
    while count > 0:
        count -= 1
        if version >= TOPIC_IDS_FROM:
            name = ""
            topic_id = bytes(data[pos : pos + 16])
            pos += 16
            if pos > total:
                raise truncated()
        else:
            topic_id = ZERO_UUID
            size: int = data[pos]
            pos += 1
            if size >= 0x80:
                size, pos = read_uvarint(data, pos - 1)
            if size == 0:
                raise WireError("a topic's name is null")
            end = pos + size - 1
            if end > total:
                raise truncated()
            name = str(data[pos:end], "utf-8")
            pos = end
        partitions, pos = _read_flexible_partitions(data, pos, total)
        elements += len(partitions)
        if elements > REQUEST_ELEMENTS_MAX:
            raise too_many()
        topics.append(ProduceTopic(name, topic_id, partitions))
        if data[pos] == 0:
            pos += 1
        else:
            pos = skip_tags(data, pos)
    if data[pos] != 0:
        skip_tags(data, pos)
    return Produce(transactional_id, acks, timeout_ms, topics)


def _read_flexible_partitions(data: memoryview, pos: int, total: int) -> tuple[list[ProducePartition], int]:
    count: int = data[pos]
    if count < 0x80:
        count -= 1
        pos += 1
    else:
        count, pos = read_count(data, pos, True)
    if count < 0:
        raise WireError("PartitionData is null")
    partitions: list[ProducePartition] = []
    while count > 0:
        count -= 1
        index: int = read_int32(data, pos)[0]
        size: int = data[pos + 4]
        pos += 5
        if size >= 0x80:
            size, pos = read_uvarint(data, pos - 1)
        records: memoryview | None = None
        if size > 0:
            end = pos + size - 1
            if end > total:
                raise truncated()
            records = data[pos:end]
            pos = end
        partitions.append(ProducePartition(index, records))
        if data[pos] == 0:
            pos += 1
        else:
            pos = skip_tags(data, pos)
    return partitions, pos


def _read_plain(data: memoryview, pos: int) -> Produce:
    transactional_id, pos = read_string(data, pos)
    acks: int
    timeout_ms: int
    acks, timeout_ms = _read_acks_timeout(data, pos)
    count, pos = read_count(data, pos + _acks_timeout_size, False)
    if count < 0:
        raise WireError("TopicData is null")
    topics: list[ProduceTopic] = []
    elements = count
    while count > 0:
        count -= 1
        name, pos = read_string(data, pos)
        if name is None:
            raise WireError("a topic's name is null")
        partitions: list[ProducePartition] = []
        partition_count, pos = read_count(data, pos, False)
        if partition_count < 0:
            raise WireError("PartitionData is null")
        elements += partition_count
        if elements > REQUEST_ELEMENTS_MAX:
            raise too_many()
        while partition_count > 0:
            partition_count -= 1
            index: int = read_int32(data, pos)[0]
            size: int = read_int32(data, pos + 4)[0]
            pos += 8
            records: memoryview | None = None
            if size >= 0:
                if size > len(data) - pos:
                    raise truncated()
                records = data[pos : pos + size]
                pos += size
            partitions.append(ProducePartition(index, records))
        topics.append(ProduceTopic(name, ZERO_UUID, partitions))
    return Produce(transactional_id, acks, timeout_ms, topics)


class NodeEndpoint:
    """Where a broker is reached, in answers that name a new leader (KIP-951)."""

    __slots__ = ("host", "node_id", "port", "rack")

    def __init__(self, node_id: int, host: str, port: int, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ProducedPartition:
    """One partition's answer to Produce; `leader_id` and `leader_epoch` where the leader is another (KIP-951)."""

    __slots__ = (
        *("base_offset", "error_code", "error_message", "index", "leader_epoch", "leader_id"),
        *("log_append_time_ms", "log_start_offset", "record_errors"),
    )

    def __init__(
        self,
        index: int,
        error_code: int = 0,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: Sequence[tuple[int, str | None]] = (),
        error_message: str | None = None,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class ProducedTopic:
    """One topic's answers to Produce."""

    __slots__ = ("name", "partition_responses", "topic_id")

    def __init__(self, name: str, topic_id: bytes, partition_responses: list[ProducedPartition]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = partition_responses


def write_produce_response(
    version: int,
    correlation_id: int,
    responses: list[ProducedTopic],
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """Return the whole answer: length, header, body."""
    parts: list[bytes]
    if version >= FLEXIBLE_FROM and len(responses) == 1 and not node_endpoints:
        topic = responses[0]
        if len(topic.partition_responses) == 1:
            single = _write_single(version, correlation_id, topic, topic.partition_responses[0], throttle_time_ms)
            if single is not None:
                return single
    if version >= FLEXIBLE_FROM:
        parts = [b"\x00", uvarint(len(responses) + 1)]
        for topic in responses:
            if version >= TOPIC_IDS_FROM:
                parts.append(topic.topic_id)
            else:
                parts.append(nullable_compact_string(topic.name))
            parts.append(uvarint(len(topic.partition_responses) + 1))
            for partition in topic.partition_responses:
                _write_flexible_partition(parts, partition, version)
            parts.append(b"\x00")
        parts.append(pack_int32(throttle_time_ms))
        parts.append(node_endpoints_tag(node_endpoints if version >= CURRENT_LEADER_FROM else ()))
    else:
        parts = [pack_int32(len(responses))]
        for topic in responses:
            parts.append(nullable_string(topic.name))
            parts.append(pack_int32(len(topic.partition_responses)))
            for partition in topic.partition_responses:
                _write_plain_partition(parts, partition, version)
        parts.append(pack_int32(throttle_time_ms))
    body = b"".join(parts)
    return _pack_prefix(len(body) + 4, correlation_id) + body


def _write_single(
    version: int, correlation_id: int, topic: ProducedTopic, partition: ProducedPartition, throttle_time_ms: int
) -> bytes | None:
    """Return the answer that most are, in few steps: one partition, no error text, no other leader; None for any other."""
    if partition.error_message is not None or partition.leader_id != -1 or partition.leader_epoch != -1:
        return None
    if partition.record_errors:
        return None
    index, error_code, base_offset = partition.index, partition.error_code, partition.base_offset
    append_time, start = partition.log_append_time_ms, partition.log_start_offset
    if version >= TOPIC_IDS_FROM:
        return _pack_answer_by_id(
            *(_answer_by_id_size, correlation_id, 0, 2, topic.topic_id, 2),
            *(index, error_code, base_offset, append_time, start, 0x0100, 0, 0, throttle_time_ms, 0),
        )
    name = topic.name.encode()
    size = len(name)
    if size >= 0x7F:
        return None
    tail = _pack_answer_tail(2, index, error_code, base_offset, append_time, start, 0x0100, 0, 0, throttle_time_ms, 0)
    return _pack_answer_head(size + _answer_size, correlation_id, 0, 2, size + 1) + name + tail


def _write_flexible_partition(parts: list[bytes], partition: ProducedPartition, version: int) -> None:
    parts.append(
        _pack_partition(
            partition.index,
            partition.error_code,
            partition.base_offset,
            partition.log_append_time_ms,
            partition.log_start_offset,
        )
    )
    if not partition.record_errors and partition.error_message is None:
        parts.append(b"\x01\x00")
    else:
        parts.append(uvarint(len(partition.record_errors) + 1))
        for index, message in partition.record_errors:
            parts.append(pack_int32(index) + nullable_compact_string(message) + b"\x00")
        parts.append(nullable_compact_string(partition.error_message))
    known_leader = partition.leader_id != -1 or partition.leader_epoch != -1
    if known_leader and version >= CURRENT_LEADER_FROM:
        parts.append(_pack_leader(1, 0, 9, partition.leader_id, partition.leader_epoch, 0))
    else:
        parts.append(b"\x00")


def _write_plain_partition(parts: list[bytes], partition: ProducedPartition, version: int) -> None:
    fields = (partition.index, partition.error_code, partition.base_offset, partition.log_append_time_ms)
    if version < LOG_START_OFFSET_FROM:
        parts.append(_pack_partition_v3(*fields))
        return
    parts.append(_pack_partition(*fields, partition.log_start_offset))
    if version >= RECORD_ERRORS_FROM:
        parts.append(pack_int32(len(partition.record_errors)))
        for index, message in partition.record_errors:
            parts.append(pack_int32(index) + nullable_string(message))
        parts.append(nullable_string(partition.error_message))


def node_endpoints_tag(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Return the closing tagged fields of an answer: none, or its node endpoints (tag 0 in Produce and Fetch)."""
    if not endpoints:
        return b"\x00"
    parts = [uvarint(len(endpoints) + 1)]
    for node in endpoints:
        parts.append(pack_int32(node.node_id) + nullable_compact_string(node.host) + pack_int32(node.port))
        parts.append(nullable_compact_string(node.rack) + b"\x00")
    field = b"".join(parts)
    return b"\x01\x00" + uvarint(len(field)) + field
