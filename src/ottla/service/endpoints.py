"""The declaration of an address, and what is made of declarations: routes, and a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from ottla.http import (
    JSON,
    BodyTypeError,
    Guard,
    HttpError,
    HttpServer,
    Reply,
    Request,
    Route,
    Socket,
    SocketRoute,
    StreamedReply,
    Who,
    json_reply,
)

__all__ = [
    "SERVICE_LIMITS",
    "Dialect",
    "Endpoint",
    "Limits",
    "jersey_errors",
    "jersey_words",
    "json_errors",
    "routes_of",
    "server_of",
    "socket_route",
]

Handle = Callable[[Request], Awaitable[Reply | StreamedReply]]
H = TypeVar("H")
_METHODS = ("HEAD", "POST", "DELETE", "PUT", "PATCH", "GET", "OPTIONS")
"""In the order in which JAX-RS lists them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may cost at most."""

    body_bytes: int = 1024 * 1024
    seconds: float = 30.0
    """Until its answer begins."""


SERVICE_LIMITS = Limits()


@dataclass(frozen=True)
class Endpoint(Generic[H]):
    """One method of one path. `handle` is what answers it, in the form that its service has for all of them."""

    method: str
    path: str
    summary: str
    handle: H
    who: Who
    right: str = ""
    """The service's right that a caller needs, in the service's own words; empty where a login is enough."""
    query: tuple[str, ...] = ()
    """The names of its parameters."""
    body: str | Mapping[str, object] | None = None
    """The name of the body's schema, or its properties; None where it takes no body."""
    answer: str = ""
    """The name of the schema of what a success answers."""
    statuses: tuple[int, ...] = (200,)
    takes: tuple[str, ...] | None = None
    """The types that a body may have; None for those of the service."""
    changes: bool = False
    """Whether it changes anything."""
    limits: Limits | None = None
    """None for those of the service."""
    tags: frozenset[str] = frozenset()
    """What a service needs to know beside that."""


def json_errors(error: HttpError) -> Reply:
    """Return an error as Confluent's and Kafka's services tell it."""
    return json_reply({"error_code": error.error_code, "message": error.message}, status=error.status)


def jersey_words(error: HttpError) -> str:
    """Return an error's message as Jersey words it, whose services Kafka's Connect and Confluent's registry are."""
    return "HTTP 415 Unsupported Media Type" if isinstance(error, BodyTypeError) else error.message


def jersey_errors(error: HttpError) -> Reply:
    """Return an error as a service on Jersey tells it."""
    return json_reply({"error_code": error.error_code, "message": jersey_words(error)}, status=error.status)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is the same at every address of a service, since its peer has it so."""

    content_types: tuple[str, ...] = (JSON,)
    """The types that bodies may have."""
    error_body: Callable[[HttpError], Reply] = json_errors
    limits: Limits = SERVICE_LIMITS
    has_slashes: bool = False
    """Whether each path is there with a slash at its end, too, as JAX-RS has it."""
    tells_methods: bool = False
    """Whether OPTIONS is answered with the methods of a path."""
    strangers: Who | None = None
    """Who is told that there is no such address or method (404, 405); None: the server tells everybody."""


def routes_of(
    endpoints: Iterable[Endpoint[H]],
    dialect: Dialect,
    bind: Callable[[Endpoint[H]], Handle],
    *,
    wrap: Callable[[Handle], Handle] = lambda handle: handle,
    prefix: str = "",
) -> list[Route]:
    """Return the routes of a service.

    `bind` makes a handler of requests of an endpoint, `wrap` of the answers that the dialect has beside them. `prefix` is
    what every path begins with.
    """
    routes = [
        Route(
            each.method,
            each.path,
            bind(each),
            each.who,
            each.takes or dialect.content_types,
            each.limits.body_bytes if each.limits else None,
            each.limits.seconds if each.limits else None,
        )
        for each in endpoints
    ]
    if dialect.has_slashes:
        routes += [replace(each, path=f"{each.path}/") for each in routes if not each.path.endswith("/")]
    known: dict[str, set[str]] = {}
    for route in routes:
        known.setdefault(route.path, set()).add(route.method)
    if dialect.tells_methods:
        routes += [
            Route("OPTIONS", path, wrap(_options(known[path])), Who.LOGGED_IN, dialect.content_types)
            for path in sorted(known)
        ]
    if (who := dialect.strangers) is not None:
        no_method = wrap(_refusal(405, "HTTP 405 Method Not Allowed"))
        nothing = wrap(_refusal(404, "HTTP 404 Not Found"))
        routes += [Route("*", path, no_method, who, takes=("*/*",)) for path in sorted(known)]
        routes.append(Route("*", "/{rest:.*}", nothing, who, takes=("*/*",)))
    return [replace(each, path=prefix + each.path) for each in routes] if prefix else routes


def _options(methods: Collection[str]) -> Handle:
    """Return what says which methods a path has, as Kafka's does."""
    whole = {*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])}
    listed = [each for each in _METHODS if each in whole]

    async def answer(_request: Request) -> Reply:
        return Reply(", ".join(listed).encode(), "text/plain", 200, {"Allow": ",".join(listed)})

    return answer


def _refusal(status: int, words: str) -> Handle:
    async def answer(_request: Request) -> Reply:
        raise HttpError(status, words)

    return answer


def socket_route(
    endpoint: Endpoint[Callable[[Request, Socket], Awaitable[None]]],
    admit: Callable[[Request], None] = lambda request: None,
) -> SocketRoute:
    """Return the route of an endpoint that is a WebSocket; `admit` refuses, by HttpError, who may ask and yet not now."""
    return SocketRoute(endpoint.path, endpoint.handle, endpoint.who, admit)


def server_of(
    routes: Iterable[Route | SocketRoute],
    guard: Guard,
    dialect: Dialect,
    *,
    headers: Mapping[str, str] | Callable[[Request], Mapping[str, str]] | None = None,
    **more: Any,
) -> HttpServer:
    """Return a server of routes with the bounds and the errors of a dialect."""
    return HttpServer(
        routes,
        guard,
        request_seconds_max=dialect.limits.seconds,
        body_bytes_max=dialect.limits.body_bytes,
        headers=headers,
        error_reply=dialect.error_body,
        **more,
    )
