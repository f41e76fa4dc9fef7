"""What the SQL page asks of a SQL server: what there is, what a statement says, and a query's rows.

The server knows none of the console's users, and works under its own principal; it knows no masks either. What each may have
it do and tell is judged before (`sql_sight`), and what is sent is printed from the tree that was judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from ottla.admin import RestError
from ottla.console.api.endpoints import Endpoint, body, need
from ottla.console.api.sql_queries import query_frames
from ottla.console.api.sql_sight import answers_of, sight_of, sql_server_of, statement_for
from ottla.console.exact import exact
from ottla.console.places import Place
from ottla.console.records.requests import object_of
from ottla.console.records.scans import Frame
from ottla.console.sql_statements import CHANGE, QUERY, READ, kind_of_word
from ottla.http import HttpError, Reply, Request, Who, json_reply
from ottla.sql import ParseError, quoted, split_statements

__all__ = ["sql_change", "sql_endpoints", "sql_frames"]

LETTERS_MAX = 100_000
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


async def _catalogue(place: Place, request: Request) -> Reply:
    allowed = await place.allowed()
    need(place, allowed, "DESCRIBE")
    answer: dict[str, object] = {"operations": sorted(allowed.cluster), "error": ""}
    if place.sql is None:
        return json_reply({**answer, "url": None, "streams": [], "tables": [], "queries": []})
    try:
        sight = await sight_of(place)
        said = await answers_of(place.sql, "SHOW STREAMS; SHOW TABLES; SHOW QUERIES;")
        streams, tables, queries = await sight.told(said)
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
    name, server = request.match_info["source"], sql_server_of(place)
    try:
        if not (await sight_of(place)).knows(name):
            raise HttpError(404, f"There is no stream or table {name}")
        [found] = await answers_of(server, f"DESCRIBE {quoted(name)};")
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


async def _statement(request: Request) -> str:
    statement = object_of(await body(request)).get("statement")
    if not isinstance(statement, str) or not statement.strip():
        raise HttpError(400, "statement is needed")
    _check_length(statement)
    return statement


def _check_length(statement: str) -> None:
    if len(statement) > LETTERS_MAX:
        raise HttpError(413, f"a script has {LETTERS_MAX} letters at most")


async def _parse(place: Place, request: Request) -> Reply:
    """Split a script; what the grammar breaks is told with its place, and is no error of the request's."""
    script = await _statement(request)
    source = script.rstrip()
    try:
        found = await asyncio.to_thread(split_statements, source if source.endswith(";") else f"{source}\n;")
    except ParseError as error:
        where = {"line": getattr(error, "line", None), "column": getattr(error, "column", None)}
        return json_reply({"statements": [], "error": {"message": str(error), **where}})
    statements = [{"text": each.text, "kind": kind_of_word(each.first_word)} for each in found]
    return json_reply({"statements": statements, "error": None})


async def _read(place: Place, request: Request) -> Reply:
    need(place, await place.allowed(), "DESCRIBE")
    statement = await statement_for(place, await _statement(request), READ)
    server = sql_server_of(place)
    try:
        answers = await answers_of(server, statement.text)
        shown = await (await sight_of(place)).told(answers)
    except RestError as error:
        raise HttpError(422, str(error)) from None
    return json_reply({"answers": [_shown(each) for each in shown]})


def _shown(answer: Mapping[str, Any]) -> dict[str, object]:
    """Return an answer as a table where it has one, else as it is."""
    plan = answer.get("queryDescription")
    if isinstance(plan, Mapping):
        text = plan.get("executionPlan") or ""
        return {"kind": "plan", "plan": text, "topology": plan.get("topology") or "", "text": plan.get("statementText")}
    for value in answer.values():
        if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            names = list(dict.fromkeys(name for each in value for name in each))
            return {
                "kind": "table",
                "names": names,
                "rows": [exact([each.get(name) for name in names]) for each in value],
            }
    kept = {name: value for name, value in answer.items() if name not in ("@type", "statementText", "warnings")}
    return {"kind": "json", "value": exact(kept)}


async def sql_frames(place: Place, asked: Mapping[str, Any]) -> AsyncGenerator[Frame, None]:
    """Return the frames of the query that a tab asks for; raises HttpError."""
    server = sql_server_of(place)
    need(place, await place.allowed(), "DESCRIBE")
    text, start = asked.get("statement"), asked.get("from", "latest")
    if not isinstance(text, str) or start not in ("earliest", "latest"):
        raise HttpError(400, "statement is a query, from is earliest or latest")
    _check_length(text)
    statement = await statement_for(place, text, QUERY)
    return query_frames(server, statement.text, {"auto.offset.reset": start}, place.who)


async def sql_change(place: Place, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a plan with the statement as it was judged; raises HttpError where it may not be run."""
    text = arguments.get("statement")
    if not isinstance(text, str) or not text.strip():
        raise HttpError(400, "statement is needed: a text")
    _check_length(text)
    return {**arguments, "statement": (await statement_for(place, text, CHANGE)).text}
