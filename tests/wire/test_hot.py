"""The hand-written readers and writers agree with the generated ones, byte for byte and error for error."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

from ottla.base import WireError
from ottla.wire import (
    FetchedPartition,
    FetchedTopic,
    NodeEndpoint,
    ProducedPartition,
    ProducedTopic,
    decode,
    encode,
    read_fetch_request,
    read_produce_request,
    write_fetch_response,
    write_produce_response,
)
from ottla.wire.messages import fetch as fetch_messages
from ottla.wire.messages import produce as produce_messages

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
UUID = bytes(range(16))


def produce_request(rng: random.Random) -> produce_messages.ProduceRequest:
    partitions = [
        produce_messages.PartitionProduceData(
            index=rng.randrange(1 << 31),
            records=None if rng.random() < 0.1 else rng.randbytes(rng.choice((0, 90, 20000))),
        )
        for _ in range(rng.choice((0, 1, 3, 130)))
    ]
    return produce_messages.ProduceRequest(
        transactional_id=rng.choice((None, "", "t", "é" * 100)),
        acks=rng.choice((-1, 0, 1)),
        timeout_ms=rng.randrange(1 << 31),
        topic_data=[
            produce_messages.TopicProduceData(
                name=f"t-{'x' * 200 if n else n}", topic_id=UUID, partition_data=partitions
            )
            for n in range(rng.choice((0, 1, 2)))
        ],
    )


def produce_shape(request: Any, version: int) -> Any:
    return (
        *(request.transactional_id, request.acks, request.timeout_ms),
        [
            (
                topic.name if version < 13 else None,
                topic.topic_id if version >= 13 else None,
                [(each.index, None if each.records is None else bytes(each.records)) for each in topic.partition_data],
            )
            for topic in request.topic_data
        ],
    )


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_requests_read_as_the_generated_codec_reads_them(version: int) -> None:
    rng = random.Random(version)
    for _ in range(30):
        data = memoryview(bytearray(b"head" + encode(produce_request(rng), version)))
        expected, _ = decode(produce_messages.ProduceRequest, data, version, 4)
        assert produce_shape(read_produce_request(data, version, 4), version) == produce_shape(expected, version)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("size", [1, 61, 126, 127, 128, 16383, 16384, 70000])
@pytest.mark.parametrize("name", ["t", "n" * 126, "n" * 127, "n" * 249])
def test_requests_of_one_partition_read_alike_at_every_length(version: int, size: int, name: str) -> None:
    partition = produce_messages.PartitionProduceData(index=3, records=b"r" * size)
    topic = produce_messages.TopicProduceData(name=name, topic_id=UUID, partition_data=[partition])
    data = memoryview(encode(produce_messages.ProduceRequest(acks=-1, timeout_ms=1500, topic_data=[topic]), version))
    expected, _ = decode(produce_messages.ProduceRequest, data, version)
    assert produce_shape(read_produce_request(data, version), version) == produce_shape(expected, version)
    for cut in (1, 2, 3, 4, len(data) // 2, len(data) - 1):
        with pytest.raises(WireError):
            read_produce_request(data[:-cut], version)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("name", ["t", "n" * 126, "n" * 127, "n" * 249])
def test_answers_of_one_partition_are_the_generated_codecs_bytes(version: int, name: str) -> None:
    body = encode(
        produce_messages.ProduceResponse(
            responses=[
                produce_messages.TopicProduceResponse(
                    name=name,
                    topic_id=UUID,
                    partition_responses=[
                        produce_messages.PartitionProduceResponse(
                            index=3, error_code=0, base_offset=77, log_append_time_ms=-1, log_start_offset=4
                        )
                    ],
                )
            ],
            throttle_time_ms=6,
        ),
        version,
    )
    body = (1 << 30).to_bytes(4, "big") + (b"\0" if version >= 9 else b"") + body
    written = write_produce_response(
        version, 1 << 30, [ProducedTopic(name, UUID, [ProducedPartition(3, 0, 77, -1, 4)])], 6
    )
    assert written == len(body).to_bytes(4, "big") + body


def test_produced_records_are_writable_views_of_the_frame() -> None:
    request = produce_messages.ProduceRequest(
        acks=1,
        topic_data=[
            produce_messages.TopicProduceData(
                name="t", partition_data=[produce_messages.PartitionProduceData(index=0, records=b"abc")]
            )
        ],
    )
    frame = bytearray(encode(request, 9))
    records = read_produce_request(memoryview(frame), 9).topic_data[0].partition_data[0].records
    assert records is not None
    records[:] = b"xyz"
    assert b"xyz" in frame


def fetch_request(rng: random.Random, version: int) -> fetch_messages.FetchRequest:
    partitions = [
        fetch_messages.FetchPartition(
            partition=rng.randrange(1 << 31),
            current_leader_epoch=rng.randrange(-1, 99),
            fetch_offset=rng.randrange(1 << 62),
            last_fetched_epoch=rng.randrange(-1, 99) if version >= 12 else -1,
            log_start_offset=rng.randrange(-1, 1 << 40),
            partition_max_bytes=rng.randrange(1 << 31),
            replica_directory_id=rng.choice((bytes(16), UUID)),
            high_watermark=rng.choice((5, (1 << 63) - 1)),
        )
        for _ in range(rng.choice((0, 1, 3, 130)))
    ]
    topics = [
        fetch_messages.FetchTopic(topic=f"topic-{n}", topic_id=UUID, partitions=partitions)
        for n in range(rng.choice((0, 1, 2)))
    ]
    forgotten = [
        fetch_messages.ForgottenTopic(topic="gone", topic_id=UUID, partitions=[1, 2, 3])
        for _ in range(rng.choice((0, 1)) if version >= 7 else 0)
    ]
    state = fetch_messages.ReplicaState()
    if version >= 15:
        state = fetch_messages.ReplicaState(replica_id=rng.choice((-1, 7)), replica_epoch=rng.choice((-1, 9)))
    return fetch_messages.FetchRequest(
        cluster_id=rng.choice((None, "c")),
        replica_id=rng.choice((-1, 7)) if version < 15 else -1,
        replica_state=state,
        max_wait_ms=rng.randrange(1 << 31),
        min_bytes=rng.randrange(1 << 31),
        max_bytes=rng.randrange(1 << 31),
        isolation_level=rng.choice((0, 1)),
        session_id=rng.randrange(1 << 31) if version >= 7 else 0,
        session_epoch=rng.randrange(-1, 99) if version >= 7 else -1,
        topics=topics,
        forgotten_topics_data=forgotten,
        rack_id=rng.choice(("", "r1")) if version >= 11 else "",
    )


def fetch_shape(request: Any, version: int) -> Any:
    def topic(each: Any) -> Any:
        return each.topic_id if version >= 13 else each.topic

    state = getattr(request, "replica_state", None)
    replica = (request.replica_id, getattr(request, "replica_epoch", -1))
    if state is not None and version >= 15:
        replica = (state.replica_id, state.replica_epoch)
    fields = (
        *("partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset"),
        *("partition_max_bytes", "replica_directory_id", "high_watermark"),
    )
    return (
        *(replica, request.cluster_id, request.max_wait_ms, request.min_bytes, request.max_bytes, request.rack_id),
        *(request.isolation_level, request.session_id, request.session_epoch),
        [(topic(t), [[getattr(p, name) for name in fields] for p in t.partitions]) for t in request.topics],
        [(topic(t), list(t.partitions)) for t in request.forgotten_topics_data],
    )


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_requests_read_as_the_generated_codec_reads_them(version: int) -> None:
    rng = random.Random(version)
    for _ in range(30):
        data = memoryview(b"head" + encode(fetch_request(rng, version), version))
        expected, _ = decode(fetch_messages.FetchRequest, data, version, 4)
        assert fetch_shape(read_fetch_request(data, version, 4), version) == fetch_shape(expected, version)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_responses_are_the_generated_codecs_bytes(version: int) -> None:
    for errors, message, leader, nodes in (
        ([], None, (-1, -1), []),
        ([(3, None), (200, "bad")], "x" * 300, (2, 9), [(2, "host", 9092, None), (3, "h", 1, "rack")]),
    ):
        common = {"index": 7, "error_code": 87, "base_offset": 1 << 40, "log_append_time_ms": -1, "log_start_offset": 5}
        part = ProducedPartition(
            *common.values(), record_errors=errors, error_message=message, leader_id=leader[0], leader_epoch=leader[1]
        )
        expected = produce_messages.ProduceResponse(
            responses=[
                produce_messages.TopicProduceResponse(
                    name="näme",
                    topic_id=UUID,
                    partition_responses=[
                        produce_messages.PartitionProduceResponse(
                            **common,
                            record_errors=[
                                produce_messages.BatchIndexAndErrorMessage(batch_index=i, batch_index_error_message=m)
                                for i, m in errors
                            ],
                            error_message=message,
                            current_leader=produce_messages.LeaderIdAndEpoch(
                                leader_id=leader[0] if version >= 10 else -1,
                                leader_epoch=leader[1] if version >= 10 else -1,
                            ),
                        )
                    ]
                    * 2,
                )
            ],
            throttle_time_ms=11,
            node_endpoints=[
                produce_messages.NodeEndpoint(node_id=n, host=h, port=p, rack=r)
                for n, h, p, r in nodes
                if version >= 10
            ],
        )
        written = write_produce_response(
            version, 77, [ProducedTopic("näme", UUID, [part, part])], 11, [NodeEndpoint(*node) for node in nodes]
        )
        header = (77).to_bytes(4, "big") + (b"\0" if version >= 9 else b"")
        body = header + encode(expected, version)
        assert written == len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("records", [None, b"", b"r" * 100, b"r" * 5000])
def test_fetch_responses_are_the_generated_codecs_bytes(version: int, records: bytes | None) -> None:
    flexible = version >= 12
    nodes = [NodeEndpoint(2, "host", 9092, None)] if version >= 16 else []
    parts, expected = [], []
    for index, aborted in enumerate((None, [], [(5, 6), (7, 8)])):
        part = FetchedPartition(index, 1, 100, 90, 3, records, len(records or b""), aborted, 4 if version >= 11 else -1)
        fields: dict[str, Any] = {}
        if flexible and index:
            part.diverging_epoch, part.diverging_end_offset = 3, 44
            part.leader_id, part.leader_epoch = 1, 2
            part.snapshot_end_offset, part.snapshot_epoch = 9, 8
            fields = {
                "diverging_epoch": fetch_messages.EpochEndOffset(epoch=3, end_offset=44),
                "current_leader": fetch_messages.LeaderIdAndEpoch(leader_id=1, leader_epoch=2),
                "snapshot_id": fetch_messages.SnapshotId(end_offset=9, epoch=8),
            }
        parts.append(part)
        pairs = (
            None
            if aborted is None
            else [fetch_messages.AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted]
        )
        expected.append(
            fetch_messages.PartitionData(
                partition_index=index,
                error_code=1,
                high_watermark=100,
                last_stable_offset=90,
                log_start_offset=3 if version >= 5 else -1,
                aborted_transactions=pairs,
                preferred_read_replica=part.preferred_read_replica,
                records=records,
                **fields,
            )
        )
    error, session = (6, 5) if version >= 7 else (0, 0)
    body = encode(
        fetch_messages.FetchResponse(
            throttle_time_ms=9,
            error_code=error,
            session_id=session,
            responses=[fetch_messages.FetchableTopicResponse(topic="t", topic_id=UUID, partitions=expected)],
            node_endpoints=[fetch_messages.NodeEndpoint(node_id=n.node_id, host=n.host, port=n.port) for n in nodes],
        ),
        version,
    )
    body = (77).to_bytes(4, "big") + (b"\0" if flexible else b"") + body
    written = write_fetch_response(version, 77, [FetchedTopic("t", UUID, parts)], 9, error, session, nodes)
    assert b"".join(written) == len(body).to_bytes(4, "big") + body  # type: ignore[arg-type]


class FileSlice:
    """Stands where the shell puts bytes that it sends from a file."""


def test_a_file_slice_keeps_its_place_among_the_parts() -> None:
    piece = FileSlice()
    parts = write_fetch_response(
        18, 1, [FetchedTopic("", UUID, [FetchedPartition(0, records=piece, records_size=1 << 20)])]
    )
    assert [part for part in parts if part is piece] == [piece]
    sizes = [1 << 20 if part is piece else len(part) for part in parts]  # type: ignore[arg-type]
    assert int.from_bytes(parts[0][:4], "big") == sum(sizes) - 4  # type: ignore[index]


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_every_cut_of_a_produce_request_is_refused(version: int) -> None:
    rng = random.Random(5)
    request = produce_request(rng)
    while not request.topic_data or not 0 < len(request.topic_data[0].partition_data) < 4:
        request = produce_request(rng)
    data = encode(request, version)
    cuts = [*range(min(200, len(data))), *(len(data) - n for n in range(1, 40))]
    for cut in cuts:
        with pytest.raises(WireError):
            read_produce_request(memoryview(data[:cut]), version)


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 15, 18])
def test_damaged_requests_raise_wire_errors_only(version: int) -> None:
    rng = random.Random(version)
    for _ in range(300):
        damaged = bytearray(encode(fetch_request(rng, version), version))
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        view = memoryview(damaged[: rng.randrange(len(damaged) + 1)])
        for read in (lambda v: read_fetch_request(v, version), lambda v: read_produce_request(v, min(version, 13))):
            with suppress(WireError):
                read(view)
