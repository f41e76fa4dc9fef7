"""What leaves a connection: bytes through its transport, pieces of files when their turn has come.

Pieces of files wait as such, so what a client does not take costs no memory. On a plain socket large ones are copied by
the system (`sendfile`), small ones are read just before they are sent. That needs the socket to itself: it works on a
duplicate of the socket's descriptor (asyncio refuses to watch a transport's own), only once the transport holds nothing,
and everything that follows waits for it. Below TLS, pieces are read into memory that all connections of the loop share, and
encrypted from there: fresh memory would cost more than the cryptography (measured). Elsewhere (a simulated network) pieces
are read and go through the transport, as fast as that empties. What the page cache does not hold is first read on a
thread, so that a cold disk never stops the loop.

What a client has not taken is counted in the node's `AnswerMemory`, beyond what a transport holds anyway.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ottla.background import supervise
from ottla.base import Offload, StorageError
from ottla.broker.requests.answer_memory import PART_BYTES, AnswerMemory
from ottla.broker.requests.file_part import FilePart, PartGoneError

__all__ = ["WRITE_BUFFER_BYTES_MAX", "Outbound"]

log = logging.getLogger(__name__)

WRITE_BUFFER_BYTES_MAX: Final = 64 * 1024
"""Answer bytes that the transport may hold before the connection is no longer read from, and they are counted."""
SEND_BYTES_PER_TURN = 1024 * 1024
"""File bytes that one connection sends before others have their turn."""
SEND_BYTES: Final = 256 * 1024
"""File bytes of one look into the page cache, and of small pieces that are sent together."""
SEND_BUFFERS_MAX: Final = 512
"""Pieces that are sent together; Linux takes 1024."""
JOINED_BYTES_MAX: Final = 4 * 1024
"""Parts of an answer below this size are copied into one; larger ones the system gathers by itself."""
SENDFILE_BYTES_MIN: Final = 64 * 1024
"""From this size a piece goes by `sendfile`; a smaller one is cheaper to copy (measured)."""


class Outbound:
    """The sending side of one connection; `is_idle` while it holds nothing of its own."""

    __slots__ = (
        "_closing",
        "_drained",
        "_fd",
        "_files",
        "_has_socket",
        "_has_writer",
        "_held",
        "_loop",
        "_memory",
        "_offload",
        "_paused",
        "_queue",
        "_queued_bytes",
        "_raw",
        "_scratch",
        "_transport",
        "_turn",
        "_wants_empty",
        "_warming",
        "is_idle",
        "moved_s",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        loop: asyncio.AbstractEventLoop,
        offload: Offload,
        memory: AnswerMemory,
        drained: Callable[[], None],
        scratch: memoryview | None = None,
    ) -> None:
        """`scratch` is memory for pieces of files, where the transport has taken what it is given when `write` returns."""
        self._transport = transport
        self._loop = loop
        self._offload = offload
        self._has_socket = (
            transport.get_extra_info("socket") is not None and transport.get_extra_info("sslcontext") is None
        )
        self._fd: int = transport.get_extra_info("socket").fileno() if self._has_socket else -1
        """The transport's own, to be used while it is open."""
        self._memory = memory
        self._drained = drained
        self._scratch = scratch
        self._queue: deque[Any] = deque()
        self._queued_bytes = 0
        """Memory of what is queued."""
        self._files = 0
        """Pieces of files among it."""
        self._held = 0
        """What the node's memory was told last."""
        self.moved_s = 0.0
        """When the client last took something of what was held."""
        self._raw: socket.socket | None = None
        self._has_writer = False
        self._paused = False
        self._wants_empty = False
        self._closing: Callable[[], None] | None = None
        self._turn: asyncio.Handle | None = None
        self._warming: asyncio.Task[None] | None = None
        self.is_idle = True
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)

    def send(self, parts: list[Any], *, has_files: bool) -> None:
        """Send parts in order, behind those that are still on their way."""
        if self.is_idle and not has_files:
            if len(parts) == 1:
                self._transport.write(parts[0])
            elif sum(map(len, parts)) >= JOINED_BYTES_MAX:
                self._transport.writelines(parts)
            else:
                self._transport.write(b"".join(parts))
            if self._paused:
                self._count()  # TLS pauses in the middle of a write, and then writes the rest
            return
        self.is_idle = False
        for part in parts:
            if len(part):
                self._queue.append(part)
                self._queued_bytes += PART_BYTES if type(part) is FilePart else len(part)
                self._files += type(part) is FilePart
        if not self._is_waiting():
            self._pump()
        self._count()

    def send_now(self, memory: memoryview) -> None:
        """Send what lies in memory that is the caller's again when this returns: what is not taken at once is copied."""
        if self.is_idle and self._scratch is not None:
            self._transport.write(memory)
            if self._paused:
                self._count()
            return
        if self._is_clear():
            sent = self._send_some(memory)
            if sent == len(memory):
                return
            memory = memory[sent:]
        self.send([bytes(memory)], has_files=False)

    @property
    def sends_files(self) -> bool:
        """True where the system copies files to the socket."""
        return self._has_socket

    def send_part(self, head: bytes, part: FilePart, tail: bytes) -> None:
        """Send a part of a file and what stands around it: at once where nothing waits, and memory has what is sent."""
        rest = [head, part, tail]
        if self._is_clear() and part.size <= SEND_BYTES_PER_TURN and _cached(part, part.size) >= part.size:
            try:
                self._send_around(head, part, tail, rest)
            except BlockingIOError:
                pass
            except (PartGoneError, StorageError) as error:
                self._cannot_read(part, error)
                self.is_idle = False
                return
            except OSError as error:
                self._cannot_send(error)
                return
            if not rest:
                return
        self.send(rest, has_files=True)

    def _send_around(self, head: bytes, part: FilePart, tail: bytes, rest: list[Any]) -> None:
        """Send what the socket takes now, and take it off what is left."""
        raw = self._raw if self._raw is not None else self._open_raw()
        sent = raw.send(head, socket.MSG_MORE)
        if sent < len(head):
            rest[0] = head[sent:]
            return
        del rest[0]
        part.send_to(raw.fileno(), part.size)
        if not part.size:
            del rest[0]
            sent = raw.send(tail) if tail else 0
            if sent < len(tail):
                rest[0] = tail[sent:]
            else:
                rest.clear()

    def _cannot_send(self, error: OSError) -> None:
        """End the connection, and read nothing more of it: nobody takes the answers."""
        log.debug("sending failed: %s", error)
        self.is_idle = False
        self._transport.abort()

    def _is_clear(self) -> bool:
        """Return whether the socket may be written to past the transport: neither that nor this holds anything."""
        transport = self._transport
        return (
            self.is_idle and self._has_socket and not transport.is_closing() and not transport.get_write_buffer_size()
        )

    def _send_some(self, memory: memoryview) -> int:
        """Give the socket what it takes now, past a transport that holds nothing, and return how much that is."""
        try:
            return os.write(self._fd, memory)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._cannot_send(error)
            return len(memory)

    def pause(self) -> None:
        """Called when the transport holds enough."""
        self._paused = True
        self.is_idle = False
        self._count()

    def resume(self) -> None:
        """Called when the transport has room again, or holds nothing where that was asked for."""
        self._paused = False
        if self._wants_empty:
            self._wants_empty = False
            self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        if not self._is_waiting():
            self._pump()
        self._count()

    def close_when_sent(self, close: Callable[[], None]) -> None:
        """Call this when everything has been handed over."""
        self._closing = close

    def cut_off(self) -> None:
        """Close the connection now: its client takes nothing, and others need the memory."""
        log.warning(
            "Closing a connection that takes nothing of its answers: %s bytes are needed for others", self._held
        )
        self._transport.abort()
        self.drop()

    def drop(self) -> None:
        """Forget everything: the connection is gone."""
        self._queue.clear()
        self._queued_bytes = self._files = 0
        self._paused = False
        self._count()
        if self._turn is not None:
            self._turn.cancel()
        if self._warming is not None:
            self._warming.cancel()
        if self._raw is not None:
            self._unwatch()
            self._raw.close()
            self._raw = None

    def recount(self) -> None:
        """Tell the node how much is held here now: a transport does not say when its client has taken some."""
        self._count()

    # -- inside

    def _count(self) -> None:
        held = self._queued_bytes
        if self._paused:
            held += self._transport.get_write_buffer_size()
        change = held - self._held
        if change:
            self._held = held
            if change < 0:
                self.moved_s = self._loop.time()
            self._memory.holds(self, held, change)

    def _is_waiting(self) -> bool:
        return self._has_writer or self._turn is not None or self._warming is not None or self._wants_empty

    def _pump(self) -> None:
        """Move what is queued to the transport, or to the socket where files are among it; end idle, or waiting."""
        queue = self._queue
        budget = SEND_BYTES_PER_TURN if self._scratch is None else len(self._scratch)
        while queue and not self._paused:
            if not self._files:
                data = b"".join(queue)
                queue.clear()
                self._queued_bytes = 0
                self._transport.write(data)
            elif not self._has_socket:
                if budget <= 0:
                    self._turn = self._loop.call_soon(self._next_turn)
                    return
                size = self._write_pieces() if self._scratch is None else self._write_copied(self._scratch)
                if not size:
                    return
                budget -= size
            elif self._transport.get_write_buffer_size() > 0:
                self._wants_empty = True
                self._transport.set_write_buffer_limits(high=0)  # calls pause_writing, and resume when empty
                return
            elif not self._send_raw():
                return
        if not queue and not self._paused:
            self.is_idle = True
            if self._closing is not None:
                self._closing()
            else:
                self._drained()

    def _write_pieces(self) -> int:
        """Write what is sent next, and return its size: 0 where a thread has to read first."""
        pieces, size = self._gather(SEND_BYTES)
        if pieces:
            self._took(size)
            self._transport.write(b"".join(pieces))
        return size

    def _write_copied(self, scratch: memoryview) -> int:
        """The same through shared memory, and no more of it than the transport can send before the next turn."""
        filled, room = 0, len(scratch)
        for part in self._queue:
            target = scratch[filled:]
            if type(part) is FilePart:
                try:
                    count = part.read_into(target)
                except (PartGoneError, StorageError) as error:
                    self._cannot_read(part, error)
                    return 0
                if count is None:
                    if not filled:
                        self._read_later(self._read_next(part, min(part.size, room)))
                    break
            else:
                count = min(len(part), len(target))
                target[:count] = memoryview(part)[:count]
            filled += count
            if filled == room or count < len(part):
                break
        if filled:
            self._took(filled)
            self._transport.write(scratch[:filled])
        return filled

    def _gather(self, bytes_max: int) -> tuple[list[Any], int]:
        """Return what is sent next, read from files where it is theirs: nothing where a thread has to read first.

        It stays in the queue until it is taken, and what is not taken of a file's pieces is read again then: a client
        that does not read costs no memory for them.
        """
        pieces: list[Any] = []
        size = 0
        try:
            for part in self._queue:
                if type(part) is FilePart:
                    if pieces and (part.size >= SENDFILE_BYTES_MIN or size + part.size > bytes_max):
                        break
                    found = part.read_nowait()
                    if found is None:
                        if not pieces:
                            self._read_later(self._read_next(part, part.size))
                        break
                    part = found
                pieces.append(part)
                size += len(part)
                if size >= bytes_max or len(pieces) == SEND_BUFFERS_MAX:
                    break
        except (PartGoneError, StorageError) as error:
            self._cannot_read(part, error)
            return [], 0
        return pieces, size

    def _took(self, size: int) -> None:
        """Take what was sent off the queue's beginning."""
        queue = self._queue
        while size:
            part = queue[0]
            length = len(part)
            if length > size:
                if type(part) is FilePart:
                    part.sent(size)
                else:
                    queue[0] = memoryview(part)[size:]
                    self._queued_bytes -= size
                return
            size -= length
            self._drop_first()

    def _drop_first(self) -> None:
        part = self._queue.popleft()
        if type(part) is FilePart:
            self._files -= 1
            self._queued_bytes -= PART_BYTES
        else:
            self._queued_bytes -= len(part)

    def _send_raw(self) -> bool:
        """Send the queue through the socket itself; True when it is empty, False while something is waited for."""
        queue = self._queue
        budget = SEND_BYTES_PER_TURN
        try:
            raw = self._raw if self._raw is not None else self._open_raw()
            while queue:
                if budget <= 0 and self._files:  # the few bytes behind the last piece of a file go with it
                    self._turn = self._loop.call_soon(self._next_turn)
                    return False
                part = queue[0]
                if type(part) is FilePart and part.size >= SENDFILE_BYTES_MIN:
                    count = _cached(part, budget)
                    if not count:
                        self._read_later(self._warm(part, min(part.size, SEND_BYTES)))
                        return False
                    sent = self._send_file(raw, part, count)
                    if sent < count:  # the socket is full, which another call would say again
                        self._await_room()
                        return False
                else:
                    pieces, _ = self._gather(SEND_BYTES)
                    if not pieces:
                        return False
                    more = len(pieces) < len(queue)
                    sent = raw.sendmsg(pieces, (), socket.MSG_MORE if more else 0)
                    self._took(sent)
                budget -= sent
        except BlockingIOError:
            self._await_room()
            return False
        except (PartGoneError, StorageError) as error:
            self._cannot_read(queue[0], error)
            return False
        except OSError as error:
            log.debug("sending failed: %s", error)
            self._transport.abort()
            return False
        self._unwatch()
        return True

    def _send_file(self, raw: socket.socket, part: FilePart, count: int) -> int:
        sent = part.send_to(raw.fileno(), count)
        if part.size == 0:
            self._drop_first()
        return sent

    def _cannot_read(self, part: Any, error: PartGoneError | StorageError) -> None:
        """End the connection: the bytes that were announced cannot be sent."""
        log.warning("Closing a connection in the middle of an answer: %s", error)
        if isinstance(error, StorageError):
            part.failed(error)
        self._transport.abort()

    def _open_raw(self) -> socket.socket:
        connection = self._transport.get_extra_info("socket")
        self._raw = raw = socket.socket(fileno=os.dup(connection.fileno()))
        raw.setblocking(False)
        return raw

    def _await_room(self) -> None:
        """Go on when the socket takes more; at once where it does already."""
        assert self._raw is not None
        if not self._has_writer:
            self._has_writer = True
            self._loop.add_writer(self._raw.fileno(), self._writable)

    def _writable(self) -> None:
        self._go_on()

    def _next_turn(self) -> None:
        self._turn = None
        self._go_on()

    def _go_on(self) -> None:
        self._pump()
        self._count()

    def _unwatch(self) -> None:
        if self._has_writer and self._raw is not None:
            self._has_writer = False
            self._loop.remove_writer(self._raw.fileno())

    def _read_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Have a thread read what the page cache has not; where that fails by a mistake of ours, the connection ends."""
        self._warming = supervise(
            work, name="read what is sent", serves="a connection", failed=self._cannot_go_on, loop=self._loop
        )

    def _cannot_go_on(self, error: BaseException) -> None:
        self._transport.abort()

    async def _warm(self, part: FilePart, count: int) -> None:
        """Have a thread read what comes next, so that the page cache holds it."""
        if await self._on_thread(part, part.read_ahead, count) is not None:
            self._go_on()

    async def _read_next(self, part: FilePart, count: int) -> None:
        """Have a thread read the next bytes, and keep them: the page cache may have lost them again when they are needed."""
        found = await self._on_thread(part, part.read, count)
        if found is not None:
            part.sent(count)
            if part.size == 0:
                self._drop_first()
            self._queue.appendleft(found)
            self._queued_bytes += count
            self._go_on()

    async def _on_thread(self, part: FilePart, read: Callable[..., bytes], *args: object) -> bytes | None:
        self._unwatch()
        try:
            return await self._offload.thread(read, *args)
        except (PartGoneError, StorageError) as error:
            self._cannot_read(part, error)
            return None
        finally:
            self._warming = None


def _cached(part: FilePart, bytes_max: int) -> int:
    """Return how many of a part's next bytes may go by one `sendfile`: the page cache has them, as far as was looked.

    Looks are at the first byte and at the last of each piece. They are whole, so they may go beyond `bytes_max` by less than
    one; 0 where the first found nothing.
    """
    count = 0
    while count < part.size and count < bytes_max:
        step = min(part.size - count, SEND_BYTES)
        if not (part.is_cached(count + step - 1, 1) if count else part.is_cached(0, step)):
            break
        count += step
    return count
