"""The bytes of the control channel at the task's end: a socket, encrypted or not, that one thread reads and others write.

Python's own `SSLSocket` is not made for that: OpenSSL's state is one for both directions, and a reader that waits would
keep it from the writers. So the state works on memory under a lock, and nobody holds that while he waits for bytes.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading

__all__ = ["Channel"]

CONNECT_SECONDS_MAX = 10.0
"""How long the connection, and each answer until it is proved, may take."""
READ_BYTES = 64 * 1024


class Channel:
    """A TCP connection; with `context` it is TLS, and the handshake is done when this is constructed.

    Raises ConnectionError where the other side is not the one that the context trusts, and OSError where nobody is there.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
        self._socket = socket.create_connection((host, port), CONNECT_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._sending, self._state = threading.Lock(), threading.Lock()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = None if context is None else context.wrap_bio(self._incoming, self._outgoing)
        if self._tls is not None:
            try:
                self._shake_hands(self._tls)
            except BaseException:
                self._socket.close()
                raise

    def _shake_hands(self, tls: ssl.SSLObject) -> None:
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                self._socket.sendall(self._outgoing.read())
                if not self._fed():
                    raise ConnectionError("the worker has ended the connection during the handshake") from None
            except ssl.SSLError as error:
                raise ConnectionError(f"the worker is not the one that started this task: {error.reason}") from error
            else:
                self._socket.sendall(self._outgoing.read())
                return

    def _fed(self) -> bool:
        """Wait for bytes and give them to TLS; False where no more come."""
        data = self._socket.recv(READ_BYTES)
        with self._state:
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()
        return bool(data)

    def wait_for_ever(self) -> None:
        """Let reading take any time from now on."""
        self._socket.settimeout(None)

    def receive(self, count: int) -> bytes:
        """Return the next bytes, at most `count`, or none where the connection has ended; for one thread."""
        tls = self._tls
        if tls is None:
            return self._socket.recv(count)
        while True:
            try:
                with self._state:
                    return tls.read(count)
            except ssl.SSLWantReadError:
                self._fed()
            except ssl.SSLError:  # it has ended without a word, or somebody has changed it on the way
                return b""

    def send(self, data: bytes) -> None:
        """Send all of it; raises OSError. For any thread."""
        with self._sending:
            self._socket.sendall(data if self._tls is None else self._encrypted(self._tls, data))

    def _encrypted(self, tls: ssl.SSLObject, data: bytes) -> bytes:
        with self._state:
            view = memoryview(data)
            while view:
                view = view[tls.write(view) :]
            return self._outgoing.read()

    def shut(self) -> None:
        """End both directions: the reader hears of it."""
        with contextlib.suppress(OSError):  # the other end was faster
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection."""
        self.shut()
        self._socket.close()
