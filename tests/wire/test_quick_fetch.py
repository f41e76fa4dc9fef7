"""Fetch requests that differ in their offset: the place found is the whole reader's, and answers are the writer's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.base import WireError
from ottla.wire import (
    Fetch,
    FetchAnswers,
    FetchedPartition,
    FetchedTopic,
    FetchShape,
    encode_request,
    fetch_offset_at,
    read_fetch_request,
    read_request_header,
    write_fetch_response,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

EPOCHS_FROM, FETCHED_EPOCHS_FROM, SESSIONS_FROM, RACKS_FROM = 9, 12, 7, 11
VERSIONS = st.integers(5, 18)
NAMES = st.text(st.sampled_from("abcXYZ019._-"), min_size=1, max_size=249)
INT32 = st.integers(-(2**31), 2**31 - 1)
OFFSETS = st.integers(-(2**63), 2**63 - 1)
CLIENT_IDS = st.one_of(st.none(), st.text(max_size=20))
SIZES = st.one_of(
    st.integers(1, 70_000), st.sampled_from([126, 127, 128, 16_382, 16_383, 16_384, 2_097_150, 2_097_151])
)


def frame_of(
    version: int, name: str, numbers: list[int], *, offset: int, correlation_id: int = 1, client_id: str | None = "c"
) -> memoryview:
    partition = FetchPartition(
        partition=numbers[0],
        current_leader_epoch=numbers[1] if version >= EPOCHS_FROM else -1,
        fetch_offset=offset,
        last_fetched_epoch=numbers[2] if version >= FETCHED_EPOCHS_FROM else -1,
        partition_max_bytes=numbers[3],
    )
    request = FetchRequest(
        max_wait_ms=numbers[4],
        min_bytes=numbers[5],
        max_bytes=numbers[6],
        session_epoch=-1,
        rack_id=name if version >= RACKS_FROM and numbers[0] % 2 else "",
        topics=[FetchTopic(topic=name, topic_id=b"0123456789abcdef", partitions=[partition])],
    )
    return memoryview(bytearray(encode_request(request, version, correlation_id, client_id)))[4:]


def place_in(frame: memoryview, version: int) -> int:
    position = read_request_header(frame)[1]
    return fetch_offset_at(frame, version, position, read_fetch_request(frame, version, position))


@given(VERSIONS, NAMES, st.lists(INT32, min_size=7, max_size=7), OFFSETS, OFFSETS, CLIENT_IDS)
def test_what_differs_is_the_offset_that_the_whole_reader_finds(
    version: int, name: str, numbers: list[int], offset: int, other: int, client_id: str | None
) -> None:
    first = frame_of(version, name, numbers, offset=offset, client_id=client_id)
    second = frame_of(version, name, numbers, offset=other, correlation_id=77, client_id=client_id)
    shape = FetchShape(place_in(first, version), len(first))
    head, correlation_id, beginning, found, ending = shape.read(second)
    assert (correlation_id, found) == (77, other)
    assert shape.single(first) == shape.single(second) == (head, beginning, ending)


@given(VERSIONS, NAMES, st.lists(INT32, min_size=7, max_size=7), OFFSETS, st.data())
def test_whatever_bytes_a_request_is_of_its_place_is_the_offsets_or_unsure(
    version: int, name: str, numbers: list[int], offset: int, data: st.DataObject
) -> None:
    changed = bytearray(frame_of(version, name, numbers, offset=offset))
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(8, len(changed) - 1))] = data.draw(st.integers(0, 255))
    frame = memoryview(changed)
    try:
        position = read_request_header(frame)[1]
        request = read_fetch_request(frame, version, position)
    except (WireError, IndexError):
        return
    at = fetch_offset_at(frame, version, position, request)
    if at < 0:
        return
    shape = FetchShape(at, len(frame))
    for other in (0, -1, 1 << 40, offset):
        moved = bytearray(changed)
        moved[at : at + 8] = other.to_bytes(8, "big", signed=True)
        again = read_fetch_request(memoryview(moved), version, position)
        assert again.topics[0].partitions[0].fetch_offset == other
        assert _told(again) == _told(request), "nothing but the offset is another"
        assert shape.single(memoryview(moved)) == shape.single(frame)


def _told(request: Fetch) -> object:
    """Return what a request says, but for its offsets."""
    partitions = [
        (each.partition, each.current_leader_epoch, each.last_fetched_epoch, each.partition_max_bytes)
        for topic in request.topics
        for each in topic.partitions
    ]
    forgotten = [(topic.topic, topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data]
    names = [(topic.topic, topic.topic_id, len(topic.partitions)) for topic in request.topics]
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    sender = (request.replica_id, request.replica_epoch, request.session_id, request.session_epoch, request.rack_id)
    return names, partitions, forgotten, limits, sender


@given(VERSIONS, NAMES, st.integers(0, 2**31 - 1), INT32, st.tuples(OFFSETS, OFFSETS, OFFSETS), SIZES, st.booleans())
def test_an_answer_is_the_writers(
    version: int, name: str, index: int, correlation_id: int, offsets: tuple[int, int, int], size: int, committed: bool
) -> None:
    topic_id = b"0123456789abcdef"
    aborted: tuple[()] | None = () if committed else None
    answers = FetchAnswers(version, name, topic_id, index, aborted_transactions=aborted)
    partition = FetchedPartition(index, 0, *offsets, b"r" * size, size, aborted_transactions=aborted)
    parts = write_fetch_response(version, correlation_id, [FetchedTopic(name, topic_id, [partition])])
    whole = b"".join(bytes(each) for each in parts)  # type: ignore[arg-type]
    assert answers.head(correlation_id, *offsets, size) + b"r" * size + answers.tail == whole
