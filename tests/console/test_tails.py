"""Tails: who looks has what comes; who is slow loses the oldest, and is told how many."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.base import KafkaError, Millis, OttlaError
from ottla.client import Client, Isolation
from ottla.console.records.tails import WAITING_BYTES_MAX, Feed, Tail, Tails
from ottla.wire import Record
from tests.server import Server, running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("broker")) as found:
        yield found


def records(count: int) -> list[Record]:
    return [Record(timestamp=Millis(1), key=None, value=b"x") for _ in range(count)]


def test_who_is_slow_loses_the_oldest_and_is_told_how_many() -> None:
    async def test() -> None:
        feed = Feed()
        half = WAITING_BYTES_MAX // 2
        for index in range(5):
            feed.put((index, records(10)), half)
        assert [index for index, _ in await feed.next(1)] == [3, 4] and feed.dropped == 30
        feed.put((7, records(3)), 10 * WAITING_BYTES_MAX)
        assert [index for index, _ in await feed.next(1)] == [7], "a batch that is too large waits alone"
        assert await feed.next(0.001) == []
        feed.put((8, records(1)), 1)
        feed.fail(OttlaError("gone"))
        assert [index for index, _ in await feed.next(1)] == [8]
        for _ in range(2):
            with pytest.raises(OttlaError, match="gone"):
                await feed.next(1)

    asyncio.run(test())


def test_a_topic_that_is_not_there_is_said_to_each_and_one_that_comes_is_followed(server: Server) -> None:
    async def test() -> None:
        tails = Tails()

        def make() -> Tail:
            return Tail(Client(server.bootstrap), "later", Isolation.READ_COMMITTED, None)

        for _ in range(2):
            with pytest.raises(KafkaError, match="no topic later"):
                async with tails.followed("key", make):
                    pass
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        admin.create_topics([NewTopic("later", 1)])["later"].result()
        async with tails.followed("key", make) as one, tails.followed("key", make) as two:
            producer = Producer({"bootstrap.servers": server.bootstrap})
            producer.produce("later", b"v")
            await asyncio.to_thread(producer.flush)
            for feed in (one, two):
                found = []
                while not found:
                    found = await feed.next(5)
                assert [each.value for _, batch in found for each in batch] == [b"v"]

    asyncio.run(test())
