"""The codec's edges: what it refuses, what it leaves out, and what it believes."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from ottla.base import KafkaError, WireError
from ottla.wire import APIS, decode, encode, read_produce_request
from ottla.wire.message import REQUEST_ELEMENTS_MAX
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.messages.delete_records import DeleteRecordsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from ottla.wire.messages.fetch import FetchRequest, FetchTopic, ReplicaState
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.varint import read_uvarint, skip_tagged, uvarint
from tests.wire.random_messages import random_message


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16383, 16384, (1 << 31) - 1, (1 << 32) - 1])
def test_a_varint_is_read_as_it_was_written(value: int) -> None:
    data = uvarint(value)
    assert read_uvarint(memoryview(data + b"\xff"), 0) == (value, len(data))


@pytest.mark.parametrize("data", [b"\x80\x80\x80\x80\x80\x00", b"\xff\xff\xff\xff\x1f", b"\xff\xff\xff\xff\x7f"])
def test_a_varint_of_more_than_32_bits_is_refused(data: bytes) -> None:
    with pytest.raises(WireError, match="varint"):
        read_uvarint(memoryview(data), 0)


@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_a_varint_outside_32_bits_is_not_written(value: int) -> None:
    with pytest.raises(ValueError, match="unsigned"):
        uvarint(value)


def test_a_tagged_section_that_claims_endless_fields_ends_with_its_bytes() -> None:
    data = memoryview(uvarint((1 << 32) - 1) + b"\x01\x00" * 3)
    with pytest.raises(IndexError):
        skip_tagged(data, 0, len(data))
    with pytest.raises(WireError):
        decode(MetadataRequest, encode(MetadataRequest(), 12)[:-1] + bytes(data), 12)


@pytest.mark.parametrize(("version", "length"), [(1, b"\x7f\xff\xff\xff"), (5, b"\xff\xff\xff\xff\x07")])
def test_a_count_is_refused_before_anything_is_made_of_it(version: int, length: bytes) -> None:
    for count in (length, length[:-1] + b"\x01"):
        tracemalloc.start()
        with pytest.raises(WireError):
            decode(DescribeGroupsRequest, count + bytes(100), version)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()


def test_a_count_is_held_against_the_shortest_form_of_its_elements() -> None:
    topic = b"\x00\x01t" + b"\x00\x00\x00\x00"
    head = b"\xff\xff\xff\xff\x00"  # replica id, isolation level
    message, _ = decode(ListOffsetsRequest, head + b"\x00\x00\x00\x02" + topic * 2, 2)
    assert len(message.topics) == 2
    with pytest.raises(WireError, match="more elements than bytes remain"):
        decode(ListOffsetsRequest, head + b"\x00\x00\x00\x03" + topic * 2, 2)


def test_strings_end_at_32767_bytes_in_every_version() -> None:
    longest, longer = ApiVersionsRequest(client_software_name="x" * 32767), "x" * 32768
    assert decode(ApiVersionsRequest, encode(longest, 4), 4)[0] == longest
    with pytest.raises(ValueError, match="longer than 32767"):
        encode(ApiVersionsRequest(client_software_name=longer), 4)
    with pytest.raises(WireError, match="longer than 32767"):
        decode(ApiVersionsRequest, uvarint(32769) + longer.encode() + b"\x01\x00", 4)
    with pytest.raises(ValueError, match="longer than 32767"):
        encode(DescribeGroupsRequest(groups=[longer]), 1)


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(WireError):
        decode(ApiVersionsRequest, b"\x02\xff\x01\x00", 4)


def test_null_where_it_is_not_allowed_is_refused_on_both_sides() -> None:
    with pytest.raises(WireError, match="must not be null"):
        decode(ApiVersionsRequest, b"\x00\x01\x00", 4)
    with pytest.raises(WireError, match="must not be null"):
        decode(DescribeGroupsRequest, b"\xff\xff\xff\xff\x00", 1)
    with pytest.raises(ValueError, match="must not be null"):
        encode(ApiVersionsRequest(client_software_name=None), 4)  # type: ignore[arg-type]


def test_a_number_that_its_field_cannot_carry_is_not_written() -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        encode(FetchRequest(max_wait_ms=1 << 31), 12)


def test_any_negative_byte_means_a_null_struct() -> None:
    response = ConsumerGroupHeartbeatResponse(member_id="m", assignment=None)
    data = encode(response, 0)
    assert data[-2:] == b"\xff\x00"
    for byte in (0x80, 0xFE, 0xFF):
        assert decode(ConsumerGroupHeartbeatResponse, data[:-2] + bytes((byte, 0)), 0)[0] == response


def test_a_nullable_struct_is_there_or_not() -> None:
    for cursor in (None, Cursor(topic_name="t", partition_index=3)):
        request = DescribeTopicPartitionsRequest(cursor=cursor)
        assert decode(DescribeTopicPartitionsRequest, encode(request, 0), 0)[0] == request


def test_a_tagged_field_with_its_default_is_not_written() -> None:
    plain = encode(FetchRequest(replica_state=ReplicaState()), 15)
    assert plain == encode(FetchRequest(), 15) and plain[-1] == 0
    assert encode(FetchRequest(replica_state=ReplicaState(replica_id=2)), 15) != plain


def test_a_tagged_field_must_be_of_its_stated_size() -> None:
    data = encode(FetchRequest(), 15)[:-1]
    with pytest.raises(WireError, match="not of its size"):
        decode(FetchRequest, data + b"\x01\x00\x05\x02abcd", 15)
    with pytest.raises(WireError, match="longer than its message"):
        decode(FetchRequest, data + b"\x01\x00\x05\x02a", 15)


def test_what_a_version_lacks_is_its_default_when_read() -> None:
    data = encode(FetchRequest(session_id=7, rack_id="r"), 4)
    found, _ = decode(FetchRequest, data, 4)
    assert (found.session_id, found.rack_id, found.replica_state) == (0, "", ReplicaState())


def test_the_error_for_a_lacking_field_names_message_field_and_version() -> None:
    with pytest.raises(KafkaError, match="FetchRequest version 14 has no field replica_state") as raised:
        encode(FetchRequest(replica_state=ReplicaState(replica_id=1)), 14)
    assert raised.value.code.name == "UNSUPPORTED_VERSION"


def test_bytes_outlive_their_frame_and_records_do_not_copy_it() -> None:
    from ottla.wire.messages.produce import PartitionProduceData, TopicProduceData
    from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest

    frame = bytearray(encode(SaslAuthenticateRequest(auth_bytes=b"secret"), 2))
    found, _ = decode(SaslAuthenticateRequest, frame, 2)
    frame[:] = bytes(len(frame))
    assert found.auth_bytes == b"secret"

    request = ProduceRequest(topic_data=[TopicProduceData(partition_data=[PartitionProduceData(records=b"1234")])])
    frame = bytearray(encode(request, 3))
    partition = decode(ProduceRequest, frame, 3)[0].topic_data[0].partition_data[0]
    frame[-1:] = b"5"
    assert partition.records is not None and bytes(partition.records) == b"1235"


def test_a_version_that_a_message_lacks_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="versions 4 to 18"):
        encode(FetchRequest(), 19)
    with pytest.raises(AssertionError, match="versions 4 to 18"):
        decode(FetchRequest, b"", 3)


def test_only_stable_versions_are_in_the_table() -> None:
    assert APIS[22].max_version == InitProducerIdRequest.VERSIONS[1] - 1


def test_lists_and_tuples_are_equal_and_other_classes_are_not() -> None:
    assert FetchRequest(topics=[FetchTopic()]) == FetchRequest(topics=(FetchTopic(),))
    assert FetchTopic() != FetchRequest()
    with pytest.raises(TypeError):
        hash(FetchTopic())
    with pytest.raises(AttributeError):
        FetchTopic().other = 1  # type: ignore[attr-defined]


def test_a_request_of_endless_small_elements_is_refused_though_its_bytes_are_there() -> None:
    topics = REQUEST_ELEMENTS_MAX + 1
    empty = encode(DeleteRecordsRequest(), 2)
    data = uvarint(topics + 1) + b"\x01\x01\x00" * topics + empty[1:]
    with pytest.raises(WireError, match="arrays have more than"):
        decode(DeleteRecordsRequest, data, 2)
    half = b"\x01" + uvarint(topics // 2 + 1) + bytes(13) * (topics // 2) + b"\x00"
    for count, refused in ((1, False), (2, True)):
        data = uvarint(count + 1) + half * count + empty[1:]
        if refused:
            with pytest.raises(WireError, match="arrays have more than"):
                decode(DeleteRecordsRequest, data, 2)
        else:
            assert len(decode(DeleteRecordsRequest, data, 2)[0].topics[0].partitions) == topics // 2


@pytest.mark.parametrize("version", [9, 13])
def test_the_hand_written_readers_have_the_same_bound(version: int) -> None:
    partitions = REQUEST_ELEMENTS_MAX // 2 + 1
    topic = (b"\x02t" if version < 13 else bytes(16)) + uvarint(partitions + 1) + b"\0\0\0\0\0\0" * partitions + b"\0"
    head, tail = b"\x00" + b"\x00\x01" + bytes(4), b"\x00"
    one = memoryview(head + uvarint(2) + topic + tail)
    assert len(read_produce_request(one, version, 0).topic_data[0].partition_data) == partitions
    two = memoryview(head + uvarint(3) + topic * 2 + tail)
    with pytest.raises(WireError, match="arrays have more than"):
        read_produce_request(two, version, 0)


def test_random_bytes_are_read_or_refused_by_every_request() -> None:
    rng = random.Random(20261121)
    for spec in APIS.values():
        for version in range(spec.min_version, spec.max_version + 1):
            for size in (0, 1, 7, 60, 300):
                data = (
                    rng.randbytes(size) if rng.random() < 0.5 else bytes(rng.choice((0, 0, 1, 2)) for _ in range(size))
                )
                try:
                    _, end = decode(spec.request, data, version)
                except WireError:
                    continue
                assert 0 <= end <= len(data)


def test_every_prefix_of_a_message_is_refused() -> None:
    rng = random.Random(7)
    for spec in APIS.values():
        data = encode(random_message(spec.request, spec.max_version, rng), spec.max_version)
        for cut in range(max(0, len(data) - 300), len(data)):
            with pytest.raises(WireError):
                decode(spec.request, data[:cut], spec.max_version)
