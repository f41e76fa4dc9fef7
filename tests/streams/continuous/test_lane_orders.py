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
    init_producer_id,
)
from ottla.spark.continuous.columns import records_of
from ottla.spark.continuous.lane import FencedError, Lane, OnHost, transactional_id
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
        self.client, self.gate, self.id = client, gate, transactional_id("service", 0, plan.lane)
        self.applications = {APPLICATION: OnHost(plan, ConsumerGroupMetadata(APPLICATION, "", -1))}
        self.lane, self.other = (Lane("service", host, plan, self, self.applications) for host in (0, 1))
        self.tasks = [asyncio.create_task(each.run()) for each in (self.lane, self.other)]
        self.next = self.other
        """The lane that begins anew what has failed."""
        self.forgotten: dict[str, OnHost] = {}
        """Applications that are there again once the lane goes back."""
        self.is_cut_off = False
        """Whether the driver has taken the first host for dead, fenced it and given its works to the other."""
        self.confirmed = 0
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
        if self.is_cut_off:
            raise FencedError("the driver does not know this host any more")
        self.confirmed += 1
        self.applications.update(self.forgotten)

    async def cut_off(self) -> None:
        """Do as a driver does whose connection to the first host is gone."""
        self.is_cut_off = True
        await init_producer_id(self.client, self.id, timeout_ms=10_000)
        self.other.assign([FIRST])

    async def end(self) -> None:
        """Have both lanes commit and end."""
        self.lane.stop()
        self.other.stop()
        for error in await asyncio.gather(*self.tasks, return_exceptions=True):
            if error is not None and not (self.is_cut_off and isinstance(error, FencedError)):
                raise error

    async def feed(self, *values: bytes) -> None:
        """Append to the first work's input."""
        await feed_into(self.client, IN, *values)

    async def position(self) -> int:
        """Return the committed offset of the first work's input."""
        return int((await committed_offsets(self.client, APPLICATION, [IN]))[IN].offset)

    async def results(self) -> list[bytes]:
        """Return what is committed of the output."""
        return await results_of(self.client)


async def feed_into(client: Client, place: TopicPartition, *values: bytes) -> None:
    """Append a batch of records."""
    records = [Record(Offset(0), Millis(NOW_MS), None, value, ()) for value in values]
    [appended] = await client.produce({place: bytes(build_batch(records))})
    assert not appended.error


async def results_of(client: Client) -> list[bytes]:
    """Return what is committed of `out`, once every transaction in it has ended."""
    found: list[bytes] = []
    for place in (TopicPartition("out", partition) for partition in (0, 1)):
        offset, end = Offset(0), 1
        while offset < end:
            position = FetchPosition(place, offset)
            [answer] = await client.fetch([position], max_wait_ms=10, isolation=Isolation.READ_COMMITTED)
            decoded = ColumnDecoder(with_headers=True).decode(answer.records, start=offset, aborted=answer.aborted)
            offset, end = decoded.next_offset, int(answer.high_watermark)
            found += [each.value or b"" for columns in decoded.columns for each in records_of(columns, *place)]
    return found


@asynccontextmanager
async def world_of(folder: Path, guarantee: str, *, opens: bool = True) -> AsyncIterator[World]:
    """Start a broker, and the lane with its first work; where it does not open it waits to take its transactional id."""
    async with node_behind_a_gate(folder) as (_, gate):
        client = Client(f"127.0.0.1:{gate.port}")
        await create_topics(client, [NewTopic("in", 2), NewTopic("out", 2)])
        await commit_offsets(client, APPLICATION, {IN: Offset(0)})
        if not opens:
            gate.shut_for(int(ApiKey.INIT_PRODUCER_ID), WRITER)
        world = World(client, gate, guarantee)
        try:
            world.lane.assign([FIRST])
            await until_async(lambda: world.running == [FIRST] if opens else gate.waiting > 0 and world.confirmed == 1)
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


def test_a_host_that_is_given_up_while_it_takes_its_transactional_id_takes_no_work_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with world_of(tmp_path, "exactly_once_v2", opens=False) as world:
            await world.cut_off()
            world.gate.open()
            await until_async(lambda: world.tasks[0].done() and world.running == [FIRST])
            assert isinstance(world.tasks[0].exception(), FencedError)
            await world.feed(b"a", b"b")
            await until_async(lambda: world.other.works[FIRST].offsets_committed == {IN: 2})
            assert sorted(await world.results()) == [b"A", b"B"] and not world.lane.works

    run(test)


def test_a_host_that_is_given_up_between_asking_and_taking_its_id_back_keeps_no_work(tmp_path: Path) -> None:
    async def test() -> None:
        async with world_of(tmp_path, "exactly_once_v2") as world:
            before = world.confirmed
            world.gate.shut_for(int(ApiKey.INIT_PRODUCER_ID), WRITER)
            world.next = world.lane  # which the application's failure is no matter of
            world.applications[APPLICATION].member = ConsumerGroupMetadata(APPLICATION, "somebody else", 1)
            await world.feed(b"a", b"b")
            await until_async(lambda: world.gate.waiting > 0)
            assert world.confirmed == before + 1
            world.applications[APPLICATION].member = ConsumerGroupMetadata(APPLICATION, "", -1)
            await world.cut_off()
            world.gate.open()
            await until_async(lambda: world.tasks[0].done() and world.running == [FIRST, FIRST])
            assert isinstance(world.tasks[0].exception(), FencedError) and not world.lane.works
            await until_async(lambda: world.other.works[FIRST].offsets_committed == {IN: 2})
            assert sorted(await world.results()) == [b"A", b"B"]

    run(test)


@BOTH
def test_a_lane_that_goes_back_reads_no_source_of_an_application_that_is_drained(
    tmp_path: Path, guarantee: str
) -> None:
    async def test() -> None:
        async with world_of(tmp_path, guarantee) as world:
            world.next, found = world.lane, world.applications[APPLICATION]
            world.gate.shut_for(int(ApiKey.INIT_PRODUCER_ID), WRITER)
            found.member = ConsumerGroupMetadata(APPLICATION, "somebody else", 1)
            await world.feed(b"a", b"b")
            await until_async(lambda: world.gate.waiting > 0)  # it goes back, since its offsets are refused
            found.is_draining, found.member = True, None
            world.lane.drain(APPLICATION)
            world.gate.open()
            await until_async(lambda: world.running == [FIRST, FIRST])
            found.is_paused = True
            world.lane.set_paused(APPLICATION, paused=True)
            found.is_paused = False
            world.lane.set_paused(APPLICATION, paused=False)
            turns = world.lane.turns
            await until_async(lambda: world.lane.turns > turns + 2)
            [queue] = world.lane.works[FIRST].queues
            assert not queue.is_known and queue.waiting == 0

    run(test)


@BOTH
def test_a_commit_of_an_application_that_came_again_meanwhile_is_no_failure_of_the_new_one(
    tmp_path: Path, guarantee: str
) -> None:
    async def test() -> None:
        async with world_of(tmp_path, guarantee) as world:
            plan = world.applications[APPLICATION].plan
            world.gate.shut_for(int(ApiKey.PRODUCE), WRITER)
            await world.feed(b"a", b"b")
            await until_async(lambda: world.gate.waiting > 0 and world.lane.works[FIRST].is_dirty)
            world.lane.forget(APPLICATION)
            world.applications[APPLICATION] = OnHost(plan, ConsumerGroupMetadata(APPLICATION, "", -1))
            world.lane.assign([FIRST])
            world.gate.open()
            await until_async(lambda: world.running[1:])
            await world.feed(b"c")
            works = world.lane.works
            await until_async(lambda: FIRST in works and works[FIRST].offsets_committed == {IN: 3})
            found = sorted(await world.results())
            assert set(found) == {b"A", b"B", b"C"} and world.failed == []
            assert guarantee == "at_least_once" or len(found) == 3

    run(test)
