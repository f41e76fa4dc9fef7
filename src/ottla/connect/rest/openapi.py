"""The OpenAPI document of the interface, made of its endpoints."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ottla.connect.rest.endpoints import INTERNAL, Endpoint
from ottla.connect.version import STOCK_VERSION
from ottla.http import Reply, Request, json_reply, text_reply

__all__ = ["openapi_document", "openapi_replies"]

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "integer"}
_ANY_OBJECT: Json = {"type": "object", "additionalProperties": True}
_WORDS: dict[int, str] = {
    200: "Done",
    201: "Created",
    202: "Accepted",
    204: "Done",
    400: "A mistake of the client's",
    403: "Disabled by the worker's configuration",
    404: "Not found",
    409: "It exists already, or the workers are rebalancing: ask again",
    415: "The body is not declared as JSON",
    500: "The worker or the connector has failed",
    503: "The worker is starting",
}


_SENT: Json = {"type": ["string", "number", "boolean", "null"]}
"""What a configuration may be sent with; it is kept as text."""


def _object(required: Iterable[str] = (), **properties: Json) -> Json:
    needed = list(required)
    return {"type": "object", "properties": properties, **({"required": needed} if needed else {})}


def _optional(schema: Json) -> Json:
    return {
        **schema,
        "type": [schema["type"], "null"],
        **({"enum": [*schema["enum"], None]} if "enum" in schema else {}),
    }


def _list(of: Json) -> Json:
    return {"type": "array", "items": of}


def _to(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


_STATES = ["RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED", "RESTARTING"]
_STATE: Json = {
    "state": {"type": "string", "enum": _STATES},
    "worker_id": _TEXT,
    "trace": _TEXT,
    "version": _TEXT,
}
_TASK_ID = _object(("connector", "task"), connector=_TEXT, task=_NUMBER)
_TYPE: Json = {"type": "string", "enum": ["source", "sink", "unknown"]}
_NULLABLE_OBJECT: Json = {"type": ["object", "null"], "additionalProperties": True}
_SCHEMAS: dict[str, Json] = {
    "Error": _object(("error_code", "message"), error_code=_NUMBER, message={"type": ["string", "null"]}),
    "ServerInfo": _object(("version",), version=_TEXT, commit=_TEXT, kafka_cluster_id={"type": ["string", "null"]}),
    "Health": _object(("status", "message"), status={"enum": ["healthy", "starting", "unhealthy"]}, message=_TEXT),
    "Config": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
    "ConnectorConfig": {
        "type": "object",
        "properties": {"connector.class": _TEXT},
        "required": ["connector.class"],
        "additionalProperties": _SENT,
    },
    "ConfigPatch": {"type": "object", "additionalProperties": _SENT},
    "Create": {
        **_object(
            ("config",),
            name=_optional(_TEXT),
            config=_to("ConnectorConfig"),
            initial_state=_optional({"type": "string", "enum": ["RUNNING", "PAUSED", "STOPPED"]}),
        ),
        "additionalProperties": False,
    },
    "ConnectorInfo": _object(
        ("name", "config", "tasks", "type"), name=_TEXT, config=_to("Config"), tasks=_list(_TASK_ID), type=_TYPE
    ),
    "TaskState": _object(("id", "state", "worker_id"), id=_NUMBER, **_STATE),
    "ConnectorStatus": _object(
        ("name", "connector", "tasks", "type"),
        name=_TEXT,
        connector=_object(("state", "worker_id"), **_STATE),
        tasks=_list(_to("TaskState")),
        type=_TYPE,
        progress=_list(_ANY_OBJECT),
    ),
    "Tasks": _list(_object(("id", "config"), id=_TASK_ID, config=_to("Config"))),
    "Offsets": _object(
        ("offsets",), offsets=_list(_object(("partition",), partition=_ANY_OBJECT, offset=_NULLABLE_OBJECT))
    ),
    "OffsetsChange": _object(
        ("offsets",),
        offsets={
            **_list(
                _object(
                    ("partition",),
                    partition={"type": "object", "additionalProperties": _SENT},
                    offset={"type": ["object", "null"], "additionalProperties": _SENT},
                )
            ),
            "minItems": 1,
        },
    ),
    "Message": _object(("message",), message=_TEXT),
    "Level": _object(("level", "last_modified"), level=_TEXT, last_modified={"type": ["integer", "null"]}),
    "LevelChange": {**_object(("level",), level=_TEXT), "additionalProperties": _SENT},
}
_QUERY: dict[str, Json] = {
    "expand": {"schema": _list({"type": "string", "enum": ["status", "info"]}), "explode": True},
    "includeTasks": {"schema": {"type": "boolean", "default": False}},
    "onlyFailed": {"schema": {"type": "boolean", "default": False}},
    "connectorsOnly": {"schema": {"type": "boolean", "default": True}},
    "version": {"schema": {"type": "string", "default": "latest"}},
    "scope": {"schema": {"type": "string", "enum": ["worker", "cluster"], "default": "worker"}},
}


def openapi_document(endpoints: Iterable[Endpoint]) -> Json:
    """Return the document, of OpenAPI 3.1."""
    paths: dict[str, Json] = {}
    for each in endpoints:
        if not each.tags & INTERNAL:
            paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Kafka Connect", "version": STOCK_VERSION, "description": "Connect's REST interface."},
        "paths": paths,
        "components": {"schemas": _SCHEMAS},
    }


def _operation(endpoint: Endpoint) -> Json:
    names = re.findall(r"{(\w+)}", endpoint.path)
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": _NUMBER if name == "task" else _TEXT} for name in names
    ]
    parameters += [{"name": name, "in": "query", "required": False, **_QUERY[name]} for name in endpoint.query]
    found: Json = {
        "operationId": f"{endpoint.method.lower()}_{endpoint.handle.__name__}",
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": {str(status): _response(status, endpoint) for status in (*endpoint.statuses, 500)},
    }
    if isinstance(endpoint.body, str):
        content = {"application/json": {"schema": _to(endpoint.body)}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _response(status: int, endpoint: Endpoint) -> Json:
    described: Json = {"description": _WORDS[status]}
    if status >= 400:
        own = endpoint.path == "/health"
        return {**described, "content": {"application/json": {"schema": _to("Health" if own else "Error")}}}
    empty = status == 204 or (status == 202 and endpoint.method == "PUT")
    if not empty:
        schema = _to(endpoint.answer) if endpoint.answer else {}
        described["content"] = {"application/json": {"schema": schema}}
    return described


def openapi_replies(endpoints: Iterable[Endpoint]) -> list[tuple[str, Callable[[Request], Awaitable[Reply]]]]:
    """Return the paths that serve the document, and what answers there."""
    document = openapi_document(endpoints)

    async def as_json(request: Request) -> Reply:
        return json_reply(document)

    async def as_yaml(request: Request) -> Reply:
        import yaml

        return text_reply(yaml.safe_dump(document, sort_keys=False), content_type="application/yaml")

    return [("/openapi.json", as_json), ("/openapi.yaml", as_yaml)]
