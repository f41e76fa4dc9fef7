"""Parts of files on their way to a socket: complete, in order, and never more than the client takes."""

from __future__ import annotations

import asyncio
import os
import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.broker.file_part import FilePart
from ottla.broker.handler import Encoded, RequestContext
from tests.broker.test_connection import FETCH, METADATA, Asked, World, echo, handler, run, turns, until

SIZE = 5_000_000


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "segment"
    path.write_bytes(Random(5).randbytes(SIZE))
    return path


def open_parts() -> int:
    return len(os.listdir("/proc/self/fd"))


def serving(path: Path) -> Any:
    """Answer `position,size` with that piece of the file between two bytes parts."""
    descriptor = os.open(path, os.O_RDONLY)

    def fetch(context: RequestContext, asked: Asked) -> Encoded:
        position, size = map(int, asked.body.split(b","))
        head = struct.pack(">ii", size + 8, context.correlation_id) + b"<<"
        return Encoded([head, FilePart(descriptor, position, size), b">>"], has_files=True)

    return handler(FETCH, fetch)


def test_a_piece_of_a_file_arrives_as_it_is_stored(stored: Path) -> None:
    async def test() -> None:
        async with World([serving(stored)]).listening() as world:
            client = await world.open()
            client.ask(FETCH, 1, b"1000,4000000")
            correlation_id, body = await client.answer()
            assert correlation_id == 1
            assert body == b"<<" + stored.read_bytes()[1000:4_001_000] + b">>"

    run(test)


def test_answers_behind_a_file_keep_their_order(stored: Path) -> None:
    async def test() -> None:
        async with World([serving(stored), handler(METADATA, echo)]).listening() as world:
            client = await world.open()
            data = stored.read_bytes()
            for number in range(10):
                client.ask(METADATA, 2 * number, b"small")
                client.ask(FETCH, 2 * number + 1, b"%d,700000" % (number * 1000))
            for number in range(10):
                assert await client.answer() == (2 * number, b"small")
                at = number * 1000
                assert await client.answer() == (2 * number + 1, b"<<" + data[at : at + 700_000] + b">>")

    run(test)


def test_a_client_that_takes_nothing_of_a_file_holds_up_nobody(stored: Path) -> None:
    async def test() -> None:
        async with World([serving(stored), handler(METADATA, echo)]).listening() as world:
            slow, quick = await world.open(), await world.open()
            slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for number in range(50):
                slow.ask(FETCH, number, b"0,5000000")
            await turns()
            quick.ask(METADATA, 1, b"in time")
            assert await quick.answer() == (1, b"in time")

    run(test)


def test_descriptors_are_given_back_when_the_client_leaves(stored: Path) -> None:
    async def test() -> None:
        async with World([serving(stored)]).listening() as world:
            before = open_parts()
            client = await world.open()
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for number in range(20):
                client.ask(FETCH, number, b"0,5000000")
            await turns()
            client.writer.transport.abort()
            await until(lambda: not len(world.limits))
            await turns()
            assert open_parts() <= before

    run(test)


def test_a_file_shorter_than_announced_ends_the_connection(stored: Path) -> None:
    async def test() -> None:
        async with World([serving(stored)]).listening() as world:
            client = await world.open()
            client.ask(FETCH, 1, b"4999000,700000")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await client.answer()

    run(test)
