"""What leaves a connection: bytes through its transport, large pieces of files straight from the page cache.

`sendfile` needs the socket to itself. It works on a duplicate of the socket's descriptor (asyncio refuses to watch a
transport's own), only once the transport holds nothing, and everything that follows waits for it. A piece that the page
cache does not hold is first read on a thread, so that a cold disk never stops the loop. Where there is no socket (a
simulated network) or it speaks TLS, handlers make no file parts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.base import Offload
from ottla.broker.file_part import FilePart

__all__ = ["WRITE_BUFFER_BYTES_MAX", "Outbound"]

log = logging.getLogger(__name__)

WRITE_BUFFER_BYTES_MAX = 1024 * 1024
"""Answer bytes that the transport may hold before the connection is no longer read from."""
SEND_BYTES_PER_TURN = 1024 * 1024
"""File bytes that one connection sends before others have their turn."""
SEND_BYTES = 256 * 1024
"""File bytes of one `sendfile`, and of one look into the page cache."""


class Outbound:
    """The sending side of one connection; `is_idle` while it holds nothing of its own."""

    __slots__ = (
        "_closing",
        "_drained",
        "_has_writer",
        "_loop",
        "_offload",
        "_paused",
        "_queue",
        "_raw",
        "_transport",
        "_turn",
        "_wants_empty",
        "_warming",
        "is_idle",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        loop: asyncio.AbstractEventLoop,
        offload: Offload,
        drained: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._offload = offload
        self._drained = drained
        self._queue: deque[Any] = deque()
        self._raw: socket.socket | None = None
        self._has_writer = False
        self._paused = False
        self._wants_empty = False
        self._closing: Callable[[], None] | None = None
        self._turn: asyncio.Handle | None = None
        self._warming: asyncio.Task[None] | None = None
        self.is_idle = True
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)

    def can_send_files(self) -> bool:
        """Return whether the connection is a plain socket, to which the system can copy files by itself."""
        transport = self._transport
        return transport.get_extra_info("socket") is not None and transport.get_extra_info("sslcontext") is None

    def send(self, parts: list[Any], *, has_files: bool) -> None:
        """Send parts in order, behind those that are still on their way."""
        if self.is_idle and not has_files:
            if len(parts) == 1:
                self._transport.write(parts[0])
            else:
                self._transport.write(b"".join(parts))
            return
        self._queue.extend(parts)
        self.is_idle = False
        if self._raw_is_waiting():
            return
        self._pump()

    def pause(self) -> None:
        """Hear that the transport holds enough."""
        self._paused = True
        self.is_idle = False

    def resume(self) -> None:
        """Hear that the transport has room again, or holds nothing where that was asked for."""
        self._paused = False
        if self._wants_empty:
            self._wants_empty = False
            self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        if not self._raw_is_waiting():
            self._pump()

    def close_when_sent(self, close: Callable[[], None]) -> None:
        """Call this when everything has been handed over."""
        self._closing = close

    def drop(self) -> None:
        """Forget everything: the connection is gone."""
        for part in self._queue:
            if isinstance(part, FilePart):
                part.close()
        self._queue.clear()
        if self._turn is not None:
            self._turn.cancel()
        if self._warming is not None:
            self._warming.cancel()
        if self._raw is not None:
            self._unwatch()
            self._raw.close()
            self._raw = None

    # -- inside

    def _raw_is_waiting(self) -> bool:
        return self._has_writer or self._turn is not None or self._warming is not None or self._wants_empty

    def _pump(self) -> None:
        """Move what is queued to the transport, or to the socket where files are among it; end idle, or waiting."""
        queue = self._queue
        while queue and not self._paused:
            if any(isinstance(part, FilePart) for part in queue):
                if self._transport.get_write_buffer_size() > 0:
                    self._wants_empty = True
                    self._transport.set_write_buffer_limits(high=0)  # calls pause_writing, and resume when empty
                    return
                if not self._send_raw():
                    return
            else:
                self._transport.write(b"".join(queue))
                queue.clear()
        if not queue and not self._paused:
            self.is_idle = True
            if self._closing is not None:
                self._closing()
            else:
                self._drained()

    def _send_raw(self) -> bool:
        """Send the queue through the socket itself; True when it is empty, False while something is waited for."""
        queue = self._queue
        budget = SEND_BYTES_PER_TURN
        try:
            raw = self._raw if self._raw is not None else self._open_raw()
            while queue:
                part = queue[0]
                if not isinstance(part, FilePart):
                    sent = raw.send(part, socket.MSG_MORE if len(queue) > 1 else 0)
                    if sent == len(part):
                        queue.popleft()
                    else:
                        queue[0] = memoryview(part)[sent:]
                    continue
                if budget <= 0:
                    self._turn = self._loop.call_soon(self._next_turn)
                    return False
                count = min(part.size, SEND_BYTES)
                if not part.is_cached(count):
                    self._warming = asyncio.ensure_future(self._warm(part, count))
                    return False
                budget -= self._send_file(raw, part, count)
        except BlockingIOError:
            assert self._raw is not None
            if not self._has_writer:
                self._has_writer = True
                self._loop.add_writer(self._raw.fileno(), self._writable)
            return False
        except OSError as error:
            log.debug("sending failed: %s", error)
            self._transport.abort()
            return False
        self._unwatch()
        return True

    def _send_file(self, raw: socket.socket, part: FilePart, count: int) -> int:
        sent = os.sendfile(raw.fileno(), part.descriptor, part.position, count)
        if sent == 0:
            raise OSError("the file ends before the bytes that were announced")
        part.position += sent
        part.size -= sent
        if part.size == 0:
            self._queue.popleft()
            part.close()
        return sent

    def _open_raw(self) -> socket.socket:
        connection = self._transport.get_extra_info("socket")
        self._raw = raw = socket.socket(fileno=os.dup(connection.fileno()))
        raw.setblocking(False)
        return raw

    def _writable(self) -> None:
        self._go_on_raw()

    def _next_turn(self) -> None:
        self._turn = None
        self._go_on_raw()

    def _go_on_raw(self) -> None:
        if self._send_raw():
            self._pump()

    def _unwatch(self) -> None:
        if self._has_writer and self._raw is not None:
            self._has_writer = False
            self._loop.remove_writer(self._raw.fileno())

    async def _warm(self, part: FilePart, count: int) -> None:
        """Have a thread read what comes next, so that the page cache holds it."""
        self._unwatch()
        try:
            await self._offload.thread(part.read_ahead, count)
        except OSError as error:
            log.warning("reading a segment failed: %s", error)
            self._transport.abort()
            return
        finally:
            self._warming = None
        self._go_on_raw()
