"""The interface as a whole: its routes, its errors, cross-origin answers, and the addresses that it listens on."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from email.utils import formatdate

from ottla.base import OttlaError
from ottla.connect.decisions.signature import ForbiddenError, UnavailableError
from ottla.connect.errors import AlreadyExistsError, BadRequestError, NotFoundError, RebalanceNeededError
from ottla.connect.herder import ElsewhereError, Herder
from ottla.connect.rest.endpoints import Endpoints
from ottla.connect.rest.forwarding import Forward, forwarded, forwarding
from ottla.connect.rest.openapi import openapi_replies
from ottla.connect.rest.settings import Address, RestSettings
from ottla.http import HttpError, HttpServer, Reply, Request, Route, json_reply

__all__ = ["RestService", "service_routes"]

log = logging.getLogger(__name__)

_STATUSES: tuple[tuple[type[OttlaError], int], ...] = (
    (NotFoundError, 404),
    (AlreadyExistsError, 409),
    (BadRequestError, 400),
    (ForbiddenError, 403),
    (UnavailableError, 503),
)
_STALE = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"
)
Handle = Callable[[Request], Awaitable[Reply]]
_METHODS = ("HEAD", "POST", "DELETE", "PUT", "PATCH", "GET", "OPTIONS")
_MARGIN_S = 5.0
"""How much longer the server waits than this interface, which knows what the worker is at."""


class RestService:
    """The interface on its addresses."""

    def __init__(self, herder: Herder, settings: RestSettings, *, forward: Forward | None = None) -> None:
        self._settings = settings
        forward = forward if forward is not None else forwarding(settings.asking)
        limit = settings.request_seconds_max + _MARGIN_S
        admin = settings.admin_listeners
        self._servers: list[tuple[HttpServer, Sequence[Address], Callable[[], ssl.SSLContext] | None]] = []
        for addresses, parts, tls in (
            (settings.listeners, ("main", "admin") if admin is None else ("main",), settings.tls),
            (admin, ("admin",), settings.admin_tls),
        ):
            if addresses:
                shown = settings if "main" in parts else _plain(settings)
                routes = service_routes(herder, shown, forward=forward, parts=parts)
                self._servers.append(
                    (HttpServer(routes, request_seconds_max=limit, admits=_admits(shown)), addresses, tls)
                )

    async def listen(self) -> list[int]:
        """Serve all addresses and return their ports; raises OSError where one is taken, having closed the others."""
        places = [(server, each, tls) for server, addresses, tls in self._servers for each in addresses]
        try:
            ports = [
                await server.listen(each.host, each.port, tls if each.is_secure else None)
                for server, each, tls in places
            ]
        except OSError:
            await self.close()
            raise
        return ports

    async def close(self) -> None:
        """Stop listening."""
        for server, *_ in self._servers:
            await server.close()


def _admits(settings: RestSettings) -> str:
    return "everybody who reaches it" if settings.logins is None else "by a login"


def _plain(settings: RestSettings) -> RestSettings:
    """Return the settings of `/admin` on addresses of its own: there Kafka adds no header and asks for no password."""
    return replace(settings, allowed_origins=(), headers=(), header_dates=(), logins=None)


def service_routes(
    herder: Herder,
    settings: RestSettings,
    *,
    forward: Forward,
    parts: Sequence[str] = ("main", "admin"),
    prefix: str = "",
) -> list[Route]:
    """Return the routes of a worker's interface; `parts` are `main`, `admin`, and of the former `internal` alone.

    `internal` is what workers ask each other, signed. `prefix` is what every path begins with, where several workers have
    one interface, such as `/east/west`.
    """
    found = Endpoints(herder, settings).all()
    endpoints = [each for each in found if each.part in parts or (each.hidden and "internal" in parts)]
    serve = _Serving(herder, settings, forward, prefix)
    routes = [
        Route(each.method, each.path, serve.route(each.handle if each.hidden else serve.guarded(each.handle)))
        for each in endpoints
    ]
    if "main" in parts or "admin" in parts:
        routes += [
            Route("GET", path, serve.route(serve.guarded(handle))) for path, handle in openapi_replies(endpoints)
        ]
    routes += [replace(route, path=f"{route.path}/") for route in routes if route.path != "/"]  # JAX-RS takes both
    known = {route.path: {each.method for each in routes if each.path == route.path} for route in routes}
    routes += [Route("OPTIONS", path, serve.route(serve.guarded(_options(known[path])))) for path in sorted(known)]
    routes += [Route("*", path, serve.route(_no_method)) for path in sorted(known)]
    routes.append(Route("*", "/{rest:.*}", serve.route(_nothing_here)))
    return [replace(route, path=prefix + route.path) for route in routes]


def _options(methods: Collection[str]) -> Handle:
    """Return what says which methods a path has, as Kafka's does."""
    whole = {*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])}
    listed = [each for each in _METHODS if each in whole]

    async def answer(request: Request) -> Reply:
        return Reply(", ".join(listed).encode(), "text/plain", 200, {"Allow": ",".join(listed)})

    return answer


async def _no_method(request: Request) -> Reply:
    raise HttpError(405, "HTTP 405 Method Not Allowed")


async def _nothing_here(request: Request) -> Reply:
    raise HttpError(404, "HTTP 404 Not Found")


class _Serving:
    def __init__(self, herder: Herder, settings: RestSettings, forward: Forward, prefix: str) -> None:
        self._herder, self._settings, self._forward, self._prefix = herder, settings, forward, prefix

    def route(self, handle: Callable[[Request], Awaitable[Reply]]) -> Callable[[Request], Awaitable[Reply]]:
        async def answer(request: Request) -> Reply:
            reply = await self._answered(request, handle)
            cross = {**self._cors(request), **self._preflight(request)}
            if self._prefix and reply.headers.get("Location", "").startswith("/"):
                cross["Location"] = self._prefix + reply.headers["Location"]
            return replace(reply, headers={**reply.headers, **cross, **self._own_headers()})

        return answer

    def guarded(self, handle: Handle) -> Handle:
        """Return what answers only to who may ask; requests between workers are signed, and not guarded."""
        logins = self._settings.logins
        if logins is None:
            return handle

        async def answer(request: Request) -> Reply:
            if not logins.admit(request.headers.get("Authorization")):
                return Reply(b"User cannot access the resource.", "text/plain", 401)
            return await handle(request)

        return answer

    def _own_headers(self) -> dict[str, str]:
        now = time.time()
        dates = {name: formatdate(now + ms / 1000, usegmt=True) for name, ms in self._settings.header_dates}
        return {**dict(self._settings.headers), **dates}

    async def _answered(self, request: Request, handle: Callable[[Request], Awaitable[Reply]]) -> Reply:
        try:
            async with asyncio.timeout(self._settings.request_seconds_max):
                try:
                    return await handle(request)
                except ElsewhereError as error:
                    return await forwarded(request, error, self._forward)
        except TimeoutError:
            doing = self._herder.doing
            return _error(500, "Request timed out." + (f" The worker is currently {doing}." if doing else ""))
        except HttpError as error:
            return json_reply({"error_code": error.error_code, "message": error.message}, status=error.status)
        except RebalanceNeededError:
            return _error(409, _STALE)
        except OttlaError as error:
            status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
            if status == 500:
                log.error("%s %s failed: %s", request.method, request.path, error)
            return _error(status, str(error))

    def _preflight(self, request: Request) -> dict[str, str]:
        """Return what a browser's question before a request is told besides the answer, whatever that is."""
        asks = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
        if not asks or "Access-Control-Allow-Origin" not in self._cors(request):
            return {}
        methods = ",".join(self._settings.allowed_methods)
        shown = {"Access-Control-Allow-Methods": methods, "Access-Control-Allow-Headers": "Content-Type"}
        return {**shown, "Access-Control-Max-Age": "60"}

    def _cors(self, request: Request) -> dict[str, str]:
        origin, allowed = request.headers.get("Origin"), self._settings.allowed_origins
        if not allowed:
            return {}
        if origin is None or not ("*" in allowed or origin in allowed):
            return {"Vary": "Origin"}
        return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}


def _error(status: int, message: str) -> Reply:
    return json_reply({"error_code": status, "message": message}, status=status)
