"""The OpenAPI document of the interface, made of its endpoints and of what each takes and answers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ottla import __version__
from ottla.http import Reply, Request, json_reply, text_reply
from ottla.registry.rest.declaration import Endpoint

__all__ = ["openapi_document", "openapi_replies"]

Json = dict[str, Any]

V1 = "application/vnd.schemaregistry.v1+json"
_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "integer", "minimum": -(1 << 31), "maximum": (1 << 31) - 1}
_FLAG: Json = {"type": "boolean"}
_TEXTS: Json = {"type": "array", "items": _TEXT}
_NUMBERS: Json = {"type": "array", "items": _NUMBER}
_ANYTHING: Json = {"type": "object", "additionalProperties": True}
LEVELS = ["NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"]
MODES = ["READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD"]
_WORDS = {
    200: "Done",
    204: "Done",
    400: "A body that is not JSON, or a parameter that is not what it should be",
    401: "Who asks is not known",
    403: "Who asks may not do this (40301)",
    404: "There is no such subject (40401), version (40402), schema (40403), configuration (40408), mode (40409)",
    406: "None of the types that are accepted is there",
    409: "The schema may not follow those before it (40901)",
    413: "The body is too large",
    415: "The body is of a type that is not taken",
    422: "What was sent is not valid (42201 to 42211)",
    500: "The topic cannot be written or read (50001, 50002, 50003)",
    503: "The instance is starting",
}


def _to(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: Iterable[str] = (), **properties: Json) -> Json:
    needed = list(required)
    return {"type": "object", "properties": properties, **({"required": needed} if needed else {})}


_REFERENCE = _object(("name", "subject", "version"), name=_TEXT, subject=_TEXT, version=_NUMBER)
_TYPE: Json = {"type": "string", "enum": ["AVRO", "JSON", "PROTOBUF"]}
_DETAILS: Json = {
    "schemaType": _TYPE,
    "references": {"type": "array", "items": _to("Reference")},
    "metadata": _ANYTHING,
    "ruleSet": _ANYTHING,
    "guid": _TEXT,
}
_SCHEMAS: dict[str, Json] = {
    "Error": _object(("error_code", "message"), error_code=_NUMBER, message=_TEXT),
    "Reference": _REFERENCE,
    "SchemaRequest": _object(
        ("schema",),
        schema=_TEXT,
        schemaType=_TYPE,
        references={"type": "array", "items": _to("Reference")},
        metadata=_ANYTHING,
        ruleSet=_ANYTHING,
        version=_NUMBER,
        id=_NUMBER,
    ),
    "Schema": _object(
        ("subject", "version", "id", "schema"),
        subject=_TEXT,
        version=_NUMBER,
        id=_NUMBER,
        schema=_TEXT,
        deleted=_FLAG,
        **_DETAILS,
    ),
    "SchemaOfId": _object(
        ("schema",), schema=_TEXT, maxId=_NUMBER, subject=_TEXT, version=_NUMBER, id=_NUMBER, **_DETAILS
    ),
    "Registered": _object(("id",), id=_NUMBER, version=_NUMBER, guid=_TEXT),
    "SubjectVersion": _object(("subject", "version"), subject=_TEXT, version=_NUMBER),
    "ContextId": _object(("context", "id"), context=_TEXT, id=_NUMBER),
    "ConfigChange": {**_object(compatibility={"type": "string", "enum": LEVELS}, normalize=_FLAG, alias=_TEXT)},
    "Config": {**_object(compatibilityLevel=_TEXT), "additionalProperties": True},
    "ConfigAnswer": {**_object(compatibility=_TEXT), "additionalProperties": True},
    "ModeChange": _object(("mode",), mode={"type": "string", "enum": MODES}),
    "Mode": _object(("mode",), mode=_TEXT),
    "Compatible": _object(("is_compatible",), is_compatible=_FLAG, messages=_TEXTS),
    "Cluster": _ANYTHING,
}
_QUERY: dict[str, Json] = {
    **dict.fromkeys(("offset", "limit"), _NUMBER),
    **dict.fromkeys(("format", "subject", "subjectPrefix", "ruleType", "referenceFormat"), _TEXT),
    **dict.fromkeys(("key", "value"), _TEXTS),
}
"""Parameters that are no flags."""
_ANSWERS: dict[str, Json] = {
    "": {},
    "Texts": _TEXTS,
    "Number": _NUMBER,
    "Numbers": _NUMBERS,
    **{f"{name}s": {"type": "array", "items": _to(name)} for name in ("Schema", "SubjectVersion", "ContextId")},
}
"""What is answered that has no schema of its own."""


def openapi_document(endpoints: Iterable[Endpoint]) -> Json:
    """Return the document, of OpenAPI 3.1. All but `/contexts` and `/v1` is there below `/contexts/.name`, too."""
    paths: dict[str, Json] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Schema Registry", "version": __version__, "description": "The schema registry's interface."},
        "paths": paths,
        "components": {"schemas": _SCHEMAS},
    }


def _operation(endpoint: Endpoint) -> Json:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _NUMBER if name == "id" else _TEXT}
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    parameters += [{"name": name, "in": "query", "schema": _QUERY.get(name, _FLAG)} for name in endpoint.query]
    words = re.sub(r"[{}/]+", "_", endpoint.path).strip("_") or "root"
    found: Json = {
        "operationId": f"{endpoint.method.lower()}_{words}",
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": {
            **{str(status): _answer(status, endpoint) for status in endpoint.statuses},
            **{str(status): _refused(status) for status in _WORDS if status >= 400},
        },
    }
    if isinstance(endpoint.body, str):
        found["requestBody"] = {
            "required": True,
            "content": {each: {"schema": _to(endpoint.body)} for each in (V1, "application/json")},
        }
    return found


def _answer(status: int, endpoint: Endpoint) -> Json:
    found: Json = {"description": _WORDS[status]}
    if status != 204:
        name = endpoint.answer
        found["content"] = {V1: {"schema": _ANSWERS[name] if name in _ANSWERS else _to(name)}}
    return found


def _refused(status: int) -> Json:
    return {"description": _WORDS[status], "content": {V1: {"schema": _to("Error")}}}


def openapi_replies(endpoints: Iterable[Endpoint]) -> list[tuple[str, Callable[[Request], Awaitable[Reply]]]]:
    """Return the paths that serve the document, and what answers there."""
    document = openapi_document(endpoints)

    async def as_json(request: Request) -> Reply:
        return json_reply(document)

    async def as_yaml(request: Request) -> Reply:
        import yaml

        return text_reply(yaml.safe_dump(document, sort_keys=False), content_type="application/yaml")

    return [("/openapi.json", as_json), ("/openapi.yaml", as_yaml)]
