"""The interface as a whole: who may ask, which types of content, errors, and which requests another instance answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import lru_cache

from ottla.base import OttlaError
from ottla.http import HttpError, Reply, Request, Route, json_reply
from ottla.registry.authorization import Caller
from ottla.registry.core import RegistryError
from ottla.registry.core.errors import store_failed
from ottla.registry.logins import Logins
from ottla.registry.rest.asked import Asked
from ottla.registry.rest.endpoints import NOTHING, Endpoint, Endpoints, Raw
from ottla.registry.rest.forwarding import Forwarding
from ottla.registry.rest.openapi import openapi_replies
from ottla.registry.rest.watching import Watching
from ottla.registry.service import ElsewhereError, Registry

__all__ = ["registry_routes"]

log = logging.getLogger(__name__)
Handle = Callable[[Request], Awaitable[Reply]]
V1, PLAIN = "application/vnd.schemaregistry.v1+json", "application/json"
TYPES = (V1, "application/vnd.schemaregistry+json", PLAIN, "application/octet-stream")
TEXT = "text/plain"
ACCEPTED_MAX = 256
"""Headers `Accept` whose meaning is remembered: a client sends the same one with every request."""


def registry_routes(registry: Registry, forwarding: Forwarding, logins: Logins) -> list[Route]:
    """Return all routes of an instance."""
    serving = _Serving(registry, forwarding, logins)
    endpoints = Endpoints(registry).all()
    routes = [Route(each.method, each.path, serving.route(each)) for each in endpoints]
    watching = Watching(registry)
    routes += [
        Route("GET", "/metrics", serving.guarded(watching.metrics)),
        *(Route("GET", path, watching.health) for path in ("/health", "/healthz", "/_health")),
        Route("GET", "/master_available", watching.primary),
        *(Route("GET", path, serving.guarded(handle)) for path, handle in openapi_replies(endpoints)),
    ]
    serving.count = watching.count
    contexts = [each for each in endpoints if each.in_contexts]
    routes += [Route(each.method, _in_context(each.path), serving.route(each)) for each in contexts]
    routes += [replace(each, path=f"{each.path}/") for each in routes if not each.path.endswith("/")]
    known = sorted({each.path for each in routes})
    routes += [Route("*", path, serving.refusal(405, "HTTP 405 Method Not Allowed")) for path in known]
    return [*routes, Route("*", "/{rest:.*}", serving.refusal(404, "HTTP 404 Not Found"))]


def _in_context(path: str) -> str:
    return "/contexts/{prefix_context}" + path


class _Serving:
    def __init__(self, registry: Registry, forwarding: Forwarding, logins: Logins) -> None:
        self._registry, self._forwarding, self._logins = registry, forwarding, logins
        self.count: Callable[[str, int], None] = lambda method, status: None

    def guarded(self, handle: Handle) -> Handle:
        """Return what answers only to who may ask."""

        async def answer(request: Request) -> Reply:
            return self._unknown(request) or await handle(request)

        return answer

    def refusal(self, status: int, words: str) -> Handle:
        async def answer(request: Request) -> Reply:
            return self._unknown(request) or _error(status, status, words, V1)

        return answer

    def route(self, endpoint: Endpoint) -> Handle:
        async def answer(request: Request) -> Reply:
            principal = self._logins.principal(request)
            reply = self._refused() if principal is None else await self._answered(endpoint, request, principal)
            self.count(request.method, reply.status)
            return reply

        return answer

    def _unknown(self, request: Request) -> Reply | None:
        return self._refused() if self._logins.principal(request) is None else None

    def _refused(self) -> Reply:
        reply = _error(401, 401, "Unauthorized", V1)
        return (
            replace(reply, headers={"WWW-Authenticate": challenge}) if (challenge := self._logins.challenge) else reply
        )

    async def _answered(self, endpoint: Endpoint, request: Request, principal: str) -> Reply:
        kind = _accepted(request.headers.get("Accept") or "*/*", endpoint.path.endswith("/schema"))
        if kind is None:
            return _error(406, 406, "HTTP 406 Not Acceptable", V1)
        data = await request.read() if request.body_exists else b""
        named = request.headers.get("Content-Type")
        if data and named is not None and request.content_type not in TYPES:
            return _error(415, 415, "HTTP 415 Unsupported Media Type", kind)
        caller = Caller(principal, request.remote or "", self._registry.authorizer)
        asked = Asked(request, data, self._registry.state, caller)

        async def here() -> Reply:
            endpoint.check(asked)  # again after waiting for a primary: rights and aliases may be others by then
            return _reply(await endpoint.answer(asked), kind)

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
