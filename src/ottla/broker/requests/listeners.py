"""The addresses that a node listens on, and the connections that come in through them."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace

from ottla.base import Offload
from ottla.broker.requests.answer_memory import AnswerMemory
from ottla.broker.requests.authentication_counts import AuthenticationCounts
from ottla.broker.requests.connection import Connection, RequestSink
from ottla.broker.requests.encryption import ListenerTls
from ottla.config import BrokerConfig, Listener
from ottla.net import FrameProtocol, Network, ReceiveBuffer, RequestMemory, Server, TlsBuffer, TlsProtocol

__all__ = ["BoundListener", "Listeners"]

log = logging.getLogger(__name__)

SCRATCH_BYTES = 256 * 1024
"""Memory that pieces of files are read into, before they are encrypted: it stays in the L2 cache."""


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A listener with the port that it got."""

    listener: Listener
    host: str
    port: int


class Listeners:
    """Opens and closes a node's listeners; all connections of the loop share one receive buffer."""

    def __init__(
        self,
        network: Network,
        *,
        config: Callable[[], BrokerConfig],
        loop: asyncio.AbstractEventLoop,
        offload: Offload,
        memory: AnswerMemory,
        authentications: AuthenticationCounts,
    ) -> None:
        self._network = network
        self._config = config
        self._loop = loop
        self._offload = offload
        self._memory = memory
        self._authentications = authentications
        self.requests = RequestMemory(config().settings.queued_max_request_bytes, loop=loop)
        self._buffer = ReceiveBuffer(requests=self.requests)
        self._tls_buffer: TlsBuffer | None = None
        self._scratch: memoryview | None = None
        """What pieces of files are read into on their way into TLS."""
        self._servers: list[Server] = []
        self._closed: list[Server] = []
        """Those of them that do not accept yet."""
        self.bound: list[BoundListener] = []

    async def open(
        self,
        listener: Listener,
        router: RequestSink,
        *,
        is_controller: bool,
        tls: ListenerTls | None = None,
        secured: Callable[[Connection], None] = lambda connection: None,
        accepts: bool = True,
    ) -> BoundListener:
        """Listen, in clear without `tls`; raises OSError where the address is taken.

        `secured` hears of a connection that has shaken hands, where nobody logs in after that. Without `accepts` the port
        is taken and known, and whoever comes is refused until `accept`.
        """
        config = self._config()
        frame_bytes_max = config.settings.socket_request_max_bytes
        if tls is not None and self._tls_buffer is None:
            self._tls_buffer, self._scratch = TlsBuffer(), memoryview(bytearray(SCRATCH_BYTES))

        def accept() -> FrameProtocol | TlsProtocol:
            connection = Connection(
                router,
                listener.name,
                is_controller=is_controller,
                loop=self._loop,
                offload=self._offload,
                memory=self._memory,
                scratch=None if tls is None else self._scratch,
            )
            frames = FrameProtocol(connection, buffer=self._buffer, frame_bytes_max=frame_bytes_max)
            if tls is None:
                return frames
            return self._below(frames, connection, tls, secured)

        server = await self._network.listen(
            listener.host,
            listener.port,
            accept,
            backlog=config.settings.socket_listen_backlog_size,
            accepts=accepts,
        )
        self._servers.append(server)
        if not accepts:
            self._closed.append(server)
        bound = BoundListener(listener, server.host, server.port)
        self.bound.append(bound)
        return bound

    def _below(
        self, frames: FrameProtocol, connection: Connection, tls: ListenerTls, heard: Callable[[Connection], None]
    ) -> TlsProtocol:
        """Return the TLS below one connection's frames."""
        listener, counts = tls.listener, self._authentications
        logs_in = listener.protocol.logs_in

        def secured(session: ssl.SSLObject) -> None:
            if logs_in:
                return  # who it is the login says, and it is counted there
            principal = tls.principal(session)
            if principal is not None:
                connection.connected = replace(connection.connected, principal=principal)
            counts.succeeded[listener.name] += 1
            heard(connection)

        def failed(reason: str) -> None:
            counts.failed[listener.name] += 1
            connection.complain(reason)

        assert self._tls_buffer is not None
        return TlsProtocol(
            frames,
            tls.context,
            loop=self._loop,
            buffer=self._tls_buffer,
            is_server=True,
            failure_delay_s=self._config().settings.connection_failed_authentication_delay_ms / 1000,
            secured=secured,
            failed=failed,
        )

    @property
    def told(self) -> tuple[Listener, ...]:
        """All that are open, with the addresses and ports that they have."""
        return tuple(
            replace(each.listener, host=each.listener.host or each.host, port=each.port) for each in self.bound
        )

    async def accept(self) -> None:
        """Let clients in through all listeners that are open; raises OSError where an address was taken meanwhile."""
        while self._closed:
            await self._closed.pop(0).accept()

    async def close(self) -> None:
        """Stop listening; what is connected stays connected."""
        self._closed.clear()
        for server in self._servers:
            await server.close()
        self._servers.clear()
