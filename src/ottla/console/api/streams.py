"""What the pages of Streams ask of services and applications, by their REST interfaces.

They know none of the console's users. Where users log in, who may DESCRIBE the cluster sees them, and who may ALTER it
changes them and looks into their stores; no store is shown whose changelog, or of whose application a source, is masked.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from ottla.admin import RestError, Worker
from ottla.console.api.endpoints import Endpoint, need
from ottla.console.places import Place
from ottla.http import HttpError, Reply, Request, Who, json_reply

__all__ = ["streams_endpoints", "topics_of"]

ENTRIES_MAX = 200
SOURCES = re.compile(r"\(topics: \[([^\]]*)\]\)")
LOOKUPS = ("key", "prefix", "low", "high", "from", "to", "reverse")


def streams_endpoints() -> list[Endpoint]:
    """Return the part of the table."""
    one = "/streams/{service}/{application}"
    return [
        Endpoint(
            "GET", "/streams", "Services and applications of Streams, with states and lag", _services, Who.SESSION
        ),
        Endpoint("GET", one, "One application: topology, tasks, stores", _application, Who.SESSION),
        Endpoint(
            "GET",
            f"{one}/stores/{{store}}",
            "Entries of a store: ?key=&prefix=&low=&high=&from=&to=",
            _store,
            Who.SESSION,
        ),
    ]


async def _ask(worker: Worker, path: str) -> Any:
    return await asyncio.to_thread(worker.ask, "GET", path)


def _service(place: Place, request: Request) -> Worker:
    name = request.match_info["service"]
    found = place.streams.get(name)
    if found is None:
        raise HttpError(404, f"There is no Streams service called {name}")
    return found


async def _services(place: Place, request: Request) -> Reply:
    allowed = await place.allowed()
    need(place, allowed, "DESCRIBE")
    found = await asyncio.gather(*(_one_service(name, each) for name, each in place.streams.items()))
    return json_reply({"operations": sorted(allowed.cluster), "items": found})


async def _one_service(name: str, worker: Worker) -> dict[str, object]:
    """Return a service with its applications, or an application that stands for itself."""
    answer: dict[str, object] = {"name": name, "url": worker.url, "error": "", "hosts": 0, "available": []}
    try:
        try:
            listed, status = await asyncio.gather(_ask(worker, "/applications"), _ask(worker, "/"))
        except RestError as error:
            if error.status != 404:
                raise
            found = await _ask(worker, "/status")
            return {**answer, "kind": "application", "applications": [_row(found)], "hosts": len(found["hosts"])}
    except RestError as error:
        return {**answer, "kind": "service", "error": str(error), "applications": []}
    return {
        **answer,
        "kind": "service",
        "hosts": len(status["hosts"]),
        "available": listed["available"],
        "applications": [_row(each) for each in listed["applications"]],
    }


def _row(found: Mapping[str, Any]) -> dict[str, object]:
    return {
        "name": found.get("name") or found["application_id"],
        "application_id": found["application_id"],
        "state": found["state"],
        "paused": bool(found.get("paused")),
        "execution": found.get("execution") or "continuous",
        "guarantee": found["processing_guarantee"],
        "rows": found["rows"],
        "rows_per_second": found["rows_per_second"],
        "lag": found["lag"],
        "error": found.get("error"),
    }


async def _paths(worker: Worker, name: str) -> tuple[str, str, Any]:
    """Return where an application's status and what is below it are asked, and its status."""
    base = f"/applications/{quote(name, safe='', errors='replace')}"
    try:
        return base, base, await _ask(worker, base)
    except RestError as error:
        if error.status != 404:
            raise
    try:
        found = await _ask(worker, "/status")
    except RestError:
        found = None
    if found is None or found.get("application_id") != name:
        raise HttpError(404, f"No application {name} runs there")
    return "/status", "", found


async def _application(place: Place, request: Request) -> Reply:
    allowed = await place.allowed()
    need(place, allowed, "DESCRIBE")
    worker, name = _service(place, request), request.match_info["application"]
    _, base, status = await _paths(worker, name)
    topology, stores = await asyncio.gather(
        asyncio.to_thread(worker.text, f"{base}/topology"), _ask(worker, f"{base}/stores")
    )
    return json_reply(
        {
            "operations": sorted(allowed.cluster),
            "kind": "service" if base else "application",
            **_row(status),
            "because": status.get("execution_because"),
            "uptime_seconds": status.get("uptime_seconds"),
            "notices": status.get("notices") or [],
            "parts": status["queries"],
            "hosts": status.get("hosts") or [],
            "topology": topology,
            "stores": stores["stores"],
        }
    )


def topics_of(topology: str) -> list[str]:
    """Return the topics that a topology's text names as sources."""
    listed = SOURCES.findall(topology)
    return [each.strip() for names in listed for each in names.split(",") if each.strip()]


async def _store(place: Place, request: Request) -> Reply:
    need(place, await place.allowed(), "ALTER")
    worker, store = _service(place, request), request.match_info["store"]
    _, base, status = await _paths(worker, request.match_info["application"])
    topic = f"{status['application_id']}-{store}-changelog"
    if place.is_masked:
        topology = await asyncio.to_thread(worker.text, f"{base}/topology")
        for each in (topic, *topics_of(topology)):
            if place.hidden(each) is not None:
                raise HttpError(403, f"{each} is masked here, and with it the store", error_code=40302)
    asked = {name: request.query[name] for name in LOOKUPS if request.query.get(name)}
    query = urlencode(asked if "key" in asked else {**asked, "limit": ENTRIES_MAX})
    path = f"{base}/stores/{quote(store, safe='', errors='replace')}?{query}"
    try:
        found = await asyncio.to_thread(worker.ask, "GET", path, None, take=(404,))
    except RestError as error:
        raise HttpError(422, str(error)) from None
    if "store" not in found:
        raise HttpError(404, str(found.get("message", f"There is no store {store}")))
    entries = found.get("entries")
    if entries is None:
        is_there = found.get("value") is not None
        entries = [{"key": found["key"], "value": found["value"]}] if is_there else []
    return json_reply({"entries": entries, "lag": (found.get("position") or {}).get("lag"), "limit": ENTRIES_MAX})
