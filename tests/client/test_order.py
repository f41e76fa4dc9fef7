"""Requests leave in the order in which they were begun, whatever they had to wait for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.base import KafkaError, TopicPartition
from ottla.client import Client
from ottla.client.addresses import Address
from ottla.client.connection import IN_FLIGHT_MAX, Connection
from ottla.client.security import SecuredNetwork
from ottla.client.turns import Turns
from ottla.wire import Record, build_batch, decode, read_request_header
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse
from tests.client.scripted import offers, scripted_broker
from tests.client.test_client import API_VERSIONS, HASTY, METADATA, PRODUCE, WORDS, at, produced
from tests.late_loop import late_loops
from tests.waiting import until_async

HANDSHAKE, AUTHENTICATE = 17, 36
VERSION = 12
TIMEOUT_S = 5.0


class Wire:
    """Stands for a connection's transport."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    @property
    def transport(self) -> Wire:
        return self

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def abort(self) -> None: ...

    @property
    def topics(self) -> list[int]:
        """The numbers for which topics were named, in the order in which requests were written."""
        found = []
        for each in self.written:
            frame = memoryview(each)[4:]
            _, at = read_request_header(frame)
            request, _ = decode(MetadataRequest, frame, VERSION, at)
            assert request.topics is not None
            found.append(int(request.topics[0].name or ""))
        return found


def opened() -> tuple[Connection, Wire]:
    wire, connection = Wire(), Connection(Address("a", 1), "client", "1")
    connection.connection_opened(wire)  # type: ignore[arg-type]
    return connection, wire


async def asked(connection: Connection, number: int) -> None:
    with pytest.raises(KafkaError):
        request = MetadataRequest(topics=[MetadataRequestTopic(name=str(number))])
        await connection.request(request, VERSION, timeout_s=TIMEOUT_S)


@pytest.mark.in_order("it begins a request in the one turn between a wake-up and the step behind it")
def test_who_waits_until_the_transport_takes_more_is_not_overtaken() -> None:
    async def main() -> list[int]:
        connection, wire = opened()
        connection.writing_paused()
        tasks = [asyncio.ensure_future(asked(connection, number)) for number in range(3)]
        await asyncio.sleep(0.01)
        tasks.append(asyncio.ensure_future(asked(connection, 3)))  # its first step is ready before they are woken
        connection.writing_resumed()
        await asyncio.sleep(0.01)
        connection.close()
        await asyncio.gather(*tasks)
        return wire.topics

    assert asyncio.run(main()) == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(5))
def test_requests_that_wait_for_room_leave_as_they_were_begun_in_any_order_of_the_loop(seed: int) -> None:
    async def main() -> list[int]:
        connection, wire = opened()
        tasks = []
        for number in range(IN_FLIGHT_MAX + 16):
            tasks.append(asyncio.ensure_future(asked(connection, number)))
            if number % 7 == 0:
                connection.writing_paused()
            if number % 5 == 0:
                connection.writing_resumed()
            await asyncio.sleep(0)
        connection.writing_resumed()
        await until_async(lambda: len(wire.written) >= IN_FLIGHT_MAX)
        connection.close()
        await asyncio.gather(*tasks)
        return wire.topics

    with late_loops(f"{seed}"):
        order = asyncio.run(main())
    assert order == list(range(len(order)))


@pytest.mark.parametrize("seed", range(5))
def test_batches_of_a_partition_leave_in_their_order_where_the_connection_is_opened_meanwhile(seed: int) -> None:
    batches = [bytes(build_batch([Record(value=b"%d" % number)])) for number in range(5)]

    async def main() -> list[bytes]:
        script: dict[int, Any] = {
            API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, PRODUCE: 12}),
            PRODUCE: lambda request, version: produced(),
        }
        async with scripted_broker(script) as broker, Client(at(broker), limits=HASTY) as client:
            script[METADATA] = lambda request, version: broker.metadata([1])
            tasks = []
            for each in batches:
                tasks.append(asyncio.ensure_future(client.produce({WORDS: each})))
                await asyncio.sleep(0.001)
            await asyncio.gather(*tasks)
            return [
                bytes(request.topic_data[0].partition_data[0].records)
                for key, _, request in broker.asked
                if key == PRODUCE
            ]

    with late_loops(f"{seed}"):
        assert asyncio.run(main()) == batches


def test_a_turn_ends_once_and_holds_up_its_own_partitions_alone() -> None:
    other = TopicPartition("words", 1)

    async def main() -> None:
        turns = Turns()
        first, second, third = turns.take([WORDS, other]), turns.take([WORDS, WORDS]), turns.take([other])
        first.over([other])
        await asyncio.wait_for(third.comes(), 5)
        waiting = asyncio.ensure_future(second.comes())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        first.over()
        first.over()
        await asyncio.wait_for(waiting, 5)
        for each in (second, third):
            each.over()
        await asyncio.wait_for(turns.take([WORDS, other]).comes(), 5)

    asyncio.run(main())


@pytest.mark.timeout(60)
def test_who_waits_behind_a_call_that_is_cancelled_still_waits_for_those_before_it() -> None:
    async def main() -> None:
        turns = Turns()
        first, second, third = turns.take([WORDS]), turns.take([WORDS]), turns.take([WORDS])
        cancelled, waiting = asyncio.ensure_future(second.comes()), asyncio.ensure_future(third.comes())
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        second.over()
        fourth = asyncio.ensure_future(turns.take([WORDS]).comes())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done(), "it would leave before the first"
        first.over()
        await asyncio.wait_for(waiting, 5)
        assert not fourth.done()
        third.over()
        await asyncio.wait_for(fourth, 5)

    asyncio.run(main())


class Exchange:
    """A login of one empty token."""

    mechanism, complete = "PLAIN", True

    def start(self) -> bytes:
        return b""

    def respond(self, data: bytes) -> None:
        return None


class OnceIn:
    """Security whose mechanism logs in once, and makes a mistake of its own after that."""

    tls = None

    def __init__(self) -> None:
        self.logins = 0

    def login(self, host: str) -> Any:
        return self.begin

    async def begin(self) -> Exchange:
        self.logins += 1
        if self.logins > 1:
            raise RuntimeError("a mistake of the mechanism")
        return Exchange()


@pytest.mark.timeout(60)
def test_a_login_that_cannot_be_renewed_for_whatever_reason_ends_the_connection_and_holds_up_nobody() -> None:
    """Who waited for a renewal that had ended by an unforeseen error waited for ever, and worked all the time."""

    async def main() -> None:
        script: dict[int, Any] = {
            API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, HANDSHAKE: 1, AUTHENTICATE: 2}),
            HANDSHAKE: lambda request, version: SaslHandshakeResponse(mechanisms=["PLAIN"]),
            AUTHENTICATE: lambda request, version: SaslAuthenticateResponse(session_lifetime_ms=50),
        }
        network = SecuredNetwork(OnceIn())  # type: ignore[arg-type]
        async with scripted_broker(script) as broker:
            address = Address("127.0.0.1", broker.port)
            options: dict[str, Any] = {"client_id": "client", "software_version": "1", "timeout_s": TIMEOUT_S}
            connection = await Connection.open(network, address, **options)
            await until_async(lambda: connection.closed)
            with pytest.raises(KafkaError, match="the login could not be renewed: a mistake of the mechanism"):
                await connection.request(MetadataRequest(topics=[]), VERSION, timeout_s=TIMEOUT_S)

    asyncio.run(main())


class Stuck(OnceIn):
    """Security whose mechanism logs in once, and waits for its token for ever after that."""

    async def begin(self) -> Exchange:
        self.logins += 1
        if self.logins > 1:
            await asyncio.Event().wait()
        return Exchange()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("closed", [False, True])
def test_a_renewal_that_waits_for_a_token_for_ever_holds_up_no_request_for_ever(closed: bool) -> None:
    async def main() -> None:
        script: dict[int, Any] = {
            API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12, HANDSHAKE: 1, AUTHENTICATE: 2}),
            HANDSHAKE: lambda request, version: SaslHandshakeResponse(mechanisms=["PLAIN"]),
            AUTHENTICATE: lambda request, version: SaslAuthenticateResponse(session_lifetime_ms=50),
        }
        security = Stuck()
        async with scripted_broker(script) as broker:
            timeout_s = 3600.0 if closed else 0.5
            options: dict[str, Any] = {"client_id": "client", "software_version": "1", "timeout_s": timeout_s}
            network = SecuredNetwork(security)  # type: ignore[arg-type]
            connection = await Connection.open(network, Address("127.0.0.1", broker.port), **options)
            await until_async(lambda: security.logins > 1)
            request = asyncio.ensure_future(
                connection.request(MetadataRequest(topics=[]), VERSION, timeout_s=TIMEOUT_S)
            )
            posted: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
            connection.post(lambda number: b"", posted)
            await asyncio.sleep(0)
            if closed:
                connection.close()
            await asyncio.wait([request, posted], timeout=10)
            assert request.done() and posted.done()
            assert isinstance(request.exception(), KafkaError) and isinstance(posted.exception(), KafkaError)

    asyncio.run(main())
