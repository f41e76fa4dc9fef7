"""Keys and values of topics by schemas in files, where no registry says what they are: Avro, Protobuf, descriptor sets.

Bytes are the value alone, without a registry's prefix. A part that does not fit its schema stays as it is, for the decoders
that try anything.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.base import ConfigError, OttlaError, bring_extra
from ottla.console.records.reads import Read
from ottla.wire import Record

if TYPE_CHECKING:
    from ottla.console.records.registry_values import RegistryValues

__all__ = ["FileDecoder", "Values", "file_decoders", "values_of"]

PARTS: Final = ("key", "value")
KINDS: Final = {".avsc": "avro", ".proto": "protobuf", ".desc": "descriptors", ".pb": "descriptors"}
CODECS_MAX: Final = 64


class Values(Protocol):
    """What reads records: those that it can make nothing of stay as they are."""

    async def read(self, records: Iterable[Record]) -> Sequence[Record | Read]:
        """Return the records, those that were read as `Read`."""
        ...


@dataclass(frozen=True, slots=True)
class FileDecoder:
    """One rule: of which topics which part is read by which schema."""

    topics: str
    part: str
    kind: str
    file: str
    """Its name, as pages show it."""
    schema: bytes = field(repr=False)
    message: str | None = None
    """The type of a Protobuf message; without one the file's first."""

    @property
    def said(self) -> str:
        """By what a part was read, for people."""
        return f"{self.file}#{self.message}" if self.message else self.file


def file_decoders(path: str, setting: str) -> tuple[FileDecoder, ...]:
    """Return the rules of a file, a JSON list of `{"topics": "orders*", "value": "order.avsc"}`.

    A schema's path is relative to the file's; `order.proto#shop.Order` and `all.desc#shop.Order` name a message. Raises
    ConfigError, which says which rule is wrong.
    """
    place = Path(path)
    try:
        given = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(setting, path, f"a file with a JSON list of rules: {error}") from None
    if not isinstance(given, list):
        raise ConfigError(setting, path, "a JSON list of rules")
    return tuple(found for each in given for found in _rules(each, place.parent, setting))


def _rules(given: object, folder: Path, setting: str) -> list[FileDecoder]:
    if not isinstance(given, dict) or not isinstance(given.get("topics"), str) or not set(given) <= {"topics", *PARTS}:
        raise ConfigError(setting, str(given)[:100], "each rule has topics, and key or value or both")
    found = [_rule(given["topics"], part, given[part], folder, setting) for part in PARTS if part in given]
    if not found:
        raise ConfigError(setting, str(given)[:100], "each rule names a schema for key or value")
    return found


def _rule(topics: str, part: str, named: object, folder: Path, setting: str) -> FileDecoder:
    text, _, message = str(named).partition("#")
    path = folder / text
    kind = KINDS.get(path.suffix)
    if kind is None:
        raise ConfigError(setting, text, f"a file that ends with {', '.join(KINDS)}")
    if kind == "descriptors" and not message:
        raise ConfigError(setting, text, "a message of a descriptor set is named: all.desc#shop.Order")
    try:
        schema = path.read_bytes()
    except OSError as error:
        raise ConfigError(setting, text, f"a schema's file: {error}") from None
    rule = FileDecoder(topics, part, kind, path.name, schema, message or None)
    try:
        _codec(rule)
    except ConfigError:
        raise
    except OttlaError as error:
        raise ConfigError(setting, text, f"a schema that can be used: {error}") from None
    return rule


class _Codec(Protocol):
    def json(self, data: bytes) -> str:
        """Return a value as JSON; raises OttlaError for bytes that are none."""
        ...


@lru_cache(CODECS_MAX)
def _codec(rule: FileDecoder) -> _Codec:
    """Return what reads by a rule; raises OttlaError."""
    return _Descriptors(rule) if rule.kind == "descriptors" else _Schema(rule)


class _Schema:
    def __init__(self, rule: FileDecoder) -> None:
        from ottla.schemas import InvalidSchemaError, SchemaType, parse
        from ottla.serdes import SerdeError, codec_of

        kind = SchemaType.AVRO if rule.kind == "avro" else SchemaType.PROTOBUF
        try:
            parsed = parse(kind, rule.schema.decode(), (), new=False)
        except (UnicodeDecodeError, InvalidSchemaError) as error:
            raise SerdeError(str(error)) from None
        self._codec = codec_of(parsed)
        self._path = self._codec.path_to(rule.message)

    def json(self, data: bytes) -> str:
        return self._codec.to_json(self._codec.decode(data, self._path))


class _Descriptors:
    def __init__(self, rule: FileDecoder) -> None:
        from ottla.serdes import SerdeError

        try:
            from google.protobuf.descriptor_pb2 import FileDescriptorSet
            from google.protobuf.descriptor_pool import DescriptorPool
            from google.protobuf.message_factory import GetMessageClass
        except ImportError as error:
            raise SerdeError(f"Protobuf needs the extra `registry`: {bring_extra('registry')} ({error})") from error
        try:
            self._pool = DescriptorPool()
            for file in FileDescriptorSet.FromString(rule.schema).file:
                self._pool.Add(file)
            self._class: Any = GetMessageClass(self._pool.FindMessageTypeByName(rule.message))
        except Exception as error:  # whatever a wrong file brings about
            raise SerdeError(f"the descriptor set has no message {rule.message}: {error}") from error

    def json(self, data: bytes) -> str:
        from google.protobuf.json_format import MessageToDict

        from ottla.serdes import SerdeError

        try:
            found = MessageToDict(
                self._class.FromString(data),
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
                descriptor_pool=self._pool,
            )
        except Exception as error:  # as above, for bytes
            raise SerdeError(f"The bytes are no message: {error}") from error
        return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def values_of(decoders: Iterable[FileDecoder], registry: RegistryValues | None, topic: str) -> Values | None:
    """Return what reads a topic's records: the first rule for each part, a registry for the rest; None for nothing."""
    rules: dict[str, FileDecoder] = {}
    for each in decoders:
        if fnmatchcase(topic, each.topics):
            rules.setdefault(each.part, each)
    return _TopicValues(rules, registry) if rules else registry


class _TopicValues:
    def __init__(self, rules: Mapping[str, FileDecoder], registry: RegistryValues | None) -> None:
        self._rules, self._registry = rules, registry

    async def read(self, records: Iterable[Record]) -> Sequence[Record | Read]:
        own = list(records)
        known: Sequence[Record | Read] = own if self._registry is None else await self._registry.read(own)
        return await asyncio.to_thread(lambda: [self._one(*each) for each in zip(own, known, strict=True)])

    def _one(self, record: Record, known: Record | Read) -> Record | Read:
        found = known if isinstance(known, Read) else Read(*_plain(record))
        for part, rule in self._rules.items():
            data = record.key if part == "key" else record.value
            if data is None:
                continue
            try:
                text = _codec(rule).json(data)
            except OttlaError:
                continue
            said = f"{rule.kind} by {rule.said}"
            if part == "key":
                found = found._replace(key=text.encode(), key_by=said, key_bytes=len(data))
            else:
                found = found._replace(value=text.encode(), value_by=said, value_bytes=len(data))
        return found if found.key_by is not None or found.value_by is not None else record


def _plain(record: Record) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value, record.headers
