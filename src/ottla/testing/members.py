"""Who is in the groups of a broker under a turned clock, by what comes over its connections.

Clients send heartbeats by their own clocks, which nobody turns: an hour that passes in a second would take every living
member's session. So time goes only as far as the sessions of those who live allow, and then waits, in real time, for their
next heartbeats. Who lives: whose connection is open, who is not silenced, and who has not kept time waiting for too long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ottla.base import WireError
from ottla.net import Network, ProtocolFactory, Server, TcpNetwork
from ottla.wire import APIS, ApiKey, RequestHeader, decode, read_request_header

__all__ = ["ListeningNetwork", "Members"]

log = logging.getLogger(__name__)

P = TypeVar("P", bound=asyncio.BaseProtocol)
OF_SESSION = 0.9
"""How much of its session may pass before a member has to be heard again."""
CLASSIC_SESSION_MS = 45_000
"""Of a member whose JoinGroup came over another connection."""
HEADER_BYTES = 4
FRAME_BYTES_MAX = 1 << 20
"""Of a frame that is looked into; what keeps a session is small."""
LEAVES_FROM = 0
"""Epochs below it mean that a member leaves (KIP-848)."""
LOOKED_AT = frozenset(
    {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT}
)


@dataclass(slots=True, eq=False)
class _Connection:
    """A client's connection: what is held of its stream, and its member's session timeouts by group."""

    transport: asyncio.Transport
    held: bytearray = field(default_factory=bytearray)
    skip: int = 0
    """Bytes of a frame that nobody looks into."""
    client_id: str | None = None
    session_ms: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Member:
    connection: _Connection
    heard: float
    session_s: float
    waited_s: float = 0.0
    is_given_up: bool = False


class Members:
    """Follows what clients say; all of it in the broker's loop."""

    def __init__(self, *, consumer_session_ms: int, patience_s: float) -> None:
        """`patience_s` is how long, in real time, a heartbeat is waited for before its member counts as gone."""
        self._consumer_session_ms, self._patience_s = consumer_session_ms, patience_s
        self._members: dict[tuple[str, str], _Member] = {}
        self._connections: set[_Connection] = set()
        self._silenced: set[str] = set()
        self.time: Callable[[], float] = lambda: 0.0
        """The loop's time."""

    # -- what the clock asks

    def limit(self) -> float | None:
        """Return how far time may go until somebody must be heard again; None where nobody is waited for."""
        found = [each.heard + each.session_s * OF_SESSION for each in self._living()]
        return min(found, default=None)

    def are_heard(self, since: float) -> bool:
        """Return whether every living member has been heard since then."""
        return all(each.heard >= since for each in self._living())

    def waited(self, seconds: float, *, since: float | None) -> float:
        """Take note of real seconds that were waited, and return how many more there are; see `Heartbeats.waited`."""
        now, left = self.time(), self._patience_s
        for each in self._living():
            if each.heard >= since if since is not None else each.heard + each.session_s * OF_SESSION > now:
                continue
            each.waited_s += seconds
            left = min(left, self._patience_s - each.waited_s)
            if each.waited_s >= self._patience_s:
                log.warning("Client %s sends no heartbeat: its session ends", each.connection.client_id)
                each.is_given_up = True
        return max(left, 0.001)

    def _living(self) -> list[_Member]:
        return [
            each
            for each in self._members.values()
            if not each.is_given_up and each.connection.client_id not in self._silenced
        ]

    # -- what the test says

    def silence(self, client_id: str) -> None:
        """Read no more from a client, whatever it sends; it is not waited for."""
        self._silenced.add(client_id)
        for each in self._connections:
            if each.client_id == client_id:
                each.transport.pause_reading()

    def hear(self, client_id: str) -> None:
        """Read from a client again."""
        self._silenced.discard(client_id)
        for each in self._connections:
            if each.client_id == client_id and not each.transport.is_closing():
                each.transport.resume_reading()

    # -- what comes over connections

    def opened(self, transport: asyncio.Transport) -> _Connection:
        """Take a connection."""
        made = _Connection(transport)
        self._connections.add(made)
        return made

    def closed(self, connection: _Connection) -> None:
        """Forget a connection, and the members that were heard by it."""
        self._connections.discard(connection)
        self._forget(lambda group, member: self._members[group, member].connection is connection)

    def read(self, connection: _Connection, data: memoryview) -> None:
        """Look at what has come, after the broker has got it."""
        skipped = min(connection.skip, len(data))
        connection.skip -= skipped
        connection.held += data[skipped:]
        while len(connection.held) >= HEADER_BYTES:
            size = int.from_bytes(connection.held[:HEADER_BYTES], "big")
            whole = HEADER_BYTES + size
            if len(connection.held) < whole:
                if size > FRAME_BYTES_MAX:
                    connection.skip = whole - len(connection.held)
                    connection.held.clear()
                return
            frame = bytes(connection.held[HEADER_BYTES:whole])
            del connection.held[:whole]
            try:
                self._frame(connection, frame)
            except WireError:  # the broker has seen it too, and ends the connection
                return
        if connection.client_id in self._silenced:
            connection.transport.pause_reading()

    def _frame(self, connection: _Connection, frame: bytes) -> None:
        header, body = read_request_header(frame)
        connection.client_id = header.client_id
        spec = APIS.get(header.api_key)
        if spec is None or header.api_key not in LOOKED_AT:
            return
        if spec.min_version <= header.api_version <= spec.max_version:
            self._heard(connection, header, decode(spec.request, frame, header.api_version, body)[0])

    def _heard(self, connection: _Connection, header: RequestHeader, request: Any) -> None:
        match header.api_key:
            case ApiKey.JOIN_GROUP:
                connection.session_ms[request.group_id] = request.session_timeout_ms
                self._forget(
                    lambda group, member: (
                        group == request.group_id and self._members[group, member].connection is connection
                    )
                )
            case ApiKey.HEARTBEAT | ApiKey.SYNC_GROUP:
                known = self._members.get((request.group_id, request.member_id))
                session_ms = connection.session_ms.get(request.group_id, CLASSIC_SESSION_MS)
                if known is not None and request.group_id not in connection.session_ms:
                    session_ms = int(known.session_s * 1000)
                self._keep(connection, request, session_ms)
            case ApiKey.LEAVE_GROUP:
                left = {request.member_id, *(each.member_id for each in request.members)}
                self._forget(lambda group, member: group == request.group_id and member in left)
            case ApiKey.CONSUMER_GROUP_HEARTBEAT if request.member_epoch < LEAVES_FROM:
                self._members.pop((request.group_id, request.member_id), None)
            case ApiKey.CONSUMER_GROUP_HEARTBEAT:
                self._keep(connection, request, self._consumer_session_ms)

    def _keep(self, connection: _Connection, request: Any, session_ms: int) -> None:
        key = request.group_id, request.member_id
        self._members[key] = _Member(connection, self.time(), session_ms / 1000)

    def _forget(self, which: Callable[[str, str], bool]) -> None:
        for key in [each for each in self._members if which(*each)]:
            del self._members[key]


class ListeningNetwork:
    """TCP, with `Members` told of what clients send."""

    def __init__(self, members: Members) -> None:
        self._network: Network = TcpNetwork()
        self._members = members

    async def listen(
        self, host: str, port: int, protocol_factory: ProtocolFactory, *, backlog: int = 50, accepts: bool = True
    ) -> Server:
        """As `Network.listen`."""
        return await self._network.listen(
            host, port, lambda: _Listened(self._members, protocol_factory()), backlog=backlog, accepts=accepts
        )

    async def connect(self, host: str, port: int, protocol_factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        """As `Network.connect`."""
        return await self._network.connect(host, port, protocol_factory)


class _Listened(asyncio.BufferedProtocol):
    """Passes everything on to the broker's own protocol, and tells `Members` what has come."""

    def __init__(self, members: Members, inner: asyncio.BaseProtocol) -> None:
        assert isinstance(inner, asyncio.BufferedProtocol)
        self._members, self._inner = members, inner
        self._connection: _Connection | None = None
        self._buffer: Any = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._connection = self._members.opened(transport)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._members.closed(self._connection)
        self._inner.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> Any:
        self._buffer = self._inner.get_buffer(sizehint)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        seen = bytes(memoryview(self._buffer)[:nbytes])
        self._buffer = b""
        self._inner.buffer_updated(nbytes)
        if self._connection is not None:
            self._members.read(self._connection, memoryview(seen))

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
