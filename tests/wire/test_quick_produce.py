"""The beginnings of Produce requests: what is read by them is what the whole reader reads, and answers are the writer's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.base import WireError
from ottla.wire import (
    AnswerTemplate,
    ProducedPartition,
    ProducedTopic,
    Shape,
    beginning_end,
    encode_request,
    read_produce_request,
    read_request_header,
    write_produce_response,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

FLEXIBLE_FROM = 9
VERSIONS = st.integers(5, 13)
NAMES = st.text(st.sampled_from("abcXYZ019._-"), min_size=1, max_size=249)
INDEXES = st.integers(0, 2**31 - 1)
RECORDS = st.one_of(st.binary(min_size=1, max_size=300), st.sampled_from([b"r" * 16_381, b"r" * 2_097_149]))


def request_frame(
    version: int, name: str, index: int, records: bytes | None, *, correlation_id: int = 1, client_id: str | None = "c"
) -> memoryview:
    data = PartitionProduceData(index=index, records=records)
    topic = TopicProduceData(name=name, topic_id=b"0123456789abcdef", partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    return memoryview(bytearray(encode_request(request, version, correlation_id, client_id)))[4:]


def end_of(frame: memoryview, version: int) -> int:
    position = read_request_header(frame)[1]
    return beginning_end(frame, version, position, read_produce_request(frame, version, position))


@given(VERSIONS, NAMES, INDEXES, st.lists(RECORDS, min_size=2, max_size=2), st.one_of(st.none(), st.text(max_size=20)))
def test_what_follows_a_beginning_is_what_the_whole_reader_finds(
    version: int, name: str, index: int, records: list[bytes], client_id: str | None
) -> None:
    first = request_frame(version, name, index, records[0], client_id=client_id)
    other = request_frame(version, name, index, records[1], correlation_id=77, client_id=client_id)
    end = end_of(first, version)
    shape = Shape(end, is_flexible=version >= FLEXIBLE_FROM)
    assert len(other) >= shape.size_min or len(records[1]) < 4
    if len(other) >= shape.size_min:
        head, correlation_id, rest, size = shape.read(other)
        assert (head, rest) == shape.beginning_of(first)
        assert correlation_id == 77
        assert shape.records_of(other, size) == records[1]


@given(VERSIONS, NAMES, INDEXES, st.data())
def test_what_is_not_records_alone_is_left_to_the_whole_reader(
    version: int, name: str, index: int, data: st.DataObject
) -> None:
    sound = request_frame(version, name, index, b"records of some length")
    end = end_of(sound, version)
    shape = Shape(end, is_flexible=version >= FLEXIBLE_FROM)
    changed = bytearray(sound)
    at = data.draw(st.integers(end, len(changed) - 1))
    changed[at] = data.draw(st.integers(0, 255))
    frame = memoryview(changed[: data.draw(st.integers(shape.size_min, len(changed)))])
    found = shape.records_of(frame, shape.read(frame)[3])
    try:
        request = read_produce_request(frame, version, read_request_header(frame)[1])
    except WireError:
        request = None
    if found is not None:
        assert request is not None
        assert [[each.records for each in topic.partition_data] for topic in request.topic_data] == [[found]]


@given(VERSIONS, st.sampled_from(["transaction", "topics", "partitions", "null"]))
def test_other_requests_have_no_beginning_or_no_records(version: int, kind: str) -> None:
    parts = [PartitionProduceData(index=at, records=b"r" * 70) for at in range(2 if kind == "partitions" else 1)]
    if kind == "null":
        parts[0].records = None
    topics = [TopicProduceData(name=f"t{at}", partition_data=parts) for at in range(2 if kind == "topics" else 1)]
    request = ProduceRequest(
        transactional_id="x" if kind == "transaction" else None, acks=1, timeout_ms=1000, topic_data=topics
    )
    frame = memoryview(bytearray(encode_request(request, version, 1, "c")))[4:]
    end = end_of(frame, version)
    if kind == "null":
        shape = Shape(end, is_flexible=version >= FLEXIBLE_FROM)
        assert shape.records_of(frame, shape.read(frame)[3]) is None
    else:
        assert end == -1


def test_versions_without_a_log_start_in_their_answers_have_no_beginning() -> None:
    assert [version for version in range(3, 14) if end_of(request_frame(version, "t", 0, b"r" * 70), version) < 0] == [
        3,
        4,
    ]


@given(VERSIONS, NAMES, INDEXES, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(-(2**31), 2**31 - 1))
def test_an_answer_is_what_the_writer_writes(
    version: int, name: str, index: int, base_offset: int, log_start: int, correlation_id: int
) -> None:
    topic_id = b"0123456789abcdef"
    partition = ProducedPartition(index, 0, base_offset, -1, log_start)
    written = write_produce_response(version, correlation_id, [ProducedTopic(name, topic_id, [partition])])
    assert AnswerTemplate(version, name, topic_id, index).filled(correlation_id, base_offset, log_start) == written
