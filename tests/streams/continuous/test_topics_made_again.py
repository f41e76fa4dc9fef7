"""A source topic that is deleted and made again: it has the name and the offsets of the old one, and other records."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.admin import delete_topics
from ottla.base import Offset, TopicPartition
from ottla.spark import State, StreamsApplication
from ottla.spark.continuous.jobs import ThreadHostJobs
from ottla.spark.continuous.work import Note, note_of, words_of
from ottla.streams import StreamsBuilder, Topology
from tests.streams.continuous.worlds import WAIT_SECONDS_MAX, World
from tests.waiting import until

pytestmark = pytest.mark.timeout(240)
BOTH = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
OLD = Note(None, bytes(range(16)).hex())
"""What stands beside an offset of a topic that is gone."""


def copying(world: World) -> Topology:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    builder.stream(world.name).map_values(str.upper).to(world.out)
    return builder.build()


def looking_up(world: World, countries: str) -> Topology:
    """Lines joined with a table that every task has whole."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    found = builder.global_table(countries)
    builder.stream(world.name).join(found, lambda line, name: f"{line} {name}", key=lambda line: line).to(world.out)
    return builder.build()


def running(world: World, topology: Topology, **settings: Any) -> StreamsApplication:
    application = world.application(topology, ThreadHostJobs(), **settings)
    application.start()
    assert application.wait_running(WAIT_SECONDS_MAX)
    return application


def make_again(world: World, topic: str) -> None:
    """Delete a topic, and make another of the same name."""
    assert delete_topics(world.client, [topic]) == {topic: None}
    until(lambda: topic not in world.client.metadata().topics, "the topic's end", seconds=WAIT_SECONDS_MAX)
    world.topics(topic)


def values(world: World) -> list[str]:
    return sorted(each.value.decode() for each in world.read(world.out))


def await_values(world: World, *wanted: str) -> None:
    until(lambda: values(world) == sorted(wanted), what=lambda: str(values(world)), seconds=WAIT_SECONDS_MAX)


def committed(world: World, partition: int = 0) -> tuple[int, Note]:
    place = TopicPartition(world.name, partition)
    found = world.client.committed_offsets(f"app-{world.name}", [place]).get(place)
    return (-1, Note()) if found is None else (int(found.offset), note_of(found.metadata))


@BOTH
def test_every_record_of_a_source_that_was_made_again_is_read_though_it_has_more_than_the_old_one(
    world: World, guarantee: str
) -> None:
    application = running(world, copying(world), processing_guarantee=guarantee)
    world.feed("a", "b")
    await_values(world, "A", "B")
    until(lambda: committed(world)[0] == 2, "the commit", seconds=WAIT_SECONDS_MAX)
    application.pause()
    make_again(world, world.name)
    world.feed("c", "d", "e", "f")
    application.resume()
    await_values(world, *"ABCDEF")
    assert application.wait_running(WAIT_SECONDS_MAX)
    until(lambda: committed(world)[0] == 4, "the commit", seconds=WAIT_SECONDS_MAX)
    topic_id = world.client.metadata([world.name]).topics[world.name].topic_id.hex()
    assert committed(world)[1].topic_id == topic_id


def test_the_reset_policy_says_where_a_source_that_was_made_again_is_read_from(world: World) -> None:
    application = running(world, copying(world), auto_offset_reset="latest")
    world.feed("a", "b")
    await_values(world, "A", "B")
    application.pause()
    make_again(world, world.name)
    world.feed("c", "d", "e", "f")
    application.resume()
    until(lambda: committed(world)[0] == 4, "a beginning", seconds=WAIT_SECONDS_MAX)
    world.feed("g")
    await_values(world, *"ABG")


def test_an_offset_of_a_topic_that_is_gone_is_no_place_to_begin_at(world: World) -> None:
    places = {TopicPartition(world.name, each): Offset(1) for each in (0, 1)}
    world.client.commit_offsets(f"app-{world.name}", places, metadata=words_of(OLD))
    world.feed("a", "b")
    world.feed("c", "d", partition=1)
    running(world, copying(world))
    await_values(world, *"ABCD")


def test_an_offset_without_a_topics_id_is_gone_on_from_and_gets_the_id(world: World) -> None:
    places = {TopicPartition(world.name, each): Offset(1) for each in (0, 1)}
    world.client.commit_offsets(f"app-{world.name}", places, metadata="ottla ")
    world.feed("a", "b")
    running(world, copying(world))
    await_values(world, "B")
    topic_id = world.client.metadata([world.name]).topics[world.name].topic_id.hex()
    assert [committed(world, each)[1].topic_id for each in (0, 1)] == [topic_id, topic_id]


def test_a_global_table_whose_topic_was_made_again_has_what_that_has(world: World) -> None:
    countries = f"{world.name}-countries"
    world.topics(countries)
    world.put(countries, at="Austria", fr="France")
    application = running(world, looking_up(world, countries))
    world.feed("at")
    await_values(world, "at Austria")
    application.pause()
    make_again(world, countries)
    world.put(countries, de="Germany", it="Italy", at="Österreich")
    application.resume()
    until(lambda: application.state is not State.RUNNING, "that it is noticed", seconds=WAIT_SECONDS_MAX)
    assert application.wait_running(WAIT_SECONDS_MAX)
    world.feed("at", "de", "fr")
    await_values(world, "at Austria", "at Österreich", "de Germany")
