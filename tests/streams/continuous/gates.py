"""A door between clients and a broker in this process: requests of one kind wait before it until a test lets them in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from ottla.broker import Node
from tests.broker.node_client import start_node

__all__ = ["Gate", "node_behind_a_gate"]


class Gate:
    """The door; the node's address is its own."""

    def __init__(self) -> None:
        self.port = 0
        self.target = 0
        """The node's own port."""
        self.shut: tuple[int, bytes] | None = None
        """The API, and the client, whose requests wait."""
        self.waiting = 0
        """How many do, or did."""
        self._open = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    def shut_for(self, api_key: int, client_id: str) -> None:
        """Have requests of this API and client wait from now on."""
        self.shut, self.waiting, self._open = (api_key, client_id.encode()), 0, asyncio.Event()

    def open(self) -> None:
        """Let in what waits, and all that follows."""
        self.shut = None
        self._open.set()

    async def listen(self) -> asyncio.Server:
        """Begin; the port is the system's choice."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def close(self) -> None:
        """Close every connection."""
        for each in self._writers:
            each.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_node, to_node = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers += [writer, to_node]
        with suppress(OSError, asyncio.IncompleteReadError):
            await asyncio.gather(self._requests(reader, to_node), _answers(from_node, writer))
        writer.close()
        to_node.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size = await reader.readexactly(4)
            frame = await reader.readexactly(int.from_bytes(size, "big"))
            client_id = frame[10 : 10 + int.from_bytes(frame[8:10], "big", signed=True)]
            if (int.from_bytes(frame[:2], "big"), client_id) == self.shut:
                self.waiting += 1
                await self._open.wait()
            writer.write(size + frame)


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while found := await reader.read(65536):
        writer.write(found)
    raise asyncio.IncompleteReadError(b"", None)


@asynccontextmanager
async def node_behind_a_gate(folder: Path) -> AsyncIterator[tuple[Node, Gate]]:
    """Start a node that clients reach through a gate alone."""
    gate = Gate()
    server = await gate.listen()
    node = await start_node(folder, f"advertised.listeners=PLAINTEXT://127.0.0.1:{gate.port}")
    gate.target = node.listeners[0].port
    try:
        yield node, gate
    finally:
        gate.open()
        gate.close()
        server.close()
        await node.stop()
