"""Requests' bodies as they are meant; what is wrong with one is told with code 40000."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.base import ExactDecoder
from ottla.sql import SqlError
from ottla.sql_server.errors import BAD_REQUEST, StatementError
from ottla.sql_server.session_properties import check_properties

__all__ = ["StatementBody", "json_object", "statement_body"]


_DECODER = ExactDecoder()
SEQUENCE_END = 1 << 63


@dataclass(frozen=True, slots=True)
class StatementBody:
    """Statements, with what the session has said."""

    text: str
    properties: dict[str, str]
    variables: dict[str, str]
    sequence: int | None = None
    """The command that has to be carried out before, -1 or None for none."""


def json_object(data: bytes) -> dict[str, Any]:
    """Return a body's object, numbers with a point as Decimal; raises StatementError."""
    try:
        found = _DECODER.of_bytes(data or b"null")
    except ValueError as error:
        raise StatementError(BAD_REQUEST, f"The request's body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise StatementError(BAD_REQUEST, "The request's body has to be a JSON object")
    return found


def statement_body(data: bytes, name: str, properties: str) -> StatementBody:
    """Return a body whose statements stand under `name` and its properties under `properties`; raises StatementError."""
    found = json_object(data)
    text = found.get(name, found.get("ksql", found.get("sql")))
    if not isinstance(text, str) or not text.strip():
        raise StatementError(BAD_REQUEST, f'The request has no statement: {{"{name}": "…;"}}')
    sequence = found.get("commandSequenceNumber")
    if sequence is not None and (type(sequence) is not int or not -SEQUENCE_END <= sequence < SEQUENCE_END):
        raise StatementError(BAD_REQUEST, "commandSequenceNumber has to be a whole number of 64 bits")
    given = found.get(properties, found.get("properties", found.get("streamsProperties")))
    session = _texts(given, properties)
    try:
        check_properties(session)
    except SqlError as error:
        raise StatementError(BAD_REQUEST, str(error)) from None
    return StatementBody(text, session, _texts(found.get("sessionVariables"), "sessionVariables"), sequence)


def _texts(found: object, name: str) -> dict[str, str]:
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise StatementError(BAD_REQUEST, f"{name} has to be an object of names and values")
    return {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in found.items()
        if value is not None  # as UNSET has it
    }
