"""HTTP/2 and streamed answers, asked by curl and by httpx."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import AsyncGenerator

import httpx2
import pytest
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, StreamReset

from ottla.http import Reply, Request, StreamedReply, json_reply, text_reply
from ottla.http.http2 import RESETS_MAX
from tests.http.test_server import route, run, serving

CURL = "curl"


async def echo(request: Request) -> Reply:
    body = await request.read()
    return json_reply(
        {"method": request.method, "path": request.path, "body": body.decode(), "a": request.headers.get("a")}
    )


async def lines(request: Request) -> StreamedReply:
    async def made() -> AsyncGenerator[bytes, None]:
        for number in range(int(request.query["count"])):
            yield b"%d\n" % number

    return StreamedReply(made(), "text/plain")


async def large(request: Request) -> Reply:
    return text_reply("x" * 3_000_000)


async def back(request: Request) -> StreamedReply:
    """Send back each line while more of them may come."""

    async def made() -> AsyncGenerator[bytes, None]:
        while line := await request.content.readline():
            yield b"got " + line

    return StreamedReply(made(), "text/plain")


ROUTES = [
    route("GET", "/echo", echo),
    route("POST", "/echo", echo),
    route("GET", "/lines", lines),
    route("GET", "/large", large),
    route("POST", "/back", back),
]


async def curl(*arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        CURL, "-sS", "--max-time", "30", *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    out, _ = await process.communicate()
    return out.decode()


@pytest.mark.parametrize("way", ["--http1.1", "--http2-prior-knowledge"])
def test_one_port_speaks_both_to_curl(way: str) -> None:
    async def test() -> None:
        async with serving(*ROUTES, http2=True) as url:
            said = await curl(way, "-w", " %{http_version} %{http_code}", "-H", "a: b", f"{url}/echo")
            version = "1.1" if way == "--http1.1" else "2"
            assert said == '{"method":"GET","path":"/echo","body":"","a":"b"}' + f" {version} 200"
            assert '"body":"hello"' in await curl(way, "-d", "hello", f"{url}/echo")
            assert (await curl(way, "-w", "%{http_code}", f"{url}/nothing")).endswith("404")
            assert (await curl(way, "-I", f"{url}/echo")).split()[1] == "200"
            assert await curl(way, f"{url}/lines?count=5000") == "".join(f"{each}\n" for each in range(5000))
            assert len(await curl(way, f"{url}/large")) == 3_000_000

    run(test)


def test_many_streams_of_one_connection_are_answered_each_by_itself() -> None:
    async def test() -> None:
        async with serving(*ROUTES, http2=True) as url, httpx2.AsyncClient(http1=False, http2=True) as client:
            posts = [client.post(f"{url}/echo", content=b"x" * 100_000 + b"%d" % each) for each in range(30)]
            found = await asyncio.gather(*posts)
            assert [each.json()["body"][100_000:] for each in found] == [str(each) for each in range(30)]

    run(test)


def test_an_answer_comes_while_the_body_is_still_sent() -> None:
    run(duplex)


async def duplex() -> None:
    async with serving(*ROUTES, http2=True) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        client = H2Connection()
        client.initiate_connection()
        head = [(":method", "POST"), (":path", "/back"), (":authority", "h"), (":scheme", "http")]
        client.send_headers(1, head)
        for number in range(3):
            client.send_data(1, b"%d\n" % number)
            writer.write(client.data_to_send())
            heard = b""
            while b"got %d\n" % number not in heard:
                for event in client.receive_data(await reader.read(65536)):
                    heard += getattr(event, "data", None) or b""
        writer.close()


def test_a_writer_waits_for_a_client_that_does_not_read() -> None:
    made = 0
    closed = asyncio.Event()

    async def endless(request: Request) -> StreamedReply:
        async def chunks() -> AsyncGenerator[bytes, None]:
            nonlocal made
            try:
                while True:
                    made += 1
                    yield b"x" * 65536
            finally:
                closed.set()

        return StreamedReply(chunks(), "text/plain")

    async def test() -> None:
        async with serving(route("GET", "/endless", endless), http2=True) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            client = H2Connection()
            client.initiate_connection()
            client.send_headers(
                1,
                [(":method", "GET"), (":path", "/endless"), (":authority", "h"), (":scheme", "http")],
                end_stream=True,
            )
            writer.write(client.data_to_send())
            got = 0
            while got < client.max_inbound_frame_size * 3:
                for event in client.receive_data(await reader.read(65536)):
                    got += len(getattr(event, "data", None) or b"")
            assert made < 10
            writer.close()
            await closed.wait()

    run(test)


def test_who_opens_streams_and_takes_them_back_is_sent_away() -> None:
    async def test() -> None:
        async with serving(*ROUTES, http2=True) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            client = H2Connection()
            client.initiate_connection()
            head = [(":method", "GET"), (":path", "/echo"), (":authority", "h"), (":scheme", "http")]
            for number in range(RESETS_MAX + 10):
                client.send_headers(2 * number + 1, head)
                client.reset_stream(2 * number + 1)
            writer.write(client.data_to_send())
            ended = False
            while data := await reader.read(65536):
                ended = ended or any(isinstance(each, ConnectionTerminated) for each in client.receive_data(data))
            assert ended
            writer.close()

    run(test)


def test_a_line_break_in_a_header_ends_its_stream_only() -> None:
    async def test() -> None:
        async with serving(*ROUTES, http2=True) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            client = H2Connection()
            client.config.validate_outbound_headers = False
            client.initiate_connection()
            head = [(":method", "GET"), (":path", "/echo x"), (":authority", "h"), (":scheme", "http")]
            client.send_headers(1, head, end_stream=True)
            writer.write(client.data_to_send())
            found: list[object] = []
            while not any(isinstance(each, StreamReset | ConnectionTerminated) for each in found):
                data = await reader.read(65536)
                assert data
                found += client.receive_data(data)
            writer.close()

    run(test)


def test_a_connection_that_says_half_a_preface_may_go() -> None:
    async def test() -> None:
        async with serving(*ROUTES, http2=True) as url:
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection:
                connection.sendall(b"PRI * HTT")
            assert '"method":"GET"' in await curl(f"{url}/echo")

    run(test)
