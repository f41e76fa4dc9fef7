"""A client in a simulated world: one connection, requests by the wire room's codec, answers checked to be in order."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from random import Random
from typing import TypeVar

from ottla.wire import APIS, Message, encode_request, read_response
from tests.sim.ledger import Violation
from tests.sim.network import Endpoint, HostNetwork

__all__ = ["Connection", "NoAnswer"]

M = TypeVar("M", bound=Message)
ANSWER_SECONDS_MAX = 4.0


class NoAnswer(Exception):
    """The connection ended, or nothing came in time: what was asked may have been done, or not."""


class Connection(asyncio.Protocol):
    """Speaks Kafka's protocol from a client's host."""

    is_vandal = False
    """True for one that sends what it does not count."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.seen: dict[str, int] = {}
        """The highest high watermark that was told here, by partition."""
        self._data = bytearray()
        self._waiting: deque[tuple[int, asyncio.Future[bytes]]] = deque()
        self._correlation_id = 0
        self._lost = False
        self._corked: list[bytes] | None = None
        self.transport: Endpoint

    @classmethod
    async def open(cls, network: HostNetwork, host: str, port: int, rng: Random) -> Connection:
        """Connect; raises NoAnswer where that fails."""
        try:
            _, connection = await network.connect(host, port, lambda: cls(rng))
        except OSError as error:
            raise NoAnswer(str(error)) from error
        assert isinstance(connection, Connection)
        return connection

    @property
    def is_open(self) -> bool:
        """True until the connection is lost or closed."""
        return not self._lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, Endpoint)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= 4:
            size = struct.unpack_from(">i", self._data)[0]
            if len(self._data) < 4 + size:
                return
            frame = bytes(self._data[4 : 4 + size])
            del self._data[: 4 + size]
            if not self._waiting:
                if self.is_vandal:
                    continue
                raise Violation("an answer came that nobody asked for")
            expected, future = self._waiting.popleft()
            found = struct.unpack_from(">i", frame)[0]
            if found != expected:
                raise Violation(f"{self.transport.name}: answer {found} came where {expected} was due")
            if not future.done():
                future.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(NoAnswer("connection lost"))
                future.exception()
        self._waiting.clear()

    def version_of(self, api_key: int) -> int:
        """Draw one of the stable versions."""
        spec = APIS[api_key]
        return spec.min_version + self.rng.randrange(spec.max_version - spec.min_version + 1)

    def send(self, request: Message, version: int, *, answered: bool = True) -> asyncio.Future[bytes]:
        """Write a request; the future is its answer's frame."""
        if self._lost:
            raise NoAnswer("connection lost")
        self._correlation_id += 1
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if answered:
            self._waiting.append((self._correlation_id, future))
        data = encode_request(request, version, self._correlation_id, "sim")
        if self._corked is None:
            self.transport.write(data)
        else:
            self._corked.append(data)
        return future

    def cork(self) -> None:
        """Keep what is sent from now on for one write."""
        self._corked = []

    def uncork(self) -> None:
        """Write what was kept, if something was."""
        corked, self._corked = self._corked, None
        if corked and not self._lost:
            self.transport.write(b"".join(corked))

    async def receive(self, cls: type[M], future: asyncio.Future[bytes], api_key: int, version: int) -> M:
        """Wait for an answer; after NoAnswer the connection is closed, so that nothing of it happens much later."""
        try:
            frame = await asyncio.wait_for(future, ANSWER_SECONDS_MAX)
        except TimeoutError:
            self.close()
            raise NoAnswer("no answer in time") from None
        return read_response(cls, frame, api_key, version)[1]

    async def ask(self, request: Message, cls: type[M], version: int | None = None) -> M:
        """Send a request and return its answer."""
        key = request.API_KEY
        assert key is not None
        chosen = self.version_of(key) if version is None else version
        return await self.receive(cls, self.send(request, chosen), key, chosen)

    def close(self) -> None:
        """Break the connection."""
        self._lost = True
        self.transport.abort()
