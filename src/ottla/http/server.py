"""A service on the running event loop: opened, served with bounds on time and size, closed."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from aiohttp import web

from ottla.base import OttlaError
from ottla.http.replies import HttpError, Reply, json_reply

__all__ = ["HttpServer", "Request", "Route"]

log = logging.getLogger(__name__)

Request = web.Request
"""What a route is asked: `match_info` has the path's names, `query` what follows `?`; `await request.json()` the body."""

REQUEST_SECONDS_MAX = 30.0
BODY_BYTES_MAX = 1024 * 1024
KEEP_ALIVE_SECONDS = 75.0
CLOSE_SECONDS_MAX = 1.0
"""How long a stop waits for answers that are on their way."""


@dataclass(frozen=True, slots=True)
class Route:
    """One address of a service; HEAD comes with GET."""

    method: str
    path: str
    handle: Callable[[Request], Awaitable[Reply]]


class HttpServer:
    """Serves routes on any number of addresses; bounds are seconds per request and bytes per body."""

    def __init__(
        self,
        routes: Iterable[Route],
        *,
        request_seconds_max: float = REQUEST_SECONDS_MAX,
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        self._seconds_max = request_seconds_max
        app = web.Application(client_max_size=body_bytes_max, middlewares=[self._answer_errors])
        for route in routes:
            app.router.add_route(route.method, route.path, _handler(route.handle))
            if route.method == "GET":
                app.router.add_route("HEAD", route.path, _handler(route.handle))
        self._runner = web.AppRunner(
            app, access_log=None, keepalive_timeout=KEEP_ALIVE_SECONDS, shutdown_timeout=CLOSE_SECONDS_MAX
        )
        self._is_set_up = False

    async def listen(self, host: str, port: int, tls: Callable[[], ssl.SSLContext] | None = None) -> int:
        """Serve an address and return its port; an empty host means every interface. Raises OSError where it is taken.

        With `tls`, which returns the context of the next connection, it is HTTPS.
        """
        if not self._is_set_up:
            await self._runner.setup()
            self._is_set_up = True
        known = len(self._runner.addresses)
        await web.TCPSite(self._runner, host or None, port, ssl_context=None if tls is None else _latest(tls)).start()
        return int(self._runner.addresses[known][1])

    async def close(self) -> None:
        """Stop listening, and close what is open."""
        await self._runner.cleanup()

    @web.middleware
    async def _answer_errors(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Turn everything that goes wrong into JSON; a mistake of ours is logged and tells the client nothing of it."""
        try:
            async with asyncio.timeout(self._seconds_max):
                return await handler(request)
        except HttpError as error:
            return _error(error.status, error.error_code, error.message)
        except web.HTTPException as error:
            return _error(error.status, error.status, f"{error.reason}: {request.method} {request.path}")
        except TimeoutError:
            return _error(504, 504, f"{request.method} {request.path} took longer than {self._seconds_max:g} s")
        except OttlaError as error:
            return _error(500, 500, str(error))
        except Exception:  # our own mistake: it is said, and costs this answer only
            log.exception("%s %s failed", request.method, request.path)
            return _error(500, 500, "The server has failed to answer; its log says why.")


def _latest(tls: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Return a context for a listener that shows the newest keys: a server is given one for all of its life."""
    context = tls()

    def renew(session: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        session.context = tls()

    context.sni_callback = renew  # OpenSSL calls it whether a client names the server or not
    return context


def _handler(handle: Callable[[Request], Awaitable[Reply]]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        return _response(await handle(request))

    return answer


def _response(reply: Reply) -> web.Response:
    headers = {"Content-Type": reply.content_type, "Server": "Ottla", **reply.headers}
    return web.Response(body=reply.body, status=reply.status, headers=headers)


def _error(status: int, error_code: int, message: str) -> web.Response:
    return _response(json_reply({"error_code": error_code, "message": message}, status=status))
