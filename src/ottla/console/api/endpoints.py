"""The table of the interface: what an address is, its description as OpenAPI, and what every answer shares."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from ottla import service
from ottla.admin import AdminError, RestError
from ottla.base import KafkaError, OttlaError
from ottla.console.places import Place
from ottla.console.rights import Rights
from ottla.http import HttpError, Reply, Request, StreamedReply

__all__ = ["Endpoint", "body", "http_error", "need", "openapi_document", "page_of", "query_number"]

LIST_LIMIT = 100
LIST_LIMIT_MAX = 500


Endpoint: TypeAlias = service.Endpoint[Callable[[Place, Request], Awaitable[Reply | StreamedReply]]]
"""One address below `/api/c/{cluster}`; `changes` is true for what a read-only console refuses."""


async def body(request: Request) -> object:
    """Return a request's body; raises HttpError where it is no JSON."""
    try:
        return await request.json()
    except (ValueError, RecursionError):
        raise HttpError(400, "The body is not JSON") from None


def query_number(request: Request, name: str, default: int) -> int:
    """Return a number of the query; raises HttpError."""
    text = request.query.get(name)
    if text is None:
        return default
    if not text.lstrip("-").isdigit() or len(text) > 18:
        raise HttpError(400, f"{name} is a whole number")
    return int(text)


def page_of(rows: list[dict[str, object]], request: Request, by: str) -> dict[str, Any]:
    """Return what of a list is asked for: those that contain `q`, sorted, from a cursor on, so many."""
    wanted = request.query.get("q", "").casefold()
    found = [row for row in rows if wanted in str(row[by]).casefold()]
    sort = request.query.get("sort", "")
    column = sort.lstrip("-")
    if column:
        if rows and column not in rows[0]:
            raise HttpError(400, f"sort is one of {', '.join(rows[0])}")
        found.sort(key=lambda row: _order(row[column]), reverse=sort.startswith("-"))
    start = max(0, query_number(request, "cursor", 0))
    limit = max(1, min(query_number(request, "limit", LIST_LIMIT), LIST_LIMIT_MAX))
    end = start + limit
    return {"items": found[start:end], "total": len(found), "cursor": end if end < len(found) else None}


def _order(value: object) -> tuple[int, float, str]:
    if isinstance(value, bool | int | float):
        return 1, float(value), ""
    return (0, 0.0, "") if value is None else (1, 0.0, str(value).casefold())


def http_error(error: OttlaError) -> HttpError:
    """Return what an error of ours is over HTTP: refused by the broker, senseless, or not answered."""
    if isinstance(error, RestError) and error.status:
        return HttpError(403 if error.status in (401, 403) else 422, str(error))
    if isinstance(error, AdminError):
        return HttpError(400, str(error))
    if not isinstance(error, KafkaError):
        return HttpError(502, str(error))
    name = error.code.name
    if "AUTHORIZATION" in name:
        return HttpError(403, str(error), error_code=40300)
    if name in ("UNKNOWN_TOPIC_OR_PARTITION", "GROUP_ID_NOT_FOUND", "UNKNOWN_TOPIC_ID"):
        return HttpError(404, str(error))
    if error.retriable or name == "NETWORK_EXCEPTION":
        return HttpError(503, str(error))
    return HttpError(422, str(error), error_code=42200 + max(0, int(error.code)))


def need(place: Place, rights: Rights, operation: str) -> None:
    """Raise HttpError where a user who has logged in lacks an operation on the cluster.

    It is asked for what the console does by means of its own: Connect's workers and the registry know none of its users.
    """
    if place.login is not None and operation not in rights.cluster:
        raise HttpError(403, f"needs {operation} on the cluster", error_code=40300)


def openapi_document(endpoints: list[Endpoint], version: str, clusters: list[str]) -> dict[str, object]:
    """Return the table as OpenAPI 3.1."""
    paths: dict[str, dict[str, object]] = {}
    for each in endpoints:
        names = ["cluster", *(part.strip("{}") for part in each.path.split("/") if part.startswith("{"))]
        operation: dict[str, object] = {
            "summary": each.summary,
            "parameters": [
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "schema": {"type": "string", **({"enum": clusters} if name == "cluster" else {})},
                }
                for name in names
            ],
            "responses": {"default": {"description": "JSON; errors have error_code and message"}},
        }
        if isinstance(each.body, Mapping):
            schema = {"type": "object", "properties": dict(each.body)}
            operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
        paths.setdefault(f"/api/c/{{cluster}}{each.path}", {})[each.method.lower()] = operation
    return {"openapi": "3.1.0", "info": {"title": "Ottla console", "version": version}, "paths": paths}
