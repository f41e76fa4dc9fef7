"""What the pages of Kafka Connect ask of its workers, by their REST interface.

Workers know none of the console's users. Where users log in, who may DESCRIBE the cluster sees connectors, and who may ALTER
it changes them. Values of secrets are shown to nobody.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ottla.admin import RestError, Worker
from ottla.console.api.endpoints import Endpoint, body, need
from ottla.console.places import Place
from ottla.console.records.requests import object_of
from ottla.console.shown_settings import shown_settings
from ottla.http import HttpError, Reply, Request, Who, json_reply

__all__ = ["connect_endpoints", "root_cause"]

TRACE_CHARACTERS_MAX = 20_000
POSITIONS_SHOWN_MAX = 3
WORST_FIRST = ("FAILED", "UNASSIGNED", "RESTARTING", "STOPPED", "PAUSED", "RUNNING")
CONFIG_BODY: Mapping[str, object] = {"config": {"type": "object"}}
CAUSE = re.compile(r"^Caused by: (?:[\w.$]+\.)?([\w$]+)(?:: (.*))?$", re.MULTILINE)
JAVA = re.compile(r"^(?:[\w.$]+\.)?([\w$]+(?:Exception|Error))(?:: (.*))?$", re.MULTILINE)


def connect_endpoints() -> list[Endpoint]:
    """Return the part of the table."""
    one = "/connect/{worker}/connectors/{connector}"
    return [
        Endpoint(
            "GET",
            "/connect",
            "Connect's clusters with their connectors, what has failed first",
            _connectors,
            Who.SESSION,
        ),
        Endpoint("GET", one, "One connector: states, traces, configuration, offsets, topics", _connector, Who.SESSION),
        Endpoint("GET", "/connect/{worker}/plugins", "Installed plugins", _plugins, Who.SESSION),
        Endpoint(
            "POST",
            "/connect/{worker}/validate",
            "Have a configuration checked",
            _validate,
            Who.SESSION,
            body=CONFIG_BODY,
        ),
    ]


async def _ask(worker: Worker, method: str, path: str, given: object = None) -> Any:
    return await asyncio.to_thread(worker.ask, method, path, given)


async def _answer(place: Place, answer: Mapping[str, object]) -> Reply:
    return json_reply({"operations": sorted((await place.allowed()).cluster), **answer})


def _worker(place: Place, request: Request) -> Worker:
    name = request.match_info["worker"]
    found = place.workers.get(name)
    if found is None:
        raise HttpError(404, f"There are no Connect workers called {name}")
    return found


async def _connectors(place: Place, request: Request) -> Reply:
    need(place, await place.allowed(), "DESCRIBE")
    found = await asyncio.gather(*(_cluster(name, worker) for name, worker in place.workers.items()))
    return await _answer(place, {"items": found})


async def _cluster(name: str, worker: Worker) -> dict[str, object]:
    try:
        root = await _ask(worker, "GET", "/")
        listed = await _ask(worker, "GET", "/connectors?expand=status&expand=info")
    except RestError as error:
        return {"name": name, "url": worker.url, "error": str(error), "connectors": []}
    rows = [_row(key, each) for key, each in listed.items()]
    rows.sort(
        key=lambda row: (WORST_FIRST.index(str(row["worst"])) if row["worst"] in WORST_FIRST else 0, str(row["name"]))
    )
    return {"name": name, "url": worker.url, "version": root.get("version"), "error": "", "connectors": rows}


def _row(name: str, found: Mapping[str, Any]) -> dict[str, object]:
    status, info = found.get("status") or {}, found.get("info") or {}
    state = str((status.get("connector") or {}).get("state", "UNASSIGNED"))
    tasks = status.get("tasks") or []
    states = [state, *(str(each["state"]) for each in tasks)]
    trace = next((each["trace"] for each in [status.get("connector") or {}, *tasks] if each.get("trace")), None)
    progress = status.get("progress") or []
    worst = min(states, key=lambda each: WORST_FIRST.index(each) if each in WORST_FIRST else 0)
    return {
        "name": name,
        "type": status.get("type") or info.get("type") or "unknown",
        "class": str((info.get("config") or {}).get("connector.class", "")),
        "state": state,
        "worst": worst,
        "tasks": len(tasks),
        "failed": sum(each["state"] == "FAILED" for each in tasks),
        "still": sum(bool(each.get("stalled")) for each in progress),
        "cause": root_cause(trace) if trace else still_cause(progress),
    }


def still_cause(progress: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why a task stands still, or what it leaves out; None where none does."""
    still = [str(each["stalled"]) for each in progress if each.get("stalled")]
    left_out = [str(said) for each in progress for said in each.get("warnings") or ()]
    return next(iter((*still, *left_out)), None)


def shown_progress(told: Mapping[str, Any]) -> dict[str, object]:
    """Return what the page shows of a task; numbers beyond 2^53, which a page cannot hold, are in texts."""
    position = told.get("position") or []
    return {
        "task": told["task"],
        "stalled": told.get("stalled"),
        "warnings": told.get("warnings") or [],
        "records": told.get("records", 0),
        "moved_at_ms": told.get("moved_at_ms"),
        "waiting": told.get("waiting", 0),
        "oldest_waiting_ms": told.get("oldest_waiting_ms"),
        "trouble": told.get("trouble"),
        "position": [json.dumps(each.get("offset")) for each in position][-POSITIONS_SHOWN_MAX:],
        "source": json.dumps(told.get("source") or {}),
    }


def root_cause(trace: str) -> str:
    """Return in one line why something failed: the last cause of a Java trace, or the last line of a Python one."""
    causes = CAUSE.findall(trace) or JAVA.findall(trace)
    if causes:
        kind, said = causes[-1]
        return f"{kind}: {said.strip()}" if said.strip() else str(kind)
    lines = [each.strip() for each in trace.splitlines() if each.strip()]
    return lines[-1][:500] if lines else "It said nothing."


async def _connector(place: Place, request: Request) -> Reply:
    need(place, await place.allowed(), "DESCRIBE")
    worker, name = _worker(place, request), request.match_info["connector"]
    path = f"/connectors/{quote(name, safe='', errors='replace')}"
    try:
        info, status = await asyncio.gather(_ask(worker, "GET", path), _ask(worker, "GET", f"{path}/status"))
    except RestError as error:
        if error.status == 404:
            raise HttpError(404, f"There is no connector {name}") from None
        raise
    config = info["config"]
    parts = [
        {"part": "connector", **status["connector"]},
        *({"part": f"task {each['id']}", **each} for each in status["tasks"]),
    ]
    states = [
        {
            "part": each["part"],
            "state": each["state"],
            "worker": each.get("worker_id", ""),
            "cause": root_cause(each["trace"]) if each.get("trace") else None,
            "trace": (each.get("trace") or "")[:TRACE_CHARACTERS_MAX],
        }
        for each in parts
    ]
    partial: list[str] = []

    async def beside(what: str) -> Any:
        try:
            return await _ask(worker, "GET", f"{path}/{what}")
        except RestError as error:
            partial.append(f"{what}: {error}")
            return None

    offsets, topics = await asyncio.gather(beside("offsets"), beside("topics"))
    committed = (offsets or {}).get("offsets") or []
    return await _answer(
        place,
        {
            "name": name,
            "type": info.get("type"),
            "state": status["connector"]["state"],
            "states": states,
            "config": shown_settings(config),
            "offsets": [{key: json.dumps(value) for key, value in each.items()} for each in committed],
            "offsets_text": json.dumps(committed, indent=2, ensure_ascii=False),
            "topics": ((topics or {}).get(name) or {}).get("topics") or [],
            "progress": [shown_progress(each) for each in status.get("progress") or []],
            "partial": partial,
        },
    )


async def _plugins(place: Place, request: Request) -> Reply:
    need(place, await place.allowed(), "DESCRIBE")
    found = await _ask(_worker(place, request), "GET", "/connector-plugins?connectorsOnly=true")
    return await _answer(place, {"items": found})


async def _validate(place: Place, request: Request) -> Reply:
    need(place, await place.allowed(), "ALTER")
    config = object_of(object_of(await body(request)).get("config"))
    plugin = config.get("connector.class")
    if not isinstance(plugin, str) or not plugin:
        raise HttpError(400, "connector.class is needed")
    given = {str(key): str(value) for key, value in config.items() if value is not None}
    path = f"/connector-plugins/{quote(plugin, safe='', errors='replace')}/config/validate"
    found = await _ask(_worker(place, request), "PUT", path, given)
    fields = [
        {
            "name": each["definition"]["name"],
            "label": each["definition"].get("display_name") or each["definition"]["name"],
            "type": each["definition"]["type"],
            "required": bool(each["definition"].get("required")),
            "default": each["definition"].get("default_value"),
            "importance": each["definition"].get("importance"),
            "group": each["definition"].get("group") or "Other",
            "documentation": each["definition"].get("documentation") or "",
            "values": each["value"].get("recommended_values") or [],
            "errors": each["value"].get("errors") or [],
            "visible": each["value"].get("visible", True),
        }
        for each in found["configs"]
    ]
    return json_reply({"errors": found.get("error_count", 0), "fields": fields})
