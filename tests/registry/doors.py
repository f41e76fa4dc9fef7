"""What of the registry reads bytes that anybody sends: for fuzzing, each refuses what it cannot read by its own error."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from ottla.registry.core import RegistryError, decode
from ottla.registry.core.lookups import version_number
from ottla.registry.core.names import Subject, checked, context_name, in_context, scope_of
from ottla.registry.identities import Identity, read_assignment
from ottla.registry.rest.bodies import metadata_of, read_body, rule_set_of, wanted_of
from ottla.schemas import InvalidSchemaError, Referenced, SchemaReference, SchemaType, parse

__all__ = ["DOORS", "REFUSALS", "knock"]

REFUSALS = (RegistryError, InvalidSchemaError, ValueError, KeyError, TypeError, OverflowError, RecursionError)
"""Of `identities` all but the first two, which whoever reads a group's messages catches."""


def _body(data: bytes) -> None:
    body = read_body(data, "fuzz")
    wanted_of(body)
    metadata_of(body.get("metadata"))
    rule_set_of(body.get("ruleSet"))


def _names(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    scope = scope_of(in_context(context_name(text[:8]), text))
    assert scope is None or str(Subject.of(scope)) == scope, "what a name means means itself"
    assert checked(text) == str(Subject.of(text))
    version_number(text)


def _nothing(reference: SchemaReference) -> Referenced:
    raise InvalidSchemaError(f"{reference.subject} is not there")


def _schema(kind: SchemaType) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        schema = parse(kind, data.decode("utf-8", "replace"), (), _nothing, new=True)
        text = schema.canonical()
        assert parse(kind, text, (), _nothing).canonical() == text, "a canonical text is its own"

    return read


def _record(data: bytes) -> None:
    key, _, value = data.partition(b"\0")
    decode(key, value or None)


def _group(data: bytes) -> None:
    try:
        read_assignment(data)
        Identity.of(json.loads(data))
    except RegistryError as error:
        raise AssertionError("the group's messages know no errors of the interface") from error


DOORS: Mapping[str, Callable[[bytes], None]] = {
    "body": _body,
    "name": _names,
    "record": _record,
    "group": _group,
    "avro": _schema(SchemaType.AVRO),
    "json": _schema(SchemaType.JSON),
}
"""By name. Protobuf is compiled in a process of its own, with bounds of its own."""


def knock(door: str, data: bytes) -> bool:
    """Return whether a door took some bytes; anything but its refusals is raised."""
    strict: tuple[type[Exception], ...] = REFUSALS if door == "group" else (RegistryError, InvalidSchemaError)
    try:
        DOORS[door](data)
    except strict:
        return False
    return True
