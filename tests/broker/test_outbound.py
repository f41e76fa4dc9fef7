"""Parts of files on their way to a socket: complete, in order, and never more than the client takes."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from ottla.broker.offload import ThreadsAndProcess
from ottla.broker.requests import outbound
from ottla.broker.requests.answer_memory import PART_BYTES, AnswerMemory
from ottla.broker.requests.answers import Encoded
from ottla.broker.requests.file_part import FilePart
from ottla.broker.requests.handler import RequestContext
from ottla.log import File, OsDisk
from tests.broker.test_connection import FETCH, METADATA, Asked, World, echo, encoded, handler, run, turns
from tests.waiting import until_async

SIZE = 5_000_000


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "segment"
    path.write_bytes(Random(5).randbytes(SIZE))
    return path


def open_parts() -> int:
    return len(os.listdir("/proc/self/fd"))


def serving(path: Path, wrap: Callable[[File], Any] = lambda file: file, *, pieces: int = 1) -> Any:
    """Answer `position,size` with so many such pieces of the file, one after the other, between two bytes parts."""
    file = wrap(OsDisk().open(str(path), create=True))

    def fetch(context: RequestContext[Any], asked: Asked) -> Encoded:
        position, size = map(int, asked.body.split(b","))
        head = struct.pack(">ii", size * pieces + 8, context.correlation_id) + b"<<"
        parts = [FilePart(file, position + at * size, size) for at in range(pieces)]
        return Encoded([head, *parts, b">>"], has_files=True)

    return handler(FETCH, fetch)


class ColdFile:
    """A file of which the page cache holds nothing."""

    def __init__(self, file: File) -> None:
        self._held = file.hold()
        self.sendfile, self.pread, self.was_cut = self._held.sendfile, self._held.pread, self._held.was_cut
        self.reads = 0

    def hold(self) -> ColdFile:
        return self

    def pread_nowait(self, position: int, size: int) -> None:
        self.reads += 1

    def pread_into(self, position: int, into: memoryview) -> None:
        self.reads += 1

    def is_cached(self, position: int, size: int) -> bool:
        return True


class PartlyCachedFile:
    """A file of which the page cache holds what lies before `cached`, and what was read; it notes each `sendfile`."""

    def __init__(self, file: File, cached: int) -> None:
        self._held = file.hold()
        self.was_cut = self._held.was_cut
        self.cached = cached
        self.sends: list[tuple[int, int]] = []
        self.unready = 0
        """Bytes that a `sendfile` was asked for which the page cache did not hold."""

    def hold(self) -> PartlyCachedFile:
        return self

    def pread_nowait(self, position: int, size: int) -> Any:
        return self._held.pread_nowait(position, size) if self.is_cached(position, size) else None

    def pread_into(self, position: int, into: memoryview) -> int | None:
        return self._held.pread_into(position, into) if self.is_cached(position, len(into)) else None

    def sendfile(self, socket_fd: int, position: int, size: int) -> int:
        self.sends.append((position, size))
        self.unready += max(0, position + size - self.cached)
        return self._held.sendfile(socket_fd, position, size)

    def pread(self, position: int, size: int) -> bytes:
        self.cached = max(self.cached, position + size)
        return self._held.pread(position, size)

    def is_cached(self, position: int, size: int) -> bool:
        return position + size <= self.cached


def test_a_mebibyte_in_the_page_cache_is_sent_by_one_call_where_the_socket_takes_it(stored: Path) -> None:
    files: list[PartlyCachedFile] = []

    def wrap(file: File) -> PartlyCachedFile:
        files.append(PartlyCachedFile(file, SIZE))
        return files[0]

    async def test() -> None:
        async with World([serving(stored, wrap)]).listening() as world:
            client = await world.open()
            client.ask(FETCH, 1, b"1000,1048576")
            assert await client.answer() == (1, b"<<" + stored.read_bytes()[1000 : 1000 + (1 << 20)] + b">>")

    run(test)
    assert files[0].sends[:1] == [(1000, 1 << 20)]  # asyncio's own loop, in clear


@pytest.mark.parametrize("cached", [0, 300_000, 600_000, 1_200_000])
def test_a_sendfile_is_asked_for_no_more_than_the_page_cache_holds(stored: Path, cached: int) -> None:
    files: list[PartlyCachedFile] = []

    def wrap(file: File) -> PartlyCachedFile:
        files.append(PartlyCachedFile(file, cached))
        return files[0]

    async def test() -> None:
        async with World([serving(stored, wrap)]).listening() as world:
            client = await world.open()
            client.ask(FETCH, 1, b"1000,3000000")
            assert await client.answer() == (1, b"<<" + stored.read_bytes()[1000:3_001_000] + b">>")
            assert files[-1].unready == 0

    run(test)


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


def test_small_pieces_are_sent_as_they_are_stored(stored: Path) -> None:
    async def test() -> None:
        async with World([serving(stored, pieces=700)]).listening() as world:
            client = await world.open()
            for number in range(3):
                client.ask(FETCH, number, b"%d,5001" % number)
            for number in range(3):
                assert await client.answer() == (number, b"<<" + stored.read_bytes()[number:][: 700 * 5001] + b">>")
            assert world.memory.held == 0

    run(test)


def test_small_pieces_that_are_not_in_memory_are_read_on_a_thread(stored: Path) -> None:
    async def test() -> None:
        async with World([serving(stored, ColdFile, pieces=70)]).listening() as world:
            client = await world.open()
            client.ask(FETCH, 1, b"0,50001")
            assert await client.answer() == (1, b"<<" + stored.read_bytes()[: 70 * 50001] + b">>")

    run(test)


def test_pieces_that_a_client_does_not_take_cost_no_memory(stored: Path) -> None:
    async def test() -> None:
        async with World([serving(stored, pieces=80)]).listening() as world:
            slow = await world.open()
            slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for number in range(20):
                slow.ask(FETCH, number, b"0,60000")
            await until_async(lambda: world.memory.held > 0)
            await turns()
            assert world.memory.held < 100 * PART_BYTES + (2 * len(world.scratch) if world.contexts else 0)
            slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
            for number in range(20):
                assert await slow.answer() == (number, b"<<" + stored.read_bytes()[: 80 * 60000] + b">>")
            assert world.memory.held == 0

    run(test)


def test_what_a_client_takes_last_is_no_more_counted(stored: Path) -> None:
    async def test() -> None:
        body = b"x" * 20_000_000
        async with World([handler(METADATA, lambda context, asked: encoded(context, body))]).listening() as world:
            client = await world.open()
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.ask(METADATA, 1)
            await until_async(lambda: world.memory.held > 1_000_000)
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert await client.answer() == (1, body)
            await until_async(lambda: world.memory.held == 0)
            client.ask(METADATA, 2)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await until_async(lambda: world.memory.held > 1_000_000)
            client.writer.transport.abort()
            await until_async(lambda: world.memory.held == 0)

    run(test)


def test_a_file_that_is_deleted_meanwhile_is_sent_all_the_same(stored: Path) -> None:
    data = stored.read_bytes()

    async def test() -> None:
        stored.write_bytes(data)
        async with World([serving(stored)]).listening() as world:
            client = await world.open()
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for number in range(4):
                client.ask(FETCH, number, b"0,5000000")
            await turns()
            stored.unlink()
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            for number in range(4):
                assert await client.answer() == (number, b"<<" + data + b">>")

    run(test)


@pytest.mark.parametrize(("pieces", "size"), [(1, 4_800_000), (80, 60_000)])
def test_bytes_of_a_file_that_was_cut_and_written_again_are_not_sent(stored: Path, pieces: int, size: int) -> None:
    """A new leader epoch truncates a log, and other records take the place of those that an answer announced."""
    data = stored.read_bytes()

    async def test() -> None:
        stored.write_bytes(data)
        files: list[File] = []

        def wrap(file: File) -> File:
            files.append(file)
            return file

        async with World([serving(stored, wrap, pieces=pieces)]).listening() as world:
            client = await world.open()
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for number in range(4):
                client.ask(FETCH, number, b"0,%d" % size)
            await turns()
            files[0].truncate(1000)
            files[0].pwrite(1000, b"!" * SIZE)
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            sent = b""
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                for _ in range(4):
                    sent += (await client.answer())[1]
            assert b"!" * 100 not in sent

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
            await until_async(lambda: not len(world.limits))
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


def test_what_stands_behind_the_last_piece_of_a_file_leaves_in_the_same_turn(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer of a mebibyte had to wait for a turn, and pause its connection, for its last ten bytes."""
    monkeypatch.setattr(outbound, "SEND_BYTES_PER_TURN", 100_000)
    ours, theirs = socket.socketpair()

    class Transport:
        """A transport that holds nothing and leaves the socket to whoever asks for it."""

        def get_extra_info(self, name: str) -> Any:
            return ours if name == "socket" else None

        def get_write_buffer_size(self) -> int:
            return 0

        def set_write_buffer_limits(self, high: int) -> None: ...

    async def test() -> None:
        loop = asyncio.get_running_loop()
        sends = outbound.Outbound(
            cast(asyncio.Transport, Transport()),
            loop=loop,
            offload=ThreadsAndProcess(),
            memory=AnswerMemory(loop),
            drained=lambda: None,
        )
        file = OsDisk().open(str(stored))
        sends.send([b"<<", FilePart(file, 0, 100_000), b">>"], has_files=True)
        assert sends.is_idle
        assert theirs.recv(200_000, socket.MSG_WAITALL | socket.MSG_DONTWAIT).endswith(b">>")
        sends.drop()

    with ours, theirs:
        ours.setblocking(False)
        asyncio.run(test())
