"""TLS below frames: whatever the records and reads, frames arrive as they were sent; who is no peer is told why."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import WireError
from ottla.net import FrameProtocol
from ottla.net.tls import HANDSHAKE_BYTES_MAX, SLICE_BYTES, TlsBuffer, TlsProtocol
from tests.net.certificates import client_context, server_context
from tests.net.test_frames import Receiver
from tests.security.authority import Identity, signed
from tests.security.authority import authority as new_authority

VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@pytest.fixture(scope="module")
def authority() -> Identity:
    return new_authority()


class Loop:
    """Turns and timers of an event loop, taken by hand."""

    def __init__(self) -> None:
        self.turns: deque[Callable[[], None]] = deque()
        self.timers: list[tuple[float, Callable[[], None], list[bool]]] = []

    def call_soon(self, call: Callable[[], None]) -> Any:
        return self._handle(call, self.turns.append)

    def call_later(self, seconds: float, call: Callable[[], None]) -> Any:
        return self._handle(call, lambda each: self.timers.append((seconds, each, [])))

    def _handle(self, call: Callable[[], None], add: Callable[[Callable[[], None]], None]) -> Any:
        class Handle:
            cancelled = False

            def cancel(self) -> None:
                self.cancelled = True

        handle = Handle()
        add(lambda: None if handle.cancelled else call())
        return handle

    def run_turns(self) -> None:
        while self.turns:
            self.turns.popleft()()

    def run_timers(self) -> None:
        timers, self.timers = self.timers, []
        for _, call, _ in timers:
            call()


class Raw:
    """A transport in memory; what is written is taken by the other side when `Ends` says so."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.closed = False
        self.is_reading = True

    def write(self, data: bytes) -> None:
        self.out += data

    def writelines(self, pieces: list[bytes]) -> None:
        self.out += b"".join(pieces)

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


class Side:
    """A receiver on frames on TLS on a transport in memory."""

    def __init__(
        self, loop: Loop, context: ssl.SSLContext, *, is_server: bool, pause_after: int = -1, **options: Any
    ) -> None:
        self.receiver = Receiver(pause_after)
        self.failures: list[str] = []
        self.raw = Raw()
        self.tls = TlsProtocol(
            FrameProtocol(self.receiver),
            context,
            loop=cast(asyncio.AbstractEventLoop, loop),
            buffer=TlsBuffer(),
            is_server=is_server,
            server_hostname=None if is_server else "localhost",
            failed=self.failures.append,
            **options,
        )
        self.tls.connection_made(cast(asyncio.Transport, self.raw))

    @property
    def transport(self) -> asyncio.Transport:
        assert self.receiver.protocol is not None
        return self.receiver.protocol.transport

    def send(self, *payloads: bytes) -> None:
        for payload in payloads:
            self.transport.write(len(payload).to_bytes(4, "big") + payload)

    def take(self, data: bytes) -> None:
        """Read bytes as a transport does."""
        while data:
            view = self.tls.get_buffer(-1)
            count = min(len(view), len(data))
            view[:count] = data[:count]
            self.tls.buffer_updated(count)
            data = data[count:]

    @property
    def frames(self) -> list[bytes]:
        return [bytes(each) for each in self.receiver.frames]


READ_BYTES_MAX = 256 * 1024


class Ends:
    """A client and a server; `run` carries bytes between them, in pieces of the sizes given, until nothing moves."""

    def __init__(
        self, server: ssl.SSLContext, client: ssl.SSLContext, *, sizes: Iterator[int] | None = None, **options: Any
    ) -> None:
        self.loop = Loop()
        self.server = Side(self.loop, server, is_server=True, **options)
        self.client = Side(self.loop, client, is_server=False)
        self._sizes = sizes

    def run(self) -> None:
        for _ in range(1_000_000):
            self.loop.run_turns()
            moved = self._carry(self.client, self.server) + self._carry(self.server, self.client)
            if not moved and not self.loop.turns:
                return
        raise AssertionError("the ends never rest")

    def _carry(self, sender: Side, reader: Side) -> int:
        out = sender.raw.out
        if not out or not reader.raw.is_reading or reader.raw.closed:
            return 0
        size = min(len(out), READ_BYTES_MAX if self._sizes is None else next(self._sizes))
        data = bytes(out[:size])
        del out[:size]
        reader.take(data)
        return size


def repeated(sizes: list[int]) -> Iterator[int]:
    while True:
        yield from sizes


def open_ends(authority: Identity, *, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, **options: Any) -> Ends:
    client = client_context(authority)
    client.minimum_version = client.maximum_version = version
    return Ends(server_context(signed(authority, "broker")), client, **options)


@pytest.mark.parametrize("version", VERSIONS)
@given(
    payloads=st.lists(st.integers(0, 200_000), max_size=6),
    sizes=st.lists(st.integers(1, 300_000), min_size=1, max_size=6),
    back=st.lists(st.integers(0, 200_000), max_size=3),
)
def test_frames_arrive_as_they_were_sent_however_the_stream_is_cut(
    authority: Identity, version: ssl.TLSVersion, payloads: list[int], sizes: list[int], back: list[int]
) -> None:
    ends = open_ends(authority, version=version, sizes=repeated([max(sizes), *sizes]))
    sent = [bytes([index]) * size for index, size in enumerate(payloads)]
    answers = [bytes([100 + index]) * size for index, size in enumerate(back)]
    ends.client.send(*sent)
    ends.run()
    ends.server.send(*answers)
    ends.run()
    assert ends.server.frames == sent
    assert ends.client.frames == answers
    assert ends.client.failures == ends.server.failures == []


def test_what_a_paused_receiver_has_not_taken_comes_when_it_goes_on(authority: Identity) -> None:
    ends = open_ends(authority, pause_after=2, sizes=repeated([100_000]))
    sent = [bytes([index]) * 50_000 for index in range(40)]
    ends.client.send(*sent)
    ends.run()
    assert ends.server.frames == sent[:2]
    assert not ends.server.raw.is_reading
    assert len(ends.client.raw.out) > 1_000_000, "the rest waits with the sender"
    assert ends.server.receiver.protocol is not None
    ends.server.receiver.protocol.resume_reading()
    ends.run()
    assert ends.server.frames == sent


def test_memory_that_was_written_may_be_used_again_at_once(authority: Identity) -> None:
    ends = open_ends(authority)
    ends.run()
    memory = bytearray((3 * SLICE_BYTES).to_bytes(4, "big") + b"a" * 3 * SLICE_BYTES)
    ends.server.transport.write(memoryview(memory))
    memory[:] = bytes(len(memory))
    ends.run()
    assert ends.client.frames == [b"a" * 3 * SLICE_BYTES]


def test_what_is_written_before_the_handshake_is_complete_goes_out_behind_it(authority: Identity) -> None:
    ends = open_ends(authority)
    ends.client.send(b"early")
    assert b"early" not in ends.client.raw.out
    ends.run()
    assert ends.server.frames == [b"early"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_close_is_said_to_the_peer_and_what_was_sent_before_arrives(
    authority: Identity, version: ssl.TLSVersion
) -> None:
    ends = open_ends(authority, version=version)
    ends.run()
    ends.client.send(b"last")
    ends.client.transport.close()
    ends.run()
    assert ends.server.frames == [b"last"]
    assert ends.server.raw.closed
    assert ends.server.failures == []


def test_a_plain_client_is_told_apart_by_its_first_byte(authority: Identity) -> None:
    server = Side(Loop(), server_context(signed(authority, "broker")), is_server=True)
    server.take(bytes.fromhex("00000020 0012 0003 00000001 0003 6b6b6b"))
    assert "what came is no TLS" in server.failures[0]
    assert server.raw.closed
    assert server.frames == []


def test_a_plain_server_is_told_apart_by_its_first_byte(authority: Identity) -> None:
    client = Side(Loop(), client_context(authority), is_server=False)
    client.take(b"HTTP/1.1 400 Bad Request")
    assert "PLAINTEXT" in client.failures[0]


def test_a_handshake_has_its_time(authority: Identity) -> None:
    ends = open_ends(authority)
    ends.loop.run_timers()
    assert "not complete after 10 s" in ends.server.failures[0]
    assert ends.server.raw.closed


def test_a_handshake_that_is_complete_is_not_ended_by_its_time(authority: Identity) -> None:
    ends = open_ends(authority)
    ends.run()
    ends.loop.run_timers()
    ends.client.send(b"later")
    ends.run()
    assert ends.server.frames == [b"later"]


def test_a_server_whose_name_is_another_is_refused_with_the_names(authority: Identity) -> None:
    ends = Ends(
        server_context(signed(authority, "elsewhere", hosts=("elsewhere.example",))),
        client_context(authority),
    )
    ends.run()
    assert "localhost" in ends.client.failures[0]
    assert ends.server.failures == ["TLS failed: sslv3 alert bad certificate"], "the client's alert has arrived"


def test_a_server_of_another_authority_is_refused(authority: Identity) -> None:
    ends = Ends(server_context(signed(new_authority("stranger"), "broker")), client_context(authority))
    ends.run()
    assert "certificate is refused" in ends.client.failures[0]


def test_a_client_without_a_certificate_is_refused_where_one_is_asked_for(authority: Identity) -> None:
    server = server_context(signed(authority, "broker"), clients_of=authority)
    ends = Ends(server, client_context(authority))
    ends.client.send(b"hello")
    ends.run()
    assert "did not return a certificate" in ends.server.failures[0]
    assert ends.server.frames == []


def test_who_is_there_is_known_before_its_first_frame(authority: Identity) -> None:
    seen: list[Any] = []

    def server_frames() -> list[bytes]:
        return ends.server.frames

    server = server_context(signed(authority, "broker"), clients_of=authority)
    ends = Ends(
        server,
        client_context(authority, signed(authority, "ann")),
        secured=lambda session: seen.append((session.getpeercert(), list(server_frames()))),
    )
    ends.client.send(b"hello")
    ends.run()
    ((certificate, before),) = seen
    assert certificate["subject"] == ((("organizationName", "Acme"),), (("commonName", "ann"),))
    assert before == []
    assert ends.server.frames == [b"hello"]


def test_a_peer_whom_the_listener_does_not_want_is_given_nothing(authority: Identity) -> None:
    def refuse(session: ssl.SSLObject) -> None:
        raise WireError("no rule matches its name")

    ends = open_ends(authority, secured=refuse)
    ends.client.send(b"hello")
    ends.run()
    assert ends.server.failures == ["no rule matches its name"]
    assert ends.server.frames == []
    assert ends.server.raw.closed


def test_a_failure_is_answered_late_where_that_is_asked_for(authority: Identity) -> None:
    server = Side(Loop(), server_context(signed(authority, "broker")), is_server=True, failure_delay_s=0.1)
    server.take(b"\x00\x00\x00\x20")
    assert not server.raw.closed
    assert not server.raw.is_reading
    cast(Loop, server.tls._loop).run_timers()
    assert server.raw.closed


def test_a_handshake_that_never_ends_is_ended(authority: Identity) -> None:
    server = Side(Loop(), server_context(signed(authority, "broker")), is_server=True)
    record = b"\x16\x03\x01\x40\x00" + b"\x01\x00\xff\xff" + bytes(0x4000 - 4)
    for _ in range(HANDSHAKE_BYTES_MAX // len(record) + 2):
        server.take(record)
        if server.failures:
            break
    assert server.raw.closed
    assert len(server.failures) == 1


@given(data=st.binary(min_size=1, max_size=400))
def test_garbage_behind_the_handshake_ends_the_connection(authority: Identity, data: bytes) -> None:
    ends = open_ends(authority)
    ends.client.send(b"before")
    ends.run()
    ends.server.take(data)
    ends.server.take(bytes(70_000))
    assert ends.server.frames == [b"before"]
    assert ends.server.raw.closed
    assert len(ends.server.failures) == 1


@given(data=st.binary(min_size=1, max_size=2_000))
def test_garbage_in_place_of_a_handshake_ends_the_connection_or_waits_for_more(
    authority: Identity, data: bytes
) -> None:
    server = Side(Loop(), server_context(signed(authority, "broker")), is_server=True)
    server.take(b"\x16" + data)
    server.tls.eof_received()
    assert server.raw.closed
    assert server.frames == []
    assert len(server.failures) == 1
