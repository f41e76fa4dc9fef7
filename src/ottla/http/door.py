"""Where connections come in: each has so long until it has asked for something, and they are so many at most.

aiohttp bounds neither: asyncio gives a handshake a minute, who has connected and says nothing may stay for ever, and there
may be as many as the process has descriptors, which its disk and its other clients need. Where there are too many the one
for which nothing has been done for longest has to go: a flood pushes out itself first. Who waits for an answer stays.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from ottla.background import awaited, keep_running

__all__ = [
    "CONNECTIONS_MAX",
    "FIRST_REQUEST_SECONDS_MAX",
    "HANDSHAKE_SECONDS_MAX",
    "IDLE_SECONDS_MAX",
    "SILENT_CONNECTIONS_MAX",
    "Door",
]

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS_MAX = 10.0
FIRST_REQUEST_SECONDS_MAX = 30.0
"""From the connection on, so with the handshake."""
SILENT_CONNECTIONS_MAX = 1000
CONNECTIONS_MAX = 1000
"""Of one service; fewer where the process may have few descriptors."""
DESCRIPTORS_SHARE = 4
"""One in so many of a process's descriptors is for the connections of one service, at most."""
HOST_SHARE = 0.75
"""How much of a service's connections one address may have: what is left is for others."""
IDLE_SECONDS_MAX = 120.0
"""How long an answer may take to be read; who asks for nothing more is closed before, by what speaks with it."""
LOOK_SECONDS = 10.0
"""How often it is looked which connections are gone."""
BACKLOG = 128
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of `accept` after which trying at once would only be busy."""
EXHAUSTED_PAUSE_S = 1.0
SAYS_AGAIN_S = 10.0
"""How often it is said, at most, that there were too many."""


class _Arrival:
    """A connection, from the moment it is accepted."""

    def __init__(self, connection: socket.socket, host: str, protocol: asyncio.BaseProtocol, until_s: float) -> None:
        self.connection = connection
        self.host = host
        self.protocol = protocol
        self.until_s = until_s
        """When it has to have asked for something."""
        self.since_s = 0.0
        """Since when nothing is to be done for it."""
        self.asks: dict[object, Callable[[], bool]] = {}
        """Its requests that are not answered, each with whether it has come to its end."""
        self.transport: asyncio.WriteTransport | None = None
        self.opening: asyncio.Task[None] | None = None

    @property
    def is_gone(self) -> bool:
        """Whether its descriptor is free."""
        return self.connection.fileno() < 0

    def drop(self) -> None:
        """Close it at once."""
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


class Door:
    """Accepts connections on any number of addresses; `protocol` makes what speaks on each.

    A connection is silent until `asked` is called with its protocol, idle when all of that is `answered`, and busy between.
    There are `connections_max` of them, a share of that from one address, and of the silent `silent_max`: whoever has been
    silent or idle for longest makes room, then who has been sending a request for longest; else the new one is refused.
    """

    def __init__(
        self,
        protocol: Callable[[], asyncio.Protocol],
        *,
        handshake_seconds_max: float = HANDSHAKE_SECONDS_MAX,
        first_request_seconds_max: float = FIRST_REQUEST_SECONDS_MAX,
        silent_max: int = SILENT_CONNECTIONS_MAX,
        connections_max: int = CONNECTIONS_MAX,
        idle_seconds_max: float = IDLE_SECONDS_MAX,
    ) -> None:
        self._idle_seconds_max = idle_seconds_max
        self._look_seconds = min(LOOK_SECONDS, idle_seconds_max / 2)
        self._protocol = protocol
        self._handshake_seconds_max = handshake_seconds_max
        self._first_request_seconds_max = first_request_seconds_max
        self.connections_max = max(min(connections_max, _descriptors() // DESCRIPTORS_SHARE), 1)
        self._host_max = max(int(self.connections_max * HOST_SHARE), 1)
        self._silent_max = min(silent_max, self.connections_max)
        self._loop = asyncio.get_running_loop()
        self._silent: OrderedDict[object, _Arrival] = OrderedDict()
        """The oldest first, by their protocols; and so are the others."""
        self._idle: OrderedDict[object, _Arrival] = OrderedDict()
        self._busy: OrderedDict[object, _Arrival] = OrderedDict()
        self._by_host: dict[str, int] = {}
        self._listening: list[tuple[socket.socket, asyncio.Task[None]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._says_from_s = 0.0

    @property
    def silent(self) -> int:
        """Connections that have asked for nothing yet."""
        return len(self._silent)

    @property
    def connections(self) -> int:
        """Connections that are open, as far as is known."""
        return len(self._silent) + len(self._idle) + len(self._busy)

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
            accept = partial(self._accept, each, tls)
            accepting = keep_running(accept, name="accept connections", serves="a listener", loop=self._loop)
            self._listening.append((each, accepting))
        return int(opened[0].getsockname()[1])

    def asked(self, protocol: object, request: object = None, is_whole: Callable[[], bool] = lambda: True) -> None:
        """Called with what speaks on a connection when it has asked for something; `is_whole` is whether all of it came."""
        arrival = self._taken(protocol)
        if arrival is not None:
            arrival.asks[request] = is_whole
            self._busy[protocol] = arrival

    def answered(self, protocol: object, request: object = None) -> None:
        """Called when what it has asked for is answered."""
        arrival = self._busy.get(protocol)
        if arrival is None:
            return
        arrival.asks.pop(request, None)
        if not arrival.asks:
            del self._busy[protocol]
            arrival.since_s = self._loop.time()
            self._idle[protocol] = arrival

    def renamed(self, protocol: object, other: asyncio.BaseProtocol) -> None:
        """Called when another protocol speaks on a connection that has asked for nothing."""
        arrival = self._silent.pop(protocol, None)
        if arrival is not None:
            arrival.protocol = other
            self._silent[other] = arrival

    def gone(self, protocol: object) -> None:
        """Called when a connection has ended, or is no longer the door's to bound; that others have ended is found out."""
        arrival = self._taken(protocol)
        if arrival is not None:
            self._forget(arrival)

    def _taken(self, protocol: object) -> _Arrival | None:
        for each in (self._idle, self._silent, self._busy):
            if (found := each.pop(protocol, None)) is not None:
                return found
        return None

    def _forget(self, arrival: _Arrival) -> None:
        left = self._by_host.get(arrival.host, 0) - 1
        if left > 0:
            self._by_host[arrival.host] = left
        else:
            self._by_host.pop(arrival.host, None)

    async def close(self) -> None:
        """Accept no more, and close whoever has asked for nothing."""
        for listening, task in self._listening:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            listening.close()
        self._listening.clear()
        while self._silent:
            self._silent.popitem()[1].drop()
        self._idle.clear()  # who has asked is closed by what speaks with it
        self._busy.clear()
        self._by_host.clear()
        for timer in (self._timer, self._sweep):
            if timer is not None:
                timer.cancel()
        self._timer = self._sweep = None

    async def _accept(self, listening: socket.socket, tls: Callable[[], ssl.SSLContext] | None) -> None:
        while True:
            try:
                connection, address = await self._loop.sock_accept(listening)
            except OSError as error:  # the client's (it is gone again), or there is no room for more
                if error.errno in EXHAUSTED:
                    log.warning("no connection can be accepted: %s", error)
                    await asyncio.sleep(EXHAUSTED_PAUSE_S)
                continue
            host = str(address[0])
            if not self._makes_room(host):
                connection.close()
                continue
            connection.setblocking(False)
            self._take(connection, host, tls)

    def _take(self, connection: socket.socket, host: str, tls: Callable[[], ssl.SSLContext] | None) -> None:
        protocol, now_s = self._protocol(), self._loop.time()
        arrival = _Arrival(connection, host, protocol, now_s + self._first_request_seconds_max)
        arrival.since_s = now_s
        self._silent[protocol] = arrival
        self._by_host[host] = self._by_host.get(host, 0) + 1
        arrival.opening = awaited(self._open(arrival, tls), name="open a connection", loop=self._loop)
        arrival.opening.add_done_callback(lambda opening: self._opened(arrival, opening))
        if self._timer is None:
            self._timer = self._loop.call_at(arrival.until_s, self._look)
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._look_seconds, self._look_for_gone)

    async def _open(self, arrival: _Arrival, tls: Callable[[], ssl.SSLContext] | None) -> None:
        """Shake hands, and give the connection to its protocol."""
        handshake_s = None if tls is None else self._handshake_seconds_max
        transport, _ = await self._loop.connect_accepted_socket(
            lambda: arrival.protocol,
            arrival.connection,
            ssl=None if tls is None else tls(),
            ssl_handshake_timeout=handshake_s,
        )
        arrival.transport = cast(asyncio.WriteTransport, transport)

    def _opened(self, arrival: _Arrival, opening: asyncio.Task[None]) -> None:
        """Close what came to nothing, however far it had come: who is dropped at once has not even begun."""
        error = None if opening.cancelled() else opening.exception()
        if not opening.cancelled() and error is None:
            return
        if error is not None and not isinstance(error, OSError):  # ssl.SSLError is an OSError
            log.error("a connection could not be opened", exc_info=error)
        else:
            log.debug("a connection came to nothing: %r", error)
        arrival.connection.close()
        self.gone(arrival.protocol)

    def _makes_room(self, host: str) -> bool:
        """Push out who has to go for a connection of an address; False where nobody can."""
        if len(self._silent) >= self._silent_max:
            self._say(f"{self._silent_max} connections have asked for nothing: the oldest make room")
            self._push_out(next(iter(self._silent.values())))
        is_full = self.connections >= self.connections_max
        if not is_full and self._by_host.get(host, 0) < self._host_max:
            return True
        self._forget_gone()
        is_full = self.connections >= self.connections_max
        if not is_full and self._by_host.get(host, 0) < self._host_max:
            return True
        bound, of = (self.connections_max, "are open") if is_full else (self._host_max, f"are open from {host}")
        self._say(f"{bound} connections {of}: those for which nothing has been done for longest make room")
        found = self._longest(None if is_full else host)
        if found is not None:
            self._push_out(found)
        return found is not None

    def _longest(self, host: str | None) -> _Arrival | None:
        """Return whoever is to go first, of an address where one is given."""
        firsts = [
            next((each for each in among.values() if host is None or each.host == host), None)
            for among in (self._silent, self._idle)
        ]
        unbusy = [each for each in firsts if each is not None]
        if unbusy:
            return min(unbusy, key=lambda each: each.since_s)
        of_host = (each for each in self._busy.values() if host is None or each.host == host)
        return next((each for each in of_host if not all(is_whole() for is_whole in each.asks.values())), None)

    def _push_out(self, arrival: _Arrival) -> None:
        self.gone(arrival.protocol)
        arrival.drop()

    def _say(self, words: str) -> None:
        now_s = self._loop.time()
        if now_s >= self._says_from_s:
            self._says_from_s = now_s + SAYS_AGAIN_S
            log.warning("%s", words)

    def _forget_gone(self) -> None:
        for among in (self._silent, self._idle, self._busy):
            for protocol in [protocol for protocol, each in among.items() if each.is_gone]:
                self.gone(protocol)

    def _look_for_gone(self) -> None:
        """Forget connections that have ended, and end those that do not read what they were answered."""
        self._forget_gone()
        since_s = self._loop.time() - self._idle_seconds_max
        for each in [each for each in self._idle.values() if each.since_s <= since_s]:
            self._push_out(each)
        self._sweep = self._loop.call_later(self._look_seconds, self._look_for_gone) if self.connections else None

    def _look(self) -> None:
        """Close who has had his time."""
        self._timer = None
        now_s = self._loop.time()
        while self._silent:
            protocol, arrival = next(iter(self._silent.items()))
            if arrival.until_s > now_s:
                self._timer = self._loop.call_at(arrival.until_s, self._look)
                return
            self.gone(protocol)
            arrival.drop()


def _descriptors() -> int:
    """Return how many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


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
