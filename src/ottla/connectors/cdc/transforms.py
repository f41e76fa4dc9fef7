"""Debezium's transformations of change events: `ExtractNewRecordState` (unwrap) and `EventRouter` (outbox)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from ottla.base import ConfigError
from ottla.config import ConfigType
from ottla.connect import (
    ConfigDef,
    ConfiguredPlugin,
    DataError,
    Header,
    Importance,
    JavaPattern,
    Schema,
    SchemaType,
    compile_java,
    replacement_of,
    validators,
)
from ottla.connect.data import OPTIONAL_STRING, SchemaBuilder, Struct
from ottla.connectors.cdc.json_payload import expanded_json
from ottla.java import Found

__all__ = ["EventRouter", "ExtractNewRecordState"]

log = logging.getLogger(__name__)
_REGEX: Final = validators.Regex()
MODES: Final = ("tombstone", "drop", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")


def _def(*keys: tuple[Any, ...]) -> ConfigDef:
    """Return a definition of keys given as (name, type, default, documentation), and a validator where there is one."""
    found = ConfigDef()
    for name, type_, default, doc, *rule in keys:
        found.define(name, type_, default, importance=Importance.MEDIUM, doc=doc, validator=rule[0] if rule else None)
    return found


def _is_envelope(record: Any) -> bool:
    schema = record.value_schema
    return schema is not None and (schema.name or "").endswith(".Envelope")


class ExtractNewRecordState(ConfiguredPlugin):
    """A change event becomes the row behind the change; what a delete becomes `delete.tombstone.handling.mode` says."""

    java_name = "io.debezium.transforms.ExtractNewRecordState"
    config_def = _def(
        (
            "delete.tombstone.handling.mode",
            ConfigType.STRING,
            "tombstone",
            "What a delete and its tombstone become.",
            validators.ValidString(*MODES),
        ),
        ("add.fields", ConfigType.LIST, "", "Fields of the event to add to the row: name, part.name, or name:other."),
        ("add.headers", ConfigType.LIST, "", "Fields of the event to add as headers."),
        ("add.fields.prefix", ConfigType.STRING, "__", "Begins the names of fields that are added."),
        ("add.headers.prefix", ConfigType.STRING, "__", "Begins the names of headers that are added."),
        ("route.by.field", ConfigType.STRING, "", "A field of the row whose value is the topic."),
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""
        self._mode: str = settings["delete.tombstone.handling.mode"]
        self._route: str = settings["route.by.field"]
        self._fields = _paths(settings["add.fields"], settings["add.fields.prefix"])
        self._headers = _paths(settings["add.headers"], settings["add.headers.prefix"])
        self._marks = self._mode.startswith("rewrite")
        self._schema = lru_cache(64)(self._made_schema)

    def apply(self, record: Any) -> Any:
        """See `Transformation`. What is no change event passes as it is."""
        if record.value is None:
            return record if self._mode in ("tombstone", "rewrite-with-tombstone") else None
        if not _is_envelope(record):
            return record
        event: Struct = record.value
        op = event.get("op")
        headers = (*record.headers, *(self._header(event, name, path) for name, path in self._headers))
        if op == "d":
            if self._mode in ("tombstone", "drop"):
                return None
            if self._mode == "delete-to-tombstone":
                return record.replace(value_schema=None, value=None, headers=headers)
            row = event.get_without_default("before")
        else:
            row = event.get_without_default("after")
        if row is None:
            return None
        made = self._row(event, row, deleted=op == "d")
        topic = record.topic if not self._route else str(row.get(self._route))
        return record.replace(topic=topic, value_schema=made.schema, value=made, headers=headers)

    def _header(self, event: Struct, name: str, path: tuple[str, ...]) -> Header:
        way, schema = _way(event.schema, path)
        return Header(name, _value(event, way), schema)

    def _row(self, event: Struct, row: Struct, *, deleted: bool) -> Struct:
        if not self._fields and not self._marks:
            return row
        made = Struct(self._schema(row.schema, event.schema))
        more = ["true" if deleted else "false"] if self._marks else []
        made.values = [*row.values, *more, *(_value(event, _way(event.schema, path)[0]) for _, path in self._fields)]
        return made

    def _made_schema(self, row: Schema, event: Schema) -> Schema:
        builder = SchemaBuilder.struct().name(row.name).version(row.version)
        for field in row.fields:
            builder.field(field.name, field.schema)
        if self._marks:
            builder.field("__deleted", OPTIONAL_STRING)
        for name, path in self._fields:
            builder.field(name, _way(event, path)[1])
        return builder.build()


def _paths(names: Sequence[str], prefix: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the names that fields get, each with the way to it in the event."""
    found = []
    for each in names:
        path, _, other = each.strip().partition(":")
        parts = tuple(path.strip().split("."))
        found.append((prefix + (other.strip() or "_".join(parts)), parts))
    return found


@lru_cache(256)
def _way(event: Schema, path: tuple[str, ...]) -> tuple[tuple[str, ...], Schema]:
    """Return the way to a field of the event, or of its source, and what it becomes where it is added.

    Raises DataError where there is none.
    """
    for way in (path, ("source", *path)):
        schema: Schema | None = event
        for name in way:
            field = schema.field(name) if schema is not None and schema.type is SchemaType.STRUCT else None
            schema = None if field is None else field.schema
        if schema is not None:
            return way, schema.with_optional(True)
    raise DataError(f"A change event has no field {'.'.join(path)} to add")


def _value(event: Struct, way: tuple[str, ...]) -> Any:
    value: Any = event
    for name in way:
        value = None if value is None else value.get(name)
    return value


class EventRouter(ConfiguredPlugin):
    """A row that is inserted into an outbox becomes the message that it stands for, in the topic that it names."""

    java_name = "io.debezium.transforms.outbox.EventRouter"
    config_def = _def(
        ("table.field.event.id", ConfigType.STRING, "id", "The column of the message's id, which becomes a header."),
        ("table.field.event.key", ConfigType.STRING, "aggregateid", "The column of the record's key."),
        ("table.field.event.payload", ConfigType.STRING, "payload", "The column of the record's value."),
        ("table.field.event.timestamp", ConfigType.STRING, None, "The column of the record's time."),
        ("route.by.field", ConfigType.STRING, "aggregatetype", "The column that chooses the topic."),
        ("route.topic.regex", ConfigType.STRING, "(?<routedByValue>.*)", "What its value is matched with.", _REGEX),
        ("route.topic.replacement", ConfigType.STRING, "outbox.event.${routedByValue}", "The topic's name."),
        ("route.tombstone.on.empty.payload", ConfigType.BOOLEAN, False, "Whether no payload is a tombstone."),
        (
            "table.fields.additional.placement",
            ConfigType.LIST,
            "",
            "More columns: name:header, name:envelope or name:partition, each with :other for another name.",
        ),
        ("table.expand.json.payload", ConfigType.BOOLEAN, False, "Whether a payload of JSON becomes a structure."),
        (
            "table.op.invalid.behavior",
            ConfigType.STRING,
            "warn",
            "What an update of the outbox is: warn, error, fatal.",
            validators.ValidString("warn", "error", "fatal"),
        ),
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings; raises ConfigError."""
        names = ("id", "key", "payload", "timestamp")
        self._id, self._key, self._payload, self._timestamp = (settings[f"table.field.event.{each}"] for each in names)
        self._route: str = settings["route.by.field"]
        self._regex = compile_java(settings["route.topic.regex"])
        self._topic = _replacement(settings["route.topic.replacement"], self._regex)
        self._tombstones: bool = settings["route.tombstone.on.empty.payload"]
        self._expands: bool = settings["table.expand.json.payload"]
        self._invalid: str = settings["table.op.invalid.behavior"]
        self._more: list[tuple[str, str, str]] = []
        for each in settings["table.fields.additional.placement"]:
            column, _, rest = each.strip().partition(":")
            place, _, name = rest.partition(":")
            if place not in ("header", "envelope", "partition"):
                key = "table.fields.additional.placement"
                raise ConfigError(key, each, "column:header, column:envelope or column:partition was expected")
            self._more.append((column, place, name or column))

    def apply(self, record: Any) -> Any:
        """See `Transformation`. What is no change event passes as it is, and deletes are dropped."""
        if record.value is None:
            return None
        if not _is_envelope(record):
            return record
        event: Struct = record.value
        op = event.get("op")
        if op == "d":
            return None
        if op == "u":
            words = "An outbox holds messages that are inserted, and this row was updated"
            if self._invalid != "warn":
                raise DataError(words)
            log.warning("%s: it is passed over", words)
            return None
        row = event.get_without_default("after")
        return None if row is None else self._routed(record, row)

    def _routed(self, record: Any, row: Struct) -> Any:
        key, key_schema = _cell(row, self._key)
        payload, schema = _cell(row, self._payload)
        if self._expands and isinstance(payload, str):
            payload, schema = _expanded(payload, schema)
        headers = [*record.headers, Header("id", *_cell(row, self._id))]
        envelope: list[tuple[str, Any, Schema]] = []
        partition = record.partition
        for column, place, name in self._more:
            value, own = _cell(row, column)
            if place == "header":
                headers.append(Header(name, value, own))
            elif place == "partition":
                partition = value
            else:
                envelope.append((name, value, own))
        if envelope:
            payload, schema = _enveloped(self._payload, payload, schema, envelope)
        is_empty = payload is None and self._tombstones
        changes: dict[str, Any] = {} if self._timestamp is None else {"timestamp": _cell(row, self._timestamp)[0]}
        return record.replace(
            topic=self._topic_of(str(_cell(row, self._route)[0])),
            partition=partition,
            key_schema=key_schema,
            key=key,
            value_schema=None if is_empty else schema,
            value=payload,
            headers=tuple(headers),
            **changes,
        )

    def _topic_of(self, value: str) -> str:
        found = self._regex.fullmatch(value)
        if found is None:
            return value
        return self._topic(found)


def _replacement(text: str, regex: JavaPattern) -> Callable[[Found], str]:
    """Return what makes the topic of a match; raises ConfigError for a group that there is not."""
    try:
        if unknown := set(re.findall(r"\$\{(\w+)\}", text)) - regex.groupindex.keys():
            raise DataError(f"No group with name {{{min(unknown)}}}")
        return replacement_of(text, regex)
    except DataError as error:
        raise ConfigError("route.topic.replacement", text, str(error)) from error


def _cell(row: Struct, name: str) -> tuple[Any, Schema]:
    """Return a column's value and schema; raises DataError, which says what columns there are."""
    found = row.schema.field(name)
    if found is None:
        raise DataError(f"The outbox has no column {name}: it has {', '.join(row)}")
    return row.at(found), found.schema


def _enveloped(
    name: str, payload: Any, schema: Schema, more: Sequence[tuple[str, Any, Schema]]
) -> tuple[Struct, Schema]:
    builder = SchemaBuilder.struct().field(name, schema)
    for each, _, own in more:
        builder.field(each, own)
    made = Struct(builder.build())
    made.values = [payload, *(value for _, value, _ in more)]
    return made, made.schema


def _expanded(text: str, schema: Schema) -> tuple[Any, Schema]:
    """Return what a JSON text holds, with a schema; the text itself where it is no object or list, or none has a schema."""
    try:
        return expanded_json(text, "payload") or (text, schema)
    except DataError as error:
        log.warning("A payload stays a text: %s", error)
        return text, schema
