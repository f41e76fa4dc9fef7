"""A service on the running event loop: opened, served with bounds on time and size, closed."""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from ottla.background import count_failure
from ottla.base import OttlaError
from ottla.config import listening_line
from ottla.http.door import (
    CONNECTIONS_MAX,
    FIRST_REQUEST_SECONDS_MAX,
    HANDSHAKE_SECONDS_MAX,
    IDLE_SECONDS_MAX,
    SILENT_CONNECTIONS_MAX,
    Door,
)
from ottla.http.guard import JSON, Guard, Who, everybody, how_open
from ottla.http.replies import HttpError, Reply, StreamedReply, json_reply
from ottla.http.sockets import Socket

if TYPE_CHECKING:
    from ottla.http.http2 import Http2Protocol

__all__ = ["HttpServer", "Request", "RequestKey", "Route", "SocketRoute", "while_there"]

T = TypeVar("T")
log = logging.getLogger(__name__)
requests_log = logging.getLogger(f"{__name__}.requests")
"""What goes wrong with requests; not that one was no HTTP: that is answered with 400, and anybody could fill logs so."""


def _is_ours(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


requests_log.addFilter(_is_ours)

RequestKey = web.RequestKey
"""Under such a key a request keeps what a guard has found out about it."""
Request = web.Request
"""What a route is asked: `match_info` has the path's names, `query` what follows `?`; `await request.json()` the body."""

REQUEST_SECONDS_MAX = 30.0
BODY_BYTES_MAX = 1024 * 1024
KEEP_ALIVE_SECONDS = 75.0
GONE_LOOK_SECONDS = 0.5
"""How often it is looked whether a client still waits, while there is nothing to send to it."""
STALLED_SECONDS_MAX = 300.0
"""How long a client may take nothing of a streamed answer while there is more of it; then its connection is closed."""
SERVER = {"Server": "Ottla"}
CLIENT_GONE = 499
"""What an answer is that a client has not waited for, as nginx has it."""
PATH_SHOWN = 200
"""Characters of a path that an error repeats."""
CLOSE_SECONDS_MAX = 1.0
"""How long a stop waits for answers that are on their way."""


@dataclass(frozen=True, slots=True)
class Route:
    """One address of a service; HEAD comes with GET."""

    method: str
    path: str
    handle: Callable[[Request], Awaitable[Reply | StreamedReply]]
    who: Who
    """Who may ask; the server refuses others before `handle` is called."""
    takes: tuple[str, ...] = (JSON,)
    """The types of content that a body may have."""
    body_bytes_max: int | None = None
    """None for the server's."""
    seconds_max: float | None = None
    """None for the server's."""


@dataclass(frozen=True, slots=True)
class SocketRoute:
    """An address at which a WebSocket opens (RFC 6455). `admit` refuses a request before, by raising HttpError."""

    path: str
    handle: Callable[[Request, Socket], Awaitable[None]]
    who: Who
    admit: Callable[[Request], None] = lambda request: None


class HttpServer:
    """Serves routes on any number of addresses; bounds are seconds per request and bytes per body.

    The time of a request ends where its answer begins: a `StreamedReply` and a WebSocket last as long as they do. `headers`
    stand in every answer that does not say otherwise.

    A connection has `handshake_seconds_max` for TLS and `first_request_seconds_max` until it has asked for something, and
    of those that have not there are `silent_max` at most. There are `connections_max` in all, those that are kept alive
    included: whoever has been silent or idle for longest makes room (`Door`). An answer has `idle_seconds_max` to be read.
    """

    def __init__(
        self,
        routes: Iterable[Route | SocketRoute],
        guard: Guard,
        *,
        request_seconds_max: float = REQUEST_SECONDS_MAX,
        body_bytes_max: int = BODY_BYTES_MAX,
        handshake_seconds_max: float = HANDSHAKE_SECONDS_MAX,
        first_request_seconds_max: float = FIRST_REQUEST_SECONDS_MAX,
        silent_max: int = SILENT_CONNECTIONS_MAX,
        connections_max: int = CONNECTIONS_MAX,
        idle_seconds_max: float = IDLE_SECONDS_MAX,
        http2: bool = False,
        headers: Mapping[str, str] | Callable[[Request], Mapping[str, str]] | None = None,
        error_reply: Callable[[HttpError], Reply] | None = None,
        admits: str = "",
    ) -> None:
        """With `http2` the same ports speak HTTP/2, too, to clients that begin with its preface.

        `headers` may depend on the request. `error_reply` makes the answer of a refusal in the service's own form. `admits`
        is who may come in, in words for the log, where the guard alone does not say it.
        """
        self.guard = guard
        self._error_reply = error_reply or _error_reply
        self._admits = admits or ("everybody who reaches it" if guard.admit is everybody else "whoever logs in")
        self._speaks_http2 = http2
        self._http2: set[Http2Protocol] = set()
        self._seconds_max = request_seconds_max
        self._handshake_seconds_max = handshake_seconds_max
        self._first_request_seconds_max = first_request_seconds_max
        self._silent_max, self._connections_max = silent_max, connections_max
        self._idle_seconds_max = idle_seconds_max
        self._door: Door | None = None
        app = web.Application(client_max_size=body_bytes_max, middlewares=[self._answer_errors])
        app.on_response_prepare.append(_adding(headers or {}))
        for route in routes:
            if isinstance(route, SocketRoute):
                app.router.add_route("GET", route.path, self._socket_handler(route))
                continue
            app.router.add_route(route.method, route.path, self._handler(route))
            if route.method == "GET":
                app.router.add_route("HEAD", route.path, self._handler(route))
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=requests_log,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            shutdown_timeout=CLOSE_SECONDS_MAX,
            auto_decompress=False,  # a small body could be a gigabyte, which the loop would have to unpack to its end
        )

    async def listen(self, host: str, port: int, tls: Callable[[], ssl.SSLContext] | None = None) -> int:
        """Serve an address and return its port; an empty host means every interface. Raises OSError where it is taken.

        With `tls`, which returns the context of the next connection, it is HTTPS. An address that other machines reach
        without a login or without TLS is logged.
        """
        if self._door is None:
            await self._runner.setup()
            serve = self._runner.server
            assert serve is not None
            self._door = Door(
                self._either if self._speaks_http2 else serve,
                handshake_seconds_max=self._handshake_seconds_max,
                first_request_seconds_max=self._first_request_seconds_max,
                silent_max=self._silent_max,
                connections_max=self._connections_max,
                idle_seconds_max=self._idle_seconds_max,
            )
        bound = await self._door.open(host, port, tls)
        shown = f"[{host}]" if ":" in host else host or "*"
        scheme, protection = ("http", "in clear") if tls is None else ("https", "TLS")
        log.info("%s", listening_line(f"{scheme}://{shown}:{bound}", protection=protection, admits=self._admits))
        if words := how_open(host, has_logins=self.guard.admit is not everybody, has_tls=tls is not None):
            log.warning("port %s (%s): %s", bound, host or "every interface", words)
        return bound

    def _either(self) -> asyncio.Protocol:
        """Return what finds out what a connection speaks."""
        from ottla.http.http2 import EitherProtocol

        serve = self._runner.server
        assert serve is not None
        assert self._door is not None
        return EitherProtocol(serve, chosen=self._chosen, gone=self._door.gone)

    def _chosen(self, outer: object, inner: asyncio.BaseProtocol) -> None:
        """Note what speaks on a connection; one of HTTP/2 has asked for something by that."""
        from ottla.http.http2 import Http2Protocol

        assert self._door is not None
        self._door.renamed(outer, inner)
        if isinstance(inner, Http2Protocol):
            self._door.asked(inner)
            self._door.answered(inner)
            self._http2 = {each for each in self._http2 if each.is_open} | {inner}

    @property
    def silent(self) -> int:
        """Connections that have asked for nothing yet."""
        return 0 if self._door is None else self._door.silent

    @property
    def connections(self) -> int:
        """Connections that are open, as far as is known."""
        return 0 if self._door is None else self._door.connections

    async def close(self) -> None:
        """Stop listening, and close what is open."""
        if self._door is not None:
            await self._door.close()
        await self._runner.cleanup()
        for each in self._http2:
            each.close()
        self._http2.clear()

    @web.middleware
    async def _answer_errors(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Turn everything that goes wrong into JSON; a mistake of ours is logged and tells the client nothing of it."""
        door = self._door
        assert door is not None
        connection = getattr(request.transport, "connection", request.protocol)  # HTTP/2's has many streams
        ask = object()
        door.asked(connection, ask, request.content.is_eof)
        try:
            response = await self._answered(request, handler)
            if isinstance(response, _Streaming | _Opening):
                return await response.send(request)
            return response
        finally:
            asyncio.get_running_loop().call_soon(door.answered, connection, ask)  # when it is written, too

    async def _answered(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            self.guard.check(request)
            encoding = request.headers.get("Content-Encoding", "identity")
            if encoding.strip().lower() != "identity":
                text = f"A body is taken as it is: Content-Encoding {encoding:.40} is not unpacked here"
                raise HttpError(415, text)
            return await handler(request)
        except HttpError as error:
            found = error
        except web.HTTPException as error:
            found = HttpError(error.status, f"{error.reason}: {request.method:.20} {request.path:.{PATH_SHOWN}}")
        except OttlaError as error:
            found = HttpError(500, str(error))
        except ConnectionError as error:
            found = HttpError(CLIENT_GONE, str(error))  # nobody reads it
        except Exception:  # our own mistake: it is said, and costs this answer only
            log.exception("%s %s failed", request.method, request.path)
            count_failure("requests over HTTP")
            found = HttpError(500, "The server has failed to answer; its log says why.")
        return _response(self._error_reply(found))

    def _refused(self, request: web.Request, who: Who) -> Reply | None:
        """Return the answer for who may not ask a route, None for who may."""
        return self.guard.admit(request) if who.needs_admission else None

    def _handler(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            if (refused := self._refused(request, route.who)) is not None:
                return _response(refused)
            self.guard.check_body(request, route.takes)
            if route.body_bytes_max is not None:
                request = request.clone(client_max_size=route.body_bytes_max)
            seconds_max = self._seconds_max if route.seconds_max is None else route.seconds_max
            try:
                async with asyncio.timeout(seconds_max):
                    reply = await route.handle(request)
            except TimeoutError as error:
                text = f"{request.method:.20} {request.path:.{PATH_SHOWN}} took longer than {seconds_max:g} s"
                raise HttpError(504, text) from error
            return _Streaming(reply) if isinstance(reply, StreamedReply) else _response(reply)

        return answer

    def _socket_handler(self, route: SocketRoute) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            if (refused := self._refused(request, route.who)) is not None:
                return _response(refused)
            route.admit(request)
            if request.headers.get("Upgrade", "").lower() != "websocket":
                raise HttpError(426, f"{request.path} is a WebSocket: Upgrade: websocket")
            return _Opening(route)

        return answer


class _Streaming(web.StreamResponse):
    """A streamed reply before it is sent: what is sent after the time for an answer has ended."""

    def __init__(self, reply: StreamedReply) -> None:
        super().__init__(status=reply.status, headers={"Content-Type": reply.content_type, **SERVER, **reply.headers})
        self._chunks = reply.chunks

    async def send(self, request: web.Request) -> web.StreamResponse:
        """Send piece by piece until the end, or until the client is gone."""
        try:
            await self.prepare(request)
            while (chunk := await while_there(request, anext(self._chunks, None))) is not None:
                await _taken(request, self.write(chunk))
            await self.write_eof()
        except ConnectionError as error:
            log.debug("%s %s: the client is gone: %r", request.method, request.path, error)
        finally:
            await self._chunks.aclose()
        return self


class _Opening(web.StreamResponse):
    """A socket that may be opened: what is said on it comes after the time for an answer has ended."""

    def __init__(self, route: SocketRoute) -> None:
        super().__init__()
        self._handle = route.handle

    async def send(self, request: web.Request) -> web.StreamResponse:
        """Open the socket and serve it until it is closed."""
        socket = await Socket.opened(request)
        try:
            await self._handle(request, socket)
        except Exception:  # our own mistake: the socket is open, so that only the log can say it
            log.exception("the socket %s failed", request.path)
            count_failure("requests over HTTP")
        finally:
            await socket.close()
        return socket.response


async def line_of(request: Request) -> bytes:
    """Return a body's next line, nothing at its end; raises ValueError for one that is too long."""
    try:
        return await request.content.readline()
    except HttpProcessingError as error:  # as newer versions of aiohttp say it
        raise ValueError("A line of the request is too long") from error


async def while_there(request: web.Request, answering: Awaitable[T]) -> T:
    """Return what is awaited; it is cancelled, and ConnectionResetError raised, once nobody waits for it any more."""
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout(None)
    timer: asyncio.Handle

    def look() -> None:
        nonlocal timer
        if request.transport is None or request.transport.is_closing():
            limit.reschedule(loop.time())
        else:
            timer = loop.call_later(GONE_LOOK_SECONDS, look)

    timer = loop.call_later(GONE_LOOK_SECONDS, look)
    try:
        async with limit:
            try:
                return await answering
            finally:
                timer.cancel()
    except TimeoutError:
        if limit.expired():
            raise ConnectionResetError("the client has closed the connection") from None
        raise


async def _taken(request: web.Request, writing: Awaitable[None]) -> None:
    """Return when a piece is on its way; a client that takes nothing for too long is cut off (ConnectionResetError)."""
    loop = asyncio.get_running_loop()
    left: float = math.inf
    timer: asyncio.Handle

    def look() -> None:
        nonlocal timer, left
        transport = request.transport
        if transport is None:
            return
        held = transport.get_write_buffer_size()
        if held >= left:
            log.info("%s %s: the client takes nothing for %g s", request.method, request.path, STALLED_SECONDS_MAX)
            transport.abort()
            return
        left, timer = held, loop.call_later(STALLED_SECONDS_MAX, look)

    timer = loop.call_soon(look)
    try:
        await writing
    finally:
        timer.cancel()


def _adding(
    headers: Mapping[str, str] | Callable[[Request], Mapping[str, str]],
) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    async def add(request: web.Request, response: web.StreamResponse) -> None:
        for name, value in (headers(request) if callable(headers) else headers).items():
            response.headers.setdefault(name, value)

    return add


def _response(reply: Reply) -> web.Response:
    headers = {"Content-Type": reply.content_type, **SERVER, **reply.headers}
    return web.Response(body=reply.body, status=reply.status, headers=headers)


def _error_reply(error: HttpError) -> Reply:
    return json_reply({"error_code": error.error_code, "message": error.message}, status=error.status)
