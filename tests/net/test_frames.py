"""Frames: cut from any fragmentation, bounded by what was received, owned by their receiver."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import WireError
from ottla.net import FrameProtocol, ReceiveBuffer
from ottla.net.frames import ROOM_BYTES_MAX


class Wire:
    """A transport that only notes what is asked of it."""

    def __init__(self) -> None:
        self.closed = False
        self.paused = False

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Receiver:
    """Keeps what it is given; pauses after `pause_after` frames."""

    def __init__(self, pause_after: int = -1) -> None:
        self.frames: list[memoryview] = []
        self.batches: list[int] = []
        self.refused: list[WireError] = []
        self.lost: list[Exception | None] = []
        self.pause_after = pause_after
        self.protocol: FrameProtocol | None = None

    def connection_opened(self, frames: FrameProtocol) -> None:
        self.protocol = frames

    def frame_received(self, frame: memoryview) -> None:
        self.frames.append(frame)
        if len(self.frames) == self.pause_after:
            assert self.protocol is not None
            self.protocol.pause_reading()

    def batch_ended(self) -> None:
        self.batches.append(len(self.frames))

    def frame_refused(self, error: WireError) -> None:
        self.refused.append(error)

    def writing_paused(self) -> None: ...

    def writing_resumed(self) -> None: ...

    def connection_closed(self, error: Exception | None) -> None:
        self.lost.append(error)


def connect(receiver: Receiver, **options: Any) -> tuple[FrameProtocol, Wire]:
    wire = Wire()
    protocol = FrameProtocol(receiver, **options)
    protocol.connection_made(cast(asyncio.Transport, wire))
    return protocol, wire


def feed(protocol: FrameProtocol, data: bytes) -> int:
    """Give the protocol bytes as a transport does; return the largest buffer it offered."""
    largest = 0
    while data:
        room = protocol.get_buffer(-1)
        largest = max(largest, len(room))
        count = min(len(room), len(data))
        room[:count] = data[:count]
        del room
        protocol.buffer_updated(count)
        data = data[count:]
    return largest


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


payloads = st.lists(
    st.one_of(st.binary(max_size=40), st.integers(60_000, 90_000).map(lambda size: bytes([size % 251]) * size)),
    max_size=8,
)


@given(payloads, st.lists(st.integers(1, 100_000), min_size=1, max_size=20))
def test_frames_are_the_same_however_the_stream_is_fragmented(sent: list[bytes], cuts: list[int]) -> None:
    receiver = Receiver()
    protocol, _ = connect(receiver, buffer=ReceiveBuffer(70_000))
    stream = b"".join(map(frame, sent))
    at = 0
    for cut in [*cuts, len(stream)]:
        feed(protocol, stream[at : at + cut])
        at += cut
    assert [bytes(each) for each in receiver.frames] == sent


def test_many_small_frames_of_one_read_are_one_batch() -> None:
    receiver = Receiver()
    protocol, _ = connect(receiver)
    feed(protocol, frame(b"request") * 1000)
    assert len(receiver.frames) == 1000
    assert receiver.batches == [1000]


def test_a_frame_belongs_to_its_receiver_while_it_keeps_it() -> None:
    receiver = Receiver()
    protocol, _ = connect(receiver)
    feed(protocol, frame(b"first"))
    kept = receiver.frames[0]
    kept[:1] = b"F"  # stamping in place is allowed
    for number in range(100):
        feed(protocol, frame(b"later %d" % number))
        receiver.frames.pop()
    assert bytes(kept) == b"First"


def test_read_memory_is_used_again_once_no_frame_is_kept() -> None:
    buffer = ReceiveBuffer(1000)
    first = buffer.take()
    view = memoryview(first)[10:20]
    second = buffer.take()
    assert second is not first
    assert buffer.take() is second
    del view


def test_a_large_frames_memory_serves_the_next_one_unless_it_is_kept() -> None:
    buffer = ReceiveBuffer()
    receiver = Receiver()
    protocol, _ = connect(receiver, buffer=buffer)
    places = []
    for number in range(3):
        feed(protocol, frame(bytes([number]) * 300_000))
        places.append(receiver.frames[-1].obj)
        if number != 1:
            receiver.frames.pop()
    assert places[0] is places[1] is not places[2]
    assert bytes(receiver.frames[0]) == b"\1" * 300_000


def test_memory_of_a_large_frame_never_takes_bytes_of_the_one_after_it() -> None:
    receiver = Receiver()
    protocol, _ = connect(receiver)
    sent = [b"a" * 400_000, b"b" * 200_000, b"c" * 70, b"d" * 399_999, b"e" * 400_001]
    for each in sent:  # a smaller frame comes to lie in a larger one's memory
        feed(protocol, frame(each))
        assert bytes(receiver.frames.pop()) == each
    feed(protocol, b"".join(map(frame, sent)))
    assert [bytes(each) for each in receiver.frames] == sent


def test_connections_share_one_buffer_and_keep_only_their_own_rest() -> None:
    buffer = ReceiveBuffer()
    receivers = [Receiver(), Receiver()]
    protocols = [connect(each, buffer=buffer)[0] for each in receivers]
    feed(protocols[0], frame(b"abc") + frame(b"defg")[:6])
    feed(protocols[1], frame(b"other"))
    feed(protocols[0], frame(b"defg")[6:])
    assert [bytes(each) for each in receivers[0].frames] == [b"abc", b"defg"]
    assert [bytes(each) for each in receivers[1].frames] == [b"other"]


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_an_impossible_size_costs_the_connection_and_no_memory(size: int) -> None:
    receiver = Receiver()
    protocol, wire = connect(receiver, frame_bytes_max=1000)
    feed(protocol, frame(b"fine") + size.to_bytes(4, "big", signed=True) + b"x" * 2000)
    assert [bytes(each) for each in receiver.frames] == [b"fine"]
    assert "1000 are allowed" in str(receiver.refused[0])
    assert wire.closed


def test_room_grows_with_what_was_received_and_not_with_what_was_declared() -> None:
    receiver = Receiver()
    protocol, _ = connect(receiver)
    declared = 90 * 1024 * 1024
    largest = feed(protocol, declared.to_bytes(4, "big") + b"x" * 100_000)
    assert largest <= 256 * 1024
    assert len(protocol.get_buffer(-1)) <= 256 * 1024


def test_room_for_a_second_large_frame_is_there_at_once() -> None:
    receiver = Receiver()
    protocol, _ = connect(receiver)
    large = frame(b"x" * 2_000_000)
    feed(protocol, large)
    feed(protocol, large[:100_000])
    assert len(protocol.get_buffer(-1)) > 1_500_000


def test_a_beginning_costs_what_has_come_of_it_even_for_who_has_sent_large_frames() -> None:
    """Ten thousand connections that send a large frame, and then five bytes of another, once cost 40 GiB."""
    buffer = ReceiveBuffer()
    large = frame(b"x" * 2_000_000)
    protocols = []
    for _ in range(100):
        receiver = Receiver()
        protocol, _ = connect(receiver, buffer=buffer)
        feed(protocol, large)
        receiver.frames.clear()
        feed(protocol, large[:5])
        protocols.append(protocol)
    assert buffer.room == 0
    for protocol in protocols:
        feed(protocol, large[5:17_000])
    assert buffer.room < ROOM_BYTES_MAX + 100 * 4 * 17_000
    for protocol in protocols:
        protocol.connection_lost(None)
    assert buffer.room == 0


def test_little_that_a_paused_receiver_has_yet_to_take_keeps_no_memory_of_a_read() -> None:
    buffer = ReceiveBuffer()
    receiver = Receiver(pause_after=1)
    protocol, _ = connect(receiver, buffer=buffer)
    memory = buffer.take()
    feed(protocol, frame(b"first") + frame(b"second"))
    receiver.frames[0] = protocol.hold(receiver.frames[0])
    assert buffer.take() is memory
    receiver.frames[0][:1] = b"F"  # what is held may be stamped like any other
    protocol.resume_reading()
    assert [bytes(each) for each in receiver.frames] == [b"First", b"second"]


def test_a_paused_receiver_gets_nothing_more_until_it_resumes() -> None:
    receiver = Receiver(pause_after=2)
    protocol, wire = connect(receiver)
    feed(protocol, b"".join(frame(b"%d" % number) for number in range(5)) + b"\x00")
    assert len(receiver.frames) == 2
    assert wire.paused
    protocol.resume_reading()
    assert [bytes(each) for each in receiver.frames] == [b"0", b"1", b"2", b"3", b"4"]
    assert not wire.paused
    feed(protocol, frame(b"end")[1:])
    assert bytes(receiver.frames[-1]) == b"end"


def test_nothing_is_delivered_after_close() -> None:
    receiver = Receiver(pause_after=1)
    protocol, wire = connect(receiver)
    feed(protocol, frame(b"a") + frame(b"b"))
    protocol.close()
    protocol.resume_reading()
    assert len(receiver.frames) == 1
    assert wire.closed
