"""What a search, a view of time and a record to write are asked with: JSON or a query, read and checked. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client import Isolation
from ottla.console.records.decoding import DECODERS
from ottla.console.records.rows import Decoders
from ottla.console.records.scan_plan import Limits
from ottla.console.records.scans import ScanRequest
from ottla.http import HttpError
from ottla.sql import SqlError, document_condition

__all__ = ["NewRecord", "new_record", "object_of", "scan_request"]

DIRECTIONS = ("newest", "oldest", "offset", "time", "live")
HITS_MAX = 100_000
HEADERS_MAX = 100


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to write; None is a key or value that there is not."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None


def object_of(body: object) -> Mapping[str, Any]:
    """Return a body that is an object; raises HttpError for any other."""
    if not isinstance(body, dict):
        raise HttpError(400, "A JSON object is expected")
    return body


def _whole(body: Mapping[str, Any], name: str, least: int, most: int | None = None) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        bounds = f"from {least}" + ("" if most is None else f" to {most}")
        raise HttpError(400, f"{name} is a whole number {bounds}, not {value!r}")
    return value


def scan_request(body: Mapping[str, Any]) -> tuple[ScanRequest, int | None]:
    """Return what a search asks for, and the offset or the time in milliseconds where it begins; raises HttpError."""
    topic = body.get("topic")
    if not isinstance(topic, str) or not topic:
        raise HttpError(400, "topic is needed")
    start = body.get("from", "newest")
    if start not in DIRECTIONS:
        raise HttpError(400, f"from is one of {', '.join(DIRECTIONS)}")
    at = _whole(body, "at", 0)
    if start in ("offset", "time") and at is None:
        raise HttpError(
            400, f"from {start} needs at: {'an offset' if start == 'offset' else 'milliseconds since 1970'}"
        )
    request = ScanRequest(
        topic=topic,
        direction=start if start in ("newest", "live") else "forward",
        positions=_positions(body.get("cursor")),
        partitions=_partitions(body.get("partitions")),
        condition=_condition(body.get("where")),
        key=_bytes(body, "key"),
        decoders=Decoders(_decoder(body, "key_decoder"), _decoder(body, "value_decoder")),
        isolation=Isolation.READ_UNCOMMITTED if body.get("uncommitted") is True else Isolation.READ_COMMITTED,
        limits=Limits(hits=_whole(body, "hits", 1, HITS_MAX) or Limits().hits),
    )
    return request, at


def _condition(text: object) -> Any:
    if text is None or text == "":
        return None
    if not isinstance(text, str):
        raise HttpError(400, "where is a text")
    if not text.strip():
        return None
    try:
        return document_condition(text)
    except SqlError as error:
        raise HttpError(400, str(error), error_code=40001) from None
    except RecursionError:
        raise HttpError(400, "The condition is nested too deeply", error_code=40001) from None


def _positions(cursor: object) -> dict[int, int]:
    if cursor is None:
        return {}
    try:
        return {int(index): int(at) for index, at in object_of(cursor).items()}
    except (TypeError, ValueError):
        raise HttpError(400, "cursor maps partitions to offsets") from None


def _partitions(given: object) -> tuple[int, ...] | None:
    if given is None:
        return None
    if not isinstance(given, list) or not given or not all(type(each) is int and each >= 0 for each in given):
        raise HttpError(400, "partitions is a list of numbers")
    return tuple(dict.fromkeys(given))


def _decoder(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and (not isinstance(value, str) or value not in DECODERS):
        raise HttpError(400, f"{name} is one of {', '.join(DECODERS)}")
    return str(value) if value is not None else None


def new_record(body: Mapping[str, Any]) -> NewRecord:
    """Return a record to write; raises HttpError."""
    headers = body.get("headers") or []
    if not isinstance(headers, list) or len(headers) > HEADERS_MAX:
        raise HttpError(400, f"headers is a list of at most {HEADERS_MAX}, each with name and value")
    pairs = []
    for each in headers:
        name = object_of(each).get("name")
        if not isinstance(name, str):
            raise HttpError(400, "a header has a name")
        pairs.append((name, _bytes(each, "value")))
    return NewRecord(_bytes(body, "key"), _bytes(body, "value"), tuple(pairs), _whole(body, "partition", 0))


def _bytes(body: Mapping[str, Any], name: str) -> bytes | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise HttpError(400, f"{name} is a text, or null")
    return None if value is None else value.encode()
