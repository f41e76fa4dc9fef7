"""The simulated network keeps TCP's promises and breaks what TCP does not promise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from tests.sim.loop import SimLoop
from tests.sim.network import CALM, WINDOW_BYTES, Endpoint, Fabric, Weather
from tests.sim.process import Process
from tests.sim.trace import Trace

ROUGH = Weather(latency_ms=(0.1, 20), spike_chance=0.1, chunk_bytes_max=700, read_bytes_max=90)


class Sink(asyncio.BufferedProtocol):
    """Keeps what it reads and what happened to it."""

    def __init__(self) -> None:
        self.buffer = bytearray(64)
        self.data = bytearray()
        self.ended = False
        self.lost: list[Exception | None] = []
        self.paused = 0
        self.transport: Endpoint

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, Endpoint)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.buffer[:nbytes]

    def eof_received(self) -> bool:
        self.ended = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.paused += 1

    def resume_writing(self) -> None:
        self.paused -= 1


def world(main: Callable[[Fabric], Coroutine[Any, Any, None]], seed: int = 1, weather: Weather = CALM) -> str:
    loop = SimLoop()
    trace = Trace()
    try:
        loop.run_until_complete(main(Fabric(loop, Random(seed), trace, weather)))
    finally:
        loop.close()
    assert not loop.errors
    return trace.digest


async def pair(fabric: Fabric) -> tuple[Sink, Sink]:
    """Return (client's, server's) protocols of one connection."""
    accepted: list[Sink] = []

    def accept() -> Sink:
        accepted.append(Sink())
        return accepted[-1]

    server = await fabric.host("b").listen("0.0.0.0", 0, accept)
    _, client = await fabric.host("a").connect("b", server.port, Sink)
    await asyncio.sleep(0.5)
    return client, accepted[0]


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_whole_and_in_order_in_rough_weather(seed: int) -> None:
    payload = Random(seed).randbytes(50_000)

    async def main(fabric: Fabric) -> None:
        client, server = await pair(fabric)
        for start in range(0, len(payload), 7_777):
            client.transport.write(payload[start : start + 7_777])
        client.transport.close()
        await asyncio.sleep(60)
        assert server.data == payload
        assert server.ended and server.lost == [None] and client.lost == [None]

    world(main, seed, ROUGH)


def test_one_seed_gives_one_trace() -> None:
    async def main(fabric: Fabric) -> None:
        for _ in range(3):
            client, _ = await pair(fabric)
            fabric.trace.note(f"{fabric.loop.time()}")
            client.transport.write(bytes(3000))
            await asyncio.sleep(1)
            fabric.reset_one()

    assert world(main, 7, ROUGH) == world(main, 7, ROUGH) != world(main, 8, ROUGH)


def test_a_reader_that_pauses_stops_the_writer() -> None:
    async def main(fabric: Fabric) -> None:
        client, server = await pair(fabric)
        server.transport.pause_reading()
        client.transport.write(bytes(WINDOW_BYTES + 100_000))
        await asyncio.sleep(5)
        assert client.paused == 1 and client.transport.get_write_buffer_size() == 100_000 and not server.data
        server.transport.resume_reading()
        await asyncio.sleep(5)
        assert client.paused == 0 and len(server.data) == WINDOW_BYTES + 100_000

    world(main)


def test_a_one_way_partition_holds_one_direction_until_healed() -> None:
    async def main(fabric: Fabric) -> None:
        client, server = await pair(fabric)
        fabric.block("a", "b")
        client.transport.write(b"question")
        server.transport.write(b"news")
        await asyncio.sleep(30)
        assert not server.data and client.data == b"news"
        with pytest.raises(TimeoutError):
            await fabric.host("a").connect("b", 1, Sink)
        fabric.heal("a", "b")
        await asyncio.sleep(1)
        assert server.data == b"question"

    world(main)


def test_a_killed_process_sends_what_it_wrote_and_then_the_end() -> None:
    async def main(fabric: Fabric) -> None:
        process = Process(fabric.loop, "b")
        accepted: list[Sink] = []

        def accept() -> Sink:
            accepted.append(Sink())
            return accepted[-1]

        server = await process.run(fabric.host("b").listen("b", 9, accept))
        _, client = await fabric.host("a").connect("b", server.port, Sink)
        await asyncio.sleep(0.1)
        accepted[0].transport.write(b"last words")
        process.kill()
        await asyncio.sleep(1)
        assert client.data == b"last words" and client.ended and not accepted[0].lost
        with pytest.raises(ConnectionRefusedError):
            await fabric.host("a").connect("b", 9, Sink)

    world(main)


def test_a_host_without_power_is_silent_until_written_to() -> None:
    async def main(fabric: Fabric) -> None:
        client, _ = await pair(fabric)
        fabric.power_off("b")
        await asyncio.sleep(100)
        assert not client.lost
        client.transport.write(b"?")
        await asyncio.sleep(20)
        assert isinstance(client.lost[0], TimeoutError)
        fabric.power_on("b")

    world(main)
