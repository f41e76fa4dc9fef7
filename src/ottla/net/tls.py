"""TLS between a transport and the protocol that speaks on it, by OpenSSL's state machine over memory.

asyncio's and uvloop's own TLS give each read and write fresh memory, which costs more than the cryptography. Here all
connections of a loop share one buffer for what comes in encrypted, what is decrypted goes straight into the protocol's
own buffer, many records at a time, and what a paused protocol does not take stays encrypted. `TlsTransport` takes
`write(data)` at its word: the data is encrypted before the call returns, so its memory may be used again at once.

RFC 8446 (TLS 1.3), RFC 5246 (TLS 1.2); which of them, which keys and which peers are trusted is the context's matter.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Any, cast

from ottla.base import WireError
from ottla.net.frames import FrameProtocol

__all__ = ["HANDSHAKE_TIMEOUT_S", "TlsBuffer", "TlsProtocol", "TlsTransport"]

HANDSHAKE_TIMEOUT_S = 10.0
"""How long a peer may take for its handshake; Kafka has no limit but that of an idle connection."""
READ_BYTES = 256 * 1024
"""Encrypted bytes asked of the system per read."""
SLICE_BYTES = 64 * 1024
"""What is given to OpenSSL, and taken from it, at a time: its memory keeps the largest size that it ever had."""
SENT_TOGETHER = 4
"""Slices that are sent by one call of the system: each of its own would wake the peer each time."""
HANDSHAKE_BYTES_MAX = 128 * 1024
"""What a peer may send before its handshake is complete; OpenSSL takes certificates of up to 100 KiB."""
HANDSHAKE_RECORD, ALERT_RECORD = 0x16, 0x15
"""How a TLS client's first bytes begin (RFC 8446, 5.1)."""


class _End(Enum):
    """Why a connection has nothing more to decrypt."""

    DRY = auto()
    """Everything that came is decrypted."""
    FAREWELL = auto()
    """The peer has said that no more comes (close_notify)."""


class TlsBuffer:
    """The memory that all connections of one event loop read encrypted bytes into; not for several threads."""

    def __init__(self, size: int = READ_BYTES) -> None:
        self.view = memoryview(bytearray(size))


class TlsTransport(asyncio.Transport):
    """What the inner protocol writes to: everything is encrypted, and otherwise done by the real transport."""

    def __init__(self, tls: TlsProtocol, raw: asyncio.Transport) -> None:
        super().__init__()
        self._tls = tls
        self._raw = raw

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the connection; `ssl_object` and `sslcontext` are the TLS session's."""
        if name == "ssl_object":
            return self._tls.session
        if name == "sslcontext":
            return self._tls.session.context
        return self._raw.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send; the memory of `data` may be used again when this returns."""
        self._tls.encrypt(data)

    def writelines(self, list_of_data: Any) -> None:
        """Encrypt and send pieces together: small ones share a record."""
        self._tls.encrypt(b"".join(list_of_data))

    def pause_reading(self) -> None:
        """Stop reading, and stop decrypting."""
        self._tls.pause_reading()

    def resume_reading(self) -> None:
        """Go on, first with what has come already."""
        self._tls.resume_reading()

    def is_reading(self) -> bool:
        """Return whether nothing was paused."""
        return self._tls.is_reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits, counted in encrypted bytes."""
        self._raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Return the encrypted bytes that the system has not taken yet."""
        return self._raw.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Return whether the connection is closed, or about to be."""
        return self._raw.is_closing()

    def close(self) -> None:
        """Say that no more comes (close_notify), send what was written, and close."""
        self._tls.close()

    def abort(self) -> None:
        """Close at once."""
        self._raw.abort()


class TlsProtocol(asyncio.BufferedProtocol):
    """One TLS connection below a `FrameProtocol`, as server or as client.

    The inner protocol is connected as soon as the connection is: limits of connections hold before any cryptography. It
    is given bytes once the handshake is complete. `secured` is called at that moment, before any of them; what it raises
    as WireError ends the connection, as a failed handshake does. `failed` hears of either, in words for a log.
    """

    transport: TlsTransport
    """What the inner protocol writes to, once there is a connection."""

    def __init__(
        self,
        inner: FrameProtocol,
        context: ssl.SSLContext,
        *,
        loop: asyncio.AbstractEventLoop,
        buffer: TlsBuffer,
        is_server: bool,
        server_hostname: str | None = None,
        timeout_s: float = HANDSHAKE_TIMEOUT_S,
        failure_delay_s: float = 0.0,
        secured: Callable[[ssl.SSLObject], None] | None = None,
        failed: Callable[[str], None] | None = None,
    ) -> None:
        self.inner = inner
        self._loop = loop
        self._buffer = buffer
        self._is_server = is_server
        self._timeout_s = timeout_s
        self._failure_delay_s = failure_delay_s
        self._secured = secured
        self._failed = failed
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.session = context.wrap_bio(
            self._incoming, self._outgoing, server_side=is_server, server_hostname=server_hostname
        )
        self._is_open = False
        """Whether the handshake is complete."""
        self._has_ended = False
        """Nothing is read or decrypted any more."""
        self.is_reading = True
        self._handshake_bytes = 0
        self._reason: str | None = None
        """Why TLS has failed."""
        self._deadline: asyncio.TimerHandle | None = None
        self._turn: asyncio.Handle | None = None
        self._unsent: list[bytes] = []
        """What was written before the handshake was complete."""

    # -- the real transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect the inner protocol, then begin the handshake."""
        self._raw = cast(asyncio.Transport, transport)
        self._deadline = self._loop.call_later(self._timeout_s, self._timed_out)
        self.transport = TlsTransport(self, self._raw)
        self.inner.connection_made(self.transport)
        if not self._is_server and not self._raw.is_closing():
            self._shake_hands()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next encrypted bytes go."""
        return self._buffer.view

    def buffer_updated(self, nbytes: int) -> None:
        """Take encrypted bytes: a step of the handshake, or data."""
        received = self._buffer.view[:nbytes]
        if self._has_ended:
            return
        if not self._is_open:
            if self._handshake_bytes == 0 and received[0] not in (HANDSHAKE_RECORD, ALERT_RECORD):
                self._fail(_no_tls(self._is_server))
                return
            self._handshake_bytes += nbytes
            self._incoming.write(received)
            self._shake_hands()
            received = received[:0]
            if not self._is_open:
                return
        self._deliver(received)

    def eof_received(self) -> bool:
        """The peer is gone, whether it said so or not: a frame's length shows what is missing."""
        if not self._is_open and not self._has_ended and (self._handshake_bytes or not self._is_server):
            self._fail("the peer closed the connection in the middle of the TLS handshake")
        return self.inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the inner protocol, with the reason where it was TLS's."""
        is_expected = self._is_server and not self._handshake_bytes  # somebody has looked whether the port is open
        if not self._is_open and not self._has_ended and self._failed is not None and not is_expected:
            self._failed("the connection was lost in the middle of the TLS handshake")
        self._end()
        self.inner.connection_lost(exc if self._reason is None else ssl.SSLError(self._reason))

    def pause_writing(self) -> None:
        """Called when the peer reads too slowly."""
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        """Called when it has read enough."""
        self.inner.resume_writing()

    # -- the handshake

    def _shake_hands(self) -> None:
        try:
            self.session.do_handshake()
        except ssl.SSLWantReadError:
            if self._handshake_bytes > HANDSHAKE_BYTES_MAX:
                self._fail(f"the TLS handshake has more than {HANDSHAKE_BYTES_MAX} bytes")
                return
            self._send()
            return
        except ssl.SSLError as error:
            self._fail(_reason(error))
            return
        self._send()
        try:
            if self._secured is not None:
                self._secured(self.session)
        except WireError as error:
            self._fail(str(error))
            return
        self._is_open = True
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        unsent, self._unsent = self._unsent, []
        for data in unsent:
            self.encrypt(data)

    def _timed_out(self) -> None:
        self._fail(f"the TLS handshake was not complete after {self._timeout_s:g} s")

    def _fail(self, reason: str) -> None:
        """Send the alert that OpenSSL has written, and close; a little later where that slows a guesser down."""
        self._end()
        self._reason = reason
        if self._failed is not None:
            self._failed(reason)
        self._send()
        if self._failure_delay_s and not self._raw.is_closing():
            self._raw.pause_reading()
            self._deadline = self._loop.call_later(self._failure_delay_s, self._raw.close)
        else:
            self._raw.close()

    def _end(self) -> None:
        self._has_ended = True
        self._unsent.clear()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    # -- decrypting

    def _deliver(self, received: memoryview) -> None:
        """Decrypt into the inner protocol's buffer, as many records at a time as there are and as it holds."""
        inner = self.inner
        end: _End | str | None = None
        while end is None and self.is_reading and not self._has_ended:
            target = inner.get_buffer(-1)
            filled, received, end = self._decrypt(target, received)
            del target
            inner.buffer_updated(filled)
        if end is _End.FAREWELL:
            if not self._has_ended:
                self.close()
        elif isinstance(end, str):
            self._fail(end)
        else:
            if received and not self._has_ended:
                self._incoming.write(received)
            self._send()  # answers to what the peer asked of the TLS layer itself, such as new keys

    def _decrypt(self, target: memoryview, received: memoryview) -> tuple[int, memoryview, _End | str | None]:
        """Fill `target`; return how far, what of `received` OpenSSL has not taken, and why no more comes, if none does.

        A reason in words is TLS's failure; an exception would hold `target`, which the inner protocol takes back now.
        """
        filled, room = 0, len(target)
        while filled < room:
            try:
                count = cast(int, self.session.read(room - filled, target[filled:]))
            except ssl.SSLWantReadError:
                if not received:
                    return filled, received, _End.DRY
                self._incoming.write(received[:SLICE_BYTES])
                received = received[SLICE_BYTES:]
                continue
            except ssl.SSLZeroReturnError:
                return filled, received, _End.FAREWELL
            except ssl.SSLError as error:
                return filled, received, _reason(error)
            if not count:
                return filled, received, _End.FAREWELL
            filled += count
        return filled, received, None

    def pause_reading(self) -> None:
        """Stop reading: what has come stays as it came."""
        if self.is_reading:
            self.is_reading = False
            if not self._has_ended and self._is_open:
                self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Go on in a turn of the loop's own: the inner protocol may be in the middle of a frame."""
        if not self.is_reading:
            self.is_reading = True
            if self._turn is None and not self._has_ended and self._is_open:
                self._turn = self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._turn = None
        if self.is_reading:
            self._deliver(self._buffer.view[:0])
        if self.is_reading and not self._has_ended and not self._raw.is_closing():
            self._raw.resume_reading()

    # -- encrypting

    def encrypt(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send."""
        if not self._is_open:
            if not self._has_ended:
                self._unsent.append(bytes(data))
            return
        if self._has_ended or self._raw.is_closing():
            return
        write = self.session.write
        size = len(data)
        try:
            if size <= SLICE_BYTES:
                write(data)
                self._send()
                return
            view = memoryview(data)
            pieces: list[bytes] = []
            for start in range(0, size, SLICE_BYTES):
                write(view[start : start + SLICE_BYTES])
                pieces.append(self._outgoing.read())
                if len(pieces) == SENT_TOGETHER:
                    self._raw.writelines(pieces)
                    pieces = []
            if pieces:
                self._raw.writelines(pieces)
        except ssl.SSLError as error:
            self._fail(_reason(error))

    def _send(self) -> None:
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    def close(self) -> None:
        """Say that no more comes, and close."""
        if not self._has_ended:
            self._end()
            if self._is_open:
                with suppress(ssl.SSLError):  # the peer's own farewell is not waited for
                    self.session.unwrap()
                self._send()
        self._raw.close()


def _no_tls(is_server: bool) -> str:
    if is_server:
        return "what came is no TLS: a client that speaks PLAINTEXT or SASL_PLAINTEXT has come to a TLS listener"
    return "what came is no TLS: this is a PLAINTEXT or SASL_PLAINTEXT listener"


def _reason(error: ssl.SSLError) -> str:
    """Return what OpenSSL says, without its file names and line numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is refused: {error.verify_message}"
    text = (error.reason or str(error)).replace("_", " ").lower()
    return f"TLS failed: {text}"
