"""What a broker lives through, call by call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.faults.broker_stage import TOPICS, BrokerStage, Ended

__all__ = [
    "BROKER_STORIES",
    "BrokerStory",
    "abort_then_commit",
    "delete_first_records",
    "stop",
    "topics_come_and_go",
    "write_snapshots",
]

Act = Callable[[BrokerStage], Awaitable[None]]
WITHOUT_CHECKPOINTS = (
    "log.flush.offset.checkpoint.interval.ms=3600000",
    "log.flush.start.offset.checkpoint.interval.ms=3600000",
    "replica.high.watermark.checkpoint.interval.ms=3600000",
)
"""Of stories that wait for something else: other stories have these calls fail."""
SMALL = {"internal_segment_bytes": "400", "segment_index_bytes": "1024"}


class BrokerStory:
    """What is done before calls are counted, and what after."""

    stage: type[BrokerStage] = BrokerStage

    def __init__(self, name: str, play: Act, prepare: Act, settings: tuple[str, ...] = ()) -> None:
        self.name, self.play, self.prepare, self.settings = name, play, prepare, settings

    @property
    def is_start(self) -> bool:
        """True where it is the node's start that fails."""
        return "-start" in self.name

    @property
    def is_stop(self) -> bool:
        """True where the node ends by itself."""
        return self.name.endswith("-stop")


BROKER_STORIES: dict[str, BrokerStory] = {}


async def three_topics(stage: BrokerStage) -> None:
    """A node with three topics, and a few records in each."""
    await stage.boot()
    for name in TOPICS:
        await stage.create(name, **(SMALL | ({"flush_messages": "1"} if name == "victim" else {})))
        await stage.produce(name, 2)
    await stage.produce("victim", 3)


def story(name: str, prepare: Act = three_topics, settings: tuple[str, ...] = ()) -> Callable[[Act], Act]:
    """Register a story."""

    def register(play: Act) -> Act:
        BROKER_STORIES[f"broker-{name}"] = BrokerStory(f"broker-{name}", play, prepare, settings)
        return play

    return register


@story("produce")
async def _produce(stage: BrokerStage) -> None:
    for _ in range(3):  # with rolls, each record on the device before it is acknowledged
        await stage.produce("victim", 2)
    for _ in range(4):
        await stage.produce("neighbour", 2)


@story("read")
async def _read(stage: BrokerStage) -> None:
    await stage.read("victim")
    await stage.look_up("victim", 0)
    await stage.look_up("victim", -1)
    await stage.read("neighbour")


async def started_again(stage: BrokerStage) -> None:
    """A node that has just started, and knows where batches lie from indexes only."""
    await three_topics(stage)
    for _ in range(3):  # sealed segments
        await stage.produce("victim", 2)
    await stage.stop()
    await stage.boot()


@story("read-sealed", started_again)
async def _read_sealed(stage: BrokerStage) -> None:
    for offset in (0, 3, 6, 9):
        await stage.read("victim", offset=offset)
    await stage.look_up("victim", 0)
    await stage.look_up("victim", -3)


@story("topics")
async def topics_come_and_go(stage: BrokerStage) -> None:
    await stage.create("more", flush_messages="1")
    await stage.produce("more", 2)
    await stage.delete("more")
    await stage.create("more", flush_messages="1")
    await stage.produce("more", 3)
    await asyncio.sleep(3)  # the folder of the first one goes


@story("delete-records")
async def delete_first_records(stage: BrokerStage) -> None:
    """A log's start moves, for a follower behind its leader's, and segments go."""
    for _ in range(3):
        await stage.produce("victim", 2)
    await stage.delete_records("victim", 6)
    await stage.produce("victim")
    await asyncio.sleep(2)


@story("clock")
async def _clock(stage: BrokerStage) -> None:
    """Checkpoints, retention and unlinking by the clock."""
    for _ in range(3):
        await stage.produce("neighbour", 2)
    await stage.delete_records("neighbour", 5)
    await asyncio.sleep(4)


@story("move")
async def _move(stage: BrokerStage) -> None:
    await stage.move("victim", "/b")
    await asyncio.sleep(3)
    await stage.produce("victim", 2)
    await asyncio.sleep(2)


@story("transactions")
async def abort_then_commit(stage: BrokerStage) -> None:
    await stage.transact("victim", commit=False)
    await stage.transact("victim", commit=True)


@story("commit")
async def _commit(stage: BrokerStage) -> None:
    await stage.commit("group", 1)
    await stage.commit("group", 2)


@story("stop")
async def stop(stage: BrokerStage) -> None:
    await stage.stop()
    raise Ended("it was stopped")


async def stopped(stage: BrokerStage) -> None:
    """A node that was stopped cleanly."""
    await three_topics(stage)
    await stage.stop()


async def killed(stage: BrokerStage) -> None:
    """A node that was killed."""
    await three_topics(stage)
    stage.kill()


@story("start-clean", stopped)
async def _start_clean(stage: BrokerStage) -> None:
    await stage.boot()
    await stage.produce("victim")


@story("start-unclean", killed)
async def _start_unclean(stage: BrokerStage) -> None:
    await stage.boot()
    await stage.produce("victim")
    await stage.look_up("victim", 0)


@story("snapshots", settings=WITHOUT_CHECKPOINTS)
async def write_snapshots(stage: BrokerStage) -> None:
    """Enough topics that the metadata log, which a follower observes, is written anew as a snapshot."""
    for number in range(8):
        await stage.create(f"made-{number}")
    await asyncio.sleep(2)


async def compacted(stage: BrokerStage) -> None:
    """A topic that is to be compacted."""
    await three_topics(stage)
    await stage.create("keyed", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", **SMALL)


@story("compact", compacted, WITHOUT_CHECKPOINTS)
async def _compact(stage: BrokerStage) -> None:
    stage.said["keyed"].certain = False  # records may go
    for _ in range(12):
        await stage.produce("keyed", 1)
    await asyncio.sleep(6)
