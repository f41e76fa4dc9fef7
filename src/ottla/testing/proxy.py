"""What stands between clients and a broker that is to fail: it passes frames on, or answers them itself.

It keeps its port while the broker is gone and comes back on another one, as a machine's address stays what it was. Answers
leave in the order of their requests, as Kafka promises them to clients.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from ottla.background import supervise_thread
from ottla.wire import RequestHeader, read_request_header

__all__ = ["CUT", "FORWARD", "FORWARD_UNANSWERED", "LOSE", "Decision", "Proxy"]

LOOPBACK = "127.0.0.1"
LENGTH = struct.Struct(">i")
FRAME_BYTES_MAX = 128 << 20
CONNECT_SECONDS = 5.0
BACKLOG = 64


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a request."""

    forward: bool = True
    answered: bool = True
    """Whether the broker answers it: it does not answer Produce with acks=0."""
    lose: bool = False
    """Whether the connection is cut in the place of the answer."""
    answer: bytes | None = None
    """A whole answer, its length in front, in the place of the broker's."""


FORWARD = Decision()
FORWARD_UNANSWERED = Decision(answered=False)
LOSE = Decision(lose=True)
CUT = Decision(forward=False, lose=True, answer=b"")
"""The connection ends where the answer would be, and the broker hears nothing."""

Decide = Callable[[RequestHeader, bytes, int], Decision]
"""Given a request's header, the frame, and where its body begins."""


@dataclass(slots=True, eq=False)
class _Slot:
    """An answer's place in a connection's order."""

    lose: bool = False
    answer: bytes | None = None


@dataclass(slots=True, eq=False)
class _Link:
    """A client's connection and the broker's that belongs to it."""

    client: socket.socket
    broker: socket.socket
    slots: deque[_Slot] = field(default_factory=deque)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def cut(self) -> None:
        for each in (self.client, self.broker):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Listens on a port of loopback that the system has chosen, while it is `open`; `close` it at the end."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._keeper = _bound(0)
        """Holds the port while nobody listens on it, so that who connects is refused and nobody else gets it."""
        self.port: int = self._keeper.getsockname()[1]
        self.address = f"{LOOPBACK}:{self.port}"
        self._listener: socket.socket | None = None
        self._links: set[_Link] = set()
        self._lock = threading.Lock()

    def open(self, target: tuple[str, int]) -> None:
        """Take connections, and pass them on to a broker."""
        assert self._listener is None, "it is open"
        listener = _bound(self.port)
        listener.listen(BACKLOG)
        self._listener = listener
        supervise_thread(lambda: self._accept(listener, target), name="a proxy's door", serves=self.address)

    def shut(self) -> None:
        """Refuse connections, and cut those that there are."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            links = list(self._links)
        for each in links:
            each.cut()

    def close(self) -> None:
        """Refuse connections for good."""
        self.shut()
        self._keeper.close()

    def _accept(self, listener: socket.socket, target: tuple[str, int]) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # it is shut
            try:
                broker = socket.create_connection(target, CONNECT_SECONDS)
            except OSError:
                client.close()
                continue
            for each in (client, broker):
                each.settimeout(None)
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = _Link(client, broker)
            with self._lock:
                self._links.add(link)
            if self._listener is not listener:  # it was shut meanwhile
                link.cut()
            self._serve(link)

    def _serve(self, link: _Link) -> None:
        def downwards() -> None:
            try:
                _answers(link)
            finally:
                link.cut()

        def upwards() -> None:
            answers = supervise_thread(downwards, name="a proxy's answers", serves=self.address)
            try:
                _requests(link, self._decide)
            finally:
                link.cut()
                answers.join()
                with self._lock:
                    self._links.discard(link)
                link.client.close()
                link.broker.close()

        supervise_thread(upwards, name="a proxy's requests", serves=self.address)


def _requests(link: _Link, decide: Decide) -> None:
    for frame in _frames(link.client):
        header, body = read_request_header(frame)
        decision = decide(header, frame, body)
        with suppress(OSError):
            if decision.answered:
                with link.lock:
                    link.slots.append(_Slot(decision.lose, decision.answer))
                    _flush(link)
            if decision.forward:
                link.broker.sendall(LENGTH.pack(len(frame)) + frame)


def _answers(link: _Link) -> None:
    for frame in _frames(link.broker):
        with link.lock:
            slot = next((each for each in link.slots if each.answer is None), None)
            if slot is None:
                return  # an answer that nobody asked for
            slot.answer = LENGTH.pack(len(frame)) + frame
            with suppress(OSError):
                _flush(link)


def _flush(link: _Link) -> None:
    """Send what is answered, in order; the connection ends in the place of a lost answer."""
    while link.slots and (answer := link.slots[0].answer) is not None:
        if link.slots.popleft().lose:
            link.cut()
            return
        link.client.sendall(answer)


def _frames(connection: socket.socket) -> Iterator[bytes]:
    """Yield whole frames without their lengths, until the connection ends."""
    while head := _exactly(connection, LENGTH.size):
        (size,) = LENGTH.unpack(head)
        if not 0 <= size <= FRAME_BYTES_MAX:
            return
        frame = _exactly(connection, size)
        if frame is None:
            return
        yield frame


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    """Return so many bytes; None where the connection ends before."""
    parts = bytearray()
    while len(parts) < size:
        try:
            part = connection.recv(min(size - len(parts), 1 << 20))
        except OSError:
            return None
        if not part:
            return None
        parts += part
    return bytes(parts)


def _bound(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((LOOPBACK, port))
    return made
