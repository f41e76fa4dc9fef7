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


async def an_address_is_taken_before_anybody_is_let_in() -> None:
    network = TcpNetwork()
    server = await network.listen("127.0.0.1", 0, lambda: FrameProtocol(EchoServer()), accepts=False)
    with pytest.raises(ConnectionRefusedError):
        await network.connect(server.host, server.port, lambda: FrameProtocol(Echo()))
    await server.accept()
    with pytest.raises(OSError):
        await network.listen("127.0.0.1", server.port, lambda: FrameProtocol(EchoServer()), accepts=False)
    transport, _ = await network.connect(server.host, server.port, lambda: FrameProtocol(Echo()))
    transport.close()
    await server.close()


async def of_two_that_take_an_address_one_lets_nobody_in() -> None:
    network = TcpNetwork()
    first = await network.listen("127.0.0.1", 0, lambda: FrameProtocol(EchoServer()), accepts=False)
    with pytest.raises(OSError):
        second = await network.listen("127.0.0.1", first.port, lambda: FrameProtocol(EchoServer()), accepts=False)
        await first.accept()
        await second.accept()
    await first.close()


def test_frames_travel_over_tcp() -> None:
    asyncio.run(frames_travel_over_tcp())


def test_a_taken_port_is_an_error() -> None:
    asyncio.run(a_taken_port_is_an_error())


def test_an_address_is_taken_before_anybody_is_let_in() -> None:
    asyncio.run(an_address_is_taken_before_anybody_is_let_in())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_of_two_that_take_an_address_one_is_told_that_it_lets_nobody_in(loop: str) -> None:
    factory = asyncio.new_event_loop if loop == "asyncio" else pytest.importorskip("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(of_two_that_take_an_address_one_lets_nobody_in())
