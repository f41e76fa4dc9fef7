"""A console's history outlives it: blocks in a topic, each once, read back as they were."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.client import Client
from ottla.console.figures.history import Bucket, History, Mark
from ottla.console.figures.history_topic import BLOCK_MS, Block, HistoryKeeper, HistoryTopic, block_of, read_block
from ottla.console.figures.sampler import Sampler
from ottla.console.own_topic import OwnTopic
from tests.server import Server, running_server

BEGIN_MS = 1_790_000_000_000 - 1_790_000_000_000 % BLOCK_MS
LAG = "lag/billing"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("broker")) as found:
        yield found


class Clock:
    def __init__(self) -> None:
        self.now_ms = BEGIN_MS

    def __call__(self) -> int:
        return self.now_ms


class At:
    """One console: a sampler that is told figures, and what keeps them."""

    def __init__(self, client: Client, topic: str, clock: Clock) -> None:
        self.client = client
        self.sampler = Sampler(client, now_ms=clock)
        self.topic = HistoryTopic(client, topic)
        self.keeper = HistoryKeeper(self.sampler, self.topic, clock)
        self.clock = clock

    async def loaded(self) -> At:
        self.sampler.start()
        try:
            async with asyncio.timeout(30):
                await self.keeper.load()
        finally:
            await self.sampler.stop()
        return self

    def lags(self, minutes: int, first: int = 0) -> None:
        """Have a group's lag be so many minutes long what minute it is, twelve times a minute."""
        for minute in range(first, first + minutes):
            for at in range(12):
                self.clock.now_ms = BEGIN_MS + minute * 60_000 + at * 5_000
                self.sampler.history.add(LAG, self.clock.now_ms, minute * 100 + at)
        self.clock.now_ms = BEGIN_MS + (first + minutes) * 60_000

    def read(self) -> list[Bucket]:
        return self.sampler.history.minutes(BEGIN_MS, BEGIN_MS + 3_600_000).get(LAG, [])


@asynccontextmanager
async def consoles(server: Server, topic: str, clock: Clock, many: int = 1) -> AsyncIterator[list[At]]:
    client = Client(server.bootstrap)
    try:
        yield [await At(client, topic, clock).loaded() for _ in range(many)]
    finally:
        await client.close()


def expected(minutes: int) -> list[Bucket]:
    return [
        Bucket(BEGIN_MS + each * 60_000, each * 100 + 11.0, each * 100.0, each * 100 + 11.0) for each in range(minutes)
    ]


def test_a_console_that_is_killed_loses_less_than_a_block(server: Server) -> None:
    async def test() -> None:
        clock = Clock()
        async with consoles(server, "killed", clock) as (first,):
            first.lags(13)
            first.sampler.history.mark(LAG, Mark(BEGIN_MS + 1000, "state", "Stable → Empty"))
            await first.keeper.write()
            async with consoles(server, "killed", clock) as (second,):
                assert second.read() == expected(10)
                assert [each.text for each in second.sampler.history.marks(LAG, 0, 1 << 60)] == ["Stable → Empty"]

    asyncio.run(test())


def test_a_console_that_ends_by_itself_loses_nothing_and_the_next_goes_on(server: Server) -> None:
    async def test() -> None:
        clock = Clock()
        async with consoles(server, "ended", clock) as (first,):
            first.lags(7)
            await first.keeper.write(partly=True)
        async with consoles(server, "ended", clock) as (second,):
            assert second.read() == expected(7)
            second.lags(4, first=7)
            await second.keeper.write()
        async with consoles(server, "ended", clock) as (third,):
            assert third.read() == expected(10), "a block that was written in part and then whole counts once"

    asyncio.run(test())


def test_of_two_consoles_one_writes_a_block(server: Server) -> None:
    async def test() -> None:
        clock = Clock()
        async with consoles(server, "two", clock, many=2) as both:
            for minutes in (5, 10, 15):
                for each in both:
                    each.lags(5, first=minutes - 5)
                    await each.keeper.write()
            assert await OwnTopic(both[0].client, "two", {}).end() == 3

    asyncio.run(test())


def test_what_others_have_written_into_the_topic_is_passed_over(server: Server) -> None:
    async def test() -> None:
        clock = Clock()
        clock.now_ms = BEGIN_MS + BLOCK_MS
        async with consoles(server, "hostile", clock) as (at,):
            await at.topic.write(Block(BEGIN_MS, BEGIN_MS + BLOCK_MS, {LAG: [Bucket(BEGIN_MS, 1, 1, 1)]}))
            producer = Producer({"bootstrap.servers": server.bootstrap})
            far = BEGIN_MS + 10**12
            for value in HOSTILE:
                producer.produce("hostile", value)
            producer.produce("hostile", Block(far, far + BLOCK_MS, {LAG: [Bucket(far, 9, 9, 9)]}).kept())
            producer.flush()
            async with consoles(server, "hostile", clock) as (after,):
                assert after.read() == [Bucket(BEGIN_MS, 1, 1, 1)]
                after.lags(10)
                await after.keeper.write()
                newest = await after.topic.newest()
                assert newest is not None and newest.from_ms == BEGIN_MS + BLOCK_MS, (
                    "a block of the future stops nobody"
                )

    asyncio.run(test())


def _as_block(**changed: Any) -> bytes:
    return json.dumps(
        {"version": 1, "from": BEGIN_MS, "until": BEGIN_MS + 60_000, "series": {}, "marks": [], **changed}
    ).encode()


HOSTILE = [
    b"",
    b"nonsense",
    b"[" * 100_000,
    _as_block(version=2),
    _as_block(until=BEGIN_MS + 10 * BLOCK_MS),
    _as_block(series={LAG: [[BEGIN_MS, 1, 2]]}),
    _as_block(series={LAG: [[BEGIN_MS, "NaN", 1, 1]]}),
    _as_block(series={LAG: [[BEGIN_MS + BLOCK_MS, 1, 1, 1]]}),
    _as_block(series={LAG: [[1e400, 1, 1, 1]]}),
    _as_block(series=[1]),
    _as_block(marks=[["a"]]),
]


@pytest.mark.parametrize("value", [None, *HOSTILE], ids=range(len(HOSTILE) + 1))
def test_no_bytes_make_reading_a_block_fail(value: bytes | None) -> None:
    assert read_block(value) is None


def test_a_block_is_read_as_it_was_written() -> None:
    history = History()
    for at in range(100):
        history.add(LAG, BEGIN_MS + at * 5_000, at / 3)
    block = block_of(history, BEGIN_MS, BEGIN_MS + BLOCK_MS)
    found = read_block(block.kept())
    assert found is not None and len(list(found.series[LAG])) == 5
    for was, now in zip(block.series[LAG], found.series[LAG], strict=True):
        assert now.at_ms == was.at_ms and now.last == pytest.approx(was.last, rel=1e-6)


def test_a_cluster_that_cannot_keep_it_is_said_once(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        clock = Clock()
        async with consoles(server, "bad name!", clock) as (at,):
            for minutes in (5, 10):
                at.lags(5, first=minutes - 5)
                await at.keeper.write()

    asyncio.run(test())
    said = [each.getMessage() for each in caplog.records if each.name == "ottla.console.figures.history_topic"]
    assert len(said) == 1 and said[0].startswith("figures are not kept: ")


def test_what_was_kept_has_no_more_series_than_a_history_has() -> None:
    history, older = History(), History()
    for index in range(600):
        older.take(f"in/t-{index}", Bucket(BEGIN_MS, 1, 1, 1))
        history.add(f"in/t-{index}", BEGIN_MS + 5_000, 2)
    older.absorb(history)
    assert len(older.names()) == 500
