"""An independent codec, kio, finds the same value in the same field: two fields of one type are never mixed up."""

from __future__ import annotations

import dataclasses
import datetime
import random
import uuid
from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from types import ModuleType
from typing import Any

from kio.serial import entity_reader, entity_writer

from ottla.wire import APIS, Message, decode, encode
from tests.wire.random_messages import every_message, random_message

SIDES = {"Request": "request", "Response": "response"}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
NOT_IN_KIO = {"RequestHeader", "ResponseHeader"}
"""Their readers are in test_framing."""


def kio_module(cls: type[Message], version: int) -> ModuleType | None:
    """Return kio's module for a message and version; None where kio does not have it."""
    side = next((side for end, side in SIDES.items() if cls.__name__.endswith(end)), "data")
    place = cls.__module__.rpartition(".")[2]
    try:
        return import_module(f"kio.schema.{place}.v{version}.{side}")
    except ImportError:
        return None


def pairs() -> Iterator[tuple[type[Message], int, Any]]:
    """Yield (our class, version, kio's class) of all that both have."""
    for cls in every_message():
        for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
            module = kio_module(cls, version)
            theirs = getattr(module, cls.__name__, None)
            if theirs is not None and cls.__name__ not in NOT_IN_KIO:
                yield cls, version, theirs


def plain(value: Any) -> Any:
    """Return kio's value as ours is: ids as bytes, times in milliseconds, error codes as numbers."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return value


def assert_same(ours: Any, theirs: Any, path: str) -> int:
    """Compare every field that kio has in this version; return how many."""
    if isinstance(ours, Message):
        fields = {field.name.removesuffix("_"): field.name for field in ours.FIELDS}
        compared = 0
        for each in dataclasses.fields(theirs):
            name = each.name.removesuffix("_")
            name = name if name in fields else f"{name}_ms"  # kio drops the unit where it has a type for times
            assert name in fields, f"{path}.{each.name}"
            compared += assert_same(getattr(ours, fields[name]), getattr(theirs, each.name), f"{path}.{name}")
        return compared
    if isinstance(ours, list) and isinstance(theirs, tuple) and any(isinstance(each, Message) for each in ours):
        assert len(ours) == len(theirs), path
        return sum(assert_same(one, other, f"{path}[]") for one, other in zip(ours, theirs, strict=True))
    expected = plain(theirs)
    if isinstance(ours, memoryview):
        ours = bytes(ours)
    if isinstance(ours, tuple):
        ours = list(ours)
    if expected is None and ours == bytes(16):
        expected = bytes(16)  # kio's form of the zero id
    assert ours == expected, f"{path}: {ours!r} here, {theirs!r} there"
    return 1


def test_every_value_is_found_under_its_name_by_an_independent_codec() -> None:
    rng = random.Random("meaning")
    messages = values = 0
    for cls, version, theirs in pairs():
        data = encode(random_message(cls, version, rng, tame=True), version)
        entity, _ = entity_reader(theirs)(data, 0)
        ours, end = decode(cls, data, version)
        assert end == len(data)
        values += assert_same(ours, entity, f"{cls.__name__} v{version}")
        again = BytesIO()
        entity_writer(theirs)(again, entity)
        assert again.getvalue() == data == encode(ours, version)
        messages += 1
    rpc = sum(spec.max_version - spec.min_version + 1 for spec in APIS.values()) * 2
    assert messages > 0.95 * rpc and values > 10 * messages
