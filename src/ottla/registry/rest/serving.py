"""The interface as a whole: who may ask, which types of content, errors, and which requests another instance answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import lru_cache

from ottla import service
from ottla.base import OttlaError
from ottla.http import HttpError, Reply, Request, RequestKey, Route, Who, json_reply
from ottla.registry.authorization import Caller
from ottla.registry.core import RegistryError
from ottla.registry.core.errors import store_failed
from ottla.registry.logins import Logins
from ottla.registry.rest.asked import Asked
from ottla.registry.rest.declaration import ONCE, Endpoint, check
from ottla.registry.rest.endpoints import NOTHING, Endpoints, Raw
from ottla.registry.rest.forwarding import Forwarding
from ottla.registry.rest.openapi import openapi_replies
from ottla.registry.rest.watching import Watching
from ottla.registry.service import ElsewhereError, Registry
from ottla.service import Dialect, Limits, jersey_words, routes_of

__all__ = ["registry_admission", "registry_dialect", "registry_endpoints", "registry_routes"]

log = logging.getLogger(__name__)
Handle = Callable[[Request], Awaitable[Reply]]
V1, PLAIN = "application/vnd.schemaregistry.v1+json", "application/json"
TYPES = (V1, "application/vnd.schemaregistry+json", PLAIN, "application/octet-stream")
TEXT = "text/plain"
PRINCIPAL = RequestKey("principal", str)
"""Under this name a request has who asks."""
ACCEPTED_MAX = 256
"""Headers `Accept` whose meaning is remembered: a client sends the same one with every request."""


def registry_dialect(limits: Limits) -> Dialect:
    """Return what every address of a registry has, as Confluent's."""
    return Dialect(TYPES, _told, limits, has_slashes=True, strangers=Who.LOGGED_IN)


def watching_endpoints(watching: Watching) -> list[service.Endpoint[Handle]]:
    """Return the addresses for who watches an instance."""
    found: list[service.Endpoint[Handle]] = [
        service.Endpoint("GET", "/metrics", "Numbers for Prometheus.", watching.metrics, Who.LOGGED_IN)
    ]
    found += [
        service.Endpoint("GET", path, "Say whether it is well.", watching.health, Who.ANYONE, statuses=(200, 503))
        for path in ("/health", "/healthz", "/_health")
    ]
    primary = "Say whether there is a primary, as Karapace does."
    found.append(service.Endpoint("GET", "/master_available", primary, watching.primary, Who.ANYONE))
    return found


def registry_endpoints(registry: Registry, watching: Watching) -> tuple[list[Endpoint], list[service.Endpoint[Handle]]]:
    """Return the addresses of the interface, those in contexts among them, and those beside it."""
    endpoints = Endpoints(registry).all()
    beside = watching_endpoints(watching)
    beside += [
        service.Endpoint("GET", path, "This interface in OpenAPI's words.", handle, Who.LOGGED_IN)
        for path, handle in openapi_replies(endpoints)
    ]
    return [*endpoints, *(_in_context(each) for each in endpoints if not each.tags & ONCE)], beside


def registry_routes(registry: Registry, forwarding: Forwarding, watching: Watching, dialect: Dialect) -> list[Route]:
    """Return all routes of an instance."""
    serving = _Serving(registry, forwarding, watching)
    endpoints, beside = registry_endpoints(registry, watching)
    bound = [_bound(each, serving.route(each)) for each in endpoints]
    return routes_of([*bound, *beside], dialect, lambda each: each.handle)


def registry_admission(logins: Logins, watching: Watching) -> Callable[[Request], Reply | None]:
    """Return what a guard asks of each request; who asks is kept in the request."""

    def admit(request: Request) -> Reply | None:
        principal = logins.principal(request)
        if principal is not None:
            request[PRINCIPAL] = principal
            return None
        watching.count(request.method, 401)
        reply = _error(401, 401, "Unauthorized", V1)
        return replace(reply, headers={"WWW-Authenticate": logins.challenge}) if logins.challenge else reply

    return admit


def _bound(endpoint: Endpoint, handle: Handle) -> service.Endpoint[Handle]:
    return replace(endpoint, handle=handle)  # type: ignore[arg-type, return-value]  # of another kind by that


def _in_context(endpoint: Endpoint) -> Endpoint:
    return replace(endpoint, path="/contexts/{prefix_context}" + endpoint.path)


class _Serving:
    def __init__(self, registry: Registry, forwarding: Forwarding, watching: Watching) -> None:
        self._registry, self._forwarding, self._watching = registry, forwarding, watching

    def route(self, endpoint: Endpoint) -> Handle:
        async def answer(request: Request) -> Reply:
            reply = await self._answered(endpoint, request)
            self._watching.count(request.method, reply.status)
            return reply

        return answer

    async def _answered(self, endpoint: Endpoint, request: Request) -> Reply:
        kind = _accepted(request.headers.get("Accept") or "*/*", endpoint.path.endswith("/schema"))
        if kind is None:
            return _error(406, 406, "HTTP 406 Not Acceptable", V1)
        data = await request.read() if request.body_exists else b""
        caller = Caller(request[PRINCIPAL], request.remote or "", self._registry.authorizer)
        asked = Asked(request, data, self._registry.state, caller)

        async def here() -> Reply:
            check(endpoint, asked)  # again after waiting for a primary: rights and aliases may be others by then
            return _reply(await endpoint.handle(asked), kind)

        try:
            try:
                return await here()
            except ElsewhereError:
                return await self._forwarding.answered(request, data, here)
        except RegistryError as error:
            return _error(error.status, error.code, error.message, kind)
        except HttpError as error:
            return _error(error.status, error.error_code, error.message, kind)
        except OttlaError as error:
            log.error("%s %s failed: %s", request.method, request.path, error)
            failed = store_failed(f"Error in the backend data store: {error}")
            return _error(failed.status, failed.code, failed.message, kind)


def _reply(answer: object, kind: str) -> Reply:
    if answer is NOTHING:
        return Reply(b"", kind, 204)
    if isinstance(answer, Raw):
        return Reply(answer.text.encode(), kind)
    return json_reply(answer, content_type=V1 if kind == TEXT else kind)


def _told(error: HttpError) -> Reply:
    """A refusal of the server's, before an address is asked."""
    return _error(error.status, error.error_code, jersey_words(error), V1)


def _error(status: int, code: int, words: str, kind: str) -> Reply:
    return json_reply({"error_code": code, "message": words}, status=status, content_type=V1 if kind == TEXT else kind)


@lru_cache(ACCEPTED_MAX)
def _accepted(accept: str, is_text: bool) -> str | None:
    """Return the type of content that the client likes best of those that there are, None where it takes none of them."""
    offered = (*TYPES[:3], TEXT) if is_text else TYPES[:3]
    best, best_quality = None, 0.0
    for part in accept.split(","):
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        quality = _quality(parameters)
        found = next((each for each in offered if _covers(name, each)), None)
        if found is not None and quality > best_quality:
            best, best_quality = found, quality
    return best


def _covers(pattern: str, kind: str) -> bool:
    family, _, rest = pattern.partition("/")
    if rest == "*":
        return family in ("*", kind.partition("/")[0])
    return pattern == kind or (pattern == TYPES[3] and kind == V1)


def _quality(parameters: list[str]) -> float:
    for each in parameters:
        if each.startswith("q="):
            try:
                return float(each[2:])
            except ValueError:
                return 0.0
    return 1.0
