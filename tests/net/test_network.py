"""TcpNetwork: listening, connecting, and what is left when a server closes."""

from __future__ import annotations

import asyncio

import pytest

from ottla.base import WireError
from ottla.net import FrameProtocol, TcpNetwork


class Echo:
    """Sends each frame back, all of one read in one write."""

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self.received: list[bytes] = []
        self.closed = asyncio.get_running_loop().create_future()
        self.arrived = asyncio.Event()

    def connection_opened(self, frames: FrameProtocol) -> None:
        self.frames = frames

    def frame_received(self, frame: memoryview) -> None:
        self.received.append(bytes(frame))
        self.out.append(len(frame).to_bytes(4, "big") + bytes(frame))

    def batch_ended(self) -> None:
        self.arrived.set()

    def frame_refused(self, error: WireError) -> None: ...

    def writing_paused(self) -> None: ...

    def writing_resumed(self) -> None: ...

    def connection_closed(self, error: Exception | None) -> None:
        self.closed.set_result(error)


class EchoServer(Echo):
    """The side that answers."""

    def batch_ended(self) -> None:
        self.frames.transport.writelines(self.out)
        self.out = []


async def frames_travel_over_tcp() -> None:
    network = TcpNetwork()
    server = await network.listen("127.0.0.1", 0, lambda: FrameProtocol(EchoServer()))
    client = Echo()
    transport, _ = await network.connect(server.host, server.port, lambda: FrameProtocol(client))
    sent = [b"small", b"x" * 300_000, b""]
    for payload in sent:
        transport.write(len(payload).to_bytes(4, "big") + payload)
    while len(client.received) < len(sent):
        client.arrived.clear()
        await client.arrived.wait()
    assert client.received == sent
    transport.close()
    await client.closed
    await server.close()
    with pytest.raises(OSError):
        await network.connect(server.host, server.port, lambda: FrameProtocol(Echo()))


async def a_taken_port_is_an_error() -> None:
    network = TcpNetwork()
    server = await network.listen("127.0.0.1", 0, lambda: FrameProtocol(EchoServer()))
    with pytest.raises(OSError):
        await network.listen("127.0.0.1", server.port, lambda: FrameProtocol(EchoServer()))
    await server.close()


def test_frames_travel_over_tcp() -> None:
    asyncio.run(frames_travel_over_tcp())


def test_a_taken_port_is_an_error() -> None:
    asyncio.run(a_taken_port_is_an_error())
