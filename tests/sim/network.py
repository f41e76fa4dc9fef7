"""A network of in-memory connections with weather: latency, arbitrary chunking, resets, silence, one-way partitions.

Rules of the model:

- A connection is two endpoints. Bytes that an endpoint writes go to its kernel while the window has room, else they
  wait in the transport's write buffer, which pauses and resumes its protocol as asyncio's transports do.
- Bytes arrive in order, each chunk after its own latency, and are handed over in reads of arbitrary size.
- A link is one direction between two hosts. A blocked link holds what arrives until it is healed (TCP sends it again);
  connecting over it takes until it is healed or times out.
- When a process is killed its kernel closes its connections: what the process had written still arrives, then the end.
- When a host loses power its peers hear nothing. Their next bytes are answered with a reset if the host is back up,
  and by a timeout if it is not.
- Events of the kernel belong to no process; callbacks into protocols run in the process that owns the endpoint.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.sim.loop import SimLoop
from tests.sim.process import PROCESS, Process
from tests.sim.trace import Trace

__all__ = ["CALM", "Endpoint", "Fabric", "HostNetwork", "Listener", "Weather"]

Factory = Callable[[], asyncio.BaseProtocol]
KERNEL = Context()
"""The context of events that survive every process."""
WINDOW_BYTES = 256 * 1024
"""What a kernel holds for one direction: sent and not yet read."""
CONNECT_SECONDS_MAX = 5.0
TINY_SPACING_S = 1e-7
"""Chunks of one direction never arrive at the same instant, so their order is never a tie."""
LOOPBACK = frozenset({"", "0.0.0.0", "127.0.0.1", "localhost", "::", "::1"})
FIN = b""
"""In a pipe: the sender closed after what came before."""


@dataclass(frozen=True)
class Weather:
    """How a world's network behaves, drawn once per world."""

    latency_ms: tuple[float, float] = (0.05, 1.0)
    spike_chance: float = 0.0
    spike_ms: float = 200.0
    chunk_bytes_max: int = 64 * 1024
    read_bytes_max: int = 256 * 1024


CALM = Weather()


class Fabric:
    """All hosts, links and connections of a world."""

    def __init__(self, loop: SimLoop, rng: Random, trace: Trace, weather: Weather = CALM) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.weather = weather
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.endpoints: dict[int, Endpoint] = {}
        self._blocked: dict[tuple[str, str], None] = {}
        self._holding: dict[int, Endpoint] = {}
        self._up: dict[str, bool] = {}
        self._next_port = 40_000
        self._next_number = 0

    def host(self, name: str) -> HostNetwork:
        """Return the network as seen from a host, adding the host."""
        self._up[name] = True
        return HostNetwork(self, name)

    def is_up(self, name: str) -> bool:
        """True unless the host is without power."""
        return self._up.get(name, False)

    def power_off(self, name: str) -> None:
        """Silence a host: its listeners and endpoints are gone and nobody is told."""
        self.trace.note(f"{self.loop.time():.6f} net {name} is without power")
        self._up[name] = False
        self.listeners = {key: each for key, each in self.listeners.items() if key[0] != name}
        for endpoint in self.endpoints_of(name):
            endpoint.vanish()
        for number, endpoint in list(self._holding.items()):
            if endpoint.host == name:
                del self._holding[number]
                endpoint.vanish()

    def power_on(self, name: str) -> None:
        """Let a host be reached again."""
        self._up[name] = True

    def endpoints_of(self, name: str) -> list[Endpoint]:
        """The open endpoints on a host, oldest first."""
        return [each for each in self.endpoints.values() if each.host == name]

    def block(self, source: str, target: str) -> None:
        """Stop one direction between two hosts."""
        if (source, target) not in self._blocked:
            self.trace.note(f"{self.loop.time():.6f} net block {source}>{target}")
            self._blocked[source, target] = None

    def heal(self, source: str, target: str) -> None:
        """Let one direction flow again; what was held arrives."""
        if (source, target) not in self._blocked:
            return
        del self._blocked[source, target]
        self.trace.note(f"{self.loop.time():.6f} net heal {source}>{target}")
        for number, endpoint in list(self._holding.items()):
            if {endpoint.host, endpoint.peer_host} == {source, target}:
                del self._holding[number]
                endpoint.release()

    def is_blocked(self, source: str, target: str) -> bool:
        """True where bytes from source to target are held."""
        return (source, target) in self._blocked

    def hold(self, endpoint: Endpoint) -> None:
        """Remember an endpoint whose sent bytes wait for a heal."""
        self._holding[endpoint.number] = endpoint

    def reset_one(self) -> bool:
        """Break a connection of the seed's choice, as a middlebox does; False where there is none."""
        open_ones = [each for each in self.endpoints.values() if each.is_open]
        if not open_ones:
            return False
        chosen = open_ones[self.rng.randrange(len(open_ones))]
        self.trace.note(f"{self.loop.time():.6f} net reset {chosen.name}")
        chosen.peer.broken(ConnectionResetError("connection reset by peer"))
        chosen.broken(ConnectionResetError("connection reset by peer"))
        return True

    def latency_s(self) -> float:
        """Draw the time that one chunk takes."""
        low, high = self.weather.latency_ms
        delay = low + (high - low) * self.rng.random()
        if self.weather.spike_chance and self.rng.random() < self.weather.spike_chance:
            delay += self.weather.spike_ms * self.rng.random()
        return delay / 1000

    def port(self) -> int:
        """Return an unused port."""
        self._next_port += 1
        return self._next_port

    def number(self) -> int:
        """Return the next endpoint's number."""
        self._next_number += 1
        return self._next_number


class Listener:
    """A listening socket; `host` and `port` are where it is reached."""

    def __init__(self, fabric: Fabric, host: str, port: int, factory: Factory, *, accepts: bool) -> None:
        self.host = host
        self.port = port
        self.factory = factory
        self.accepts = accepts
        self.context = copy_context()
        self._fabric = fabric

    async def accept(self) -> None:
        """Begin to accept."""
        self.accepts = True

    async def close(self) -> None:
        """Stop listening; open connections stay."""
        self.forget()

    def forget(self) -> None:
        """Give the port back."""
        if self._fabric.listeners.get((self.host, self.port)) is self:
            del self._fabric.listeners[self.host, self.port]


class HostNetwork:
    """`ottla.net.Network` from one host."""

    def __init__(self, fabric: Fabric, name: str) -> None:
        self.name = name
        self._fabric = fabric

    async def listen(
        self, host: str, port: int, protocol_factory: Factory, *, backlog: int = 50, accepts: bool = True
    ) -> Listener:
        """Accept connections on this host; port 0 takes a free one; raises OSError where the port is taken."""
        port = port or self._fabric.port()
        if (self.name, port) in self._fabric.listeners:
            raise OSError(98, "Address already in use")
        listener = Listener(self._fabric, self.name, port, protocol_factory, accepts=accepts)
        self._fabric.listeners[self.name, port] = listener
        process = PROCESS.get()
        if process is not None:
            process.at_death.append(listener.forget)
        return listener

    async def connect(self, host: str, port: int, protocol_factory: Factory) -> tuple[Endpoint, Any]:
        """Open a connection; raises ConnectionRefusedError, or TimeoutError where the way is blocked or dark."""
        fabric = self._fabric
        target = self.name if host in LOOPBACK else host
        await self._reach(target)
        listener = fabric.listeners.get((target, port))
        if listener is None or not listener.accepts:
            raise ConnectionRefusedError(111, f"{target}:{port} refused the connection")
        near = Endpoint(fabric, self.name, (self.name, fabric.port()), copy_context())
        far = Endpoint(fabric, target, (target, port), listener.context.copy())
        near.pair(far)
        far.accept(listener.factory)
        await asyncio.sleep(fabric.latency_s())
        protocol = protocol_factory()
        near.made(protocol)
        return near, protocol

    async def _reach(self, target: str) -> None:
        """Wait one latency, longer over a blocked link or to a dark host."""
        fabric = self._fabric
        await asyncio.sleep(fabric.latency_s())
        deadline = fabric.loop.time() + CONNECT_SECONDS_MAX
        while True:
            held = fabric.is_blocked(self.name, target) or fabric.is_blocked(target, self.name)
            if not held and fabric.is_up(target):
                return
            left = deadline - fabric.loop.time()
            if left <= 0:
                raise TimeoutError(f"no answer from {target}")
            await asyncio.sleep(min(left, 0.2))


class Endpoint(asyncio.Transport):
    """One end of a connection: the transport that a protocol sees, and the kernel's socket behind it."""

    def __init__(self, fabric: Fabric, host: str, address: tuple[str, int], context: Context) -> None:
        super().__init__()
        self.host = host
        self.peer: Endpoint
        self.is_open = True
        self._fabric = fabric
        self._loop = fabric.loop
        self.number = fabric.number()
        self._address = address
        self._context = context
        self._protocol: asyncio.BaseProtocol | None = None
        self._outgoing: deque[bytes] = deque()
        self._outgoing_bytes = 0
        self._in_flight = 0
        self._last_arrival = 0.0
        self._held: list[bytes] = []
        self._incoming = bytearray()
        self._ended = False  # the peer's FIN has arrived
        self._fin_sent = False
        self._closing = False
        self._reading = True
        self._read_scheduled = False
        self._high = 64 * 1024
        self._low = 16 * 1024
        self._writing_paused = False
        self._dark = False
        self._resetting = False
        self._process: Process | None = context.get(PROCESS)
        if self._process is not None:
            self._process.at_death.append(self._died)
        fabric.endpoints[self.number] = self

    def pair(self, peer: Endpoint) -> None:
        """Join two endpoints into a connection."""
        self.peer = peer
        peer.peer = self
        self._fabric.trace.note(f"{self._loop.time():.6f} net open {self.name}")

    @property
    def name(self) -> str:
        """Both addresses."""
        return f"{self._address[0]}:{self._address[1]}>{self.peer._address[0]}:{self.peer._address[1]}"

    @property
    def peer_host(self) -> str:
        """The host at the other end."""
        return self.peer.host

    def __repr__(self) -> str:
        return f"<{self.name}>"

    # ---------------------------------------------------------------- beginning and end

    def accept(self, factory: Factory) -> None:
        """Make the listening side's protocol, in its process."""
        self._loop.call_soon(lambda: self.made(factory()), context=self._context)

    def made(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the transport to its protocol."""
        self._protocol = protocol
        protocol.connection_made(self)
        if not self.is_open:
            self._loop.call_soon(protocol.connection_lost, ConnectionResetError(), context=self._context)
            return
        self._schedule_read()

    def _died(self) -> None:
        """The process was killed: the kernel sends what it has, then the end."""
        if self._dark or not self.is_open:
            return
        self._outgoing.clear()
        self._outgoing_bytes = 0
        if not self._fin_sent:
            self._fin_sent = True
            self._send(FIN)
        self._gone()

    def vanish(self) -> None:
        """The host lost power: nothing more leaves from here, nobody is told."""
        self._dark = True
        self._gone()

    def _gone(self) -> None:
        self.is_open = False
        self._fabric.endpoints.pop(self.number, None)

    def broken(self, error: Exception | None) -> None:
        """The connection is over on this side; the protocol hears of it in its own process."""
        if not self.is_open:
            return
        self._gone()
        self._outgoing.clear()
        self._outgoing_bytes = 0
        self._incoming.clear()
        if self._protocol is not None:
            self._loop.call_soon(self._protocol.connection_lost, error, context=self._context)

    def close(self) -> None:
        """Stop reading, send what is buffered, then close."""
        if self._closing or not self.is_open:
            return
        self._closing = True
        self._reading = False
        self._pump()

    def abort(self) -> None:
        """Close now; buffered bytes are dropped and the peer's side is reset."""
        if not self.is_open:
            return
        self._closing = True
        self._held.clear()
        self._loop.call_later(self._fabric.latency_s(), self._reset_peer, context=KERNEL)
        self.broken(None)

    def _reset_peer(self) -> None:
        """The end of an aborted connection reaches the other side, or waits on a blocked link."""
        if self._dark:
            return
        if self._fabric.is_blocked(self.host, self.peer_host):
            self._resetting = True
            self._fabric.hold(self)
            return
        self.peer.broken(ConnectionResetError("connection reset by peer"))

    def is_closing(self) -> bool:
        """True after close or abort, or once the connection is lost."""
        return self._closing or not self.is_open

    # ---------------------------------------------------------------- writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, buffering what the kernel does not take."""
        if not self.is_open or self._closing or not len(data):
            return
        piece = bytes(data)
        self._outgoing.append(piece)
        self._outgoing_bytes += len(piece)
        self._pump()
        if self._outgoing_bytes > self._high and not self._writing_paused:
            self._writing_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        """Send several pieces."""
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        """Unsupported, as for TLS."""
        raise NotImplementedError

    def can_write_eof(self) -> bool:
        """False."""
        return False

    def _pump(self) -> None:
        """Move bytes from the write buffer to the kernel while the window has room."""
        room = WINDOW_BYTES - self._in_flight - len(self.peer._incoming)
        while self._outgoing and room > 0:
            piece = self._outgoing[0]
            size = min(len(piece), room, self._fabric.weather.chunk_bytes_max)
            if size > 1 and self._fabric.rng.random() < 0.2:
                size = 1 + self._fabric.rng.randrange(size)
            if size == len(piece):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = piece[size:]
                piece = piece[:size]
            self._outgoing_bytes -= size
            room -= size
            self._send(piece)
        if self._writing_paused and self._outgoing_bytes <= self._low and self._protocol is not None:
            self._writing_paused = False
            self._loop.call_soon(self._protocol.resume_writing, context=self._context)
        if self._closing and not self._outgoing and not self._fin_sent and self.is_open:
            self._fin_sent = True
            self._send(FIN)
            self.broken(None)

    def _send(self, piece: bytes) -> None:
        self._in_flight += len(piece)
        when = max(self._last_arrival + TINY_SPACING_S, self._loop.time() + self._fabric.latency_s())
        self._last_arrival = when
        self._loop.call_at(when, self._arrive, piece, context=KERNEL)

    def _arrive(self, piece: bytes) -> None:
        """A chunk reaches the other kernel, or is held on a blocked link."""
        if self._dark:
            return
        fabric = self._fabric
        unheard = not self.peer.is_open and fabric.is_blocked(self.peer_host, self.host)  # its reset would be held
        if self._held or unheard or fabric.is_blocked(self.host, self.peer_host):
            self._held.append(piece)
            self._fabric.hold(self)
            return
        self._in_flight -= len(piece)
        peer = self.peer
        if peer._dark:
            self._unanswered()
        elif not peer.is_open:
            if piece and self.is_open:
                self.broken(ConnectionResetError("connection reset by peer"))
        elif piece:
            peer._incoming += piece
            peer._schedule_read()
        else:
            peer._ended = True
            peer._schedule_read()

    def _unanswered(self) -> None:
        """Bytes went to an endpoint that no longer exists: a reset if its host is up, else a timeout."""
        if self._fabric.is_up(self.peer_host):
            self.broken(ConnectionResetError("connection reset by peer"))
        else:
            delay = 2.0 + 8.0 * self._fabric.rng.random()
            self._loop.call_later(delay, self.broken, TimeoutError("connection timed out"), context=KERNEL)

    def release(self) -> None:
        """The link is healed: what was held arrives."""
        if self._resetting:
            self._resetting = False
            self._reset_peer()
        held, self._held = self._held, []
        for piece in held:  # at once: what is still on its way comes after
            self._arrive(piece)

    # ---------------------------------------------------------------- reading

    def _schedule_read(self) -> None:
        if self._read_scheduled or not self.is_open or self._protocol is None or not self._reading:
            return
        if self._incoming or self._ended:
            self._read_scheduled = True
            self._loop.call_soon(self._read, context=self._context)

    def _read(self) -> None:
        """Hand one read to the protocol, of a size the seed chooses."""
        self._read_scheduled = False
        if not self.is_open or not self._reading:
            return
        if not self._incoming:
            if self._ended:
                self._end_of_stream()
            return
        limit = min(len(self._incoming), self._fabric.weather.read_bytes_max)
        if limit > 1 and self._fabric.rng.random() < 0.1:
            limit = 1 + self._fabric.rng.randrange(limit)
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer = protocol.get_buffer(limit)
            size = min(memoryview(buffer).nbytes, limit)
            assert size > 0, "get_buffer returned no room"
            memoryview(buffer)[:size] = self._incoming[:size]
            del self._incoming[:size]
            protocol.buffer_updated(size)
        else:
            data = bytes(self._incoming[:limit])
            del self._incoming[:limit]
            assert isinstance(protocol, asyncio.Protocol)
            protocol.data_received(data)
        self._schedule_read()
        if self.peer.is_open:
            self.peer._pump()

    def _end_of_stream(self) -> None:
        self._ended = False
        assert isinstance(self._protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        if not self._protocol.eof_received():
            self.close()

    def pause_reading(self) -> None:
        """Stop handing over bytes; the kernel's window then fills and stops the sender."""
        self._reading = False

    def resume_reading(self) -> None:
        """Hand over bytes again."""
        if not self._closing:
            self._reading = True
            self._schedule_read()

    def is_reading(self) -> bool:
        """True unless paused or closing."""
        return self._reading and not self._closing

    # ---------------------------------------------------------------- the rest of a transport

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the sizes at which writing is paused and resumed."""
        self._high = high if high is not None else (4 * low if low is not None else 64 * 1024)
        self._low = low if low is not None else self._high // 4

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return (low, high)."""
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self._outgoing_bytes

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Change the protocol."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol."""
        assert self._protocol is not None
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """`peername` and `sockname`; there is no socket."""
        return {"peername": self.peer._address, "sockname": self._address}.get(name, default)
