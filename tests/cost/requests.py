"""Requests of many elements for every API in every version, made from their own fields: a new API is among them by itself.

Each array of a message is made long once: with equal elements, and with elements that all differ, about things that are
there and about things that are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.base import ZERO_UUID
from ottla.broker.requests.handler import Handler
from ottla.wire import APIS, ApiKey, Message
from tests.broker.access_requests import Names, requests_about

__all__ = ["Shape", "There", "shapes"]

GIVEN: Mapping[ApiKey, tuple[Mapping[str, Any], ...]] = {
    ApiKey.CREATE_TOPICS: ({"num_partitions": 1, "replication_factor": 1},),
    ApiKey.CREATE_PARTITIONS: ({"count": 3},),
    ApiKey.CREATE_ACLS: (
        {
            "resource_type": 2,
            "resource_pattern_type": 3,
            "principal": "User:x",
            "host": "*",
            "operation": 3,
            "permission_type": 3,
        },
    ),
    ApiKey.DELETE_ACLS: (
        {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 3, "permission_type": 3},
        {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1},
    ),
    ApiKey.OFFSET_COMMIT: ({"committed_offset": 1},),
    ApiKey.ALTER_CLIENT_QUOTAS: ({"entity_type": "user", "key": "producer_byte_rate", "value": 1000.0},),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
        {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"s" * 32},
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ({}, {"value": "1"}),
}
"""What takes a request on, where the fields' own values end it early; these replace fields wherever they are."""
KEPT = frozenset({"entity_type", "key", "principal", "host", "host_filter", "principal_filter", "path", "metadata"})
"""Texts that stay as they are in elements that differ."""

KINDS = ("equal", "there", "missing", "mixed", "twice")
"""All the same; all of what is there, or of what is not; one that is there over and over between others that are not; each
that is there, and again behind all of them."""
BEYOND = 100_000
"""No partition has this index, or a higher one."""


@dataclass(frozen=True)
class There:
    """The names of what is there, by number."""

    ids: Mapping[int, bytes]

    def names(self, at: int) -> Names:
        """Return what exists of that number."""
        return Names(f"t_{at}", self.ids.get(at, ZERO_UUID), f"g{at}", f"x{at}")

    @staticmethod
    def missing(at: int) -> Names:
        """Return what does not exist."""
        return Names(f"new.{at}", (at + 1).to_bytes(16, "big"), f"newg{at}", f"newx{at}")


@dataclass(frozen=True)
class Shape:
    """One way to make a request of an API long."""

    name: str
    make: Callable[[There, int], Message]


Path = tuple[str, ...]
Pick = Callable[[int], Names]


def _has(field: Any, version: int) -> bool:
    return field.versions is not None and field.versions[0] <= version <= field.versions[1]


def _arrays(message: Message, version: int, path: Path = ()) -> Iterator[Path]:
    """Yield where the arrays of a message are, and the texts whose length a client chooses."""
    for field in message.FIELDS:
        if not _has(field, version):
            continue
        value = getattr(message, field.name)
        if field.kind.startswith("[]"):
            yield (*path, field.name)
            if field.kind == "[]struct" and value:
                yield from _arrays(value[0], version, (*path, field.name))
        elif field.kind == "struct" and value is not None:
            yield from _arrays(value, version, (*path, field.name))


def _get(message: Message, path: Path) -> Any:
    value: Any = message
    for each in path:
        if isinstance(value, list | tuple):
            value = value[0]
        value = getattr(value, each)
    return value


def _with(message: Message, path: Path, value: Any) -> Message:
    name, rest = path[0], path[1:]
    if not rest:
        return message.replace(**{name: value})
    held = getattr(message, name)
    if isinstance(held, list | tuple):
        return message.replace(**{name: [_with(held[0], rest, value), *held[1:]]})
    return message.replace(**{name: _with(held, rest, value)})


def _changed(message: Message, version: int, given: Mapping[str, Any]) -> Message:
    """Return a message with these values in every field of the name, its parts' too."""
    values: dict[str, Any] = {}
    for field in message.FIELDS:
        if not _has(field, version):
            continue
        value = getattr(message, field.name)
        if field.name in given:
            values[field.name] = given[field.name]
        elif field.kind == "[]struct" and value is not None:
            values[field.name] = [_changed(each, version, given) for each in value]
        elif field.kind == "struct" and value is not None:
            values[field.name] = _changed(value, version, given)
    return message.replace(**values)


def _numbered(value: Any, at: int, version: int, given: Mapping[str, Any]) -> Any:
    """Return an element that differs from the others in what names nothing that is there: texts, partitions."""
    if isinstance(value, str):
        return value or f"n{at}"
    if isinstance(value, int):
        return at
    if not isinstance(value, Message):
        return value
    values: dict[str, Any] = {}
    for field in value.FIELDS:
        held = getattr(value, field.name)
        if not _has(field, version) or field.name in given or field.name in KEPT:
            continue
        if field.kind == "string" and (held == "" or (held is None and field.nullable is None)):
            values[field.name] = f"n{at}"
        elif field.kind == "int32" and field.name in ("partition", "partition_index", "index"):
            values[field.name] = at
        elif field.kind == "struct" and held is not None:
            values[field.name] = _numbered(held, at, version, given)
    return value.replace(**values)


def _element(field: Any, value: Any, at: int) -> Any:
    """Return an element for an array that is empty in the request about one thing."""
    if value:
        return value[0]
    if field.kind == "[]struct":
        return field.struct()
    return {"[]string": "n", "[]int32": 0, "[]int64": 0, "[]int8": 0, "[]int16": 0, "[]uuid": ZERO_UUID}.get(field.kind)


def _field(message: Message, path: Path) -> Any:
    owner = _get(message, path[:-1]) if len(path) > 1 else message
    owner = owner[0] if isinstance(owner, list | tuple) else owner
    return next(each for each in owner.FIELDS if each.name == path[-1])


def shapes(handler: Handler[Any], version: int) -> Iterator[Shape]:
    """Yield each way in which a request of this version can be long."""
    key = ApiKey(handler.api_key)
    some = There({0: bytes(range(16))}).names(0)
    for way, given in enumerate(_ways(handler, version)):
        known: list[Message] = []
        for variant, base in enumerate(requests_about(handler, some, version)):
            if base in known:
                continue  # it names topics by id, which this version does not
            known.append(base)
            for path in dict.fromkeys(_arrays(_changed(base, version, given), version)):
                for kind in KINDS:
                    name = f"{key.name} {version} {'.'.join(path)} {kind} {way}.{variant}"
                    yield Shape(name, _maker(handler, version, given, variant, path, kind))


def _ways(handler: Handler[Any], version: int) -> Iterator[Mapping[str, Any]]:
    """Yield what is given for an API, and with it that each array within its elements is null: all that there is."""
    for given in GIVEN.get(ApiKey(handler.api_key), ({},)):
        yield given
        for name in dict.fromkeys(_nullable(APIS[handler.api_key].request, version, is_inner=False)):
            yield {**given, name: None}


def _nullable(kind: Any, version: int, *, is_inner: bool) -> Iterator[str]:
    for field in kind.FIELDS:
        if not _has(field, version) or not field.kind.startswith("[]"):
            continue
        if is_inner and field.nullable is not None and field.nullable[0] <= version <= field.nullable[1]:
            yield field.name
        if field.struct is not None:
            yield from _nullable(field.struct, version, is_inner=True)


def _maker(
    handler: Handler[Any], version: int, given: Mapping[str, Any], variant: int, path: Path, kind: str
) -> Callable[[There, int], Message]:
    def request(names: Names) -> Message:
        return _changed(list(requests_about(handler, names, version))[variant], version, given)

    def make(there: There, count: int) -> Message:
        base = request(there.names(0))
        field = _field(base, path)
        elements = []
        for at in range(count):
            is_missing = kind == "missing" or (kind == "mixed" and at % 2 == 1)
            is_equal = kind == "equal" or (kind == "mixed" and not is_missing)
            pick: Pick = there.missing if is_missing else there.names
            at = at % ((count + 1) // 2) if kind == "twice" else at
            value = _get(base if is_equal or len(path) > 1 else request(pick(at)), path)
            element = _element(field, value, at)
            if element is None:
                return base
            number = at + BEYOND if is_missing else at
            elements.append(element if is_equal else _numbered(element, number, version, given))
        return _with(base, path, elements)

    return make
