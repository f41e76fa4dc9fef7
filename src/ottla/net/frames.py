"""Length-prefixed frames out of a byte stream (Kafka's int32 size, then that many bytes).

What a peer can make us hold is bounded by what it has really sent: a frame's declared size is compared with the limit
and otherwise only ends the frame. Reads go into one `ReceiveBuffer` shared by all connections of a loop, so a
connection between requests holds no buffer at all. A frame is a writable view that belongs to its receiver for as
long as it keeps it: memory is used again only when no view of it is alive, which the interpreter itself vouches for.

Requests that are not whole yet, or wait to be handled, count in the buffer's `RequestMemory`. Where that is full, a
connection is read from no more unless it is in the middle of a request that counts already.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Final, Protocol, cast

from ottla.base import WireError
from ottla.net.request_memory import RequestMemory

__all__ = ["FRAME_BYTES_MAX_DEFAULT", "FrameProtocol", "FrameReceiver", "ReceiveBuffer"]

FRAME_BYTES_MAX_DEFAULT: Final = 100 * 1024 * 1024
"""Kafka's `socket.request.max.bytes`."""
READ_BYTES: Final = 256 * 1024
"""Bytes asked of the system per read: about sixteen of the usual 16 KiB batches, and it stays in the L2 cache."""
LARGE_FRAME_BYTES: Final = 64 * 1024
"""From this size a frame is collected in memory of its own; a shorter beginning is copied in front of the next read."""
REMEMBERED_FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
"""Who has sent a large frame gets room for another of that size, up to this, without growing step by step."""
LARGE_BEGUN_BYTES: Final = 16 * 1024
"""What has to be there of a large frame before it gets memory of its own, of four times as much at most."""
ROOM_BYTES_MAX: Final = 64 * 1024 * 1024
"""Memory that all connections together may have for large frames before it grows with what has come of them only."""
PINNED_BYTES_MAX: Final = 64 * 1024
"""What is kept and is not larger is copied, so that it does not keep the memory of a whole read from being used again."""
LOOK_BYTES: Final = 4 * 1024
"""What is read, and kept, of a connection that has to wait for memory: that it has sent something has to be seen."""
LARGE_KEPT_MAX: Final = 8
"""Memory of large frames that is kept for the next ones: fresh pages cost as much as everything else a frame costs."""
PREFIX_BYTES: Final = 4
read_size: Final = struct.Struct(">i").unpack_from


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
        """Called when the peer declared an impossible frame; the connection closes once this returns."""
        ...

    def writing_paused(self) -> None:
        """Called when the peer reads too slowly: the transport holds more than its high-water mark."""
        ...

    def writing_resumed(self) -> None:
        """Called when the transport's buffer is below its low-water mark again."""
        ...

    def connection_closed(self, error: Exception | None) -> None:
        """Called when the connection is gone; nothing is called afterwards."""
        ...


class ReceiveBuffer:
    """The read buffer that all connections of one event loop share; not for several threads."""

    def __init__(self, size: int = READ_BYTES, *, requests: RequestMemory | None = None) -> None:
        self._size = size
        self._memory = bytearray()
        self._large: list[bytearray] = []
        self._room = 0
        self.requests = requests if requests is not None else RequestMemory()

    @property
    def room(self) -> int:
        """Bytes of memory that large frames have now."""
        return self._room

    def take(self) -> bytearray:
        """Return memory that no view refers to; it must be read into and parsed before the next take."""
        memory = self._memory
        if memory and _is_free(memory):
            return memory
        self._memory = memory = bytearray(self._size)
        return memory

    def take_large(self, size: int, *, wanted: int) -> bytearray:
        """Return memory for one large frame, `size` bytes or more: `wanted` unless too much is taken already.

        It is the taker's until it is given back or dropped.
        """
        if self._room + wanted <= ROOM_BYTES_MAX:
            size = max(size, wanted)
        found = None
        for index, memory in enumerate(self._large):
            if len(memory) >= size and _is_free(memory):
                found = self._large.pop(index)
                break
        if found is None:
            found = bytearray(size)
        self._room += len(found)
        return found

    def grown(self, memory: bytearray, size: int) -> bytearray:
        """Return a large frame's beginning in memory of `size` bytes."""
        grown = bytearray(size)
        grown[: len(memory)] = memory
        self._room += size - len(memory)
        return grown

    def give_back(self, memory: bytearray) -> None:
        """Keep a large frame's memory for another; views of the frame may still be alive."""
        self.drop(memory)
        if len(memory) <= REMEMBERED_FRAME_BYTES_MAX:
            if len(self._large) == LARGE_KEPT_MAX:
                del self._large[0]
            self._large.append(memory)

    def drop(self, memory: bytearray) -> None:
        """Let a large frame's memory go."""
        self._room -= len(memory)


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
        self._requests = self._shared.requests
        self._frame_bytes_max = frame_bytes_max
        self._reading_into = bytearray()
        self._rest: bytes | memoryview = b""
        self._large: bytearray | None = None
        self._large_end = 0
        self._filled = 0
        self._room_remembered = 0
        self._counted = 0
        """Bytes that count in the memory of requests for what is begun, or kept here."""
        self._held = 0
        """The same for frames that the receiver keeps for later."""
        self._reading = True
        """Whether the receiver takes frames."""
        self._waits = False
        """Whether memory is waited for."""
        self._is_read_from = True
        self._delivering = False
        self._closed = False

    def limit(self, frame_bytes_max: int) -> None:
        """Refuse larger frames from now on: who has not logged in may send small ones only."""
        self._frame_bytes_max = frame_bytes_max

    # -- reading

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next read goes: behind the large frame that is being collected, or the shared buffer."""
        large = self._large
        if large is not None:
            if self._filled == len(large):
                self._large = large = self._shared.grown(large, min(self._large_end, 2 * len(large)))
            self._reading_into = large
            return memoryview(large)[self._filled : self._large_end]
        memory = self._shared.take()
        self._reading_into = memory
        rest = self._rest
        self._filled = kept = len(rest)
        if kept:
            memory[:kept] = rest
            self._rest = b""
        if self._requests.is_full and not self._counted:
            return memoryview(memory)[kept : kept + LOOK_BYTES]
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
        elif self._requests.is_full and not self._counted:
            self._wait_for_memory(memoryview(memory)[: self._filled])
        else:
            self._deliver(memoryview(memory)[: self._filled])

    def _deliver(self, received: memoryview) -> None:
        """Hand out whole frames until they end, the receiver pauses, or a frame is impossible; keep the rest."""
        receiver = self._receiver
        frame_received = receiver.frame_received
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
                if not 0 <= size <= self._frame_bytes_max:  # which a login changes
                    self._refuse(size)
                    break
                if stop > end:
                    break
                if self._counted:
                    self._count(0)
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
        kept = len(rest)
        if not self._reading:
            self._count(kept)
            # a large rest is still in the memory it was read into, which is ours while this view lives
            self._rest = bytes(rest) if kept <= PINNED_BYTES_MAX else rest
            return
        if kept < PREFIX_BYTES:
            self._count(0)
            self._rest = bytes(rest)
            return
        whole = PREFIX_BYTES + read_size(rest, 0)[0]
        if whole != self._counted:
            if self._requests.is_full and not self._counted:
                self._wait_for_memory(rest)
                return
            self._count(whole)
        if whole <= LARGE_FRAME_BYTES or kept < LARGE_BEGUN_BYTES:
            self._rest = bytes(rest)
            return
        room = min(whole, max(2 * kept, LARGE_FRAME_BYTES))
        self._large = large = self._shared.take_large(room, wanted=min(whole, max(room, self._room_remembered)))
        large[:kept] = rest
        self._large_end = whole
        self._filled = kept

    # -- memory

    def hold(self, frame: memoryview) -> memoryview:
        """Return a frame as its receiver keeps it for later, and count its bytes until `let_go`."""
        self._held += len(frame)
        self._requests.add(len(frame))
        return frame if len(frame) > PINNED_BYTES_MAX else memoryview(bytearray(frame))

    def let_go(self, size: int) -> None:
        """Called with the size of a frame that is kept no more."""
        self._requests.add(-size)
        self._held -= size

    def _count(self, size: int) -> None:
        if size != self._counted:
            self._requests.add(size - self._counted)
            self._counted = size

    def _wait_for_memory(self, rest: memoryview) -> None:
        """Read nothing more until requests of others are handled."""
        self._rest = bytes(rest)
        self._waits = True
        self._read_or_not()
        self._requests.wait(self)

    def memory_is_free(self) -> None:
        """Go on: it is this connection's turn."""
        self._waits = False
        if self._reading and not self._closed:
            self._read_on()

    def _read_on(self) -> None:
        """Deliver what was kept, then read."""
        if self._rest and not self._delivering:
            rest, self._rest = self._rest, b""
            self._deliver(memoryview(bytearray(rest) if isinstance(rest, bytes) else rest))
        self._read_or_not()

    def _read_or_not(self) -> None:
        """Have the transport read where nothing stands against it."""
        reads = self._reading and not self._waits
        if reads != self._is_read_from and not self._closed and not self.transport.is_closing():
            self._is_read_from = reads
            if reads:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def _drop(self) -> None:
        """Forget what was received."""
        self._closed = True
        self._reading = False
        self._rest = b""
        if self._large is not None:
            self._shared.drop(self._large)
            self._large = None
        self._count(0)
        self.let_go(self._held)
        if self._waits:
            self._requests.give_up(self)

    def _refuse(self, size: int) -> None:
        error = WireError(f"a frame of {size} bytes was declared; 0 to {self._frame_bytes_max} are allowed")
        self._receiver.frame_refused(error)
        self.close()

    def close(self) -> None:
        """Deliver nothing more, send what was written, then close the connection."""
        self._drop()
        self.transport.close()

    def pause_reading(self) -> None:
        """Deliver nothing more and stop reading until `resume_reading`; at most one read's bytes are kept meanwhile."""
        if self._reading and not self._closed:
            self._reading = False
            self._read_or_not()

    def resume_reading(self) -> None:
        """Deliver what was kept, then read on."""
        if not self._reading and not self._closed:
            self._reading = True
            if not self._waits:
                self._read_on()

    # -- the rest of asyncio's protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the open connection to the receiver."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's has the methods and not the base class
        self._receiver.connection_opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what was kept and tell the receiver."""
        self._drop()
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


_NOTHING: Final = bytearray()
