"""The interface as a whole: its routes, its errors, cross-origin answers, and the addresses that it listens on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from ottla.base import OttlaError
from ottla.connect.errors import AlreadyExistsError, BadRequestError, NotFoundError, RebalanceNeededError
from ottla.connect.herder import ElsewhereError, Herder
from ottla.connect.herding.signature import ForbiddenError, UnavailableError
from ottla.connect.rest.endpoints import Endpoints
from ottla.connect.rest.forwarding import Forward, forward_by_http, forwarded
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
_MARGIN_S = 5.0
"""How much longer the server waits than this interface, which knows what the worker is at."""


class RestService:
    """The interface on its addresses."""

    def __init__(self, herder: Herder, settings: RestSettings, *, forward: Forward = forward_by_http) -> None:
        self._settings = settings
        limit = settings.request_seconds_max + _MARGIN_S
        admin = settings.admin_listeners
        self._servers: list[tuple[HttpServer, Sequence[Address]]] = []
        for addresses, parts in (
            (settings.listeners, ("main", "admin") if admin is None else ("main",)),
            (admin, ("admin",)),
        ):
            if addresses:
                routes = service_routes(herder, settings, forward=forward, parts=parts)
                self._servers.append((HttpServer(routes, request_seconds_max=limit), addresses))

    async def listen(self) -> list[int]:
        """Serve all addresses and return their ports; raises OSError where one is taken, having closed the others."""
        places = [(server, each) for server, addresses in self._servers for each in addresses]
        try:
            ports = [await server.listen(each.host, each.port) for server, each in places]
        except OSError:
            await self.close()
            raise
        return ports

    async def close(self) -> None:
        """Stop listening."""
        for server, _ in self._servers:
            await server.close()


def service_routes(
    herder: Herder,
    settings: RestSettings,
    *,
    forward: Forward = forward_by_http,
    parts: Sequence[str] = ("main", "admin"),
) -> list[Route]:
    """Return the routes of a worker's interface; `parts` are `main` and `admin`."""
    endpoints = [each for each in Endpoints(herder, settings).all() if each.part in parts]
    serve = _Serving(herder, settings, forward)
    routes = [Route(each.method, each.path, serve.route(each.handle)) for each in endpoints]
    routes += [Route("GET", path, serve.route(handle)) for path, handle in openapi_replies(endpoints)]
    routes += [replace(route, path=f"{route.path}/") for route in routes if route.path != "/"]  # JAX-RS takes both
    known = {route.path for route in routes}
    routes += [Route("*", path, serve.route(_no_method)) for path in sorted(known)]
    return [*routes, Route("*", "/{rest:.*}", serve.route(_nothing_here))]


async def _no_method(request: Request) -> Reply:
    raise HttpError(405, "HTTP 405 Method Not Allowed")


async def _nothing_here(request: Request) -> Reply:
    raise HttpError(404, "HTTP 404 Not Found")


class _Serving:
    def __init__(self, herder: Herder, settings: RestSettings, forward: Forward) -> None:
        self._herder, self._settings, self._forward = herder, settings, forward

    def route(self, handle: Callable[[Request], Awaitable[Reply]]) -> Callable[[Request], Awaitable[Reply]]:
        async def answer(request: Request) -> Reply:
            reply = self._preflight(request) or await self._answered(request, handle)
            return replace(reply, headers={**reply.headers, **self._cors(request), **dict(self._settings.headers)})

        return answer

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

    def _preflight(self, request: Request) -> Reply | None:
        if request.method != "OPTIONS" or "Origin" not in request.headers or not self._settings.allowed_origins:
            return None
        return Reply(b"", "text/plain", 200, {"Access-Control-Allow-Methods": ",".join(self._settings.allowed_methods)})

    def _cors(self, request: Request) -> dict[str, str]:
        origin, allowed = request.headers.get("Origin"), self._settings.allowed_origins
        if origin is None or not ("*" in allowed or origin in allowed):
            return {}
        return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}


def _error(status: int, message: str) -> Reply:
    return json_reply({"error_code": status, "message": message}, status=status)
