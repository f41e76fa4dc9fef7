"""A server of HTTP that lies: redirects, drips, never ends, sends bombs. One mode each, and what it was asked is kept."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["MODES", "HostileServer", "hostile_server"]

MODES = (
    *("redirect", "redirect-file", "redirect-307", "silent", "drip-head", "drip-body", "endless", "endless-head"),
    *("bomb", "text", "deep", "surrogate", "cut", "huge-length", "garbage", "long-head", "long-refusal", "moved-body"),
)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
BLOCK = b"1234567 " * 8192


class HostileServer:
    """Answers by its mode; `asked` is what came, headers and all."""

    def __init__(self, mode: str, other: str = "") -> None:
        self.mode, self.other = mode, other
        self.asked: list[bytes] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            self.asked.append(await reader.readuntil(b"\r\n\r\n"))
            await self._said(writer)
        with suppress(ConnectionError):
            writer.close()

    async def _said(self, writer: asyncio.StreamWriter) -> None:
        match self.mode:
            case "redirect" | "redirect-307" | "redirect-file" | "moved-body":
                status = {"redirect-307": 307, "moved-body": 301}.get(self.mode, 302)
                place = "file:///etc/passwd" if self.mode == "redirect-file" else f"{self.other}/stolen"
                head = f"HTTP/1.1 {status} Found\r\nLocation: {place}\r\nContent-Length: 2\r\n\r\n{{}}"
                writer.write(head.encode())
            case "silent":
                await asyncio.Event().wait()
            case "drip-head":
                await _dripped(writer, b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 10_000)
            case "drip-body":
                writer.write(OK + b"Content-Length: 10000\r\n\r\n")
                await _dripped(writer, b" " * 10_000)
            case "endless":
                writer.write(OK + b"Connection: close\r\n\r\n[")
                while True:
                    writer.write(BLOCK)
                    await writer.drain()
            case "endless-head":
                writer.write(b"HTTP/1.1 200 OK\r\n")
                while True:
                    writer.write(b"X-A: b\r\n" * 1000)
                    await writer.drain()
            case _:
                writer.write(_whole(self.mode))
        await writer.drain()


async def _ended() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for each in rest:
        if each is not None:
            each.cancel()
    await asyncio.gather(*filter(None, rest), return_exceptions=True)


async def _dripped(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send byte by byte, often enough that no pause is long."""
    for each in data:
        writer.write(bytes([each]))
        await writer.drain()
        await asyncio.sleep(0.05)


def _whole(mode: str) -> bytes:
    if mode == "cut":
        return OK + b"Content-Length: 100\r\n\r\n{}"
    if mode == "huge-length":
        return OK + b"Content-Length: 99999999999999999999\r\n\r\n{}"
    if mode == "garbage":
        return b"\x00\xff\x16\x03\r\n\r\n"
    if mode == "long-head":
        return OK + b"X-A: " + b"a" * 200_000 + b"\r\nContent-Length: 2\r\n\r\n{}"
    if mode == "long-refusal":
        body = b'{"message": "' + b"a" * (20 << 20) + b'"}'
        return b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    bodies = {"text": b"<html>", "deep": b"[" * 200_000, "surrogate": b'"\xed\xa0\x80\xff'}
    if mode == "bomb":
        body = gzip.compress(bytes(200 << 20), 1)
        return OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    return OK + b"Content-Length: %d\r\n\r\n" % len(bodies[mode]) + bodies[mode]


@contextmanager
def hostile_server(mode: str, other: str = "") -> Iterator[HostileServer]:
    """Run one on a thread and a loop of its own, until the block ends."""
    server, ready, loop = HostileServer(mode, other), threading.Event(), asyncio.new_event_loop()

    async def serve() -> None:
        listening = await asyncio.start_server(server.answer, "127.0.0.1", 0)
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        ready.set()
        async with listening:
            await listening.serve_forever()

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(main)
        loop.run_until_complete(_ended())
        loop.close()

    main = loop.create_task(serve())
    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(30)
        yield server
    finally:
        loop.call_soon_threadsafe(main.cancel)
        thread.join(30)
