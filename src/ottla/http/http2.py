"""HTTP/2 beside HTTP/1.1 on one port, for services whose clients speak it without asking first ("prior knowledge").

The first bytes of a connection say which of the two it is: HTTP/2's preface is no request of HTTP/1.1 (RFC 9113, 3.4). A
stream of HTTP/2 then is, to aiohttp, a connection of its own with one request: bytes of HTTP/1.1 go in, and what comes back
is read by h11 and sent as frames. So routes, bounds and logins are those of HTTP/1.1, and nothing is written twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

import h11
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error, ProtocolError
from h2.settings import SettingCodes

__all__ = ["PREFACE", "EitherProtocol", "Http2Protocol"]

log = logging.getLogger(__name__)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STREAMS_MAX = 100
"""Open at once on a connection."""
RESETS_MAX = 1000
"""Streams that a client may take back on a connection: opening and resetting is cheaper for it than for us."""
BUFFER_HIGH, BUFFER_LOW = 64 * 1024, 16 * 1024
"""Bytes of a stream's answer that wait for the client; above the first its writer waits, until below the second."""
IDLE_SECONDS_MAX = 75.0
"""A connection without a stream is closed after so long."""
HOP_BY_HOP = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te", "host"})
Http1 = Callable[[], asyncio.Protocol]


class EitherProtocol(asyncio.Protocol):
    """Reads as many bytes as it takes to know what a connection speaks, and hands it over."""

    def __init__(
        self,
        http1: Http1,
        *,
        chosen: Callable[[EitherProtocol, asyncio.BaseProtocol], None],
        gone: Callable[[EitherProtocol], None],
    ) -> None:
        """`chosen` is called with this one and what speaks from now on, `gone` where it ends before."""
        self._http1, self._chosen, self._gone = http1, chosen, gone
        self._data = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Look at the first bytes."""
        self._data += data
        if len(self._data) < len(PREFACE) and PREFACE.startswith(self._data):
            return
        is_http2 = self._data.startswith(PREFACE)
        inner: asyncio.Protocol = Http2Protocol(self._http1) if is_http2 else self._http1()
        transport, given = self._transport, self._data
        assert transport is not None
        self._data = b""
        self._chosen(self, inner)
        transport.set_protocol(inner)
        inner.connection_made(transport)
        inner.data_received(given)

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone again."""
        self._gone(self)


class Http2Protocol(asyncio.Protocol):
    """A connection that speaks HTTP/2; `http1` makes what answers each of its streams."""

    def __init__(self, http1: Http1) -> None:
        self._http1 = http1
        self._loop = asyncio.get_running_loop()
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._h2.local_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = STREAMS_MAX
        self._streams: dict[int, _Stream] = {}
        self._transport: asyncio.Transport | None = None
        self._is_full = False
        self._resets = 0
        self._idle: asyncio.TimerHandle | None = None

    # -- what the network says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send this side's settings."""
        self._transport = cast(asyncio.Transport, transport)
        self._h2.initiate_connection()
        self.send()
        self._rest()

    def data_received(self, data: bytes) -> None:
        """Take frames in."""
        try:
            events = self._h2.receive_data(data)
        except ProtocolError as error:
            log.debug("a connection broke HTTP/2: %s", error)
            self.send()
            self.close()
            return
        for event in events:
            self._on(event)
        self.send()

    def pause_writing(self) -> None:
        """The client does not read: it is not read from either."""
        self._is_full = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._is_full = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        for stream in list(self._streams.values()):
            stream.flush()
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        """Every stream ends."""
        self._transport = None
        for stream in list(self._streams.values()):
            stream.lost()
        self._streams.clear()
        if self._idle is not None:
            self._idle.cancel()

    # -- what streams use

    @property
    def h2(self) -> H2Connection:
        """The state of the connection."""
        return self._h2

    @property
    def is_open(self) -> bool:
        """Whether the connection is there."""
        return self._transport is not None

    @property
    def may_write(self) -> bool:
        """Whether the client reads."""
        return self._transport is not None and not self._is_full

    def extra(self, name: str, default: Any = None) -> Any:
        """Return what the transport knows."""
        return default if self._transport is None else self._transport.get_extra_info(name, default)

    def send(self) -> None:
        """Send the frames that wait."""
        data = self._h2.data_to_send()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def ended(self, number: int) -> None:
        """Forget a stream."""
        self._streams.pop(number, None)
        if not self._streams:
            self._rest()

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()

    def _rest(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = self._loop.call_later(IDLE_SECONDS_MAX, self._close_idle)

    def _close_idle(self) -> None:
        if not self._streams and self._transport is not None:
            self._h2.close_connection()
            self.send()
            self.close()

    # -- frames

    def _on(self, event: Event) -> None:
        match event:
            case RequestReceived(stream_id=int(number), headers=headers):
                self._begin(number, cast("list[tuple[str, str]]", headers), event.stream_ended is not None)
            case DataReceived(stream_id=int(number), data=bytes(data)):
                stream = self._streams.get(number)
                if stream is None:
                    self._h2.acknowledge_received_data(event.flow_controlled_length, number)
                else:
                    stream.feed(data, event.flow_controlled_length)
            case StreamEnded(stream_id=int(number)):
                if (stream := self._streams.get(number)) is not None:
                    stream.feed_end()
            case StreamReset(stream_id=int(number)):
                self._reset(number)
            case WindowUpdated(stream_id=number):
                wanted = list(self._streams.values()) if not number else [self._streams.get(number)]
                for each in wanted:
                    if each is not None:
                        each.flush()
            case RemoteSettingsChanged():
                for each in list(self._streams.values()):
                    each.flush()
            case ConnectionTerminated():
                self.close()
            case _:
                pass

    def _begin(self, number: int, headers: list[tuple[str, str]], is_whole: bool) -> None:
        request = _request_of(headers, is_whole=is_whole)
        if request is None:
            self._h2.reset_stream(number, ErrorCodes.PROTOCOL_ERROR)
            return
        stream = self._streams[number] = _Stream(self, number, is_whole=is_whole, method=dict(headers)[":method"])
        stream.begin(self._http1(), request)

    def _reset(self, number: int) -> None:
        self._resets += 1
        stream = self._streams.pop(number, None)
        if stream is not None:
            stream.lost()
        if self._resets > RESETS_MAX:
            self._h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self.send()
            self.close()


def _request_of(headers: list[tuple[str, str]], *, is_whole: bool) -> bytes | None:
    """Return the head of the same request in HTTP/1.1; None for one that cannot be one."""
    special = {name: value for name, value in headers if name.startswith(":")}
    method, path = special.get(":method", ""), special.get(":path", "")
    if not method.isalpha() or not path.startswith(("/", "*")) or any(ord(each) <= 32 for each in path):
        return None
    plain = [(name, value) for name, value in headers if not name.startswith(":") and name not in HOP_BY_HOP]
    if any(
        mark in part for pair in (*plain, ("", special.get(":authority", ""))) for part in pair for mark in "\r\n\0"
    ):
        return None
    host = special.get(":authority") or dict(headers).get("host", "")
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in plain if name != "content-length" or is_whole]
    if not is_whole:
        lines.append("Transfer-Encoding: chunked")
    return "\r\n".join([*lines, "", ""]).encode()


class _Stream:
    """One request: to aiohttp the transport of a connection, to the connection one of its streams."""

    def __init__(self, connection: Http2Protocol, number: int, *, is_whole: bool, method: str) -> None:
        self._connection, self._number, self._is_whole = connection, number, is_whole
        self._inner: Any = None
        self._answer = h11.Connection(h11.CLIENT)
        self._answer.send(h11.Request(method=method, target="/", headers=[("Host", "h2")]))
        self._answer.send(h11.EndOfMessage())
        self._out = bytearray()
        self._is_ended = False
        """Whether the answer is complete, but for what waits in `_out`."""
        self._is_done = False
        self._holds_writer = self._holds_reader = False
        self._unread = 0
        """Bytes of the body that are not acknowledged, since their reader waits."""

    @property
    def connection(self) -> Http2Protocol:
        """The connection whose stream it is."""
        return self._connection

    def begin(self, inner: asyncio.Protocol, request: bytes) -> None:
        """Hand the request in."""
        self._inner = inner
        inner.connection_made(cast(asyncio.BaseTransport, self))
        inner.data_received(request)

    # -- what comes from the client

    def feed(self, data: bytes, length: int) -> None:
        """Take a piece of the body; `length` is what it counts for in the window."""
        if self._is_done:
            self._connection.h2.acknowledge_received_data(length, self._number)
            return
        self._unread += length
        if data:
            self._inner.data_received(b"%x\r\n%b\r\n" % (len(data), data))
        self._acknowledge()

    def feed_end(self) -> None:
        """The body is complete."""
        if not self._is_whole and not self._is_done:
            self._is_whole = True
            self._inner.data_received(b"0\r\n\r\n")

    def lost(self) -> None:
        """The client has given the stream up."""
        if not self._is_done:
            self._is_done = True
            self._inner.connection_lost(None)

    def _acknowledge(self) -> None:
        if self._unread and not self._holds_reader:
            length, self._unread = self._unread, 0
            try:
                self._connection.h2.acknowledge_received_data(length, self._number)
            except H2Error as error:
                log.debug("stream %d is closed: %s", self._number, error)

    def flush(self) -> None:
        """Send as much of the answer as the client's windows have room for."""
        h2 = self._connection.h2
        try:
            while self._out and self._connection.may_write and not self._is_done:
                room = min(h2.local_flow_control_window(self._number), h2.max_outbound_frame_size, len(self._out))
                if room <= 0:
                    break
                h2.send_data(self._number, bytes(self._out[:room]))
                del self._out[:room]
            if self._is_ended and not self._out and not self._is_done:
                h2.end_stream(self._number)
                self._finish()
        except H2Error as error:
            log.debug("stream %d is closed: %s", self._number, error)
            self._finish()
        if self._holds_writer and len(self._out) <= BUFFER_LOW:
            self._holds_writer = False
            self._inner.resume_writing()

    def _finish(self) -> None:
        if not self._is_done:
            self._is_done = True
            self._connection.ended(self._number)
            asyncio.get_running_loop().call_soon(self._inner.connection_lost, None)

    # -- what aiohttp sees as its transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes of HTTP/1.1, and send what they mean."""
        if self._is_done or self._is_ended:
            return
        self._answer.receive_data(bytes(data))
        while True:
            event = self._answer.next_event()
            if isinstance(event, h11.Response):
                found = [(":status", str(event.status_code))]
                found += [(name.decode(), value.decode("latin-1")) for name, value in event.headers]
                kept = [(name, value) for name, value in found if name not in HOP_BY_HOP]
                self._connection.h2.send_headers(self._number, kept)
            elif isinstance(event, h11.Data):
                self._out += event.data
            elif isinstance(event, h11.EndOfMessage):
                self._is_ended = True
                break
            elif event is h11.NEED_DATA or event is h11.PAUSED:
                break
        self.flush()
        self._connection.send()
        if len(self._out) > BUFFER_HIGH and not self._holds_writer and not self._is_done:
            self._holds_writer = True
            self._inner.pause_writing()

    def writelines(self, parts: Any) -> None:
        """See `write`."""
        self.write(b"".join(parts))

    def close(self) -> None:
        """End the stream: after the answer, or without the rest of it."""
        if self._is_done:
            return
        if not self._is_ended:
            self._abandon()
        elif not self._out:
            self._finish()

    def abort(self) -> None:
        """End the stream at once."""
        if not self._is_done:
            self._abandon()

    def _abandon(self) -> None:
        try:
            self._connection.h2.reset_stream(self._number, ErrorCodes.INTERNAL_ERROR)
        except H2Error as error:
            log.debug("stream %d is closed: %s", self._number, error)
        self._finish()
        self._connection.send()

    def is_closing(self) -> bool:
        """Whether nothing more can be written."""
        return self._is_done

    def pause_reading(self) -> None:
        """Let no more of the body come than the window has room for."""
        self._holds_reader = True

    def resume_reading(self) -> None:
        """Let more of the body come."""
        self._holds_reader = False
        self._acknowledge()
        self._connection.send()

    def is_reading(self) -> bool:
        """Whether more of the body may come."""
        return not self._holds_reader

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the connection knows; its socket is not this stream's alone."""
        return default if name == "socket" else self._connection.extra(name, default)

    def get_write_buffer_size(self) -> int:
        """Bytes that wait for the client."""
        return len(self._out)
