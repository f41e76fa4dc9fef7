"""A service's connections are so many at most: who is idle makes room, who waits for an answer stays, addresses share."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ottla.http import Guard, HttpServer, Reply, Request, Route, Who, everybody, text_reply
from ottla.http.door import CONNECTIONS_MAX, DESCRIPTORS_SHARE, Door
from ottla.http.http2 import PREFACE
from tests.waiting import until_async

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
WAIT = b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"
SLOW = b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nslow"
LARGE = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Service:
    def __init__(self, port: int, server: HttpServer, go_on: asyncio.Event) -> None:
        self.port, self.server, self.go_on = port, server, go_on
        self._writers: list[asyncio.StreamWriter] = []

    async def connected(self, sent: bytes = b"", *, of: str = "127.0.0.1") -> Ends:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(of, 0))
        writer.write(sent)
        self._writers.append(writer)
        return reader, writer

    async def kept_alive(self, **options: str) -> Ends:
        """Return a connection that has asked and was answered."""
        reader, writer = await self.connected(ASK, **options)
        assert b" 200 " in await reader.readuntil(b"hello")
        return reader, writer

    def close(self) -> None:
        for each in self._writers:
            each.close()


@asynccontextmanager
async def serving(connections_max: int, **options: Any) -> AsyncIterator[Service]:
    go_on = asyncio.Event()

    async def hello(request: Request) -> Reply:
        return text_reply("hello")

    async def wait(request: Request) -> Reply:
        await go_on.wait()
        return text_reply("hello")

    async def body(request: Request) -> Reply:
        return text_reply(await request.text())

    async def large(request: Request) -> Reply:
        return text_reply("x" * (32 << 20))

    routes = [
        Route("GET", "/", hello, Who.ANYONE),
        Route("GET", "/large", large, Who.ANYONE),
        Route("GET", "/wait", wait, Who.ANYONE),
        Route("POST", "/body", body, Who.ANYONE),
    ]
    server = HttpServer(routes, Guard(everybody, None), connections_max=connections_max, **options)
    service = Service(await server.listen("127.0.0.1", 0), server, go_on)
    try:
        yield service
    finally:
        service.close()
        await server.close()


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Coroutine[Any, Any, None]]], None]:
    """Runs a test on each kind of loop that services have."""
    factory = asyncio.new_event_loop if request.param == "asyncio" else pytest.importorskip("uvloop").new_event_loop

    def runs(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(test(), 100))

    return runs


async def is_ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


def test_idle_connections_are_so_many_at_most_and_the_oldest_make_room(run: Any) -> None:
    async def test() -> None:
        async with serving(4, http2=True) as service:
            kept = [await service.kept_alive() for _ in range(20)]
            assert service.server.connections <= 4
            for reader, _ in kept[:16]:
                assert await is_ended(reader)
            reader, writer = kept[-1]
            writer.write(ASK)
            assert b" 200 " in await reader.readuntil(b"hello")

    run(test)


@pytest.mark.parametrize("sent", [b"", ASK[:9], ASK, SLOW, PREFACE, ASK * 50 + ASK[:9]])
def test_no_flood_of_connections_keeps_others_from_being_answered(run: Any, sent: bytes) -> None:
    async def test() -> None:
        async with serving(4, http2=True) as service:
            for _ in range(30):
                await service.connected(sent)
            await service.kept_alive()
            assert service.server.connections <= 4

    run(test)


def test_who_waits_for_an_answer_is_not_pushed_out(run: Any) -> None:
    async def test() -> None:
        async with serving(4) as service:
            waiting = [await service.connected(WAIT) for _ in range(2)]
            await until_async(lambda: service.server.silent == 0)
            for _ in range(20):
                await service.kept_alive()
            service.go_on.set()
            for reader, _ in waiting:
                assert b" 200 " in await reader.readuntil(b"hello")

    run(test)


def test_one_address_cannot_have_all_connections(run: Any) -> None:
    async def test() -> None:
        async with serving(4) as service:
            for _ in range(3):
                await service.connected(WAIT)
                await until_async(lambda: service.server.connections and not service.server.silent)
            for _ in range(5):
                reader, _ = await service.connected(WAIT)
                assert await is_ended(reader)
            await service.kept_alive(of="127.0.0.2")

    run(test)


def test_who_does_not_read_an_answer_is_closed_in_time(run: Any) -> None:
    async def test() -> None:
        async with serving(4, idle_seconds_max=0.2, http2=True) as service:
            reader, writer = await service.connected(LARGE)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await until_async(lambda: service.server.connections and not service.server.silent)
            await until_async(lambda: service.server.connections == 0)
            assert not reader.at_eof()

    run(test)


def test_connections_that_ended_are_forgotten_and_take_no_room(run: Any) -> None:
    async def test() -> None:
        async with serving(4) as service:
            waiting = await service.connected(WAIT)
            for _ in range(20):
                _, writer = await service.kept_alive()
                writer.close()
                await writer.wait_closed()
            service.go_on.set()
            assert b" 200 " in await waiting[0].readuntil(b"hello")

    run(test)


def test_a_service_takes_a_share_of_the_descriptors_that_there_are() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS_MAX * DESCRIPTORS_SHARE // 2

    async def bound() -> int:
        return Door(asyncio.Protocol).connections_max

    resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, soft), hard))
    try:
        assert asyncio.run(bound()) == min(wanted, soft) // DESCRIPTORS_SHARE
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
