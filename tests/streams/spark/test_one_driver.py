"""Two drivers of one application with state folders of their own: one at a time, and each result once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ottla.base import KafkaError, TopicPartition
from ottla.spark import State, StreamsApplication
from ottla.streams import StreamsBuilder, Topology
from tests.streams.spark.test_application import LOOK_SECONDS, WAIT_SECONDS_MAX, World, joining

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.spark
SESSION_MS = 2_000


def shouting(topic: str) -> Topology:
    """Lines in capitals, without state."""
    builder = StreamsBuilder()
    lines = builder.stream(topic, key_serde="string", value_serde="string")
    lines.map_values(str.upper, value_serde="string").to(f"{topic}-out", key_serde="string", value_serde="string")
    return builder.build()


Driver = Callable[[str], StreamsApplication]


def drivers(world: World, plan: Callable[[str], Topology]) -> Driver:
    def made(name: str) -> StreamsApplication:
        return world.application(
            plan(world.name),
            state_dir=f"{world._folder}/{name}",
            client_id=name,
            processing_guarantee="exactly_once_v2",
            session_timeout_ms=SESSION_MS,
        )

    return made


def until_read(world: World, application: StreamsApplication, count: int) -> None:
    """Wait until so many results are committed."""
    until = time.monotonic() + WAIT_SECONDS_MAX
    while len(world.outputs()) < count:
        assert time.monotonic() < until and not application.state.is_final, application.status()
        time.sleep(LOOK_SECONDS)


async def no_goodbye() -> None:
    """What a driver says that is killed."""


def kill(application: StreamsApplication) -> None:
    """Stop a driver as a kill does: it commits nothing more for the group, and does not leave it."""
    assert application._membership is not None
    application._commit = lambda offsets: None  # type: ignore[method-assign]
    application._membership._say_goodbye = no_goodbye  # type: ignore[method-assign]
    application.close()


def test_a_second_driver_with_another_state_dir_is_refused_while_the_first_lives(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.spark.streams.membership.SLACK_SECONDS", 0.5)
    world.feed("a", "b", "c")
    driver = drivers(world, shouting)
    with driver("one") as first:
        until_read(world, first, 3)
        second = driver("two")
        with pytest.raises(KafkaError, match=r"is already run by one at"):
            second.start()
        assert second.state is State.ERROR and first.state is State.RUNNING
    assert sorted(value for _, value in world.outputs()) == [b"A", b"B", b"C"]


def test_a_driver_with_another_state_dir_goes_on_where_the_killed_one_was(world: World) -> None:
    world.feed("a", "b", "c")
    driver = drivers(world, shouting)
    first = driver("one").start()
    first._commit = lambda offsets: None  # type: ignore[method-assign]
    until_read(world, first, 3)
    kill(first)
    world.feed("d")
    with driver("two") as second:
        until_read(world, second, 4)
    assert sorted(value for _, value in world.outputs()) == [b"A", b"B", b"C", b"D"]


# three applications in turn; each pair of them is in the model's cases of every run (`tests/streams/machine`)
@pytest.mark.slow
def test_state_goes_on_between_two_state_dirs_that_take_turns(world: World) -> None:
    driver = drivers(world, joining)
    words = []
    for turn, name in enumerate(("one", "two", "one")):
        words.append(f"w{turn}")
        world.feed(words[-1], key="k")
        with driver(name) as application:
            world.until(application, "lines", {"k": " ".join(words)})
            if turn == 1:
                world.client.commit_offsets(  # an older offset, as a kill before the commit leaves it
                    f"app-{world.name}",
                    {TopicPartition(world.name, 0): 1},  # type: ignore[dict-item]
                    member=application._membership.member,  # type: ignore[union-attr]
                )
                kill(application)
    assert [value for _, value in world.outputs()] == [b"w0", b"w0 w1", b"w0 w1 w2"]
