"""Values ↔ records' bytes: a codec, a registry, and where the schema's id stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ottla.schemas import SchemaReference, incompatibilities
from ottla.serdes.codecs import Codec, codec_of
from ottla.serdes.errors import SerdeError
from ottla.serdes.naming import SubjectStrategy, subject_of
from ottla.serdes.registry import KnownSchema, Registry, SchemaText
from ottla.serdes.settings import SerdeSettings
from ottla.serdes.wire import HEADERS, SchemaId, split_header, split_prefix

__all__ = ["Decoded", "Deserializer", "Headers", "Serializer", "codecs_of"]

Headers = list[tuple[str, bytes | None]]


def codecs_of(registry: Registry, settings: SerdeSettings) -> Callable[[SchemaText], Codec]:
    """Return what gives the codecs of schemas; each is made once."""

    @lru_cache(settings.schemas_max)
    def made(schema: SchemaText) -> Codec:
        parsed = registry.parsed(schema)
        if settings.validate_json and schema.references and schema.schema_type == "JSON":
            from ottla.serdes.codecs.json_schema import JsonSchemaCodec

            texts = _texts(registry, schema.references)
            return JsonSchemaCodec(parsed, validate=True, referenced=texts, as_bytes=settings.json_bytes)
        return codec_of(
            parsed,
            validate_json=settings.validate_json,
            logical_types=settings.logical_types,
            named_unions=settings.named_unions,
            json_bytes=settings.json_bytes,
        )

    return made


def _texts(registry: Registry, references: Iterable[SchemaReference]) -> dict[str, str]:
    """Return the text of each reference by its name, and of what those refer to."""
    found: dict[str, str] = {}
    waiting = list(references)
    while waiting:
        each = waiting.pop()
        if each.name not in found:
            answer = registry.referenced(each)
            found[each.name] = answer.text
            waiting += answer.references
    return found


@dataclass(frozen=True)
class Decoded:
    """A value, and what it was written with."""

    value: Any
    schema: SchemaText
    codec: Codec
    id: SchemaId

    def json(self) -> str:
        """Return the value as consoles print it."""
        return self.codec.to_json(self.value)


@dataclass(frozen=True, slots=True)
class _Written:
    """What a value of a topic is written with."""

    topic: str
    schema: SchemaText | None
    message: str | None
    codec: Codec
    path: tuple[int, ...] | None
    prefix: bytes
    """What names the schema, before the payload or in a header."""


class Serializer:
    """Writes keys or values. Which schema is used, the settings say; all methods raise SerdeError."""

    def __init__(self, settings: SerdeSettings, registry: Registry | None = None) -> None:
        self.settings = settings
        self.registry = registry or Registry(settings)
        self._codecs = codecs_of(self.registry, settings)
        self._known = lru_cache(settings.schemas_max)(self._settle)
        self._last: _Written | None = None
        """What was written with last; None where the registry may say something else by now."""

    def codec(self, schema: SchemaText) -> Codec:
        """Return a schema's codec."""
        return self._codecs(schema)

    def serialize(
        self,
        topic: str,
        value: Any,
        schema: SchemaText | None,
        *,
        message: str | None = None,
        headers: Headers | None = None,
    ) -> bytes | None:
        """Return a record's bytes; None stays None. `message` names a Protobuf message that is not the first.

        Without a schema the registry's is used (`use.latest.version`, `use.schema.id`). `headers` get the schema's GUID
        where the settings say so.
        """
        if value is None:
            return None
        last = self._last
        if last is None or last.schema is not schema or last.topic != topic or last.message != message:
            last = self._written(topic, schema, message)
        payload = last.codec.encode(value, last.path)
        if not self.settings.id_in_header:
            return last.prefix + payload
        if headers is None:
            raise SerdeError("Where this is written there are no headers, which HeaderSchemaIdSerializer needs")
        headers.append((HEADERS[self.settings.is_key], last.prefix))
        return payload

    def _written(self, topic: str, schema: SchemaText | None, message: str | None) -> _Written:
        used = self.known(topic, schema, message)
        codec = self._codecs(used.schema)
        path = codec.path_to(message)
        found = SchemaId(used.id, used.guid, path)
        prefix = found.header() if self.settings.id_in_header else found.prefix()
        written = _Written(topic, schema, message, codec, path, prefix)
        self._last = None if self._asks_for_latest(schema) else written
        return written

    def _asks_for_latest(self, schema: SchemaText | None) -> bool:
        settings = self.settings
        latest = bool(settings.use_latest or settings.latest_metadata)
        return latest and not (settings.auto_register and schema) and settings.use_id is None

    def known(self, topic: str, schema: SchemaText | None, message: str | None = None) -> KnownSchema:
        """Return the schema that is written with, and its id."""
        settings = self.settings
        record = None
        if settings.strategy is not SubjectStrategy.TOPIC:
            if schema is None:
                raise SerdeError(f"{settings.strategy} needs a schema: it is not known which record this is")
            codec = self._codecs(schema)
            record = codec.name(codec.path_to(message))
        subject = subject_of(settings.strategy, topic, record, is_key=settings.is_key)
        if self._asks_for_latest(schema):
            return self._latest(subject, schema)  # the client says for how long the latest stays the latest
        return self._known((subject, schema))

    def _settle(self, key: tuple[str, SchemaText | None]) -> KnownSchema:
        subject, schema = key
        settings = self.settings
        if settings.auto_register and schema is not None:
            return self.registry.register(subject, schema, normalize=settings.normalize)
        if settings.use_id is not None:
            found = KnownSchema(self.registry.by_id(settings.use_id), settings.use_id)
            self._compare(found, schema, strict=settings.id_strict, key="id.compatibility.strict")
            return found
        if schema is None:
            raise SerdeError("There is no schema: give one, or set use.latest.version=true or use.schema.id")
        return self.registry.look_up(subject, schema, normalize=settings.normalize)

    def _latest(self, subject: str, schema: SchemaText | None) -> KnownSchema:
        metadata = self.settings.latest_metadata
        found = self.registry.latest_with(subject, metadata) if metadata else self.registry.latest(subject)
        self._compare(found, schema, strict=self.settings.latest_strict, key="latest.compatibility.strict")
        return found

    def _compare(self, found: KnownSchema, given: SchemaText | None, *, strict: bool, key: str) -> None:
        """Raise SerdeError where the registry's schema could not read what was written with the one at hand."""
        if not strict or given is None or given == found.schema:
            return
        reasons = incompatibilities(self.registry.parsed(found.schema), self.registry.parsed(given))
        if reasons:
            text = f"The schema with the id {found.id} cannot stand for the one at hand: {reasons[0].description}"
            raise SerdeError(f"{text}; {key}=false does not ask")


class Deserializer:
    """Reads keys or values, whatever their format. All methods raise SerdeError."""

    def __init__(self, settings: SerdeSettings, registry: Registry | None = None) -> None:
        self.settings = settings
        self.registry = registry or Registry(settings)
        self._codecs = codecs_of(self.registry, settings)

    def codec(self, schema: SchemaText) -> Codec:
        """Return a schema's codec."""
        return self._codecs(schema)

    def deserialize(self, data: bytes | None, headers: Headers | None = None) -> Decoded | None:
        """Return a record's value; None stays None. A header that names the schema counts before a prefix."""
        if data is None:
            return None
        found, payload, schema = self._schema(data, headers or ())
        if schema.schema_type == "PROTOBUF" and found.indexes is None:
            found, payload = split_prefix(data, has_indexes=True)
        codec = self._codecs(schema)
        return Decoded(codec.decode(payload, found.indexes), schema, codec, found)

    def _schema(self, data: bytes, headers: Iterable[tuple[str, bytes | None]]) -> tuple[SchemaId, bytes, SchemaText]:
        name = HEADERS[self.settings.is_key]
        held = next((value for key, value in headers if key == name and value), None)
        if held is not None and self.settings.read_headers:
            schema = self._fetched(split_prefix(held)[0])
            return split_header(held, has_indexes=schema.schema_type == "PROTOBUF"), data, schema
        found, payload = split_prefix(data)
        return found, payload, self._fetched(found)

    def _fetched(self, named: SchemaId) -> SchemaText:
        if named.id is not None:
            return self.registry.by_id(named.id)
        assert named.guid is not None
        return self.registry.by_guid(named.guid)
