"""No flood of connections takes the descriptors that files need: who says nothing makes room, then who is idle."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.broker.requests.answers import Deferred, Encoded
from ottla.broker.requests.connection_limits import connections_room
from ottla.broker.requests.handler import RequestContext
from ottla.log import files_open_max
from tests.broker.test_connection import METADATA, Asked, World, echo, encoded, handler, run
from tests.waiting import until_async

ROOM = 20


@pytest.mark.parametrize("descriptors", [256, 1024, 4096, 65_536, 1 << 20])
def test_files_and_connections_are_less_than_the_descriptors_together(descriptors: int) -> None:
    left = descriptors - files_open_max(descriptors) - connections_room(descriptors)
    assert left >= descriptors // 8 >= 32
    assert connections_room(descriptors) >= descriptors // 4


def test_a_flood_that_says_nothing_pushes_out_itself_and_nobody_who_asks() -> None:
    async def test() -> None:
        async with World([handler(METADATA, echo)], room=ROOM).listening() as world:
            client = await world.open()
            client.ask(METADATA, 1, b"first")
            assert await client.answer() == (1, b"first")
            flood = [await world.open() for _ in range(5 * ROOM)]
            assert len(world.limits) <= ROOM
            for each in (client, await world.open()):
                each.ask(METADATA, 2, b"again")
                assert await each.answer() == (2, b"again")
            assert world.limits.pushed_out >= 4 * ROOM
            for each in flood:
                each.writer.close()

    run(test)


def test_who_comes_too_fast_pushes_out_itself_and_nobody_who_is_idle() -> None:
    async def test() -> None:
        throttle_ms = [0]
        handlers = [handler(METADATA, echo)]
        async with World(handlers, room=ROOM, throttle_ms=lambda host: throttle_ms[0]).listening() as world:
            clients = [await world.open() for _ in range(ROOM // 2)]
            for each in clients:
                each.ask(METADATA, 1, b"once")
                assert await each.answer() == (1, b"once")
            throttle_ms[0] = 60_000
            flood = [await world.open() for _ in range(5 * ROOM)]
            await until_async(lambda: world.limits.pushed_out >= 4 * ROOM)
            for each in clients:
                each.ask(METADATA, 2, b"again")
                assert await each.answer() == (2, b"again")
            for each in flood:
                each.writer.close()

    run(test)


def test_of_those_that_have_asked_the_idle_ones_make_room_and_the_busy_stay() -> None:
    async def test() -> None:
        waiting: list[tuple[RequestContext[Any], Deferred[Encoded]]] = []

        def slow(context: RequestContext[Any], asked: Asked) -> Any:
            if asked.body != b"wait":
                return encoded(context, asked.body)
            waiting.append((context, Deferred()))
            return waiting[-1][1]

        async with World([handler(METADATA, slow)], room=ROOM).listening() as world:
            busy = await world.open()
            busy.ask(METADATA, 1, b"wait")
            await until_async(lambda: waiting)
            for number in range(3 * ROOM):
                client = await world.open()
                client.ask(METADATA, number, b"once")
                assert await client.answer() == (number, b"once")
            assert len(world.limits) <= ROOM
            context, deferred = waiting.pop()
            deferred.resolve(encoded(context, b"done"))
            assert await busy.answer() == (1, b"done")

    run(test)


def test_where_all_are_busy_one_more_is_refused() -> None:
    async def test() -> None:
        waiting: list[tuple[RequestContext[Any], Deferred[Encoded]]] = []

        def slow(context: RequestContext[Any], asked: Asked) -> Any:
            waiting.append((context, Deferred()))
            return waiting[-1][1]

        async with World([handler(METADATA, slow)], room=2).listening() as world:
            clients = [await world.open() for _ in range(2)]
            for each in clients:
                each.ask(METADATA, 1)
            await until_async(lambda: len(waiting) == 2)
            try:
                assert await (await world.open()).ended() == b""
            except ConnectionError:
                await asyncio.sleep(0)
            for context, deferred in waiting:
                deferred.resolve(encoded(context, b"done"))
            for each in clients:
                assert await each.answer() == (1, b"done")

    run(test)
