"""A connection: answers in request order, effects in request order, bounds on what waits and on who does not read."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from ottla.broker.metrics import Metrics
from ottla.broker.offload import ThreadsAndProcess
from ottla.broker.requests.answer_memory import AnswerMemory
from ottla.broker.requests.answers import Deferred, Encoded
from ottla.broker.requests.authorizer import AllowAll
from ottla.broker.requests.connection import WAITING_REQUESTS_MAX, Connection
from ottla.broker.requests.connection_limits import ConnectionLimits
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.router import Router
from ottla.broker.services import Services
from ottla.config import BrokerConfig
from ottla.net import FrameProtocol, ReceiveBuffer, TcpNetwork, TlsBuffer, TlsProtocol
from ottla.security import NEEDS_NOTHING
from tests.net.certificates import client_context, server_context
from tests.security.authority import authority, signed
from tests.waiting import until_async

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18


class Asked:
    """A request of these tests: its body is what it wants to be told."""

    def __init__(self, body: bytes) -> None:
        self.body = body


def read(frame: memoryview, version: int, position: int) -> Asked:
    return Asked(bytes(frame[position:]))


def encoded(context: RequestContext[Any], body: bytes) -> Encoded:
    return Encoded([struct.pack(">ii", len(body) + 4, context.correlation_id), body])


def handler(api_key: int, handle: Callable[[RequestContext[Any], Asked], Any]) -> Handler[Any]:
    return Handler(Asked, api_key=api_key, versions=(0, 3), needs=NEEDS_NOTHING, handle=handle, read=read)


class World:
    """A listener with these handlers, and a client that speaks raw bytes."""

    def __init__(
        self,
        handlers: list[Handler[Any]],
        config: str = "",
        *,
        memory_bytes_max: int = 1 << 30,
        room: int | None = None,
        throttle_ms: Callable[[str], int] = lambda host: 0,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.memory = AnswerMemory(self.loop, memory_bytes_max)
        self.connections: list[Connection] = []
        self.offload = ThreadsAndProcess()
        services = cast(
            Services,
            SimpleNamespace(
                metrics=Metrics(),
                quotas=None,
                authorizer=AllowAll(),
                rng=Random(1),
                lease=SimpleNamespace(is_sure=True),
                answer_memory=self.memory,
            ),
        )
        self.settings = BrokerConfig.load(config).settings
        self.limits = ConnectionLimits(self.loop, lambda: self.settings, throttle_ms, room=room)
        self.router = Router(services, handlers, self.limits)
        self.buffer = ReceiveBuffer()
        self.contexts = contexts() if Transports.is_secured else None
        self.tls_buffer = TlsBuffer()
        self.scratch = memoryview(bytearray(256 * 1024))

    def accept(self) -> FrameProtocol | TlsProtocol:
        connection = Connection(
            self.router,
            "PLAINTEXT",
            loop=self.loop,
            offload=self.offload,
            memory=self.memory,
            scratch=self.scratch if self.contexts else None,
        )
        self.connections.append(connection)
        frames = FrameProtocol(connection, buffer=self.buffer)
        if self.contexts is None:
            return frames
        return TlsProtocol(frames, self.contexts[0], loop=self.loop, buffer=self.tls_buffer, is_server=True)

    async def open(self) -> Client:
        context = self.contexts[1] if self.contexts else None
        return Client(*await asyncio.open_connection("127.0.0.1", self.port, ssl=context))

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[World]:
        server = await TcpNetwork().listen("127.0.0.1", 0, self.accept)
        self.port = server.port
        try:
            yield self
        finally:
            await server.close()
            await self.limits.close_all()
            self.offload.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def ask(self, api_key: int, correlation_id: int, body: bytes = b"", *, version: int = 0) -> None:
        frame = struct.pack(">hhih", api_key, version, correlation_id, -1) + body
        self.writer.write(struct.pack(">i", len(frame)) + frame)

    async def answer(self) -> tuple[int, bytes]:
        size, correlation_id = struct.unpack(">ii", await self.reader.readexactly(8))
        return correlation_id, await self.reader.readexactly(size - 4)

    async def ended(self) -> bytes:
        return await self.reader.read()


RUNS = 4
"""Two loops, in clear and on TLS."""


class Transports:
    """What worlds are made on now."""

    is_secured = False


@cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a server's context of TLS and a client's."""
    trusted = authority()
    return server_context(signed(trusted, "broker")), client_context(trusted)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test on asyncio's own loop and on uvloop, in clear and on TLS: transports differ in much that matters here."""
    for factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        for Transports.is_secured in (False, True):
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(asyncio.wait_for(test(), 100))
    Transports.is_secured = False


def echo(context: RequestContext[Any], asked: Asked) -> Encoded:
    return encoded(context, asked.body)


async def turns(count: int = 20) -> None:
    """Let the loop handle what has arrived; each turn polls the sockets."""
    for _ in range(count):
        await asyncio.sleep(0.001)


Waiting = list[tuple[RequestContext[Any], Deferred[Encoded]]]


def deferring() -> tuple[Waiting, Callable[[RequestContext[Any], Asked], Deferred[Encoded]]]:
    """Return a handler that answers nothing yet, and the list of what waits for it to."""
    waiting: Waiting = []

    def produce(context: RequestContext[Any], asked: Asked) -> Deferred[Encoded]:
        waiting.append((context, Deferred()))
        return waiting[-1][1]

    return waiting, produce


def test_requests_of_one_read_are_answered_in_order_in_one_write() -> None:
    async def test() -> None:
        async with World([handler(METADATA, echo)]).listening() as world:
            client = await world.open()
            for number in range(500):
                client.ask(METADATA, number, b"%d" % number)
            assert [await client.answer() for _ in range(500)] == [(n, b"%d" % n) for n in range(500)]

    run(test)


def test_answers_leave_in_request_order_whatever_is_ready_first() -> None:
    async def test() -> None:
        waiting, produce = deferring()
        async with World([handler(PRODUCE, produce)]).listening() as world:
            client = await world.open()
            for number in range(4):
                client.ask(PRODUCE, number)
            await until_async(lambda: len(waiting) == 4)
            for number in (2, 0, 3, 1):
                context, deferred = waiting[number]
                deferred.resolve(encoded(context, b"done"))
            assert [(await client.answer())[0] for _ in range(4)] == [0, 1, 2, 3]

    run(test)


def test_nothing_but_produce_overtakes_a_waiting_answer() -> None:
    async def test() -> None:
        seen: list[int] = []
        gate: Deferred[Any] = Deferred()

        def fetch(context: RequestContext[Any], asked: Asked) -> Any:
            seen.append(context.correlation_id)
            return gate if context.correlation_id == 1 else encoded(context, b"")

        async with World([handler(FETCH, fetch), handler(PRODUCE, fetch)]).listening() as world:
            client = await world.open()
            client.ask(FETCH, 1)
            client.ask(FETCH, 2)
            client.ask(PRODUCE, 3)
            await turns()
            assert seen == [1]
            gate.resolve(Encoded([struct.pack(">ii", 4, 1)]))
            assert [(await client.answer())[0] for _ in range(3)] == [1, 2, 3]
            assert seen == [1, 2, 3]

    run(test)


def test_a_muted_connection_answers_and_reads_nothing_until_its_time() -> None:
    async def test() -> None:
        seen: list[int] = []
        gate: Deferred[Any] = Deferred()

        def fetch(context: RequestContext[Any], asked: Asked) -> Any:
            seen.append(context.correlation_id)
            return gate if context.correlation_id == 1 else encoded(context, b"")

        async with World([handler(FETCH, fetch)]).listening() as world:
            client = await world.open()
            client.ask(FETCH, 1)
            client.ask(FETCH, 2)
            await turns()
            began_s = world.loop.time()
            world.connections[0].mute(300)
            world.connections[0].mute(10)
            gate.resolve(Encoded([struct.pack(">ii", 4, 1)]))
            assert (await client.answer())[0] == 1
            assert seen == [1]
            assert (await client.answer())[0] == 2
            assert world.loop.time() - began_s >= 0.29, "the longer of two times holds"

    run(test)


def test_a_muted_connection_is_closed_with_the_others() -> None:
    async def test() -> None:
        async with World([handler(FETCH, echo)]).listening() as world:
            client = await world.open()
            client.ask(FETCH, 1)
            assert (await client.answer())[0] == 1
            world.connections[0].mute(1_000_000)
            client.ask(FETCH, 2)
            await world.limits.close_all()
            assert len(world.limits) == 0

    run(test)


def test_a_produce_that_is_not_appended_yet_is_not_overtaken() -> None:
    async def test() -> None:
        seen: list[int] = []
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def later(context: RequestContext[Any]) -> Encoded:
            await gate
            seen.append(context.correlation_id)
            return encoded(context, b"")

        def produce(context: RequestContext[Any], asked: Asked) -> Any:
            if context.correlation_id == 1:
                return later(context)
            seen.append(context.correlation_id)
            return encoded(context, b"")

        async with World([handler(PRODUCE, produce)]).listening() as world:
            client = await world.open()
            client.ask(PRODUCE, 1)
            client.ask(PRODUCE, 2)
            await turns()
            assert seen == []
            gate.set_result(None)
            assert [(await client.answer())[0] for _ in range(2)] == [1, 2]
            assert seen == [1, 2]

    run(test)


class GivesBack:
    """Takes every Produce of a read, has the answers of some at once, and gives the others back to be handled."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.frames, self.taken = connection, list[memoryview](), 0

    def take(self, connection: Connection, frame: memoryview) -> bool:
        self.frames.append(frame)
        self.taken += 1
        return True

    def finish(self, connection: Connection) -> None:
        frames, self.frames, self.taken = self.frames, [], 0
        for frame in frames:
            (correlation_id,) = struct.unpack_from(">i", frame, 4)
            if correlation_id % 4 == 3:
                connection.answer([struct.pack(">ii", 4, correlation_id)])
            else:
                connection.handle(frame)

    def learn(self, frame: memoryview, version: int, position: int, request: Any, client_id: str) -> None: ...


def test_requests_that_are_given_back_together_do_not_overtake_one_that_waits() -> None:
    async def test() -> None:
        seen: list[int] = []

        async def later(context: RequestContext[Any]) -> Encoded:
            await turns(2)
            seen.append(context.correlation_id)
            return encoded(context, b"")

        def produce(context: RequestContext[Any], asked: Asked) -> Any:
            if context.correlation_id % 3 == 1:
                return later(context)
            seen.append(context.correlation_id)
            return encoded(context, b"")

        async with World([handler(PRODUCE, produce), handler(FETCH, produce)]).listening() as world:
            client = await world.open()
            await until_async(lambda: world.connections)
            for first in range(1, 40, 13):  # several reads, each behind what the last one still has to do
                world.connections[0].quick = GivesBack(world.connections[0])
                for number in range(first, first + 13):
                    client.ask(PRODUCE, number)
                await turns(1)
            assert [(await client.answer())[0] for _ in range(39)] == list(range(1, 40))
            assert seen == sorted(seen)
            assert world.buffer.requests.held == 0

    run(test)


def test_what_waits_on_one_connection_is_bounded() -> None:
    async def test() -> None:
        waiting, produce = deferring()
        async with World([handler(PRODUCE, produce)]).listening() as world:
            client = await world.open()
            count = 3 * WAITING_REQUESTS_MAX
            for number in range(count):
                client.ask(PRODUCE, number)
            await turns()
            assert len(waiting) == WAITING_REQUESTS_MAX
            answered = 0
            while answered < count:
                context, deferred = waiting[answered]
                deferred.resolve(encoded(context, b""))
                assert (await client.answer())[0] == answered
                answered += 1

    run(test)


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    async def test() -> None:
        handled = 0

        def metadata(context: RequestContext[Any], asked: Asked) -> Encoded:
            nonlocal handled
            handled += 1
            return encoded(context, b"x" * 100_000)

        async with World([handler(METADATA, metadata)]).listening() as world:
            client = await world.open()
            client.reader._limit = 1  # type: ignore[attr-defined]
            cast(asyncio.ReadTransport, client.writer.transport).pause_reading()
            for number in range(2000):
                client.ask(METADATA, number)
            before = -1
            while handled != before:
                before = handled
                await turns()
            assert handled < 300  # 200 MB were asked for; what the two kernels hold varies
            cast(asyncio.ReadTransport, client.writer.transport).resume_reading()
            assert [(await client.answer())[0] for _ in range(2000)] == list(range(2000))

    run(test)


def test_a_coroutine_is_dropped_when_its_client_leaves() -> None:
    async def test() -> None:
        ended = asyncio.Event()

        async def slow(context: RequestContext[Any], asked: Asked) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with World([handler(METADATA, slow)]).listening() as world:
            client = await world.open()
            client.ask(METADATA, 1)
            await turns()
            client.writer.close()
            await ended.wait()
            assert len(world.limits) == 0

    run(test)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00",
        struct.pack(">hhih", 999, 0, 1, -1),
        struct.pack(">hhih", -1, 0, 1, -1),
        struct.pack(">hhih", METADATA, 99, 1, -1),
        struct.pack(">hhih", METADATA, -1, 1, -1),
        struct.pack(">hhih", METADATA, 0, 1, 500),
        struct.pack(">hhih", METADATA, 0, 1, -2),
    ],
)
def test_a_request_that_is_none_costs_its_connection_and_one_line(
    frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with World([handler(METADATA, echo)]).listening() as world:
            client = await world.open()
            client.writer.write(struct.pack(">i", len(frame)) + frame)
            assert await client.ended() == b""
            other = await world.open()
            other.ask(METADATA, 7, b"alive")
            assert await other.answer() == (7, b"alive")

    run(test)
    assert len(caplog.records) == RUNS


def test_answers_before_a_malformed_frame_are_sent() -> None:
    async def test() -> None:
        async with World([handler(METADATA, echo)]).listening() as world:
            client = await world.open()
            client.ask(METADATA, 1, b"fine")
            client.writer.write(struct.pack(">i", -5))
            assert await client.answer() == (1, b"fine")
            assert await client.ended() == b""

    run(test)


def test_a_mistake_of_ours_is_logged_and_costs_one_answer(caplog: pytest.LogCaptureFixture) -> None:
    from ottla.wire import decode
    from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

    def broken(context: RequestContext[Any], request: DescribeClusterRequest) -> None:
        raise ZeroDivisionError

    async def test() -> None:
        made = Handler(DescribeClusterRequest, versions=(0, 2), needs=NEEDS_NOTHING, handle=broken)
        async with World([made]).listening() as world:
            client = await world.open()
            client.ask(60, 5, b"\x00\x00\x00")
            correlation_id, body = await client.answer()
            message, _ = decode(DescribeClusterResponse, body[1:], 0)
            assert (correlation_id, message.error_code) == (5, -1)

    run(test)
    assert [record.exc_info is not None for record in caplog.records] == [True] * RUNS


def test_connections_beyond_the_limit_are_closed() -> None:
    async def test() -> None:
        async with World([handler(METADATA, echo)], "max.connections.per.ip=2").listening() as world:
            first, second = await world.open(), await world.open()
            if world.contexts is None:
                assert await (await world.open()).ended() == b""
            else:
                with pytest.raises(ConnectionError):  # before any cryptography
                    await world.open()
            first.writer.close()
            await until_async(lambda: len(world.limits) == 1)
            fourth = await world.open()
            fourth.ask(METADATA, 1, b"in")
            assert await fourth.answer() == (1, b"in")
            second.writer.close()

    run(test)


def test_idle_connections_are_closed() -> None:
    async def test() -> None:
        async with World([handler(METADATA, echo)], "connections.max.idle.ms=50").listening() as world:
            client = await world.open()
            client.ask(METADATA, 1, b"in")
            assert await client.answer() == (1, b"in")
            assert await client.ended() == b""

    run(test)


def test_a_connection_whose_client_reads_nothing_ends_when_its_idle_time_is_over() -> None:
    async def test() -> None:
        handlers = [handler(METADATA, lambda context, asked: encoded(context, b"x" * 50_000_000))]
        async with World(handlers, "connections.max.idle.ms=50").listening() as world:
            client = await world.open()
            cast(asyncio.ReadTransport, client.writer.transport).pause_reading()
            client.ask(METADATA, 1)
            await until_async(lambda: world.memory.held > 0)
            await until_async(lambda: not len(world.limits))
            assert world.memory.held == 0

    run(test)


def test_a_connection_whose_client_reads_slowly_is_not_idle() -> None:
    async def test() -> None:
        body = b"x" * 50_000_000
        handlers = [handler(METADATA, lambda context, asked: encoded(context, body))]
        async with World(handlers, "connections.max.idle.ms=3600000").listening() as world:
            client = await world.open()
            cast(asyncio.ReadTransport, client.writer.transport).pause_reading()
            client.ask(METADATA, 1)
            await until_async(lambda: world.memory.held > 0)
            (connection,) = world.connections
            connection.last_active_s = connection.outbound.moved_s = -1.0
            cast(asyncio.ReadTransport, client.writer.transport).resume_reading()
            answered = asyncio.ensure_future(client.answer())
            await until_async(lambda: connection.active_s() >= 0)
            assert await answered == (1, body)

    run(test)
