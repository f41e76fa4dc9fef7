"""What the SQL page asks of a SQL server: what there is, what a statement says, and a query's rows.

The server knows none of the console's users, and works under its own principal. Where users log in, who may DESCRIBE the
cluster sees what there is, and who may ALTER it asks and changes. It knows no masks either: no query reads a topic of which
something is hidden from who asks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from ottla.admin import RestError, Worker
from ottla.console.api.endpoints import Endpoint, body, need
from ottla.console.api.sql_queries import query_frames
from ottla.console.places import Place
from ottla.console.records.requests import object_of
from ottla.console.records.scans import Frame
from ottla.http import HttpError, Reply, Request, Who, json_reply
from ottla.sql import ParseError, SqlError, split_statements

__all__ = ["check_masks", "sql_endpoints", "sql_frames"]

LETTERS_MAX = 100_000
READS = frozenset({"SHOW", "LIST", "DESCRIBE", "EXPLAIN"})
QUERY, READ, CHANGE, OTHER = "query", "read", "change", "other"
OTHERS = frozenset({"SET", "UNSET", "DEFINE", "UNDEFINE", "PRINT", "RUN"})
SELECT = re.compile(r"\bSELECT\b", re.IGNORECASE)
STATEMENT_BODY: Mapping[str, object] = {"statement": {"type": "string"}}


def sql_endpoints() -> list[Endpoint]:
    """Return the part of the table."""
    return [
        Endpoint("GET", "/sql", "Streams, tables and queries of the SQL server", _catalogue, Who.SESSION),
        Endpoint("GET", "/sql/sources/{source}", "A stream's or table's columns", _source, Who.SESSION),
        Endpoint(
            "POST", "/sql/parse", "A script's statements, and what each is", _parse, Who.SESSION, body=STATEMENT_BODY
        ),
        Endpoint(
            "POST", "/sql/read", "What LIST, SHOW, DESCRIBE or EXPLAIN says", _read, Who.SESSION, body=STATEMENT_BODY
        ),
    ]


def _server(place: Place) -> Worker:
    if place.sql is None:
        raise HttpError(404, "No SQL server is named: start the console with ottla.console.sql.url")
    return place.sql


async def _asked(server: Worker, statement: str) -> Any:
    given = {"ksql": statement, "streamsProperties": {}}
    return await asyncio.to_thread(server.ask, "POST", "/ksql", given)


async def _catalogue(place: Place, request: Request) -> Reply:
    allowed = await place.allowed()
    need(place, allowed, "DESCRIBE")
    answer: dict[str, object] = {"operations": sorted(allowed.cluster), "error": ""}
    if place.sql is None:
        return json_reply({**answer, "url": None, "streams": [], "tables": [], "queries": []})
    try:
        streams, tables, queries = await _asked(place.sql, "SHOW STREAMS; SHOW TABLES; SHOW QUERIES;")
        info = await asyncio.to_thread(place.sql.ask, "GET", "/info")
    except RestError as error:
        return json_reply(
            {**answer, "url": place.sql.url, "error": str(error), "streams": [], "tables": [], "queries": []}
        )
    return json_reply(
        {
            **answer,
            "url": place.sql.url,
            "version": (info.get("KsqlServerInfo") or {}).get("version"),
            "streams": [_source_row(each) for each in streams["streams"]],
            "tables": [_source_row(each) for each in tables["tables"]],
            "queries": [_query_row(each) for each in queries["queries"]],
        }
    )


def _source_row(found: Mapping[str, Any]) -> dict[str, object]:
    return {
        "name": found["name"],
        "topic": found["topic"],
        "key_format": found.get("keyFormat"),
        "value_format": found.get("valueFormat"),
        "windowed": bool(found.get("isWindowed")),
    }


def _query_row(found: Mapping[str, Any]) -> dict[str, object]:
    return {
        "id": found["id"],
        "text": found["queryString"],
        "sinks": found.get("sinks") or [],
        "kind": found.get("queryType"),
        "state": found.get("state"),
    }


async def _source(place: Place, request: Request) -> Reply:
    need(place, await place.allowed(), "DESCRIBE")
    name = request.match_info["source"].replace("`", "``")
    try:
        [found] = await _asked(_server(place), f"DESCRIBE `{name}`;")
    except RestError as error:
        raise HttpError(404 if "Could not find" in str(error) else 422, str(error)) from None
    said = found["sourceDescription"]
    fields = [
        {"name": each["name"], "type": _type_text(each["schema"]), "key": each.get("type") == "KEY"}
        for each in said["fields"]
    ]
    return json_reply({"name": said["name"], "kind": said["type"], "topic": said["topic"], "fields": fields})


def _type_text(schema: Mapping[str, Any]) -> str:
    kind = str(schema["type"])
    if kind == "STRUCT":
        inside = ", ".join(f"{each['name']} {_type_text(each['schema'])}" for each in schema.get("fields") or ())
        return f"STRUCT<{inside}>"
    member = schema.get("memberSchema")
    if kind == "ARRAY" and member:
        return f"ARRAY<{_type_text(member)}>"
    if kind == "MAP" and member:
        return f"MAP<STRING, {_type_text(member)}>"
    given = schema.get("parameters") or {}
    return f"DECIMAL({given.get('precision')}, {given.get('scale')})" if kind == "DECIMAL" else kind


def _kind(first: str) -> str:
    if first == "SELECT":
        return QUERY
    return READ if first in READS else OTHER if first in OTHERS else CHANGE


async def _statement(request: Request) -> str:
    statement = object_of(await body(request)).get("statement")
    if not isinstance(statement, str) or not statement.strip():
        raise HttpError(400, "statement is needed")
    if len(statement) > LETTERS_MAX:
        raise HttpError(413, f"a script has {LETTERS_MAX} letters at most")
    return statement


async def _parse(place: Place, request: Request) -> Reply:
    """Split a script; what the grammar breaks is told with its place, and is no error of the request's."""
    script = await _statement(request)
    source = script.rstrip()
    try:
        found = await asyncio.to_thread(split_statements, source if source.endswith(";") else f"{source}\n;")
    except ParseError as error:
        where = {"line": getattr(error, "line", None), "column": getattr(error, "column", None)}
        return json_reply({"statements": [], "error": {"message": str(error), **where}})
    statements = [{"text": each.text, "kind": _kind(each.first_word)} for each in found]
    return json_reply({"statements": statements, "error": None})


async def _read(place: Place, request: Request) -> Reply:
    need(place, await place.allowed(), "DESCRIBE")
    statement = await _statement(request)
    try:
        kinds = {_kind(each.first_word) for each in split_statements(statement)}
    except SqlError as error:
        raise HttpError(422, str(error)) from None
    if kinds != {READ}:
        raise HttpError(400, "only LIST, SHOW, DESCRIBE and EXPLAIN are read here")
    try:
        answers = await _asked(_server(place), statement)
    except RestError as error:
        raise HttpError(422, str(error)) from None
    return json_reply({"answers": [_shown(each) for each in answers]})


def _shown(answer: Mapping[str, Any]) -> dict[str, object]:
    """Return an answer as a table where it has one, else as it is."""
    plan = answer.get("queryDescription")
    if isinstance(plan, Mapping):
        text = plan.get("executionPlan") or ""
        return {"kind": "plan", "plan": text, "topology": plan.get("topology") or "", "text": plan.get("statementText")}
    for value in answer.values():
        if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            names = list(dict.fromkeys(name for each in value for name in each))
            return {"kind": "table", "names": names, "rows": [[each.get(name) for name in names] for each in value]}
    kept = {name: value for name, value in answer.items() if name not in ("@type", "statementText", "warnings")}
    return {"kind": "json", "value": kept}


async def check_masks(place: Place, statement: str) -> None:
    """Raise HttpError for a statement with a query that reads what is masked, or of which that cannot be told."""
    found = SELECT.search(statement)
    if not place.masks or found is None:
        return
    server, query = _server(place), statement[found.start() :].rstrip().rstrip(";")
    try:
        [said] = await _asked(server, f"EXPLAIN {query};")
        streams, tables = await _asked(server, "SHOW STREAMS; SHOW TABLES;")
    except RestError as error:
        raise HttpError(403, f"Records are masked here, and what this reads cannot be told: {error}") from None
    topics = {each["name"]: str(each["topic"]) for each in (*streams["streams"], *tables["tables"])}
    for name in said["queryDescription"].get("sources") or ():
        if name not in topics or place.hidden(topics[name]) is not None:
            words = f"{topics.get(name, name)} is masked here, and the SQL server knows no masks"
            raise HttpError(403, words, error_code=40302)


async def sql_frames(place: Place, asked: Mapping[str, Any]) -> AsyncGenerator[Frame, None]:
    """Return the frames of the query that a tab asks for; raises HttpError."""
    server = _server(place)
    need(place, await place.allowed(), "ALTER")
    statement, start = asked.get("statement"), asked.get("from", "latest")
    if not isinstance(statement, str) or start not in ("earliest", "latest"):
        raise HttpError(400, "statement is a query, from is earliest or latest")
    try:
        [found] = split_statements(statement)
    except (ParseError, ValueError) as error:
        raise HttpError(400, f"one query is expected: {error}") from None
    if _kind(found.first_word) != QUERY:
        raise HttpError(400, "one query is expected: SELECT …")
    await check_masks(place, statement)
    return query_frames(server, statement, {"auto.offset.reset": start})
