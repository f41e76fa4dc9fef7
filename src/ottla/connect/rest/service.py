"""The interface as a whole: its routes, its errors, its guard, and the addresses that it listens on."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from email.utils import formatdate

from ottla.base import OttlaError
from ottla.connect.decisions.signature import ForbiddenError, UnavailableError
from ottla.connect.errors import AlreadyExistsError, BadRequestError, NotFoundError, RebalanceNeededError
from ottla.connect.herder import ElsewhereError, Herder
from ottla.connect.rest.endpoints import Endpoint, Endpoints
from ottla.connect.rest.forwarding import Forward, forwarded, forwarding
from ottla.connect.rest.openapi import openapi_replies
from ottla.connect.rest.settings import Address, RestSettings
from ottla.http import HttpError, HttpServer, Reply, Request, Route, StreamedReply, Who, json_reply
from ottla.service import (
    Cors,
    Dialect,
    Limits,
    basic_admission,
    guard_of,
    jersey_errors,
    json_errors,
    routes_of,
    server_of,
)

__all__ = ["RestService", "rest_endpoints", "rest_server", "service_routes"]

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
Handle = Callable[[Request], Awaitable[Reply | StreamedReply]]
_MARGIN_S = 5.0
"""How much longer the server waits than this interface, which knows what the worker is at."""


class RestService:
    """The interface on its addresses."""

    def __init__(self, herder: Herder, settings: RestSettings, *, forward: Forward | None = None) -> None:
        self._settings = settings
        forward = forward if forward is not None else forwarding(settings.asking)
        admin = settings.admin_listeners
        self._servers: list[tuple[HttpServer, Sequence[Address], Callable[[], ssl.SSLContext] | None]] = []
        for addresses, parts, tls in (
            (settings.listeners, ("main", "admin") if admin is None else ("main",), settings.tls),
            (admin, ("admin",), settings.admin_tls),
        ):
            if addresses:
                shown = replace(settings if "main" in parts else _plain(settings), listeners=tuple(addresses))
                routes = service_routes(herder, shown, forward=forward, parts=parts)
                self._servers.append((rest_server(routes, shown), addresses, tls))

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


def _plain(settings: RestSettings) -> RestSettings:
    """Return the settings of `/admin` on addresses of its own: there Kafka adds no header and asks for no password."""
    return replace(settings, allowed_origins=(), headers=(), header_dates=(), logins=None)


def rest_dialect(settings: RestSettings) -> Dialect:
    """Return what every address of the interface has, as Kafka's; it answers itself before the server's time is over."""
    limits = Limits(seconds=settings.request_seconds_max + _MARGIN_S)
    return Dialect(error_body=jersey_errors, limits=limits, has_slashes=True, tells_methods=True, strangers=Who.ANYONE)


def rest_server(routes: Iterable[Route], settings: RestSettings) -> HttpServer:
    """Return a server of routes at the listeners of settings, guarded as these say."""
    cors = Cors(settings.allowed_origins, settings.allowed_methods)
    guard = guard_of(
        basic_admission(settings.logins, lambda: Reply(b"User cannot access the resource.", "text/plain", 401)),
        listeners=[each.host for each in settings.listeners],
        advertised=settings.advertised,
        hosts=settings.hosts,
        origins=settings.allowed_origins,
        is_protected=settings.logins is not None or all(each.is_secure for each in settings.listeners),
    )

    def headers(request: Request) -> dict[str, str]:
        now = time.time()
        dates = {name: formatdate(now + ms / 1000, usegmt=True) for name, ms in settings.header_dates}
        return {**cors.headers(request), **dict(settings.headers), **dates}

    return server_of(routes, guard, rest_dialect(settings), headers=headers)


def rest_endpoints(herder: Herder, settings: RestSettings, parts: Collection[str]) -> list[Endpoint]:
    """Return the addresses of some parts of the interface."""
    wanted = {*parts, *(("internal",) if "main" in parts else ())}
    endpoints = [each for each in Endpoints(herder, settings).all() if _part(each) in wanted]
    if "main" in parts or "admin" in parts:
        endpoints += [
            Endpoint("GET", path, "This interface in OpenAPI's words", handle, Who.LOGGED_IN)
            for path, handle in openapi_replies(endpoints)
        ]
    return endpoints


def _part(endpoint: Endpoint) -> str:
    return next(iter(endpoint.tags), "main")


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
    serve = _Serving(herder, settings, forward, prefix)
    return routes_of(
        rest_endpoints(herder, settings, parts),
        rest_dialect(settings),
        lambda each: serve.route(each.handle),
        wrap=serve.route,
        prefix=prefix,
    )


class _Serving:
    def __init__(self, herder: Herder, settings: RestSettings, forward: Forward, prefix: str) -> None:
        self._herder, self._settings, self._forward, self._prefix = herder, settings, forward, prefix

    def route(self, handle: Handle) -> Handle:
        async def answer(request: Request) -> Reply | StreamedReply:
            reply = await self._answered(request, handle)
            if self._prefix and reply.headers.get("Location", "").startswith("/"):
                return replace(reply, headers={**reply.headers, "Location": self._prefix + reply.headers["Location"]})
            return reply

        return answer

    async def _answered(self, request: Request, handle: Handle) -> Reply | StreamedReply:
        try:
            async with asyncio.timeout(self._settings.request_seconds_max):
                try:
                    return await handle(request)
                except ElsewhereError as error:
                    return await forwarded(request, error, self._forward, self._settings.logins_to)
        except TimeoutError:
            doing = self._herder.doing
            return _error(500, "Request timed out." + (f" The worker is currently {doing}." if doing else ""))
        except HttpError as error:
            return json_errors(error)
        except RebalanceNeededError:
            return _error(409, _STALE)
        except OttlaError as error:
            status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
            if status == 500:
                log.error("%s %s failed: %s", request.method, request.path, error)
            return _error(status, str(error))


def _error(status: int, message: str) -> Reply:
    return json_reply({"error_code": status, "message": message}, status=status)
