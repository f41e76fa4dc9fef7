"""Who connects and says nothing, or shakes hands without an end: closed in time, and never in the way of others."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ottla.http import HttpServer, Reply, Request, serving_context, text_reply
from tests.http.test_server import OPEN, route
from tests.security.authority import authority, signed
from tests.security.tls_files import key_properties, trust_properties

CA = authority()
HELLO_BEGINS = b"\x16\x03\x01\x02\x00\x01"
"""The first bytes of a handshake that goes no further."""
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}


async def hello(request: Request) -> Reply:
    return text_reply("hello")


@asynccontextmanager
async def serving(
    tls: Callable[[], ssl.SSLContext] | None = None, **bounds: Any
) -> AsyncIterator[tuple[HttpServer, int]]:
    server = HttpServer([route("GET", "/", hello)], OPEN, **bounds)
    try:
        yield server, await server.listen("127.0.0.1", 0, tls)
    finally:
        await server.close()


async def asked(port: int, context: ssl.SSLContext | None = None, times: int = 1) -> list[str]:
    scheme = "http" if context is None else "https"
    found = []
    async with aiohttp.ClientSession() as session:
        for _ in range(times):
            async with session.get(f"{scheme}://localhost:{port}/", ssl=context or True) as answer:
                found.append(await answer.text())
    return found


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Coroutine[Any, Any, None]]], None]:
    """Runs a test on each kind of loop that services have."""
    factory = LOOPS.get(request.param) or pytest.importorskip("uvloop").new_event_loop

    def runs(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(test(), 100))

    return runs


@pytest.fixture
def contexts(tmp_path: Path) -> tuple[Callable[[], ssl.SSLContext], ssl.SSLContext]:
    """A server's TLS, and that of a client that trusts it."""
    properties = key_properties(tmp_path, signed(CA, "broker"), "server")
    trusted = trust_properties(tmp_path, CA)["ssl.truststore.location"]
    return serving_context(properties), ssl.create_default_context(cafile=trusted)


def test_who_says_nothing_is_closed_in_time(run: Any) -> None:
    async def test() -> None:
        async with serving(first_request_seconds_max=0.1) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost:")
            assert await reader.read() == b""
            assert server.silent == 0
            writer.close()

    run(test)


@pytest.mark.parametrize("bound", ["handshake_seconds_max", "first_request_seconds_max"])
@pytest.mark.parametrize("sent", [b"", HELLO_BEGINS])
def test_a_handshake_that_nobody_ends_is_closed_in_time(run: Any, contexts: Any, bound: str, sent: bytes) -> None:
    async def test() -> None:
        async with serving(contexts[0], **{bound: 0.1}) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                assert await reader.readexactly(1)
            writer.close()

    run(test)


@pytest.mark.parametrize("is_secure", [False, True])
def test_a_flood_of_the_silent_pushes_out_itself_and_nobody_who_asks(run: Any, contexts: Any, is_secure: bool) -> None:
    async def test() -> None:
        tls, trusting = contexts if is_secure else (None, None)
        async with serving(tls, silent_max=3) as (server, port):
            flood = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            for _, writer in flood:
                writer.write(HELLO_BEGINS[:3])
            assert await asked(port, trusting, times=3) == ["hello"] * 3
            assert server.silent <= 3
            for reader, _ in flood[:10]:
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    assert await reader.readexactly(1)
            for _, writer in flood:
                writer.close()

    run(test)


def test_who_has_asked_is_nobody_silent_and_stays(run: Any, contexts: Any) -> None:
    async def test() -> None:
        async with serving(contexts[0]) as (server, port), aiohttp.ClientSession() as session:
            for _ in range(3):
                async with session.get(f"https://localhost:{port}/", ssl=contexts[1]) as answer:
                    assert await answer.text() == "hello"
                assert server.silent == 0

    run(test)


def test_what_speaks_no_tls_costs_its_own_connection_only(run: Any, contexts: Any) -> None:
    async def test() -> None:
        async with serving(contexts[0]) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(100)
            writer.close()
            assert await asked(port, contexts[1]) == ["hello"]

    run(test)


def test_who_is_pushed_out_before_the_door_has_begun_with_him_leaves_nothing_open() -> None:
    """All wait when the door looks: it takes them in one go, and none has had a step of his own."""

    async def test() -> None:
        async with serving(silent_max=1) as (_, port):
            clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(6)]
            loop = asyncio.get_running_loop()
            for each in clients:
                each.setblocking(False)
            for each in clients[:-1]:
                assert await loop.sock_recv(each, 1) == b"", "closed, and not only forgotten"
            for each in clients:
                each.close()

    gc.collect()  # what tests before have left open is not this one's
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(asyncio.wait_for(test(), 100))
        gc.collect()
    assert not [str(each.message) for each in caught if each.category is ResourceWarning]


def test_a_connection_whose_context_cannot_be_made_is_closed_and_told(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> ssl.SSLContext:
        raise ValueError("the key store is half written")

    async def test() -> None:
        async with serving(broken) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read(1) == b""
            writer.close()

    run(test)
    assert "the key store is half written" in caplog.text
