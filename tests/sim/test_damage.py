"""Files that are derived from others may be damaged or missing: a start makes them anew, and every record is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from tests.sim.storage import Inode
from tests.sim.workload import read_everything
from tests.sim.world import DATA, World

BATCHES = 60
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
)
DERIVED = (".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint", "partition.metadata")


def in_world(seed: int, life: Callable[[World], Coroutine[Any, Any, None]]) -> World:
    """Run something in a world without faults."""
    world = World(seed)
    try:
        world.loop.run_until_complete(life(world))
    finally:
        if world.process is not None:
            world.process.kill()
        world.loop.set_exception_handler(lambda loop, context: None)
    return world


async def fill(world: World) -> None:
    """Start, create a topic with small segments, and write batches from an idempotent producer and a plain one."""
    await world.boot()
    world.open()
    admin = await world.connect("admin")
    await world.clients.create_topic(
        admin, "t", 1, {"internal.segment.bytes": "6000", "segment.index.bytes": "1024", "index.interval.bytes": "200"}
    )
    stop = asyncio.Event()
    tasks = [
        world.loop.create_task(world.clients.plain_producer("plain-1", 1, stop)),
        world.loop.create_task(world.clients.idempotent_producer("idempotent-1", "t", stop)),
    ]
    while len(world.ledger.partitions["t", 0].values) < 4 * BATCHES:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    stop.set()
    await asyncio.gather(*tasks)
    admin.close()


async def find_all(world: World) -> None:
    """Start again and compare everything with what was acknowledged."""
    await world.boot()
    world.open()
    connection = await world.connect("verifier")
    await read_everything(connection, world.ledger, lost_power=False)
    connection.close()


def spoil(world: World, ends: str, how: str, rng: Random) -> int:
    """Damage the topic's files with such a name; returns how many."""
    folder = world.storage.directory(f"{DATA}/t-0")
    holders = [folder, world.storage.directory(DATA)] if ends in CHECKPOINTS else [folder]
    count = 0
    for holder in holders:
        for name, entry in sorted(holder.entries.items()):
            if not name.endswith(ends) or not isinstance(entry, Inode):
                continue
            count += 1
            if how == "missing":
                holder.remove(name)
            elif how == "empty":
                entry.truncate(0)
            elif how == "cut":
                entry.truncate(rng.randrange(len(entry.data) + 1))
            elif how == "zeros":
                entry.data[:] = bytes(len(entry.data))
            else:
                entry.data[:] = rng.randbytes(len(entry.data))
    return count


@pytest.mark.parametrize("how", ["missing", "empty", "cut", "zeros", "garbage"])
@pytest.mark.parametrize("ends", [*DERIVED, *CHECKPOINTS])
def test_after_a_crash_derived_files_are_made_anew(ends: str, how: str) -> None:
    async def life(world: World) -> None:
        await fill(world)
        world.crash()
        spoil(world, ends, how, Random(f"{ends} {how}"))
        await asyncio.sleep(1)
        await find_all(world)

    in_world(1, life)


@pytest.mark.parametrize("how", ["missing", "empty", "cut"])
@pytest.mark.parametrize("ends", [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
def test_after_a_clean_stop_files_that_are_gone_are_made_anew(ends: str, how: str) -> None:
    async def life(world: World) -> None:
        await fill(world)
        await world.stop_cleanly()
        assert spoil(world, ends, how, Random(f"{ends} {how}"))
        await find_all(world)

    in_world(2, life)


@pytest.mark.parametrize("seed", range(6))
def test_damage_below_the_recovery_point_is_reported_and_never_cut(seed: int) -> None:
    """One byte of a sealed segment changes: other topics are served, and the segment keeps every byte."""

    async def life(world: World) -> None:
        await fill(world)
        await asyncio.sleep(10)  # sealed segments are flushed, and the recovery point is stored
        world.crash()
        path, inode = next((path, each) for path, each in world.storage.walk(f"{DATA}/t-0") if path.endswith(".log"))
        inode.data[Random(seed).randrange(61, len(inode.data))] ^= 0x40
        before = bytes(inode.data)
        await world.boot()
        assert world.storage.contents(f"{DATA}/t-0")[path] == before
        world.open()
        connection = await world.connect("admin")
        await world.clients.create_topic(connection, "another", 1, {})
        connection.close()

    in_world(3, life)


def test_a_second_broker_on_the_folder_is_refused_while_the_first_lives() -> None:
    async def life(world: World) -> None:
        await fill(world)
        first = world.process
        with pytest.raises(AssertionError, match="LogDirLockedError"):
            await world.boot()
        assert first is not None
        first.kill()
        await find_all(world)

    in_world(4, life)
