"""The `Network` seam and its implementation on TCP."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Protocol, TypeVar, cast

__all__ = ["Network", "ProtocolFactory", "Server", "TcpNetwork"]

P = TypeVar("P", bound=asyncio.BaseProtocol)
ProtocolFactory = Callable[[], asyncio.BaseProtocol]
"""Makes the protocol of one accepted connection."""

BACKLOG_DEFAULT = 50
"""Kafka's `socket.listen.backlog.size`."""


class Server(Protocol):
    """A listening address; `host` and `port` are what it is bound to."""

    @property
    def host(self) -> str:
        """The address that it listens on."""
        ...

    @property
    def port(self) -> int:
        """The port that it listens on, chosen by the system where 0 was asked for."""
        ...

    async def accept(self) -> None:
        """Begin to accept, where that was put off; raises OSError where somebody else has done so on the address."""
        ...

    async def close(self) -> None:
        """Stop accepting; connections that are open stay open."""
        ...


class Network(Protocol):
    """How bytes reach other processes.

    Transports are asyncio's: `write`, `writelines`, `pause_reading`, `resume_reading`, `close`, `abort`, `is_closing`,
    `get_write_buffer_size`, `set_write_buffer_limits`, `get_extra_info("peername"|"sockname"|"socket")`; a simulated
    transport returns None for "socket". A transport calls `get_buffer` and then at once `buffer_updated` for the same
    read.
    """

    async def listen(
        self,
        host: str,
        port: int,
        protocol_factory: ProtocolFactory,
        *,
        backlog: int = BACKLOG_DEFAULT,
        accepts: bool = True,
    ) -> Server:
        """Accept connections on an address, each with a new protocol; raises OSError where the address is taken.

        Without `accepts` the address is taken, and whoever connects is refused until the server's `accept` is called.
        """
        ...

    async def connect(self, host: str, port: int, protocol_factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        """Open a connection; raises OSError where nobody answers."""
        ...


class _TcpServer:
    """An asyncio server with one socket per resolved address."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        address = server.sockets[0].getsockname()
        self.host: str = address[0]
        self.port: int = address[1]

    async def accept(self) -> None:
        """Begin to accept; raises OSError where another process has done so meanwhile: uvloop does not tell."""
        await self._server.start_serving()
        for each in self._server.sockets:
            with socket.socket(fileno=os.dup(each.fileno())) as own:
                if not own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    raise OSError(errno.EADDRINUSE, f"{os.strerror(errno.EADDRINUSE)}: {self.host}:{self.port}")

    async def close(self) -> None:
        """Stop accepting."""
        self._server.close()


class TcpNetwork:
    """TCP through the running event loop, with Nagle's algorithm off."""

    async def listen(
        self,
        host: str,
        port: int,
        protocol_factory: ProtocolFactory,
        *,
        backlog: int = BACKLOG_DEFAULT,
        accepts: bool = True,
    ) -> Server:
        """Accept connections on an address; an empty host means every interface."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            protocol_factory, host or None, port, backlog=backlog, reuse_address=True, start_serving=accepts
        )
        return _TcpServer(server)

    async def connect(self, host: str, port: int, protocol_factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        """Open a connection."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(protocol_factory, host, port)
        connection = cast("socket.socket | None", transport.get_extra_info("socket"))
        if connection is not None:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return transport, protocol
