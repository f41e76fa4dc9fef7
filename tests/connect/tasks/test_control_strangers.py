"""Strangers at the control channel: nothing of theirs is parsed, they are few, they have little time, and tasks come in."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.connect import storage
from ottla.connect.tasks import RemotePort, frames
from ottla.security.ephemeral import EphemeralKey
from ottla.spark.connect.control import ControlServer
from tests.waiting import until_async

LONGEST = frames.HEADER.pack(frames.FRAME_BYTES_MAX)
SECONDS_MAX = 60.0


class Nobody:
    def on_status(self, state: storage.State, trace: str | None) -> None: ...

    async def on_request(self, op: str, message: Mapping[str, Any]) -> Any:
        return op

    def on_note(self, op: str, message: Mapping[str, Any]) -> None: ...


@dataclass
class Spec:
    text: str

    def to_message(self) -> dict[str, Any]:
        return {"text": self.text}


@asynccontextmanager
async def control(key: EphemeralKey | None = None, **bounds: Any) -> AsyncIterator[ControlServer]:
    server = ControlServer(key=key, **bounds)
    await server.listen()
    try:
        yield server
    finally:
        await server.close()


async def serves_a_task(server: ControlServer) -> None:
    """Have a task connect, be told what to do, and ask something."""
    attempt = server.expect(Nobody(), Spec("work"))
    port = await asyncio.to_thread(RemotePort, attempt.dial, read_spec=lambda told: told["text"])
    assert port.spec == "work"
    await asyncio.to_thread(port.confirm)
    await asyncio.to_thread(port.close)


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await asyncio.wait_for(story(), SECONDS_MAX)

    asyncio.run(whole())


def test_a_stranger_is_read_a_greeting_from_and_no_frame_is_waited_for() -> None:
    async def story() -> None:
        async with control() as server:
            reader, writer = await asyncio.open_connection(server.host, server.port)
            await reader.readexactly(frames.CHALLENGE_BYTES)
            writer.write((LONGEST + b'{"attempt":[' + b"0," * 100)[: frames.GREETING.size])
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()
            await serves_a_task(server)

    run(story)


@pytest.mark.parametrize("sent", [b"", LONGEST, b"x" * (frames.GREETING.size - 1)])
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_who_proves_nothing_is_closed_in_time(sent: bytes, is_encrypted: bool) -> None:
    async def story() -> None:
        async with control(EphemeralKey() if is_encrypted else None, greeting_seconds_max=0.1) as server:
            reader, writer = await asyncio.open_connection(server.host, server.port)
            writer.write(sent)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1 << 16)
            writer.close()
            await until_async(lambda: server.unproved == 0, "no stranger")

    run(story)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_flood_without_proof_pushes_out_itself_and_a_task_comes_in(is_encrypted: bool) -> None:
    async def story() -> None:
        async with control(EphemeralKey() if is_encrypted else None, unproved_max=3) as server:
            flood = [await asyncio.open_connection(server.host, server.port) for _ in range(30)]
            await serves_a_task(server)
            assert server.unproved <= 3
            for reader, _ in flood[:20]:
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1 << 16)
            for _, writer in flood:
                writer.close()

    run(story)


def test_tasks_are_as_many_as_there_are_whatever_the_bound_of_strangers() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    others = len(os.listdir("/proc/self/fd"))  # of whatever ran in this process before
    count = max(80, others)

    async def story() -> None:
        async with control() as server:
            for number in range(count):
                attempt = server.expect(Nobody(), Spec(str(number)))
                port = await asyncio.to_thread(RemotePort, attempt.dial, read_spec=lambda told: told["text"])
                ports.append(port)
                await asyncio.to_thread(port.confirm)
            assert server.unproved == 0

    ports: list[RemotePort[str]] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * count, soft), hard))  # of which the door has one in four
    try:
        run(story)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in ports:
            each.close()


def test_a_proof_is_good_for_one_challenge_and_one_side() -> None:
    told = frames.proof("secret", b"a" * 32, b"b" * 32, side="task")
    assert frames.is_proof("secret", b"a" * 32, b"b" * 32, side="task", found=told)
    for token, challenge, own, side in (
        ("other", b"a", b"b", "task"),
        ("secret", b"c", b"b", "task"),
        ("secret", b"a", b"c", "task"),
        ("secret", b"a", b"b", "worker"),
    ):
        assert not frames.is_proof(token, challenge * 32, own * 32, side=side, found=told)
