"""How many connections there may be, in all and from one address, and how long one may be idle."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress

from ottla.broker.requests.authentication_counts import AuthenticationCounts
from ottla.broker.requests.connection import Connection
from ottla.config import BrokerSettings
from ottla.log import files_open_max

__all__ = ["ConnectionLimits", "connections_room"]

log = logging.getLogger(__name__)

UNLIMITED = 2**31 - 1
"""What `max.connection.creation.rate` is where it is not wanted."""
SWEEPS_PER_IDLE_TIME = 10
"""An idle connection is closed at most a tenth of the allowed time late."""
SWEEP_INTERVAL_S_MAX = 60.0
RESERVE_SHARE = 8
"""One in so many of the process's descriptors is neither for files nor for clients: pages, other brokers, what is short."""
BROKERS_SHARE = 16
"""Brokers that connect may be one in so many more than clients, where they have a listener to themselves."""
PUSHED_OUT_SHARE = 16
"""One in so many of the idle connections goes, where there is no descriptor left for another: looking costs all of them."""
SAYS_AGAIN_S = 10.0
"""How often it is said, at most, that there were too many."""
CLOSE_S_MAX = 1.0
"""How long a stop waits for clients to take the answers that were written to them."""


def connections_room(descriptors: int | None = None) -> int:
    """Return for how many clients' connections there are descriptors, of those that the process may have.

    A flood of connections takes none that files need: a checkpoint or a segment that cannot be opened is worse.
    """
    if descriptors is None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        descriptors = 1 << 20 if soft == resource.RLIM_INFINITY else soft
    return max(descriptors - files_open_max(descriptors) - descriptors // RESERVE_SHARE, 1)


class ConnectionLimits:
    """Counts the broker's connections; follows `max.connections`, `…per.ip` and `connections.max.idle.ms` live.

    `throttle_ms` counts a new connection of an address against its quota: above 0 it is one too many, and is closed after
    so long without having been served (KIP-612), so that a client in a loop cannot come back at once. `hold_back_ms` counts
    one against `max.connection.creation.rate`: what comes faster is served later, brokers' own connections excepted where
    they have a listener to themselves.

    Beyond `room`, what the process's descriptors allow, those make room that came too fast, then those that have asked for
    nothing, the oldest first, and then those that have been idle for longest.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: Callable[[], BrokerSettings],
        throttle_ms: Callable[[str], int] = lambda host: 0,
        *,
        hold_back_ms: Callable[[int], int] = lambda rate_max: 0,
        unlimited_listener: str | None = None,
        room: int | None = None,
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._throttle_ms = throttle_ms
        self._hold_back_ms = hold_back_ms
        self._unlimited_listener = unlimited_listener
        self._room = connections_room() if room is None else room
        self._brokers_room = self._room // BROKERS_SHARE
        self._silent: OrderedDict[Connection, None] = OrderedDict()
        """The oldest first; some have asked for something since."""
        self._says_from_s = 0.0
        self.pushed_out = 0
        """Connections that had to make room since the start."""
        self._refused: dict[Connection, asyncio.TimerHandle] = {}
        self.created: dict[str, int] = {}
        """Connections that were ever served, by listener."""
        self.authentications = AuthenticationCounts()
        self._closed_received = 0
        self._closed_sent = 0
        self._by_host: dict[str, int] = {}
        self._open: dict[Connection, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._open)

    @property
    def received_bytes(self) -> int:
        """Bytes of requests since the start, without their length prefixes."""
        return self._closed_received + sum(each.received_bytes for each in self._open)

    @property
    def sent_bytes(self) -> int:
        """Bytes of answers since the start."""
        return self._closed_sent + sum(each.sent_bytes for each in self._open)

    def opened(self, connection: Connection) -> bool:
        """Count a connection; False where it is one too many."""
        settings = self._settings()
        host = connection.connected.client_host
        overrides = dict(each.split(":") for each in settings.max_connections_per_ip_overrides.split(",") if each)
        per_host_max = int(overrides.get(host, settings.max_connections_per_ip))
        if len(self._open) >= settings.max_connections:
            connection.complain(f"max.connections ({settings.max_connections}) are open")
            return False
        if self._by_host.get(host, 0) >= per_host_max:
            connection.complain(f"max.connections.per.ip ({per_host_max}) are open from {host}")
            return False
        if not self._makes_room(connection):
            return False
        throttle_ms = self._throttle_ms(host)
        if throttle_ms > 0:
            connection.frames.pause_reading()
            self._refused[connection] = self._loop.call_later(throttle_ms / 1000, connection.close)
            return True
        listener = connection.connected.listener
        rate_max = settings.max_connection_creation_rate
        if rate_max < UNLIMITED and listener != self._unlimited_listener:
            held_back_ms = self._hold_back_ms(rate_max)
            if held_back_ms > 0:
                connection.mute(held_back_ms)
        self.created[listener] = self.created.get(listener, 0) + 1
        self._open[connection] = host
        self._silent[connection] = None
        self._by_host[host] = self._by_host.get(host, 0) + 1
        if self._timer is None:
            self._set_timer()
        return True

    def closed(self, connection: Connection) -> None:
        """Count a connection no more."""
        refused = self._refused.pop(connection, None)
        if refused is not None:
            refused.cancel()
        self._silent.pop(connection, None)
        host = self._open.pop(connection, None)
        if host is None:
            return
        self._closed_received += connection.received_bytes
        self._closed_sent += connection.sent_bytes
        left = self._by_host[host] - 1
        if left:
            self._by_host[host] = left
        else:
            del self._by_host[host]
        if self._emptied is not None and not self._open:
            self._emptied.set()

    def _makes_room(self, connection: Connection) -> bool:
        """Close who has to go where the descriptors do not suffice; False where nobody can."""
        of_broker = connection.connected.listener == self._unlimited_listener
        room = self._room + (self._brokers_room if of_broker else 0)
        if len(self._open) + len(self._refused) < room:
            return True
        now_s = self._loop.time()
        if now_s >= self._says_from_s:
            self._says_from_s = now_s + SAYS_AGAIN_S
            log.warning("%s connections are open, as many as there are descriptors for: silent and idle ones go", room)
        refused = next(iter(self._refused), None)
        if refused is not None:
            self._push_out(refused)
            return True
        while self._silent:
            silent, _ = self._silent.popitem(last=False)
            if silent.connected.listener == self._unlimited_listener and not of_broker:
                continue
            if not silent.received_bytes and not silent.is_closed:
                self._push_out(silent)
                return True
        idle = [each for each in self._open if not each.is_busy and each.connected.listener != self._unlimited_listener]
        idle.sort(key=Connection.active_s)
        gone = idle[: len(idle) // PUSHED_OUT_SHARE + 1]
        for each in gone:
            self._push_out(each)
        if not gone:
            connection.complain(f"{room} connections are open, and all are busy")
        return bool(gone)

    def _push_out(self, connection: Connection) -> None:
        self.pushed_out += 1
        self.closed(connection)
        connection.frames.transport.abort()

    async def close_all(self) -> None:
        """Close every connection once it has taken what it was answered; who takes nothing is cut off after a while."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in (*self._refused, *self._open):
            connection.close()
        if self._open:
            self._emptied = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), CLOSE_S_MAX)
        for connection in list(self._open):
            connection.frames.transport.abort()
        await asyncio.sleep(0)

    def _set_timer(self) -> None:
        idle_s = self._settings().connections_max_idle_ms / 1000
        self._timer = None
        if idle_s > 0:
            interval_s = min(idle_s / SWEEPS_PER_IDLE_TIME, SWEEP_INTERVAL_S_MAX)
            self._timer = self._loop.call_later(interval_s, self._close_idle)

    def _close_idle(self) -> None:
        idle_s = self._settings().connections_max_idle_ms / 1000
        idle_since_s = self._loop.time() - idle_s
        for connection in list(self._open):
            if connection.is_busy or connection.active_s() > idle_since_s:
                continue
            if connection.is_closed:  # before, and its client still has not taken what it was answered
                connection.frames.transport.abort()
            else:
                connection.close()
        if self._open:
            self._set_timer()
        else:
            self._timer = None
