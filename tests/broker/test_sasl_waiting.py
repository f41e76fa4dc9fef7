"""A login whose exchange may wait is answered from a thread: in order, for whoever is still there, and not for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from ottla.base import ErrorCode
from ottla.broker.sasl.waiting_exchanges import THREADS_MAX, WaitingExchanges
from ottla.security.sasl import AuthenticationError, LoggedIn, PlainServer
from ottla.wire import encode_request
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.broker.node_client import NodeClient, run, running_node
from tests.broker.sasl_client import bare, handshake, is_closed, log_in, plain_settings

FAST = "connection.failed.authentication.delay.ms=0"
REAUTHENTICATES = "connections.max.reauth.ms=60000"


@pytest.fixture(autouse=True)
def waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have PLAIN's exchanges called on threads, as GSSAPI's are, which need a KDC."""
    monkeypatch.setattr(PlainServer, "waits", True)


@asynccontextmanager
async def secured(folder: Path, *more: str) -> AsyncIterator[NodeClient]:
    async with running_node(folder, *plain_settings(FAST, *more, ann="x", bob="y")) as client:
        yield client


def both(token: bytes) -> bytes:
    """Return a token and a request behind it, as one write."""
    first = encode_request(SaslAuthenticateRequest(auth_bytes=token), 2, 7, "c")
    return first + encode_request(MetadataRequest(topics=[]), 9, 8, "c")


async def frame(client: NodeClient) -> bytes:
    size = int.from_bytes(await client.reader.readexactly(4), "big")
    return await client.reader.readexactly(size)


def test_who_logs_in_is_served_and_a_request_behind_the_token_waits_for_the_login(tmp_path: Path) -> None:
    async def test() -> None:
        async with secured(tmp_path) as client:
            await handshake(client)
            client.writer.write(both(b"\0ann\0x"))
            assert [int.from_bytes((await frame(client))[:4], "big") for _ in range(2)] == [7, 8]

    run(test)


def test_a_request_behind_a_wrong_token_is_not_served_and_the_login_counts_as_failed(tmp_path: Path) -> None:
    async def test() -> None:
        async with secured(tmp_path, "ottla.http.listeners=http://127.0.0.1:0") as client:
            await handshake(client)
            client.writer.write(both(b"\0ann\0wrong"))
            assert (await frame(client))[5:7] == ErrorCode.SASL_AUTHENTICATION_FAILED.to_bytes(2, "big")
            assert await is_closed(client)
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{client.node.http_listeners[0]}/metrics") as page,
            ):
                text = await page.text()
            assert 'failed_authentication_total{listener="SASL_PLAINTEXT"} 1' in text

    run(test)


def test_bare_tokens_and_renewals_are_answered_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with secured(tmp_path, REAUTHENTICATES) as client:
            await handshake(client, version=0)
            assert await bare(client, b"\0ann\0x") == b""
        async with secured(tmp_path / "again", REAUTHENTICATES) as client:
            assert (await log_in(client)).session_lifetime_ms == 60_000

    run(test)


def test_who_leaves_while_a_thread_works_leaves_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with secured(tmp_path) as client:
            for token in (b"\0ann\0x", b"\0ann\0wrong", b"") * 5:
                other = await NodeClient.connect(client.node)
                await handshake(other)
                other.writer.write(both(token))
                await other.writer.drain()
                other.writer.transport.abort()
            assert (await log_in(client)).error_code == 0

    run(test)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


class Held:
    """An exchange that answers when it is told to."""

    mechanism = "GSSAPI"
    waits = True

    def __init__(self) -> None:
        self.logged_in: LoggedIn | None = None
        self.go = threading.Event()
        self.began = threading.Event()

    def respond(self, token: bytes) -> bytes:
        self.began.set()
        assert self.go.wait(60)
        return token


class Threads:
    """The loop's own."""

    async def thread(self, call, /, *args):  # type: ignore[no-untyped-def]
        return await asyncio.to_thread(call, *args)

    process = background = thread


def test_threads_that_wait_do_not_pile_up_and_who_waits_for_them_is_refused() -> None:
    async def test() -> None:
        exchanges = WaitingExchanges(Threads(), wait_s_max=0.05)
        held = [Held() for _ in range(THREADS_MAX + 3)]
        answers = await asyncio.gather(*(exchanges.respond(each, b"x") for each in held), return_exceptions=True)
        assert all(isinstance(each, AuthenticationError) for each in answers)
        assert sum(each.began.is_set() for each in held) == THREADS_MAX
        for each in held:
            each.go.set()
        patient = Held()
        patient.go.set()
        exchanges.wait_s_max = 60
        assert await exchanges.respond(patient, b"x") == b"x"

    asyncio.run(test())
