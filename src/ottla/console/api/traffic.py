"""Who writes and reads topics, and what that costs: what brokers count of their clients, with groups and connectors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from ottla.admin import RestError, Worker
from ottla.console.api.endpoints import Endpoint
from ottla.console.figures.costs import client_costs, topic_costs
from ottla.console.figures.lineage import Connector, lineage, named, of_topic
from ottla.console.figures.samples import topic_figures
from ottla.console.places import Place
from ottla.http import HttpError, Reply, Request, Who, json_reply

__all__ = ["traffic_endpoints"]

CONNECTORS_SECONDS = 30.0
"""How long what workers say of connectors' topics holds."""
CONNECTORS_MAX = 200
ROWS_MAX = 1000
"""Topics, and users, that one answer has, the dearest first."""


class _Connectors:
    """What Connect's workers say, asked for anew after a while, for all who look."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, list[Connector]]] = {}

    async def of(self, workers: Mapping[str, Worker]) -> list[Connector]:
        """Return the connectors of workers; those of one that does not answer are left out."""
        now_s = time.monotonic()
        stale = [name for name in workers if now_s - self._known.get(name, (-1e9, []))[0] >= CONNECTORS_SECONDS]
        told = await asyncio.gather(*(asyncio.to_thread(_told, name, workers[name]) for name in stale))
        self._known |= {name: (now_s, found) for name, found in zip(stale, told, strict=True)}
        return [each for name in workers for each in self._known[name][1]]


def _told(name: str, worker: Worker) -> list[Connector]:
    found = []
    try:
        listed = worker.ask("GET", "/connectors?expand=info")
        for connector, each in list(listed.items())[:CONNECTORS_MAX]:
            topics: Any = worker.ask(
                "GET", f"/connectors/{quote(connector, safe='', errors='replace')}/topics", take=(403, 404)
            )
            used = (topics.get(connector) or {}).get("topics") or ()
            kind = str((each.get("info") or {}).get("type") or "source")
            found.append(Connector(connector, name, kind, tuple(map(str, used))))
    except (RestError, AttributeError, TypeError):  # a worker that is away, or answers otherwise: the rest is shown
        return found
    return found


def traffic_endpoints() -> list[Endpoint]:
    """Return the part of the table."""
    connectors = _Connectors()

    async def _lineage(place: Place, request: Request) -> Reply:
        topic = request.query.get("topic") or None
        seen = await place.seen()
        if topic is not None and topic not in seen.sample.topics:
            raise HttpError(404, f"There is no topic {topic}")
        sees_connectors = place.login is None or "DESCRIBE" in (await place.allowed()).cluster
        known = await connectors.of(place.workers if sees_connectors else {})
        internal = request.query.get("internal") == "true" or topic is not None
        found = lineage(seen.sample, seen.before, known, internal=internal)
        if topic is not None:
            found = of_topic(found, topic)
        if words := request.query.get("q"):
            found = named(found, words)
        return _reply(place, seen.sample.at_ms, found.shown())

    return [
        Endpoint("GET", "/lineage", "Who writes and who reads topics: ?topic=&q=&internal=", _lineage, Who.SESSION),
        Endpoint("GET", "/cost", "What topics and their users cost: ?topic=&internal=", _cost, Who.SESSION),
    ]


async def _cost(place: Place, request: Request) -> Reply:
    topic = request.query.get("topic") or None
    seen = await place.seen()
    if topic is not None and topic not in seen.sample.topics:
        raise HttpError(404, f"There is no topic {topic}")
    figures = topic_figures(seen.sample, seen.before, only=topic)
    if topic is None and request.query.get("internal") != "true":
        figures = [each for each in figures if not each.is_internal]
    rows = topic_costs(seen.sample, figures, place.prices)
    clients = client_costs(seen.sample, rows, place.prices)
    answer = {
        "counted": seen.sample.traffic is not None,
        "prices": {**asdict(place.prices), "are_set": place.prices.are_set},
        "topics": [{**asdict(each), "cost": each.cost} for each in rows[:ROWS_MAX]],
        "left_out": max(0, len(rows) - ROWS_MAX),
        "total": sum(each.cost or 0 for each in rows),
        "clients": None if clients is None else [asdict(each) for each in clients[:ROWS_MAX]],
    }
    return _reply(place, seen.sample.at_ms, answer)


def _reply(place: Place, at_ms: int, answer: Mapping[str, object]) -> Reply:
    return json_reply(
        {
            "sampled_at": at_ms,
            "period_s": place.sampler.period_s,
            "partial": list(place.sampler.newest.partial) if place.sampler.newest and place.login is None else [],
            "error": place.sampler.error,
            **answer,
        }
    )
