"""HTTP as commands and threads ask it, of servers that may lie: no redirects, and bounds of time and of what is read.

A redirect would carry the login to another host; nothing but http and https is opened. On the event loop `ottla.http.Asker`
does the same.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

__all__ = ["ANSWER_BYTES_MAX", "bounded", "web_answer"]

ANSWER_BYTES_MAX = 64 << 20
"""Of an answer that is read as a whole."""
CHUNK_BYTES = 64 << 10


@contextmanager
def web_answer(
    request: Any, *, answer_s: float | None, total_s: float | None = None, context: ssl.SSLContext | None = None
) -> Iterator[http.client.HTTPResponse]:
    """Yield the answer to a request of `urllib`; raises as `urlopen`, HTTPError for a redirect too.

    `answer_s` is how long each piece may take. After `total_s` the connection is cut, however the server drips; without it
    that holds for `answer_s` until the answer has begun.
    """
    import urllib.error
    import urllib.request

    sockets: list[socket.socket] = []
    cut = threading.Event()
    opener = urllib.request.OpenerDirector()
    for each in (
        *(urllib.request.ProxyHandler(), urllib.request.UnknownHandler(), urllib.request.HTTPDefaultErrorHandler()),
        *(urllib.request.HTTPErrorProcessor(), *_handlers(sockets, cut, context)),
    ):
        opener.add_handler(each)
    limit = total_s if total_s is not None else answer_s
    timer = None if limit is None else threading.Timer(limit, _cut, (sockets, cut))
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        with opener.open(request, timeout=answer_s) as answer:
            if total_s is None and timer is not None:
                timer.cancel()
            yield answer
            if cut.is_set():
                raise TimeoutError(f"no whole answer within {limit:g} s")
    except urllib.error.HTTPError:
        raise
    except (OSError, ValueError, http.client.HTTPException) as error:
        if cut.is_set():
            raise TimeoutError(f"no whole answer within {limit:g} s") from error
        if isinstance(error, http.client.HTTPException):
            raise urllib.error.URLError(error) from error
        raise
    finally:
        if timer is not None:
            timer.cancel()


def _handlers(sockets: list[socket.socket], cut: threading.Event, context: ssl.SSLContext | None) -> tuple[Any, Any]:
    """Return what opens http and https, and tells which sockets it has opened; none is used after the cut."""
    import urllib.request

    def opened(connected: socket.socket) -> None:
        sockets.append(connected)
        if cut.is_set():
            connected.close()
            raise TimeoutError("the connection came too late")

    class Plain(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            opened(self.sock)

    class Secure(http.client.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            opened(self.sock)

    class PlainHandler(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Plain, req)

    class SecureHandler(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Secure, req, context=context or ssl.create_default_context())

    return PlainHandler(), SecureHandler()


def _cut(sockets: list[socket.socket], cut: threading.Event) -> None:
    cut.set()
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def bounded(answer: Any, bytes_max: int = ANSWER_BYTES_MAX, *, until: float | None = None) -> bytes:
    """Return the whole of an answer; raises ValueError beyond a size, and TimeoutError beyond a time (`time.monotonic`)."""
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(CHUNK_BYTES) if hasattr(answer, "read1") else answer.read(CHUNK_BYTES):
        parts.append(part)
        size += len(part)
        if size > bytes_max:
            raise ValueError(f"the answer has more than {bytes_max} bytes")
        if until is not None and time.monotonic() > until:
            raise TimeoutError("the answer takes too long")
    left = getattr(answer, "length", None)
    if left:  # read1 says nothing of an answer that ends before its length
        raise ValueError(f"the answer ends {left} bytes before its end")
    return b"".join(parts)
