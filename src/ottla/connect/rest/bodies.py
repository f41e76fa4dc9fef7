"""What clients send: JSON bodies and query parameters, and what is refused of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ottla.connect.errors import BadRequestError
from ottla.connect.storage import TargetState
from ottla.http import HttpError, Request

__all__ = ["CreateRequest", "create_request", "flag", "read_json", "read_map"]

_INITIAL = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}


async def read_json(request: Request, *, literal: bool = False) -> Any:
    """Return a request's JSON, with numbers as they are written where `literal`.

    Raises HttpError for another type of content, BadRequestError for what is no JSON or no text in UTF-8.
    """
    body = await request.read()
    named = request.headers.get("Content-Type")
    if named is not None and request.content_type not in ("application/json", "text/json") and body:
        raise HttpError(415, "HTTP 415 Unsupported Media Type")
    try:
        found = json.loads(
            body,
            parse_constant=_refused,
            parse_float=str if literal else _finite,
            parse_int=str if literal else int,
        )
        json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair can be written in JSON, and nowhere else
        return found
    except (ValueError, RecursionError) as error:
        raise BadRequestError("The request's body is not JSON") from error


def _refused(text: str) -> float:
    raise ValueError(text)


def _finite(text: str) -> float:
    return value if isfinite(value := float(text)) else _refused(text)


def _text(value: Any) -> str | None:
    """Return a plain JSON value as text, as Jackson reads one into a String."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    raise BadRequestError("A configuration is an object whose values are strings")


def _map(value: Any) -> dict[str, str | None]:
    if not isinstance(value, Mapping):
        raise BadRequestError("A configuration is an object whose values are strings")
    return {key: _text(each) for key, each in value.items()}


async def read_map(request: Request) -> dict[str, str | None]:
    """Return a body that is a flat map of text."""
    return _map(await read_json(request, literal=True))


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """The body of `POST /connectors`."""

    name: str
    config: dict[str, str | None]
    initial: TargetState | None


def create_request(body: Any) -> CreateRequest:
    """Return what a body asks for; raises BadRequestError for another shape."""
    if not isinstance(body, Mapping):
        raise BadRequestError("The request's body has to be an object with `name` and `config`")
    unknown = sorted(body.keys() - {"name", "config", "initial_state"})
    if unknown:
        raise BadRequestError(f'Unrecognized field "{unknown[0]}", not one of "name", "config", "initial_state"')
    name, initial = body.get("name"), body.get("initial_state")
    if not isinstance(name, str | None):
        raise BadRequestError("The name of a connector is a string")
    if initial is not None and (not isinstance(initial, str) or initial.upper() not in _INITIAL):
        raise BadRequestError(f"The initial_state of a connector is one of {', '.join(_INITIAL)}")
    target = None if initial is None else _INITIAL[initial.upper()]
    return CreateRequest((name or "").strip(), _map(body.get("config")), target)


def flag(request: Request, name: str) -> bool | None:
    """Return a query parameter that is true or false, None where it is absent; anything but `true` is false."""
    text = request.query.get(name)
    return None if text is None else text.lower() == "true"
