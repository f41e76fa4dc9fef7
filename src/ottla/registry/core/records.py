"""The records of the topic `_schemas`, as Confluent's registry and Karapace write them: JSON keys, JSON values.

What is read is kept as it was written where this registry does not know it (further fields of a configuration, say), so
that a topic can be taken over and given back. What cannot be read at all is an `Unreadable`, and costs its reader a line
of log.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from ottla.schemas import SchemaReference, fingerprint

__all__ = [
    "AVRO",
    "ConfigSet",
    "ContextMade",
    "IdMark",
    "IdRetired",
    "ModeSet",
    "Noop",
    "Record",
    "SchemaRemoved",
    "SchemaStored",
    "StoredSchema",
    "SubjectCleared",
    "SubjectDeleted",
    "Unreadable",
    "decode",
    "encode",
    "reference_json",
]

AVRO = "AVRO"
TENANT = "default"
INT_MAX = 2**31 - 1
LEVELS = (
    *("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE"),
    *("FULL", "FULL_TRANSITIVE"),
)
FLAGS = frozenset({"normalize", "validateFields", "validateRules", "validateNewSchemas"})
OBJECTS = frozenset({"defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"})
"""What is true or false in a configuration, and what is an object."""
Json = Mapping[str, Any]


def reference_json(reference: SchemaReference) -> dict[str, Any]:
    """Return a reference as it stands in bodies and records."""
    return {"name": reference.name, "subject": reference.subject, "version": reference.version}


@dataclass(frozen=True)
class StoredSchema:
    """A version of a subject."""

    subject: str
    version: int
    id: int
    text: str
    schema_type: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    deleted: bool = False

    @cached_property
    def fingerprint(self) -> bytes:
        """Confluent's MD5 of text, references, metadata and rules."""
        return fingerprint(self.text, self.references, self.metadata, self.rule_set)

    @property
    def content(self) -> tuple[str, bytes]:
        """What makes it this schema: equal in two subjects, it has one id."""
        return self.schema_type, self.fingerprint

    @property
    def guid(self) -> str:
        """What it is called in every registry."""
        return str(UUID(bytes=self.fingerprint))


@dataclass(frozen=True)
class SchemaStored:
    """A version was written, or marked as deleted."""

    schema: StoredSchema


@dataclass(frozen=True)
class SchemaRemoved:
    """A version is gone for good."""

    subject: str
    version: int


@dataclass(frozen=True)
class ConfigSet:
    """A configuration, of everything where there is no subject; None removes it."""

    subject: str | None
    config: Json | None


@dataclass(frozen=True)
class ModeSet:
    """A mode, of everything where there is no subject; None removes it."""

    subject: str | None
    mode: str | None


@dataclass(frozen=True)
class SubjectDeleted:
    """All versions up to one are marked as deleted."""

    subject: str
    version: int


@dataclass(frozen=True)
class SubjectCleared:
    """Versions that are marked as deleted are forgotten, everywhere where there is no subject."""

    subject: str | None


@dataclass(frozen=True)
class ContextMade:
    """A context exists; or no longer."""

    context: str
    exists: bool = True


@dataclass(frozen=True)
class IdMark:
    """The largest id that a context has given out.

    Only this registry writes it, where what has that id is removed for good: no later schema gets it. Other registries take
    it for one of their NOOPs, or for a record that they do not know.
    """

    context: str
    id: int


@dataclass(frozen=True)
class IdRetired:
    """What an id was, by type and fingerprint, whose last version is gone for good: it is never anything else.

    Only this registry writes it, as it does `IdMark`.
    """

    context: str
    id: int
    schema_type: str
    fingerprint: bytes


@dataclass(frozen=True)
class Noop:
    """Nothing: by its offset a reader knows how far it has come."""


Record = (
    SchemaStored
    | SchemaRemoved
    | ConfigSet
    | ModeSet
    | SubjectDeleted
    | SubjectCleared
    | ContextMade
    | IdMark
    | IdRetired
    | Noop
)


@dataclass(frozen=True)
class Unreadable:
    """A record that says nothing to this registry."""

    reason: str


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Return a record's key and value, with Confluent's fields in Confluent's order."""
    key, value = _encoded(record)
    return _json(key), None if value is None else _json(value)


def _encoded(record: Record) -> tuple[dict[str, Any], dict[str, Any] | None]:
    match record:
        case SchemaStored(schema):
            return _schema_key(schema.subject, schema.version), _schema_value(schema)
        case SchemaRemoved(subject, version):
            return _schema_key(subject, version), None
        case ConfigSet(subject, config):
            named = {} if subject is None else {"subject": subject}
            return _subject_key("CONFIG", subject), None if config is None else {**named, **config}
        case ModeSet(subject, mode):
            named = {} if subject is None else {"subject": subject}
            return _subject_key("MODE", subject), None if mode is None else {**named, "mode": mode}
        case SubjectDeleted(subject, version):
            return _subject_key("DELETE_SUBJECT", subject), {"subject": subject, "version": version}
        case SubjectCleared(subject):
            return _subject_key("CLEAR_SUBJECT", subject), {} if subject is None else {"subject": subject}
        case ContextMade(context, exists):
            value = {"tenant": TENANT, "context": context} if exists else None
            return {"keytype": "CONTEXT", "tenant": TENANT, "context": context, "magic": 0}, value
        case IdMark(context, id_):
            return {"keytype": "NOOP", "context": context, "magic": 0}, {"maxId": id_}
        case IdRetired(context, id_, schema_type, print_):
            key = {"keytype": "NOOP", "context": context, "id": id_, "magic": 0}
            return key, {"maxId": id_, "schemaType": schema_type, "md5": base64.b64encode(print_).decode()}
        case Noop():
            return {"keytype": "NOOP", "magic": 0}, None


def _schema_key(subject: str, version: int) -> dict[str, Any]:
    return {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}


def _subject_key(keytype: str, subject: str | None) -> dict[str, Any]:
    return {"keytype": keytype, "subject": subject, "magic": 0}


def _schema_value(schema: StoredSchema) -> dict[str, Any]:
    value: dict[str, Any] = {"subject": schema.subject, "version": schema.version, "id": schema.id}
    value["md5"] = base64.b64encode(schema.fingerprint).decode()
    if schema.schema_type != AVRO:
        value["schemaType"] = schema.schema_type
    if schema.references:
        value["references"] = [reference_json(each) for each in schema.references]
    if schema.metadata is not None:
        value["metadata"] = dict(schema.metadata)
    if schema.rule_set is not None:
        value["ruleSet"] = dict(schema.rule_set)
    return {**value, "schema": schema.text, "deleted": schema.deleted}


def decode(key: bytes | None, value: bytes | None) -> Record | Unreadable:
    """Read a record."""
    try:
        found = json.loads((key or b"").decode("utf-8", "surrogatepass"))
        body = None if value is None else json.loads(value.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return Unreadable("its key or value is not JSON")
    if not isinstance(found, dict) or not (body is None or isinstance(body, dict)):
        return Unreadable("its key or value is not a JSON object")
    try:
        return _decoded(found, body)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        return Unreadable(f"{type(error).__name__}: {error}")


def _decoded(key: dict[str, Any], body: dict[str, Any] | None) -> Record | Unreadable:
    keytype = key.get("keytype")
    match keytype:
        case "SCHEMA":
            subject, version = _text(key["subject"]), _number(key["version"], 1)
            if body is None:
                return SchemaRemoved(subject, version)
            schema = _schema(subject, version, body)
            assert len(schema.fingerprint) == 16, "computed here, where what is damaged does no harm"
            return SchemaStored(schema)
        case "CONFIG":
            return ConfigSet(_subject(key), None if body is None else _config(body))
        case "MODE":
            mode = None if body is None else body.get("mode")
            return ModeSet(_subject(key), None if mode is None else _text(mode))
        case "DELETE_SUBJECT":
            if body is None:
                return Noop()  # what it deleted has gone since
            return SubjectDeleted(_text(key["subject"]), _number(body["version"], 0))
        case "CLEAR_SUBJECT":
            return Noop() if body is None else SubjectCleared(_subject(key))
        case "CONTEXT":
            return ContextMade(_text(key["context"]), body is not None)
        case "NOOP" if body is not None and "id" in key:
            context, id_ = _text(key["context"]), _number(key["id"], 0)
            return IdRetired(context, id_, _text(body["schemaType"]), base64.b64decode(_text(body["md5"])))
        case "NOOP" if body is not None and "context" in key:
            return IdMark(_text(key["context"]), _number(body["maxId"], 0))
        case "NOOP":
            return Noop()
    return Unreadable(f"its keytype is {keytype!r}")


def _subject(key: dict[str, Any]) -> str | None:
    return None if key.get("subject") is None else _text(key["subject"])


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _number(value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= INT_MAX:
        raise ValueError(f"{value!r} is not a number from {least} to {INT_MAX}")
    return value


def _config(body: dict[str, Any]) -> Json | None:
    found = {key: each for key, each in body.items() if key != "subject" and each is not None}
    level = found.get("compatibilityLevel")
    if level is not None:
        found["compatibilityLevel"] = _text(level).upper()
        if found["compatibilityLevel"] not in LEVELS:
            raise ValueError(f"{level!r} is no level of compatibility")
    for key in ("alias", "compatibilityGroup"):
        _text(found.get(key, ""))
    for key, kind in (*((each, bool) for each in FLAGS), *((each, dict) for each in OBJECTS)):
        if not isinstance(found.get(key, kind()), kind):
            raise TypeError(f"{key} is {found[key]!r}")
    return found or None


def _schema(subject: str, version: int, body: dict[str, Any]) -> StoredSchema:
    references = body.get("references") or []
    metadata, rules = body.get("metadata"), body.get("ruleSet")
    return StoredSchema(
        subject,
        version,
        _number(body["id"], 0),
        _text(body["schema"]),
        _text(body.get("schemaType") or AVRO).upper(),
        tuple(
            SchemaReference(_text(each["name"]), _text(each["subject"]), int(each["version"])) for each in references
        ),
        None if metadata is None else dict(metadata),
        None if rules is None else dict(rules),
        bool(body.get("deleted", False)),
    )
