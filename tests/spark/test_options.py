"""The options of `format("ottla")`: Kafka's connector's, and what a wrong one says."""

from __future__ import annotations

import pytest

from ottla.base import ConfigError, TopicPartition
from ottla.client import Isolation
from ottla.spark.source.options import OffsetChoice, Subscription, read_options, write_options
from ottla.wire import Codec

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def reading(*, streaming: bool = False, **options: str) -> object:
    return read_options({**SERVERS, "subscribe": "a", **options}, streaming=streaming)


def test_defaults_are_those_of_sparks_connector() -> None:
    batch = read_options({**SERVERS, "SUBSCRIBE": "a, b,a"}, streaming=False)
    assert batch.subscription == Subscription(topics=("a", "b"))
    assert (batch.starting.kind, batch.ending.kind) == ("earliest", "latest")
    assert (batch.fail_on_data_loss, batch.include_headers) == (True, False)
    assert batch.isolation is Isolation.READ_UNCOMMITTED
    assert read_options({**SERVERS, "subscribe": "a"}, streaming=True).starting.kind == "latest"
    assert (
        read_options({"bootstrap.servers": "h:1", "subscribe": "a"}, streaming=True).connecting.bootstrap[0].port == 1
    )


def test_partitions_can_be_assigned_and_topics_matched() -> None:
    options = {**SERVERS, "assign": '{"a":[1,0],"b":[2]}'}
    partitions = (TopicPartition("a", 1), TopicPartition("a", 0), TopicPartition("b", 2))
    assert read_options(options, streaming=False).subscription == Subscription(assigned=partitions)
    options = {**SERVERS, "subscribePattern": "a.*"}
    assert read_options(options, streaming=False).subscription == Subscription(pattern="a.*")


def test_starting_points_are_read_the_more_exact_time_first() -> None:
    def starting(**options: str) -> OffsetChoice:
        return read_options({**SERVERS, "subscribe": "a", **options}, streaming=True).starting

    assert starting(startingOffsets='{"a":{"0":23,"1":-2}}').by_partition == {
        TopicPartition("a", 0): 23,
        TopicPartition("a", 1): -2,
    }
    by_time = starting(startingOffsetsByTimestamp='{"a":{"0":5}}', startingOffsets="earliest")
    assert (by_time.kind, by_time.by_partition, by_time.latest_when_later) == (
        "timestamps",
        {TopicPartition("a", 0): 5},
        False,
    )
    for_all = starting(startingTimestamp="7", startingOffsetsByTimestamp='{"a":{"0":5}}')
    assert (for_all.kind, for_all.timestamp_ms) == ("timestamp", 7)
    assert starting(startingTimestamp="7", startingOffsetsByTimestampStrategy="latest").latest_when_later


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "startingOffsets"),
        ({"startingOffsets": "soon"}, "startingOffsets"),
        ({"startingOffsets": '{"a":[0]}'}, "startingOffsets"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "startingOffsets"),
        ({"endingOffsets": "earliest"}, "endingOffsets"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "endingOffsets"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp"),
        ({"endingOffsetsByTimestamp": "{}x"}, "endingOffsetsByTimestamp"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "startingOffsetsByTimestampStrategy"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
        ({"minPartitions": "many"}, "minPartitions"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss"),
        ({"includeHeaders": "1"}, "includeHeaders"),
        ({"assign": '{"a":[0]}'}, "subscribe"),
        ({"kafka.isolation.level": "serializable"}, r"kafka\.isolation\.level"),
        ({"kafka.bootstrap.servers": "nowhere"}, r"bootstrap\.servers"),
        ({"startingOfsets": "earliest"}, "startingofsets"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        reading(**options)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers"):
        read_options({"subscribe": "a"}, streaming=False)
    with pytest.raises(ConfigError, match="exactly one of subscribe, subscribePattern and assign"):
        read_options(SERVERS, streaming=False)
    with pytest.raises(ConfigError, match="a regular expression"):
        read_options({**SERVERS, "subscribePattern": "("}, streaming=False)
    with pytest.raises(ConfigError, match="endingOffsets"):
        reading(streaming=True, endingOffsets="latest")


def test_a_sinks_options_are_read_and_refused() -> None:
    options = {**SERVERS, "topic": "t", "kafka.compression.type": "zstd", "kafka.acks": "1", "checkpointLocation": "x"}
    found = write_options({**options, "kafka.batch.size": "1000"})
    assert (found.topic, found.codec, found.acks, found.batch_bytes, found.idempotent) == (
        "t",
        Codec.ZSTD,
        1,
        1000,
        False,
    )
    assert write_options(SERVERS).idempotent
    for wrong in (
        {"kafka.acks": "2"},
        {"kafka.compression.type": "rar"},
        {"kafka.acks": "0", "kafka.enable.idempotence": "true"},
    ):
        with pytest.raises(ConfigError, match=next(iter(wrong)).replace(".", r"\.")):
            write_options({**SERVERS, **wrong})
