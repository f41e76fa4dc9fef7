"""What became of an application's topics while it was stopped: `auto.offset.reset` decides, as in Kafka Streams."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import pytest

from ottla.base import KafkaError, Offset, TopicPartition
from ottla.client import LATEST
from ottla.spark import State, StreamsApplication
from ottla.spark.streams.preparation import prepare
from ottla.spark.streams.progress import delete_read_records
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tests.spark.conftest import make_again
from tests.streams.spark.test_application import LOOK_SECONDS, WAIT_SECONDS_MAX, World
from tests.streams.spark.test_one_driver import shouting, until_read

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.spark


def application(world: World, **settings: str) -> StreamsApplication:
    return world.application(shouting(world.name), processing_guarantee="exactly_once_v2", **settings)


def values(world: World) -> list[bytes]:
    return sorted(value for _, value in world.outputs())


def passed_by_retention(world: World) -> None:
    """Let an application read two records and stop; five come, of which the first three are deleted."""
    world.feed("a", "b")
    with application(world) as first:
        until_read(world, first, 2)
    world.feed("c", "d", "e", "f", "g")
    delete_read_records(world.client, {TopicPartition(world.name, 0): Offset(5)})


IN_THE_MODEL = pytest.mark.slow
"""Two applications each; topics that are cut, or made again, are among the cases of the model, in every run (`machine`)."""


@pytest.mark.parametrize("reset", ["earliest", pytest.param("latest", marks=IN_THE_MODEL)])
def test_retention_that_passes_a_stopped_application_is_for_the_reset_policy(
    world: World, reset: str, caplog: pytest.LogCaptureFixture
) -> None:
    passed_by_retention(world)
    caplog.set_level(logging.WARNING)
    with application(world, auto_offset_reset=reset) as second:
        if reset == "latest":
            end = world.client.list_offsets({TopicPartition(world.name, 0): LATEST})
            until = time.monotonic() + WAIT_SECONDS_MAX
            while second._supervisor is None or second._supervisor.processed() != {
                TopicPartition(world.name, 1): 0,
                **{each: found.offset for each, found in end.items()},
            }:
                assert time.monotonic() < until and not second.state.is_final, second.status()
                time.sleep(LOOK_SECONDS)
            world.feed("h")
        until_read(world, second, 4 if reset == "earliest" else 3)
        assert second.status()["queries"][0]["restarts"] == 0
    assert values(world) == ([b"A", b"B", b"F", b"G"] if reset == "earliest" else [b"A", b"B", b"H"])
    assert f"auto.offset.reset is {reset}, so reading goes on at offset" in caplog.text


def test_without_a_reset_policy_the_error_names_the_offset_and_the_setting(world: World) -> None:
    passed_by_retention(world)
    second = application(world, auto_offset_reset="none")
    with pytest.raises(KafkaError, match=r"auto\.offset\.reset.*offset 2 of .* is not there \(it now begins at 5\)"):
        second.start().wait(WAIT_SECONDS_MAX)
    assert second.state is State.ERROR and values(world) == [b"A", b"B"]


@IN_THE_MODEL
def test_a_topic_that_was_made_again_is_read_from_where_the_reset_policy_says(world: World) -> None:
    world.feed("a", "b", "c")
    with application(world) as first:
        until_read(world, first, 3)
    make_again(world.client, world.name, 2)
    world.feed("d", "e")
    with application(world) as second:
        until_read(world, second, 5)
    assert values(world) == [b"A", b"B", b"C", b"D", b"E"]


@IN_THE_MODEL
def test_a_topic_that_was_made_again_loses_none_where_it_has_as_many_records_as_were_read(world: World) -> None:
    world.feed("a", "b", "c")
    with application(world) as first:
        until_read(world, first, 3)
    make_again(world.client, world.name, 2)
    world.feed("d", "e", "f", "g")
    with application(world) as second:
        until_read(world, second, 7)
    assert values(world) == [b"A", b"B", b"C", b"D", b"E", b"F", b"G"]


def test_a_topic_that_is_made_again_under_a_running_application_is_read_from_its_start(world: World) -> None:
    world.feed("a", "b", "c")
    with application(world) as running:
        until_read(world, running, 3)
        make_again(world.client, world.name, 2)
        world.feed("d", "e", "f", "g")
        until_read(world, running, 7)
    assert values(world) == [b"A", b"B", b"C", b"D", b"E", b"F", b"G"]


def test_partitions_that_come_between_planning_and_the_first_batch_are_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare_and_grow(*given: object) -> object:
        prepared = prepare(*given)  # type: ignore[arg-type]
        grown = CreatePartitionsTopic(name=world.name, count=3, assignments=None)
        [answer] = world.client.request(
            CreatePartitionsRequest(topics=[grown], timeout_ms=10_000), controller=True
        ).results
        assert answer.error_code == 0, answer.error_message
        world.client.metadata([world.name])
        world.feed("c", partition=2)
        return prepared

    world.feed("a")
    monkeypatch.setattr("ottla.spark.streams.run.prepare", prepare_and_grow)
    with application(world) as running:
        until_read(world, running, 2)
    assert values(world) == [b"A", b"C"]
