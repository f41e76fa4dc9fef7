"""What a follower lives through, call by call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from tests.faults.broker_stage import TOPICS, Ended
from tests.faults.broker_stories import SMALL, WITHOUT_CHECKPOINTS, BrokerStory
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


@story("topics")
async def _topics(stage: FollowerStage) -> None:
    await stage.create("more", flush_messages="1")
    await stage.produce("more", 2)
    await stage.delete("more")
    await stage.create("more", flush_messages="1")
    await stage.produce("more", 3)
    await asyncio.sleep(3)  # the folder of the first one goes


@story("delete-records")
async def _delete_records(stage: FollowerStage) -> None:
    """The log's start moves behind the leader's, and segments go."""
    for _ in range(3):
        await stage.produce("victim", 2)
    await stage.delete_records("victim", 6)
    await stage.produce("victim")
    await asyncio.sleep(2)


async def with_transactions(stage: FollowerStage) -> None:
    """The coordinator's topic is followed, too."""
    await three_topics(stage)
    await stage.create("__transaction_state", cleanup_policy="compact")
    await stage.all_in_sync()
    stage.said["__transaction_state"].certain = False  # only its coordinator writes to it


@story("transactions", with_transactions)
async def _transactions(stage: FollowerStage) -> None:
    await stage.transact("victim", commit=False)
    await stage.transact("victim", commit=True)


@story("stop")
async def _stop(stage: FollowerStage) -> None:
    await stage.stop()
    raise Ended("it was stopped")


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


@story("snapshots", settings=WITHOUT_CHECKPOINTS)
async def _snapshots(stage: FollowerStage) -> None:
    """Enough topics that the metadata log that it observes is written anew as a snapshot."""
    for number in range(8):
        await stage.create(f"made-{number}")
    await asyncio.sleep(2)
