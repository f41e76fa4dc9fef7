"""What tells schemas apart: the hash that Confluent's registry keeps, and the GUID that it makes of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from ottla.schemas.interface import SchemaReference

__all__ = ["fingerprint", "guid"]

_RULE_TEXTS = ("name", "doc", "kind", "mode", "type")
_RULE_ENDS = ("expr", "onSuccess", "onFailure")
_RULE_DEFAULTS = {"kind": "TRANSFORM", "mode": "WRITEREAD"}


def fingerprint(
    canonical: str,
    references: Sequence[SchemaReference] = (),
    metadata: Mapping[str, Any] | None = None,
    rule_set: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the MD5 that schemas are told apart by: 16 bytes. Metadata and rules are as in a request to the registry."""
    return hashlib.md5(b"".join(_parts(canonical, references, metadata, rule_set)), usedforsecurity=False).digest()


def guid(
    canonical: str,
    references: Sequence[SchemaReference] = (),
    metadata: Mapping[str, Any] | None = None,
    rule_set: Mapping[str, Any] | None = None,
) -> UUID:
    """Return the identifier that a schema has in every registry: its fingerprint as a UUID."""
    return UUID(bytes=fingerprint(canonical, references, metadata, rule_set))


def _parts(
    canonical: str,
    references: Sequence[SchemaReference],
    metadata: Mapping[str, Any] | None,
    rule_set: Mapping[str, Any] | None,
) -> Iterator[bytes]:
    yield canonical.encode()
    for reference in references:
        yield reference.name.encode() + reference.subject.encode() + (reference.version & 0xFFFFFFFF).to_bytes(4)
    if metadata is not None:
        yield b"\1"
        yield from _metadata(metadata)
    if rule_set is not None:
        yield b"\1"
        for family in ("migrationRules", "domainRules", "encodingRules"):
            for rule in rule_set.get(family) or ():
                yield from _rule(rule)


def _metadata(metadata: Mapping[str, Any]) -> Iterator[bytes]:
    for key, values in sorted((metadata.get("tags") or {}).items()):
        yield key.encode()
        yield from (value.encode() for value in sorted(set(values)))
    yield from _pairs(metadata.get("properties"))
    yield from (value.encode() for value in sorted(set(metadata.get("sensitive") or ())))


def _rule(rule: Mapping[str, Any]) -> Iterator[bytes]:
    for key in _RULE_TEXTS:
        yield (rule.get(key) or _RULE_DEFAULTS.get(key, "")).encode()
    yield from (value.encode() for value in sorted(set(rule.get("tags") or ())))
    yield from _pairs(rule.get("params"))
    for key in _RULE_ENDS:
        yield (rule.get(key) or "").encode()
    if rule.get("disabled"):
        yield b"\1"


def _pairs(values: Mapping[str, str] | None) -> Iterator[bytes]:
    for key, value in sorted((values or {}).items()):
        yield key.encode() + value.encode()
