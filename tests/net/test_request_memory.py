"""`queued.max.request.bytes`: where requests have all the memory that they may, nobody begins another."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from ottla.base import WireError
from ottla.net import FrameProtocol, ReceiveBuffer, RequestMemory, TcpNetwork
from tests.waiting import until_async

MAX = 1_000_000


class Receiver:
    """Keeps how long the frames are that it is given."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.frames: FrameProtocol | None = None

    def connection_opened(self, frames: FrameProtocol) -> None:
        self.frames = frames

    def frame_received(self, frame: memoryview) -> None:
        self.sizes.append(len(frame))

    def batch_ended(self) -> None: ...
    def frame_refused(self, error: WireError) -> None: ...
    def writing_paused(self) -> None: ...
    def writing_resumed(self) -> None: ...
    def connection_closed(self, error: Exception | None) -> None: ...


class World:
    """A listener on real sockets whose requests may have MAX bytes."""

    def __init__(self) -> None:
        self.memory = RequestMemory(MAX, loop=asyncio.get_running_loop())
        self.buffer = ReceiveBuffer(requests=self.memory)
        self.receivers: list[Receiver] = []
        self.port = 0

    def accept(self) -> FrameProtocol:
        self.receivers.append(Receiver())
        return FrameProtocol(self.receivers[-1], buffer=self.buffer)

    async def open(self) -> tuple[asyncio.StreamWriter, Receiver]:
        count = len(self.receivers)
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        await until_async(lambda: len(self.receivers) > count and self.receivers[-1].frames is not None)
        return writer, self.receivers[-1]


def run(test: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def with_world() -> None:
        world = World()
        server = await TcpNetwork().listen("127.0.0.1", 0, world.accept)
        world.port = server.port
        try:
            await test(world)
        finally:
            await server.close()

    for factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(with_world(), 100))


def frame(size: int) -> bytes:
    return struct.pack(">i", size) + b"x" * size


def test_a_request_counts_with_what_it_declares_until_it_is_handled() -> None:
    async def test(world: World) -> None:
        writer, receiver = await world.open()
        writer.write(frame(500_000)[:9])
        await until_async(lambda: world.memory.held == 500_004)
        assert world.memory.free == MAX - 500_004
        writer.write(frame(500_000)[9:])
        await until_async(lambda: receiver.sizes == [500_000])
        assert world.memory.held == 0
        writer.write(frame(300_000)[:30_000])
        await until_async(lambda: world.memory.held == 300_004)
        writer.close()
        await until_async(lambda: world.memory.held == 0)

    run(test)


def test_nobody_begins_a_request_where_memory_is_full_and_who_has_begun_one_ends_it() -> None:
    async def test(world: World) -> None:
        begun = [await world.open() for _ in range(2)]
        begun[0][0].write(frame(900_000)[:70_000])
        await until_async(lambda: world.memory.held == 900_004)
        begun[1][0].write(frame(400_000)[:70_000])
        await until_async(lambda: world.memory.is_full)
        late = [await world.open() for _ in range(3)]
        for number, (writer, _) in enumerate(late):
            writer.write(frame(10) + frame(200_000))
            await until_async(lambda number=number: world.memory.waiting == number + 1)  # type: ignore[misc]
        assert world.memory.held == 1_300_008
        begun[0][0].write(frame(900_000)[70_000:])
        await until_async(lambda: begun[0][1].sizes == [900_000])
        for _, receiver in late:
            await until_async(lambda receiver=receiver: receiver.sizes == [10, 200_000])  # type: ignore[misc]
        assert world.memory.waiting == 0
        begun[1][0].write(frame(400_000)[70_000:] + frame(7))
        await until_async(lambda: begun[1][1].sizes == [400_000, 7])
        assert world.memory.held == 0

    run(test)


def test_who_leaves_while_it_waits_is_passed_over() -> None:
    async def test(world: World) -> None:
        first, _ = await world.open()
        first.write(frame(2_000_000)[:70_000])
        await until_async(lambda: world.memory.is_full)
        (leaving, _), (waiting, receiver) = await world.open(), await world.open()
        for number, writer in enumerate((leaving, waiting)):
            writer.write(frame(20))
            await until_async(lambda number=number: world.memory.waiting == number + 1)  # type: ignore[misc]
        assert world.receivers[1].frames is not None
        world.receivers[1].frames.close()
        assert world.memory.waiting == 1
        first.close()  # its request never ends, and counts no more
        await until_async(lambda: receiver.sizes == [20])

    run(test)


def test_what_a_paused_receiver_has_yet_to_take_counts() -> None:
    async def test(world: World) -> None:
        writer, receiver = await world.open()
        frames = receiver.frames
        assert frames is not None
        kept: list[memoryview] = []

        def hold(frame: memoryview) -> None:
            kept.append(frames.hold(frame))
            frames.pause_reading()

        receiver.frame_received = hold  # type: ignore[method-assign]
        writer.write(frame(5_000) + frame(10_000) + frame(10))
        await until_async(lambda: bool(kept))
        assert world.memory.held == 5_000 + 10_004 + 14
        frames.let_go(len(kept[0]))
        del receiver.frame_received
        frames.resume_reading()
        await until_async(lambda: receiver.sizes == [10_000, 10])
        assert world.memory.held == 0

    run(test)


def test_a_request_larger_than_all_memory_is_taken_alone() -> None:
    async def test(world: World) -> None:
        writer, receiver = await world.open()
        writer.write(frame(3 * MAX))
        await until_async(lambda: receiver.sizes == [3 * MAX])
        assert not world.memory.is_full

    run(test)
