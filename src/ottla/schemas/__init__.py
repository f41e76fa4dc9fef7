"""Formats of schemas: Avro, JSON Schema and Protobuf; what texts of them mean, and whether one may follow another.

A text becomes a schema (`parse`), which has a canonical text, and is compared with others (`check`). Nothing here knows
of a registry: what a schema refers to is asked for, and never fetched from elsewhere. Whatever a text holds, the answer
comes in bounded time.
"""

from ottla.schemas.compatibility import Level, check, incompatibilities
from ottla.schemas.identity import fingerprint, guid
from ottla.schemas.interface import (
    DEFAULT_LIMITS,
    Incompatibility,
    InvalidSchemaError,
    Limits,
    ParsedSchema,
    Referenced,
    Resolve,
    SchemaReference,
    SchemaType,
)
from ottla.schemas.parsing import parse

__all__ = [
    "DEFAULT_LIMITS",
    "Incompatibility",
    "InvalidSchemaError",
    "Level",
    "Limits",
    "ParsedSchema",
    "Referenced",
    "Resolve",
    "SchemaReference",
    "SchemaType",
    "check",
    "fingerprint",
    "guid",
    "incompatibilities",
    "parse",
]
