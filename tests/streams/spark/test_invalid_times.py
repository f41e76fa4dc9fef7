"""Records whose timestamp is negative: each extractor does with them what Kafka Streams' does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from ottla.base import KafkaError, Millis, TopicPartition
from ottla.client import BlockingClient
from ottla.spark import State
from ottla.streams import FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, StreamsBuilder, Topology
from ottla.wire import Record, build_batch
from tests.streams.spark.test_application import LOOK_SECONDS, NOW_MS, WAIT_SECONDS_MAX, World

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.spark


def shouting(topic: str, extractor: Any) -> Topology:
    builder = StreamsBuilder()
    lines = builder.stream(topic, key_serde="string", value_serde="string", timestamp_extractor=extractor)
    lines.map_values(str.upper, value_serde="string").to(f"{topic}-out", key_serde="string", value_serde="string")
    return builder.build()


def counting(topic: str, extractor: Any) -> Topology:
    builder = StreamsBuilder()
    lines = builder.stream(topic, key_serde="string", value_serde="string", timestamp_extractor=extractor)
    counts = lines.group_by_key().count(materialized="counts")
    counts.to_stream().to(f"{topic}-out", key_serde="string", value_serde="long")
    return builder.build()


@pytest.fixture
def world(world: World, client: BlockingClient) -> World:
    """The folder's world, with records of good and bad times in its topic."""
    times = (NOW_MS, -5, NOW_MS + 1, -1, NOW_MS + 2)
    records = [Record(0, Millis(at), b"k", b"v%d" % index, ()) for index, at in enumerate(times)]
    client.produce({TopicPartition(world.name, 0): bytes(build_batch(records))})
    return world


def in_columns(topic: str, extractor: Any) -> Topology:
    """Through Spark, which reads the source for each of two sinks."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    lines = builder.stream(topic, timestamp_extractor=extractor)
    lines.map_values("initcap(value)").to(f"{topic}-out")
    lines.filter("substring(value, 1, 1) = 'x'").to(f"{topic}-out")
    return builder.build()


def joining(topic: str, extractor: Any) -> Topology:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    lines = builder.stream(topic, timestamp_extractor=extractor).group_by_key()
    lines.reduce(lambda one, other: f"{one} {other}", materialized="lines").to_stream().to(f"{topic}-out")
    return builder.build()


LEFT = {
    shouting: [b"V0", b"V2", b"V4"],
    in_columns: [b"V0", b"V2", b"V4"],
    counting: [(3).to_bytes(8, "big")],
    joining: [b"v0 v2 v4"],
}


@pytest.mark.parametrize(
    "plan", [shouting, in_columns, joining, pytest.param(counting, marks=pytest.mark.slow)]
)  # as below
def test_log_and_skip_drops_and_counts_a_negative_time_and_goes_on(world: World, plan: Any) -> None:
    with world.application(plan(world.name, LogAndSkipOnInvalidTimestamp())) as application:
        until = time.monotonic() + WAIT_SECONDS_MAX
        while [value for _, value in world.outputs()] != LEFT[plan] or not application.status()["queries"][0][
            "batches"
        ]:
            assert time.monotonic() < until and not application.state.is_final, application.status()
            time.sleep(LOOK_SECONDS)
        assert application.status()["queries"][0]["skipped"] == 2


@pytest.mark.parametrize(("plan", "extractor"), [(shouting, None), (counting, FailOnInvalidTimestamp())])
def test_fail_on_invalid_ends_the_application_at_a_negative_time_and_names_it(
    world: World, plan: Any, extractor: Any
) -> None:
    application = world.application(plan(world.name, extractor))
    with pytest.raises(KafkaError, match=f"{world.name}.*timestamp -5 is negative"):
        application.start().wait(WAIT_SECONDS_MAX)
    assert application.state is State.ERROR and not world.outputs()
