"""Orders and failures that meet a lane while it commits: a real lane and broker, and a gate that holds one request.

Whoever is told that works are free begins with the offsets that he finds. So nobody may be told before the commit under way,
which has positions of these works, is in the log or given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.base import Millis, Offset, TopicPartition
from ottla.client import (
    Client,
    ConsumerGroupMetadata,
    FetchPosition,
    Isolation,
    NewTopic,
    commit_offsets,
    committed_offsets,
    create_topics,
)
from ottla.spark.continuous.columns import records_of
from ottla.spark.continuous.lane import Lane, OnHost
from ottla.spark.continuous.plan import application_plan
from ottla.streams import PartitionPlan, StreamsBuilder, StreamsSettings, StreamsWork
from ottla.wire import ApiKey, ColumnDecoder, Record, build_batch
from tests.broker.node_client import NOW_MS, run
from tests.streams.continuous.gates import Gate, node_behind_a_gate
from tests.waiting import until_async

APPLICATION = "app"
FIRST = StreamsWork(APPLICATION, 0, 0)
UNKNOWN = StreamsWork(APPLICATION, 9, 0)
"""Of a sub-topology that is not there: it cannot be restored, and its application is taken off."""
IN = TopicPartition("in", 0)
WRITER = f"{APPLICATION}-host-0-writer"
"""The client by which the lane sends and commits."""


class World:
    """Two hosts' lanes of one application, which copies `in` to `out`; the second takes on what the first is done with."""

    def __init__(self, client: Client, gate: Gate, guarantee: str) -> None:
        builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
        builder.stream("in").map_values(str.upper).to("out")
        settings = StreamsSettings.of(
            {
                "application.id": APPLICATION,
                "bootstrap.servers": f"127.0.0.1:{gate.port}",
                "processing.guarantee": guarantee,
                "commit.interval.ms": 20,
                "execution": "continuous",
            }
        )
        plan = application_plan(builder.build(), settings, PartitionPlan({"in": 2}, {}), {"in": 2, "out": 2})
        self.client, self.gate = client, gate
        self.applications = {APPLICATION: OnHost(plan, ConsumerGroupMetadata(APPLICATION, "", -1))}
        self.lane, self.other = (Lane("service", host, plan, self, self.applications) for host in (0, 1))
        self.tasks = [asyncio.create_task(each.run()) for each in (self.lane, self.other)]
        self.next = self.other
        """The lane that begins anew what has failed."""
        self.forgotten: dict[str, OnHost] = {}
        """Applications that are there again once the lane goes back."""
        self.running: list[StreamsWork] = []
        self.released: list[StreamsWork] = []
        self.failed: list[StreamsWork] = []

    def on_running(self, work: StreamsWork) -> None:
        """See `LaneListener`."""
        self.running.append(work)

    def on_released(self, works: Iterable[StreamsWork]) -> None:
        """Do as a driver does that moves works."""
        self.released += works
        self.other.assign(works)

    def on_failed(self, application: str, works: Iterable[StreamsWork], details: str) -> None:
        """Do as a driver does that begins a failed application anew."""
        self.failed += works
        self.next.assign([FIRST])

    async def confirm(self) -> None:
        """See `LaneListener`."""
        self.applications.update(self.forgotten)

    async def end(self) -> None:
        """Have both lanes commit and end."""
        self.lane.stop()
        self.other.stop()
        await asyncio.gather(*self.tasks)

    async def feed(self, *values: bytes) -> None:
        """Append to the first work's input."""
        records = [Record(Offset(0), Millis(NOW_MS), None, value, ()) for value in values]
        [appended] = await self.client.produce({IN: bytes(build_batch(records))})
        assert not appended.error

    async def position(self) -> int:
        """Return the committed offset of the first work's input."""
        return int((await committed_offsets(self.client, APPLICATION, [IN]))[IN].offset)

    async def results(self) -> list[bytes]:
        """Return what is committed of the output, once every transaction in it has ended."""
        found: list[bytes] = []
        for place in (TopicPartition("out", partition) for partition in (0, 1)):
            offset, end = Offset(0), 1
            while offset < end:
                position = FetchPosition(place, offset)
                [answer] = await self.client.fetch([position], max_wait_ms=10, isolation=Isolation.READ_COMMITTED)
                decoded = ColumnDecoder(with_headers=True).decode(answer.records, start=offset, aborted=answer.aborted)
                offset, end = decoded.next_offset, int(answer.high_watermark)
                found += [each.value or b"" for columns in decoded.columns for each in records_of(columns, *place)]
        return found


@asynccontextmanager
async def world_of(folder: Path, guarantee: str) -> AsyncIterator[World]:
    """Start a broker, and the lane with its first work."""
    async with node_behind_a_gate(folder) as (_, gate):
        client = Client(f"127.0.0.1:{gate.port}")
        await create_topics(client, [NewTopic("in", 2), NewTopic("out", 2)])
        await commit_offsets(client, APPLICATION, {IN: Offset(0)})
        world = World(client, gate, guarantee)
        try:
            world.lane.assign([FIRST])
            await until_async(lambda: world.running == [FIRST])
            yield world
        finally:
            gate.open()
            await world.end()
            await client.close()


def held_by(guarantee: str) -> int:
    """Return the API by which a lane stores its offsets."""
    exactly_once = guarantee == "exactly_once_v2"
    return int(ApiKey.TXN_OFFSET_COMMIT if exactly_once else ApiKey.OFFSET_COMMIT)


BOTH = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])


async def fail_while_it_commits(world: World, guarantee: str) -> None:
    """Have the application taken off while its offsets are on their way."""
    world.gate.shut_for(held_by(guarantee), WRITER)
    await world.feed(b"a", b"b")
    await until_async(lambda: world.gate.waiting > 0)
    world.lane.assign([UNKNOWN])
    await until_async(lambda: not world.lane.works and not world.lane.restoring)


@BOTH
def test_works_that_fail_while_their_lane_commits_begin_anew_behind_that_commit(tmp_path: Path, guarantee: str) -> None:
    async def test() -> None:
        async with world_of(tmp_path, guarantee) as world:
            await fail_while_it_commits(world, guarantee)
            assert world.failed == []
            world.gate.open()
            await until_async(lambda: world.running == [FIRST, FIRST])
            assert sorted(world.failed) == [FIRST, UNKNOWN]
            assert world.other.works[FIRST].offsets_committed == {IN: 2}
            await world.feed(b"c")
            await until_async(lambda: world.other.works[FIRST].offsets_committed == {IN: 3})
            assert sorted(await world.results()) == [b"A", b"B", b"C"]

    run(test)


@BOTH
def test_a_work_that_has_failed_is_not_released_before_the_commit_that_has_its_position(
    tmp_path: Path, guarantee: str
) -> None:
    async def test() -> None:
        async with world_of(tmp_path, guarantee) as world:
            await fail_while_it_commits(world, guarantee)
            world.lane.revoke([FIRST])
            assert world.released == []
            world.gate.open()
            await until_async(lambda: FIRST in world.released and world.running == [FIRST, FIRST])
            assert await world.position() == 2

    run(test)


def test_a_work_that_has_failed_and_begins_anew_here_is_not_released_for_an_order_before_that(tmp_path: Path) -> None:
    async def test() -> None:
        async with world_of(tmp_path, "at_least_once") as world:
            world.next = world.lane
            world.gate.shut_for(int(ApiKey.PRODUCE), WRITER)
            await world.feed(b"a", b"b")
            await until_async(lambda: world.gate.waiting > 0)
            world.lane.assign([UNKNOWN])
            await until_async(lambda: not world.lane.works and not world.lane.restoring)
            assert world.failed == []
            world.lane.revoke([FIRST])
            world.forgotten[APPLICATION] = world.applications.pop(APPLICATION)  # its offsets cannot be stored
            world.gate.open()
            await until_async(lambda: world.running == [FIRST, FIRST])
            await until_async(lambda: world.lane.works[FIRST].offsets_committed == {IN: 2})
            assert FIRST in world.failed and world.released == []

    run(test)


@BOTH
def test_a_work_that_is_taken_away_while_its_lane_commits_is_released_behind_that_commit(
    tmp_path: Path, guarantee: str
) -> None:
    async def test() -> None:
        async with world_of(tmp_path, guarantee) as world:
            world.gate.shut_for(held_by(guarantee), WRITER)
            await world.feed(b"a", b"b")
            await until_async(lambda: world.gate.waiting > 0)
            world.lane.revoke([FIRST])
            assert world.released == []
            world.gate.open()
            await until_async(lambda: world.released == [FIRST])
            assert await world.position() == 2
            assert sorted(await world.results()) == [b"A", b"B"]

    run(test)


@BOTH
def test_a_commit_of_an_application_that_is_forgotten_meanwhile_stores_no_position_without_its_results(
    tmp_path: Path, guarantee: str
) -> None:
    async def test() -> None:
        async with world_of(tmp_path, guarantee) as world:
            world.gate.shut_for(int(ApiKey.PRODUCE), WRITER)
            await world.feed(b"a", b"b")
            await until_async(lambda: world.gate.waiting > 0 and world.lane.works[FIRST].is_dirty)
            assert world.lane.drop(APPLICATION) == [FIRST]
            del world.applications[APPLICATION]
            world.gate.open()
            await world.end()
            if await world.position():
                assert sorted(await world.results()) == [b"A", b"B"]

    run(test)
