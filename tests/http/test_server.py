"""The HTTP room over sockets: answers, errors in JSON, bounds, and opening and closing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from ottla.base import ConfigError
from ottla.http import (
    Guard,
    HttpError,
    HttpServer,
    Reply,
    Request,
    Route,
    StreamedReply,
    Who,
    everybody,
    json_reply,
    text_reply,
    while_there,
)

Handle = Callable[[Request], Awaitable[Reply | StreamedReply]]
OPEN = Guard(everybody, None)
"""Everybody, under every name."""


def route(method: str, path: str, handle: Handle) -> Route:
    """Return a route for everybody that takes bodies of any type."""
    return Route(method, path, handle, Who.ANYONE, takes=("*/*",))


@asynccontextmanager
async def serving(*routes: Route, **bounds: Any) -> AsyncIterator[str]:
    server = HttpServer(routes, OPEN, **bounds)
    port = await server.listen("127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.close()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 100))


async def ask(url: str, method: str = "GET", **more: Any) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.request(method, url, **more) as answer:
        if answer.content_type == "application/json" and method != "HEAD":
            return answer.status, await answer.json()
        return answer.status, await answer.text()


async def named(request: Request) -> Reply:
    return json_reply({"name": request.match_info["name"], "q": request.query.get("q")})


async def echo(request: Request) -> Reply:
    return text_reply(await request.text(), status=201)


def raising(error: Exception) -> Handle:
    async def handle(request: Request) -> Reply:
        raise error

    return handle


def test_a_route_gets_its_names_and_the_query() -> None:
    async def test() -> None:
        async with serving(route("GET", "/things/{name}", named), route("POST", "/echo", echo)) as url:
            assert await ask(f"{url}/things/caf%C3%A9?q=1") == (200, {"name": "café", "q": "1"})
            assert await ask(f"{url}/echo", "POST", data="héllo") == (201, "héllo")
            assert await ask(f"{url}/things/x", "HEAD") == (200, "")

    run(test)


def test_what_is_not_there_is_said_in_json() -> None:
    async def test() -> None:
        async with serving(route("GET", "/things/{name}", named)) as url:
            assert await ask(f"{url}/none") == (404, {"error_code": 404, "message": "Not Found: GET /none"})
            status, answer = await ask(f"{url}/things/x", "DELETE")
            assert (status, answer["error_code"]) == (405, 405)

    run(test)


@pytest.mark.parametrize(
    ("error", "status", "answer"),
    [
        (HttpError(409, "it is taken", error_code=40901), 409, {"error_code": 40901, "message": "it is taken"}),
        (HttpError(503, "not yet"), 503, {"error_code": 503, "message": "not yet"}),
    ],
)
def test_an_error_has_its_status_and_code(error: Exception, status: int, answer: dict[str, Any]) -> None:
    async def test() -> None:
        async with serving(route("GET", "/", raising(error))) as url:
            assert await ask(url) == (status, answer)

    run(test)


def test_an_error_of_ours_is_a_sentence_and_never_a_stack(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        routes = (
            route("GET", "/known", raising(ConfigError("a.key", "x", "must be a number"))),
            route("GET", "/unknown", raising(RuntimeError("secret"))),
        )
        async with serving(*routes) as url:
            status, answer = await ask(f"{url}/known")
            assert status == 500 and "a.key" in answer["message"]
            status, answer = await ask(f"{url}/unknown")
            assert status == 500 and "secret" not in answer["message"]

    with caplog.at_level(logging.ERROR):
        run(test)
    assert "GET /unknown failed" in caplog.text


def test_nothing_takes_longer_than_its_time_or_is_larger_than_allowed() -> None:
    async def never(request: Request) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    async def test() -> None:
        routes = (route("GET", "/never", never), route("POST", "/echo", echo))
        async with serving(*routes, request_seconds_max=0.05, body_bytes_max=100) as url:
            assert (await ask(f"{url}/never"))[0] == 504
            assert (await ask(f"{url}/echo", "POST", data="x" * 1000))[0] == 413

    run(test)


def test_an_address_that_is_taken_is_an_os_error_and_closing_frees_it() -> None:
    async def test() -> None:
        first, second = HttpServer([], OPEN), HttpServer([], OPEN)
        port = await first.listen("127.0.0.1", 0)
        with pytest.raises(OSError):
            await second.listen("127.0.0.1", port)
        await first.close()
        assert await second.listen("127.0.0.1", port) == port
        await second.close()

    run(test)


def test_what_is_no_http_is_answered_and_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving(route("GET", "/", named)) as url:
            port = int(url.rpartition(":")[2])
            for data in (b"GET / HTTP/1.1\r\nHost: h\r\nX: \x00\r\n\r\n", b"nonsense\r\n\r\n", b"GET / HTTP/9\r\n\r\n"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(data)
                assert (await reader.readline()).split()[1] == b"400"
                writer.close()

    run(test)
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_client_that_takes_nothing_of_an_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.http.server.STALLED_SECONDS_MAX", 0.05)

    async def test() -> None:
        ended = asyncio.Event()

        async def endless() -> AsyncGenerator[bytes, None]:
            try:
                while True:
                    yield bytes(1 << 16)
            finally:
                ended.set()

        async def handle(request: Request) -> StreamedReply:
            return StreamedReply(endless(), "application/octet-stream")

        async with serving(route("GET", "/", handle)) as base:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]), limit=1)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readexactly(1)  # it has begun; nothing more is taken
            await ended.wait()
            writer.close()

    run(test)


def test_what_is_awaited_for_a_client_that_goes_is_cancelled() -> None:
    async def test() -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def long() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        async def handle(request: Request) -> Reply:
            await while_there(request, long())
            return text_reply("")

        async with serving(route("GET", "/", handle)) as base:
            _, writer = await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]))
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await begun.wait()
            writer.close()
            await cancelled.wait()

    run(test)
