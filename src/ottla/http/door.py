"""Where connections come in: each has so long until it has asked for something, and those that have not are so many at most.

aiohttp bounds neither: asyncio gives a handshake a minute, and who has connected and says nothing may stay for ever. Where
too many are silent the one that has been it for longest has to go: a flood pushes out itself first.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, cast

__all__ = ["FIRST_REQUEST_SECONDS_MAX", "HANDSHAKE_SECONDS_MAX", "SILENT_CONNECTIONS_MAX", "Door"]

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS_MAX = 10.0
FIRST_REQUEST_SECONDS_MAX = 30.0
"""From the connection on, so with the handshake."""
SILENT_CONNECTIONS_MAX = 1000
BACKLOG = 128
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of `accept` after which trying at once would only be busy."""
EXHAUSTED_PAUSE_S = 1.0
SAYS_AGAIN_S = 10.0
"""How often it is said, at most, that there were too many."""


class _Arrival:
    """A connection that has asked for nothing yet."""

    def __init__(self, connection: socket.socket, protocol: asyncio.Protocol, until_s: float) -> None:
        self.connection = connection
        self.protocol = protocol
        self.until_s = until_s
        self.transport: asyncio.WriteTransport | None = None
        self.opening: asyncio.Task[None] | None = None

    def drop(self) -> None:
        """Close it at once."""
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


class Door:
    """Accepts connections on any number of addresses; `protocol` makes what speaks on each."""

    def __init__(
        self,
        protocol: Callable[[], asyncio.Protocol],
        *,
        handshake_seconds_max: float = HANDSHAKE_SECONDS_MAX,
        first_request_seconds_max: float = FIRST_REQUEST_SECONDS_MAX,
        silent_max: int = SILENT_CONNECTIONS_MAX,
    ) -> None:
        self._protocol = protocol
        self._handshake_seconds_max = handshake_seconds_max
        self._first_request_seconds_max = first_request_seconds_max
        self._silent_max = silent_max
        self._loop = asyncio.get_running_loop()
        self._silent: OrderedDict[object, _Arrival] = OrderedDict()
        """The oldest first, by their protocols."""
        self._listening: list[tuple[socket.socket, asyncio.Task[None]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._says_from_s = 0.0

    @property
    def silent(self) -> int:
        """Connections that have asked for nothing yet."""
        return len(self._silent)

    async def open(self, host: str, port: int, tls: Callable[[], ssl.SSLContext] | None) -> int:
        """Accept on an address and return its port; an empty host means every interface. Raises OSError where it is taken.

        `tls` returns the context of the next connection, where there is to be one.
        """
        found = await self._loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        opened: list[socket.socket] = []
        for family, _, _, _, address in dict.fromkeys(found):
            if opened and not port:  # the system has chosen: a name of two families has one port
                address = (address[0], opened[0].getsockname()[1], *address[2:])
            try:
                one = _listening(family, address)
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL and len(found) > 1:
                    continue  # `localhost` may have an address that the machine has not (::1 in a container)
                for each in opened:
                    each.close()
                raise
            if one is not None:
                opened.append(one)
        if not opened:
            raise OSError(errno.EADDRNOTAVAIL, f"no address of {host or 'any interface'} can be listened on")
        for each in opened:
            self._listening.append((each, self._loop.create_task(self._accept(each, tls))))
        return int(opened[0].getsockname()[1])

    def asked(self, protocol: object) -> None:
        """Called with what speaks on a connection when it has asked for something."""
        self._silent.pop(protocol, None)

    async def close(self) -> None:
        """Accept no more, and close whoever has asked for nothing."""
        for listening, task in self._listening:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            listening.close()
        self._listening.clear()
        while self._silent:
            self._silent.popitem()[1].drop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _accept(self, listening: socket.socket, tls: Callable[[], ssl.SSLContext] | None) -> None:
        while True:
            try:
                connection, _ = await self._loop.sock_accept(listening)
            except OSError as error:  # the client's (it is gone again), or there is no room for more
                if error.errno in EXHAUSTED:
                    log.warning("no connection can be accepted: %s", error)
                    await asyncio.sleep(EXHAUSTED_PAUSE_S)
                continue
            connection.setblocking(False)
            if len(self._silent) >= self._silent_max:
                self._push_out()
            self._take(connection, tls)

    def _take(self, connection: socket.socket, tls: Callable[[], ssl.SSLContext] | None) -> None:
        protocol = self._protocol()
        arrival = _Arrival(connection, protocol, self._loop.time() + self._first_request_seconds_max)
        self._silent[protocol] = arrival
        arrival.opening = self._loop.create_task(self._open(arrival, tls))
        if self._timer is None:
            self._timer = self._loop.call_at(arrival.until_s, self._look)

    async def _open(self, arrival: _Arrival, tls: Callable[[], ssl.SSLContext] | None) -> None:
        """Shake hands, and give the connection to its protocol."""
        handshake_s = None if tls is None else self._handshake_seconds_max
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: arrival.protocol,
                arrival.connection,
                ssl=None if tls is None else tls(),
                ssl_handshake_timeout=handshake_s,
            )
            arrival.transport = cast(asyncio.WriteTransport, transport)
        except (OSError, asyncio.CancelledError) as error:  # ssl.SSLError is an OSError; who is dropped is not missed
            log.debug("a connection came to nothing: %r", error)
            self._silent.pop(arrival.protocol, None)
            arrival.connection.close()

    def _push_out(self) -> None:
        self._silent.popitem(last=False)[1].drop()
        now_s = self._loop.time()
        if now_s >= self._says_from_s:
            self._says_from_s = now_s + SAYS_AGAIN_S
            log.warning("%s connections have asked for nothing: the oldest make room", self._silent_max)

    def _look(self) -> None:
        """Close who has had his time."""
        self._timer = None
        now_s = self._loop.time()
        while self._silent:
            protocol, arrival = next(iter(self._silent.items()))
            if arrival.until_s > now_s:
                self._timer = self._loop.call_at(arrival.until_s, self._look)
                return
            del self._silent[protocol]
            arrival.drop()


def _listening(family: int, address: Any) -> socket.socket | None:
    """Return a listening socket; None where the machine has no such family of addresses. Raises OSError."""
    try:
        found = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        found.setblocking(False)
        found.bind(address)
        found.listen(BACKLOG)
    except BaseException:
        found.close()
        raise
    return found
