"""A follower's Fetch by hand agrees with the generated messages, byte for byte."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from ottla.base import WireError
from ottla.wire import encode_request, encode_response, read_replica_fetch, replica_fetch
from ottla.wire.messages import fetch as messages

VERSIONS = range(13, 19)
A, B = bytes(range(16)), bytes(range(16, 32))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [0, 1, 200])
def test_requests_are_those_of_the_generated_writer(version: int, count: int) -> None:
    rng = random.Random(count)
    topics = {
        topic_id: [
            (index, rng.randrange(9), rng.randrange(1 << 40), rng.randrange(-1, 9), rng.randrange(99), 1 << 20)
            for index in range(count)
        ]
        for topic_id in (A, B)[:count]
    }
    forgotten = {B: list(range(count))} if count else {}
    written = replica_fetch(
        version,
        77,
        "broker-2",
        topics,
        forgotten,
        replica_id=2,
        broker_epoch=1 << 33,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10 << 20,
        session_id=5,
        session_epoch=6,
    )
    by_version = (
        {"replica_state": messages.ReplicaState(replica_id=2, replica_epoch=1 << 33)}
        if version >= 15
        else {"replica_id": 2}
    )
    message = messages.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10 << 20,
        session_id=5,
        session_epoch=6,
        topics=[
            messages.FetchTopic(
                topic_id=topic_id,
                partitions=[
                    messages.FetchPartition(
                        partition=index,
                        current_leader_epoch=leader_epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=last_epoch,
                        log_start_offset=start,
                        partition_max_bytes=most,
                    )
                    for index, leader_epoch, offset, last_epoch, start, most in partitions
                ],
            )
            for topic_id, partitions in topics.items()
        ],
        forgotten_topics_data=[
            messages.ForgottenTopic(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in forgotten.items()
        ],
        **by_version,  # type: ignore[arg-type]
    )
    assert bytes(written) == encode_request(message, version, 77, "broker-2")


def answer(rng: random.Random) -> messages.FetchResponse:
    partitions = [
        messages.PartitionData(
            partition_index=index,
            error_code=rng.choice((0, 0, 6)),
            high_watermark=rng.randrange(1 << 40),
            last_stable_offset=3,
            log_start_offset=rng.randrange(1 << 20),
            diverging_epoch=messages.EpochEndOffset(epoch=4, end_offset=9)
            if rng.random() < 0.3
            else messages.EpochEndOffset(),
            current_leader=messages.LeaderIdAndEpoch(leader_id=1, leader_epoch=8)
            if rng.random() < 0.3
            else messages.LeaderIdAndEpoch(),
            aborted_transactions=rng.choice((None, [messages.AbortedTransaction(producer_id=1, first_offset=2)])),
            records=rng.choice((None, b"", rng.randbytes(rng.randrange(1, 30_000)))),
        )
        for index in range(rng.choice((0, 1, 40)))
    ]
    return messages.FetchResponse(
        throttle_time_ms=4,
        error_code=0,
        session_id=11,
        responses=[messages.FetchableTopicResponse(topic_id=each, partitions=partitions) for each in (A, B)],
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(5))
def test_answers_are_read_as_the_generated_reader_does(version: int, seed: int) -> None:
    message = answer(random.Random(seed))
    frame = memoryview(bytearray(encode_response(message, 1, version, 77)))[4:]
    found = read_replica_fetch(frame, version)
    assert (found.throttle_time_ms, found.error, found.session_id) == (4, 0, 11)
    wanted = [(topic.topic_id, each) for topic in message.responses for each in topic.partitions]
    assert [(each.topic_id, each.partition) for each in found.partitions] == [
        (topic_id, each.partition_index) for topic_id, each in wanted
    ]
    for got, (_, each) in zip(found.partitions, wanted, strict=True):
        assert (got.error, got.high_watermark, got.log_start_offset) == (
            each.error_code,
            each.high_watermark,
            each.log_start_offset,
        )
        assert bytes(got.records) == bytes(each.records or b"")
        assert (got.diverging_epoch, got.diverging_end) == (each.diverging_epoch.epoch, each.diverging_epoch.end_offset)


def test_what_is_cut_off_or_spoilt_is_refused_or_read_and_never_more() -> None:
    rng = random.Random(1)
    frame = bytearray(encode_response(answer(rng), 1, 17, 77))[4:]
    for at in range(0, len(frame), 97):
        with suppress(WireError):
            read_replica_fetch(memoryview(frame[:at]), 17)
    for _ in range(500):
        spoilt = bytearray(frame)
        spoilt[rng.randrange(min(len(spoilt), 300))] = rng.randrange(256)
        with suppress(WireError):
            read_replica_fetch(memoryview(spoilt), 17)
