"""Queries without state whose records go through Spark: their tasks say how far they come, whatever the plan is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ottla.base import KafkaError, TopicPartition
from ottla.client import BlockingClient
from ottla.spark.source.positions import Stretch
from ottla.spark.streams.commits import commits_topic, last_committed
from ottla.spark.streams.planned import readings
from ottla.spark.streams.state.positions import position_records, read_furthest
from ottla.streams import StreamsBuilder, Topology
from ottla.wire import build_batch
from tests.spark.conftest import create_topic
from tests.streams.spark.test_application import World
from tests.streams.spark.test_one_driver import drivers, kill, until_read

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.spark


def in_columns(topic: str) -> Topology:
    """An expression that Arrow does not compute as Spark does, so that records go through Spark."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    builder.stream(topic).map_values("initcap(value)").to(f"{topic}-out")
    return builder.build()


def merged(topic: str) -> Topology:
    """Two sources as one stream."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    other = builder.stream(f"{topic}-other")
    builder.stream(topic).merge(other).map_values("initcap(value)").to(f"{topic}-out")
    return builder.build()


def forked(topic: str) -> Topology:
    """Two sinks, for each of which Spark reads the source; one of them takes little."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    lines = builder.stream(topic)
    lines.map_values("initcap(value)").to(f"{topic}-out")
    lines.filter("substring(value, 1, 1) = 'c'").to(f"{topic}-other")
    return builder.build()


def beside(topic: str) -> Topology:
    """A copy, and beside it an aggregate of Spark's over the same topic."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    lines = builder.stream(topic)
    lines.map_values("initcap(value)").to(f"{topic}-out")
    lines.group_by_key().count(materialized="counts").to_stream().to(f"{topic}-other", value_serde="long")
    return builder.build()


@pytest.mark.parametrize(
    "plan",
    # each runs two applications; what these two have more than the last is in the model's cases of every run
    [*(pytest.param(each, marks=pytest.mark.slow) for each in (in_columns, merged)), forked, beside],
)
def test_a_killed_drivers_last_batch_is_not_repeated_from_another_state_dir(
    world: World, plan: Callable[[str], Topology]
) -> None:
    create_topic(world.client, f"{world.name}-other", 2)
    world.feed("a", "b", key="k")
    world.feed("c", key="l", partition=1)
    driver = drivers(world, plan)
    first = driver("one").start()
    first._commit = lambda offsets: None  # type: ignore[method-assign]
    until_read(world, first, 3)
    world.feed("d", key="k")
    until_read(world, first, 4)
    kill(first)
    world.feed("e", key="k")
    with driver("two") as second:
        until_read(world, second, 5)
    assert sorted(value for _, value in world.outputs()) == [b"A", b"B", b"C", b"D", b"E"]


def test_branches_that_came_unequally_far_are_refused_without_their_checkpoint(client: BlockingClient) -> None:
    place = commits_topic("forked", "stateless-0")
    create_topic(client, place.topic)
    create_topic(client, "forked-in")
    source = TopicPartition("forked-in", 0)
    client.produce({source: bytes(build_batch(position_records(0, {source: 9}, {})))})  # type: ignore[dict-item]
    for branch, offset in ((0, 1), (1, 1), (0, 0)):
        notes = position_records(branch, {source: offset}, {}, branches=2)  # type: ignore[dict-item]
        client.produce({place: bytes(build_batch(notes))})
    assert len(last_committed(client, place)[0]) == 2
    with pytest.raises(KafkaError, match="no offset to begin at is right for all"):
        read_furthest(client, "forked", "stateless-0")
    assert read_furthest(client, "forked", "stateless-0", but=[source]) == {}


def test_a_partition_that_several_tasks_read_has_as_many_branches() -> None:
    one, other = (Stretch(TopicPartition("t", number), 0, 5) for number in (0, 1))  # type: ignore[arg-type]
    assert [(each.branch, each.branches) for each in readings([[one], [other]])] == [(0, 1), (0, 1)]
    found = readings([[one], [other], [one], [other]])
    assert [(each.branch, each.branches) for each in found] == [(0, 2), (0, 2), (1, 2), (1, 2)]
    assert [dict(each.ends) for each in found[:2]] == [{one.partition: 5}, {other.partition: 5}]
