"""What a follower lives through, call by call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from tests.faults.broker_stage import TOPICS
from tests.faults.broker_stories import (
    SMALL,
    WITHOUT_CHECKPOINTS,
    BrokerStory,
    abort_then_commit,
    delete_first_records,
    stop,
    topics_come_and_go,
    write_snapshots,
)
from tests.faults.follower_stage import FollowerStage

__all__ = ["FOLLOWER_STORIES"]

Act = Callable[[FollowerStage], Awaitable[None]]


class FollowerStory(BrokerStory):
    """What is done before calls are counted, and what after."""

    stage = FollowerStage


FOLLOWER_STORIES: dict[str, BrokerStory] = {}


async def three_topics(stage: FollowerStage) -> None:
    """Three topics that are followed, and a few records in each; the first one is flushed before it is acknowledged."""
    await stage.begin()
    for name in TOPICS:
        await stage.create(name, **(SMALL | ({"flush_messages": "1"} if name == "victim" else {})))
        await stage.produce(name, 2)
    await stage.produce("victim", 3)
    await stage.all_in_sync()


def story(name: str, prepare: Act = three_topics, settings: tuple[str, ...] = ()) -> Callable[[Act], Act]:
    """Register a story."""

    def register(play: Act) -> Act:
        full = f"follower-{name}"
        FOLLOWER_STORIES[full] = FollowerStory(full, cast(Any, play), cast(Any, prepare), settings)
        return play

    return register


@story("append")
async def _append(stage: FollowerStage) -> None:
    """With rolls, and each record on the device of both before it is acknowledged."""
    for _ in range(3):
        await stage.produce("victim", 2)
    for _ in range(4):
        await stage.produce("neighbour", 2)


story("topics")(topics_come_and_go)
story("delete-records")(delete_first_records)
story("stop")(stop)
story("snapshots", settings=WITHOUT_CHECKPOINTS)(write_snapshots)


async def with_transactions(stage: FollowerStage) -> None:
    """The coordinator's topic is followed, too."""
    await three_topics(stage)
    await stage.create("__transaction_state", cleanup_policy="compact")
    await stage.all_in_sync()
    stage.said["__transaction_state"].certain = False  # only its coordinator writes to it


story("transactions", with_transactions)(abort_then_commit)


async def behind(stage: FollowerStage) -> None:
    """A follower that was stopped while the leader went on."""
    await three_topics(stage)
    await stage.stop()
    await four_more(stage)


async def four_more(stage: FollowerStage) -> None:
    """The leader goes on alone."""
    with stage.without_follower():
        for name in TOPICS:
            await stage.produce(name, 4)


async def killed_behind(stage: FollowerStage) -> None:
    """A follower that was killed while the leader went on."""
    await three_topics(stage)
    stage.kill()
    await four_more(stage)


@story("start-clean", behind)
async def _start_clean(stage: FollowerStage) -> None:
    await stage.boot()
    await stage.all_in_sync()


@story("start-unclean", killed_behind)
async def _start_unclean(stage: FollowerStage) -> None:
    await stage.boot()
    await stage.all_in_sync()


async def too_old(stage: FollowerStage) -> None:
    """A follower whose log ends before the leader's begins."""
    await behind(stage)
    with stage.without_follower():
        await stage.delete_records("victim", 8)


@story("start-too-old", too_old, WITHOUT_CHECKPOINTS)
async def _start_too_old(stage: FollowerStage) -> None:
    await stage.boot()
    await stage.all_in_sync()


async def ahead(stage: FollowerStage) -> None:
    """A follower with records that its leader has lost: it is to truncate them."""
    await three_topics(stage)
    for _ in range(3):
        await stage.produce("neighbour", 2)
    await stage.all_in_sync()
    await stage.stop()
    with stage.without_follower():
        await stage.lose_power_of_leader()
        await stage.take_what_is_left()
        await stage.produce("neighbour")


@story("start-truncate", ahead, WITHOUT_CHECKPOINTS)
async def _start_truncate(stage: FollowerStage) -> None:
    await stage.boot()
    await stage.all_in_sync()
