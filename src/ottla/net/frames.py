"""Length-prefixed frames out of a byte stream (Kafka's int32 size, then that many bytes).

What a peer can make us hold is bounded by what it has really sent: a frame's declared size is compared with the limit
and otherwise only ends the frame. Reads go into one `ReceiveBuffer` shared by all connections of a loop, so a
connection between requests holds no buffer at all. A frame is a writable view that belongs to its receiver for as
long as it keeps it: memory is used again only when no view of it is alive, which the interpreter itself vouches for.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Protocol, cast

from ottla.base import WireError

__all__ = ["FRAME_BYTES_MAX_DEFAULT", "FrameProtocol", "FrameReceiver", "ReceiveBuffer"]

FRAME_BYTES_MAX_DEFAULT = 100 * 1024 * 1024
"""Kafka's `socket.request.max.bytes`."""
READ_BYTES = 256 * 1024
"""Bytes asked of the system per read: about sixteen of the usual 16 KiB batches, and it stays in the L2 cache."""
LARGE_FRAME_BYTES = 64 * 1024
"""From this size a frame is collected in memory of its own; a shorter beginning is copied in front of the next read."""
REMEMBERED_FRAME_BYTES_MAX = 4 * 1024 * 1024
"""Who has sent a large frame gets room for another of that size, up to this, without growing step by step."""
LARGE_KEPT_MAX = 8
"""Memory of large frames that is kept for the next ones: fresh pages cost as much as everything else a frame costs."""
PREFIX_BYTES = 4
read_size = struct.Struct(">i").unpack_from


class FrameReceiver(Protocol):
    """Whoever speaks on one connection; every method is called on the event loop and must not block."""

    def connection_opened(self, frames: FrameProtocol) -> None:
        """Take the connection; `frames.transport` is open."""
        ...

    def frame_received(self, frame: memoryview) -> None:
        """Take one frame without its length prefix: writable, and the receiver's for as long as it keeps it."""
        ...

    def batch_ended(self) -> None:
        """Every whole frame of one read has been delivered: the moment to write what was gathered."""
        ...

    def frame_refused(self, error: WireError) -> None:
        """Hear that the peer declared an impossible frame; the connection closes once this returns."""
        ...

    def writing_paused(self) -> None:
        """Hear that the peer reads too slowly: the transport holds more than its high-water mark."""
        ...

    def writing_resumed(self) -> None:
        """Hear that the transport's buffer is below its low-water mark again."""
        ...

    def connection_closed(self, error: Exception | None) -> None:
        """Hear that the connection is gone; nothing is called afterwards."""
        ...


class ReceiveBuffer:
    """The read buffer that all connections of one event loop share; not for several threads."""

    def __init__(self, size: int = READ_BYTES) -> None:
        self._size = size
        self._memory = bytearray()
        self._large: list[bytearray] = []

    def take(self) -> bytearray:
        """Return memory that no view refers to; it must be read into and parsed before the next take."""
        memory = self._memory
        if memory and _is_free(memory):
            return memory
        self._memory = memory = bytearray(self._size)
        return memory

    def take_large(self, size: int) -> bytearray:
        """Return memory of `size` bytes or more for one large frame, and the taker's until it gives it back."""
        for index, memory in enumerate(self._large):
            if len(memory) >= size and _is_free(memory):
                del self._large[index]
                return memory
        return bytearray(size)

    def give_back(self, memory: bytearray) -> None:
        """Keep a large frame's memory for another; views of the frame may still be alive."""
        if len(memory) <= REMEMBERED_FRAME_BYTES_MAX:
            if len(self._large) == LARGE_KEPT_MAX:
                del self._large[0]
            self._large.append(memory)


def _is_free(memory: bytearray) -> bool:
    """Return whether no view refers to it: only then does a bytearray let its size be changed."""
    try:
        memory.append(0)
    except BufferError:
        return False
    memory.pop()
    return True


class FrameProtocol(asyncio.BufferedProtocol):
    """Cuts one connection's stream into frames and hands them to its receiver."""

    transport: asyncio.Transport

    def __init__(
        self,
        receiver: FrameReceiver,
        *,
        buffer: ReceiveBuffer | None = None,
        frame_bytes_max: int = FRAME_BYTES_MAX_DEFAULT,
    ) -> None:
        self._receiver = receiver
        self._shared = buffer if buffer is not None else ReceiveBuffer()
        self._frame_bytes_max = frame_bytes_max
        self._reading_into = bytearray()
        self._rest: bytes | memoryview = b""
        self._large: bytearray | None = None
        self._large_end = 0
        self._filled = 0
        self._room_remembered = 0
        self._reading = True
        self._delivering = False
        self._closed = False

    # -- reading

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next read goes: behind the large frame that is being collected, or the shared buffer."""
        large = self._large
        if large is not None:
            if self._filled == len(large):
                self._large = large = self._grown(large)
            self._reading_into = large
            return memoryview(large)[self._filled : self._large_end]
        memory = self._shared.take()
        self._reading_into = memory
        rest = self._rest
        self._filled = kept = len(rest)
        if kept:
            memory[:kept] = rest
            self._rest = b""
        return memoryview(memory)[kept:]

    def buffer_updated(self, nbytes: int) -> None:
        """Deliver every frame that this read has completed."""
        memory = self._reading_into
        self._reading_into = _NOTHING
        self._filled += nbytes
        if self._large is not None:
            if self._filled < self._large_end:
                return
            self._large = None
            self._room_remembered = min(self._filled, REMEMBERED_FRAME_BYTES_MAX)
            self._deliver(memoryview(memory)[: self._filled])
            self._shared.give_back(memory)
            return
        self._deliver(memoryview(memory)[: self._filled])

    def _deliver(self, received: memoryview) -> None:
        """Hand out whole frames until they end, the receiver pauses, or a frame is impossible; keep the rest."""
        receiver = self._receiver
        frame_received = receiver.frame_received
        frame_bytes_max = self._frame_bytes_max
        end = len(received)
        position = 0
        self._delivering = True
        try:
            while self._reading:
                start = position + PREFIX_BYTES
                if start > end:
                    break
                (size,) = read_size(received, position)
                stop = start + size
                if not 0 <= size <= frame_bytes_max:
                    self._refuse(size)
                    break
                if stop > end:
                    break
                frame_received(received[start:stop])
                position = stop
        finally:
            self._delivering = False
        if not self._closed and position < end:
            self._keep(received[position:])
        if position:
            receiver.batch_ended()

    def _keep(self, rest: memoryview) -> None:
        """Keep a frame's beginning, or frames that a paused receiver has yet to take: no more than was received."""
        if not self._reading:
            self._rest = rest  # still in the memory it was read into, which is ours while this view lives
            return
        kept = len(rest)
        if kept >= PREFIX_BYTES:
            whole = PREFIX_BYTES + read_size(rest, 0)[0]
            if whole > LARGE_FRAME_BYTES:
                room = min(whole, max(2 * kept, LARGE_FRAME_BYTES, self._room_remembered))
                self._large = large = self._shared.take_large(room)
                large[:kept] = rest
                self._large_end = whole
                self._filled = kept
                return
        self._rest = bytes(rest)

    def _grown(self, large: bytearray) -> bytearray:
        """Return the collected beginning with room for as much again, or for the rest of the frame if that is less."""
        grown = bytearray(min(self._large_end, 2 * len(large)))
        grown[: len(large)] = large
        return grown

    def _refuse(self, size: int) -> None:
        error = WireError(f"a frame of {size} bytes was declared; 0 to {self._frame_bytes_max} are allowed")
        self._receiver.frame_refused(error)
        self.close()

    def close(self) -> None:
        """Deliver nothing more, send what was written, then close the connection."""
        self._closed = True
        self._reading = False
        self._rest = b""
        self._large = None
        self.transport.close()

    def pause_reading(self) -> None:
        """Deliver nothing more and stop reading until `resume_reading`; at most one read's bytes are kept meanwhile."""
        if self._reading and not self._closed:
            self._reading = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Deliver what was kept, then read on."""
        if self._reading or self._closed:
            return
        self._reading = True
        if self._rest and not self._delivering:
            rest, self._rest = self._rest, b""
            self._deliver(memoryview(bytearray(rest) if isinstance(rest, bytes) else rest))
        if self._reading and not self._closed and not self.transport.is_closing():
            self.transport.resume_reading()

    # -- the rest of asyncio's protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the open connection to the receiver."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's has the methods and not the base class
        self._receiver.connection_opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what was kept and tell the receiver."""
        self._closed = True
        self._reading = False
        self._large = None
        self._rest = b""
        self._receiver.connection_closed(exc)

    def eof_received(self) -> bool:
        """Close as well when the peer has closed its side."""
        return False

    def pause_writing(self) -> None:
        """Tell the receiver that the peer reads too slowly."""
        self._receiver.writing_paused()

    def resume_writing(self) -> None:
        """Tell the receiver that it may write again."""
        self._receiver.writing_resumed()


_NOTHING = bytearray()
