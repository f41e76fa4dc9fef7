"""The door to a schema registry: Confluent's own client, with its caches, and errors that say whether to try again.

Its library is imported when a registry is first asked, since it brings an HTTP client with it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from ottla.base import ConfigError, bring_extra, why_unreached
from ottla.schemas import (
    InvalidSchemaError,
    ParsedSchema,
    Referenced,
    SchemaReference,
    SchemaType,
    parse,
)
from ottla.serdes.errors import SerdeError
from ottla.serdes.settings import SerdeSettings, without_login

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

__all__ = ["KnownSchema", "Registry", "SchemaText"]

Answer = TypeVar("Answer")
_RETRIABLE = (408, 429)
CAUSES_MAX = 5
"""How many errors of the HTTP library may lie around the system's."""


@dataclass(frozen=True)
class SchemaText:
    """A schema as it is registered."""

    schema_type: SchemaType
    text: str
    references: tuple[SchemaReference, ...] = ()


@dataclass(frozen=True)
class KnownSchema:
    """A schema that the registry knows."""

    schema: SchemaText
    id: int | None = None
    guid: UUID | None = None


class Registry:
    """Asks a registry, and keeps what it was told: ids and versions never change what they stand for."""

    def __init__(self, settings: SerdeSettings) -> None:
        """Make a client; nothing is asked yet. Raises ConfigError where the extra `registry` is not installed."""
        self.urls = settings.urls
        self._client = _client(settings)
        self._parsed = lru_cache(settings.schemas_max)(self._parse)

    def register(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> KnownSchema:
        """Return a schema's id, registered under the subject where it is not yet; raises SerdeError."""
        given = _given(schema)
        found = self._asked(
            f"registering the schema under {subject}",
            lambda: self._client.register_schema_full_response(subject, given, normalize_schemas=normalize),
        )
        return KnownSchema(schema, found.schema_id, _guid(found.guid))

    def look_up(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> KnownSchema:
        """Return the id of a schema that is registered under the subject; raises SerdeError where it is not."""
        given = _given(schema)
        found = self._asked(
            f"looking the schema up under {subject}",
            lambda: self._client.lookup_schema(subject, given, normalize_schemas=normalize),
        )
        return KnownSchema(schema, found.schema_id, _guid(found.guid))

    def latest(self, subject: str) -> KnownSchema:
        """Return the subject's newest version; raises SerdeError where there is none."""
        found = self._asked(
            f"asking for the latest schema of {subject}", lambda: self._client.get_latest_version(subject)
        )
        schema = _text(found.schema)
        return KnownSchema(schema, found.schema_id, _guid(found.guid))

    def latest_with(self, subject: str, metadata: Mapping[str, str]) -> KnownSchema:
        """Return the subject's newest version whose metadata say all of these; raises SerdeError where there is none."""
        said = ", ".join(f"{key}={value}" for key, value in metadata.items())
        found = self._asked(
            f"asking for the latest schema of {subject} with {said}",
            lambda: self._client.get_latest_with_metadata(subject, dict(metadata)),
        )
        return KnownSchema(_text(found.schema), found.schema_id, _guid(found.guid))

    def by_id(self, number: int) -> SchemaText:
        """Return the schema of an id; raises SerdeError."""
        return _text(
            self._asked(f"asking for the schema with the id {number}", lambda: self._client.get_schema(number))
        )

    def by_guid(self, found: UUID) -> SchemaText:
        """Return the schema of a GUID; raises SerdeError."""
        return _text(self._asked(f"asking for the schema {found}", lambda: self._client.get_schema_by_guid(str(found))))

    def parsed(self, schema: SchemaText) -> ParsedSchema:
        """Return what a schema means, with all that it refers to; raises SerdeError."""
        return self._parsed(schema)

    def referenced(self, reference: SchemaReference) -> Referenced:
        """Return the text of a reference; raises SerdeError."""
        found = self._asked(
            f"asking for {reference.subject}, version {reference.version}, which a schema refers to",
            lambda: self._client.get_version(reference.subject, reference.version, deleted=True),
        )
        schema = _text(found.schema)
        return Referenced(schema.text, schema.references)

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def _parse(self, schema: SchemaText) -> ParsedSchema:
        try:
            return parse(schema.schema_type, schema.text, schema.references, self.referenced, new=False)
        except InvalidSchemaError as error:
            raise SerdeError(f"The {schema.schema_type} schema cannot be used: {error}") from error

    def _asked(self, what: str, ask: Callable[[], Answer]) -> Answer:
        from confluent_kafka.schema_registry import SchemaRegistryError

        where = ", ".join(self.urls)
        try:
            return ask()
        except SchemaRegistryError as error:
            retriable = error.http_status_code >= 500 or error.http_status_code in _RETRIABLE
            said = f"{error.error_message} ({error.error_code})"
            raise SerdeError(f"The schema registry refused {what}: {said}", retriable=retriable) from error
        except Exception as error:  # its HTTP library, and what reads tokens, have errors of several kinds
            reason = why_unreached(_cause(error))
            text = f"The schema registry at {where} did not answer {what}: {without_login(reason)}"
            raise SerdeError(text, retriable=not isinstance(error, ValueError | TypeError)) from error


def _cause(error: BaseException) -> BaseException:
    """Return the system's error where the HTTP library has wrapped one, else the error."""
    inner: BaseException | None = error
    for _ in range(CAUSES_MAX):
        if inner is None or isinstance(inner, OSError):
            break
        inner = inner.__cause__ or inner.__context__
    return inner if isinstance(inner, OSError) else error


def _guid(given: str | None) -> UUID | None:
    """Return the GUID that a registry gave; one before Confluent's version 8 gives none."""
    return UUID(given) if given else None


def _given(schema: SchemaText) -> Schema:
    from confluent_kafka.schema_registry import Schema
    from confluent_kafka.schema_registry import SchemaReference as Reference

    references = [Reference(each.name, each.subject, each.version) for each in schema.references]
    return Schema(schema.text, str(schema.schema_type), references)


def _text(schema: Any) -> SchemaText:
    """Return what a registry answered; raises SerdeError for rules, without which its bytes cannot be made sense of."""
    try:
        kind = SchemaType(schema.schema_type or "AVRO")
    except ValueError:
        raise SerdeError(f"There are schemas of type {schema.schema_type} in the registry, unknown here") from None
    rules = schema.rule_set.to_dict() if schema.rule_set is not None else {}
    active = [rule for name in ("domainRules", "encodingRules") for rule in rules.get(name) or () if not _is_off(rule)]
    if active:
        named = ", ".join(str(rule.get("name")) for rule in active)
        raise SerdeError(f"The schema has rules ({named}), which are not carried out here")
    references = tuple(
        SchemaReference(str(each.name), str(each.subject), int(each.version or -1)) for each in schema.references or ()
    )
    return SchemaText(kind, schema.schema_str or "", references)


def _is_off(rule: dict[str, Any]) -> bool:
    return bool(rule.get("disabled"))


def _client(settings: SerdeSettings) -> SchemaRegistryClient:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        text = f"it needs the extra `registry`: {bring_extra('registry')} ({error})"
        raise ConfigError("schema.registry.url", ",".join(settings.urls), text, f"A schema registry: {text}") from error
    with tempfile.TemporaryDirectory() as folder:
        files = _tls_files(settings, Path(folder))
        try:
            return SchemaRegistryClient({**settings.client, **files})
        except (ValueError, TypeError, OSError) as error:
            raise ConfigError("schema.registry.url", ",".join(settings.urls), without_login(str(error))) from error


def _tls_files(settings: SerdeSettings, folder: Path) -> dict[str, str]:
    """Write the stores as the client's library reads them, once, while it starts; raises ConfigError."""
    if not settings.tls:
        return {}
    from ottla.security import TlsSettings, pem_stores

    stores = pem_stores(TlsSettings.of(dict(settings.tls)))
    wanted = {
        "ssl.ca.location": stores.trusted,
        "ssl.certificate.location": stores.chain,
        "ssl.key.location": stores.key,
    }
    found = {}
    for key, text in wanted.items():
        if text:
            path = folder / f"{key}.pem"
            with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
            found[key] = str(path)
    return found
