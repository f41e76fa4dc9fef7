"""What the pages of the schema registry ask of it, by its REST interface; who may do so is as for Connect's workers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ottla.admin import RestError, Worker
from ottla.admin.actions import compatibility_messages
from ottla.console.api.endpoints import Endpoint, body, need, page_of
from ottla.console.places import Place
from ottla.console.records.requests import object_of
from ottla.http import HttpError, Reply, Request, Who, json_reply

__all__ = ["schema_endpoints"]

VERSIONS_MAX = 50
SCHEMA_BODY: Mapping[str, object] = {
    "schema": {"type": "string"},
    "schema_type": {"enum": ["AVRO", "JSON", "PROTOBUF"]},
    "references": {"type": "array", "items": {"type": "object"}},
}


def schema_endpoints() -> list[Endpoint]:
    """Return the part of the table."""
    return [
        Endpoint(
            "GET", "/schemas", "Subjects with their latest versions: ?q=&sort=&cursor=&limit=", _subjects, Who.SESSION
        ),
        Endpoint(
            "GET", "/schemas/{subject}", "One subject: versions, level, mode, who refers to it", _subject, Who.SESSION
        ),
        Endpoint(
            "POST",
            "/schemas/{subject}/check",
            "May a schema be the next version, and why not",
            _check,
            Who.SESSION,
            body=SCHEMA_BODY,
        ),
    ]


def _registry(place: Place) -> Worker:
    if place.schemas is None:
        raise HttpError(
            404, "No schema registry is named: start the console with --schema-registry URL", error_code=40410
        )
    return place.schemas


async def _ask(registry: Worker, path: str) -> Any:
    return await asyncio.to_thread(registry.ask, "GET", path)


async def _or_none(registry: Worker, path: str) -> Any:
    try:
        return await _ask(registry, path)
    except RestError as error:
        if error.status == 404:
            return None
        raise


async def _subjects(place: Place, request: Request) -> Reply:
    need(place, await place.allowed(), "DESCRIBE")
    registry = _registry(place)
    latest, level, mode = await asyncio.gather(
        _ask(registry, "/schemas?latestOnly=true"), _or_none(registry, "/config"), _or_none(registry, "/mode")
    )
    rows: list[dict[str, object]] = [
        {
            "subject": each["subject"],
            "version": each["version"],
            "id": each["id"],
            "type": each.get("schemaType") or "AVRO",
            "references": len(each.get("references") or ()),
        }
        for each in latest
    ]
    return await _answer(
        place,
        {
            **page_of(rows, request, "subject"),
            "level": (level or {}).get("compatibilityLevel"),
            "mode": (mode or {}).get("mode"),
            "url": registry.url,
        },
    )


async def _subject(place: Place, request: Request) -> Reply:
    need(place, await place.allowed(), "DESCRIBE")
    registry, name = _registry(place), request.match_info["subject"]
    path = f"/subjects/{quote(name, safe='', errors='replace')}"
    numbers = await _or_none(registry, f"{path}/versions")
    if numbers is None:
        raise HttpError(404, f"There is no subject {name}")
    shown = sorted(numbers, reverse=True)[:VERSIONS_MAX]
    versions = await asyncio.gather(*(_or_none(registry, f"{path}/versions/{each}") for each in shown))
    own, level, mode, referring = await asyncio.gather(
        _or_none(registry, f"/config/{quote(name, safe='', errors='replace')}"),
        _or_none(registry, f"/config/{quote(name, safe='', errors='replace')}?defaultToGlobal=true"),
        _or_none(registry, f"/mode/{quote(name, safe='', errors='replace')}?defaultToGlobal=true"),
        _or_none(registry, f"{path}/versions/latest/referencedby"),
    )
    return await _answer(
        place,
        {
            "subject": name,
            "versions": [
                {
                    "version": each["version"],
                    "id": each["id"],
                    "type": each.get("schemaType") or "AVRO",
                    "schema": each["schema"],
                    "references": each.get("references") or [],
                }
                for each in versions
                if each is not None
            ],
            "left_out": len(numbers) - len(shown),
            "own_level": (own or {}).get("compatibilityLevel"),
            "level": (level or {}).get("compatibilityLevel"),
            "mode": (mode or {}).get("mode"),
            "referenced_by": referring or [],
        },
    )


async def _check(place: Place, request: Request) -> Reply:
    need(place, await place.allowed(), "DESCRIBE")
    asked = object_of(await body(request))
    schema, kind = asked.get("schema"), asked.get("schema_type") or "AVRO"
    if not isinstance(schema, str) or not schema.strip():
        raise HttpError(400, "schema is needed: a text")
    given = {"schema": schema, "schemaType": kind, "references": asked.get("references") or []}
    found = await asyncio.to_thread(compatibility_messages, _registry(place), request.match_info["subject"], given)
    return json_reply({"compatible": not found, "messages": found})


async def _answer(place: Place, answer: Mapping[str, object]) -> Reply:
    return json_reply({"operations": sorted((await place.allowed()).cluster), **answer})
