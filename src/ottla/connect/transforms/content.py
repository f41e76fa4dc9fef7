"""Transformations of content: InsertField, MaskField, and what is done to headers and topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

from ottla.config import ConfigType
from ottla.connect.config_def import REQUIRED, Importance
from ottla.connect.data.builder import (
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    SchemaBuilder,
)
from ottla.connect.data.java_text import Float32, Int8, Int16, Int32, java_class
from ottla.connect.data.logical import TIMESTAMP_SCHEMA, timestamp_of_ms
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct, schema_type_of
from ottla.connect.data.value_text import parse_decimal
from ottla.connect.data.values import convert_to, parse_value
from ottla.connect.errors import DataError, config_error
from ottla.connect.java_regex import compile_java, replacement_of
from ottla.connect.records import Header
from ottla.connect.transforms.part import (
    TRANSFORMS,
    ConfiguredPlugin,
    PartTransformation,
    copied_basics,
    kept,
    replaces_null,
    require_map,
    require_sink_record,
    require_struct,
    simple_def,
)
from ottla.connect.validators import NonEmptyList, NonEmptyString, NonNull, Regex, ValidList, ValidString, invalid

__all__ = ["DropHeaders", "Filter", "HeaderFrom", "InsertField", "InsertHeader", "MaskField", "RegexRouter"]

_OPTIONAL_TIMESTAMP = copied_basics(TIMESTAMP_SCHEMA).optional().build()
_OPTIONALITY = (
    "Suffix with <code>!</code> to make this a required field, or <code>?</code> to keep it optional (the default)."
)
_MEDIUM = Importance.MEDIUM


class _Insertion(NamedTuple):
    name: str
    optional: bool


def _insertion(spec: str | None) -> _Insertion | None:
    if spec is None:
        return None
    return _Insertion(spec[:-1] if spec.endswith(("?", "!")) else spec, not spec.endswith("!"))


class InsertField(PartTransformation):
    """Insert field(s) using attributes from the record metadata or a configured static value."""

    config_def = simple_def(
        *(
            (name, ConfigType.STRING, None, None, _MEDIUM, f"{doc}{_OPTIONALITY}")
            for name, doc in (
                ("topic.field", "Field name for Kafka topic. "),
                ("partition.field", "Field name for Kafka partition. "),
                ("offset.field", "Field name for Kafka offset - only applicable to sink connectors.<br/>"),
                ("timestamp.field", "Field name for record timestamp. "),
                ("static.field", "Field name for static data field. "),
            )
        ),
        ("static.value", ConfigType.STRING, None, None, _MEDIUM, "Static field value, if field name configured."),
        replaces_null(),
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings; raises ConfigError where there is nothing to insert."""
        names = ("topic", "partition", "offset", "timestamp", "static")
        specs = ((name, _insertion(settings[f"{name}.field"])) for name in names)
        self._insert = [(name, spec) for name, spec in specs if spec is not None]
        self._static: str | None = settings["static.value"]
        self._with_default: bool = settings["replace.null.with.default"]
        if not self._insert:
            raise config_error("No field insertion configured")
        if settings["static.field"] is not None and self._static is None:
            raise invalid("static.value", None, f"No value specified for static field: {settings['static.field']}")
        self._schemas = kept(self._schema)

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        value = self.value(record)
        if value is None:
            return record
        if self.schema(record) is None:
            found = require_map(value, "field insertion")
            return self.with_part(record, None, {**found, **self._inserted(record, plain=True)})
        struct = require_struct(value, "field insertion")
        made = Struct(self._schemas(struct.schema))
        for field in struct.schema.fields:
            made.put(field.name, struct.at(field, with_default=self._with_default))
        for name, each in self._inserted(record, plain=False).items():
            made.put(name, each)
        return self.with_part(record, made.schema, made)

    def _inserted(self, record: Any, *, plain: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for kind, spec in self._insert:
            if kind == "topic":
                found[spec.name] = record.topic
            elif kind == "partition" and record.partition is not None:
                found[spec.name] = Int32(record.partition)
            elif kind == "offset":
                found[spec.name] = require_sink_record(record, "field insertion").offset
            elif kind == "timestamp" and record.timestamp is not None:
                found[spec.name] = record.timestamp if plain else timestamp_of_ms(record.timestamp)
            elif kind == "static":
                found[spec.name] = self._static
        return found

    def _schema(self, schema: Schema) -> Schema:
        builder = copied_basics(schema, SchemaBuilder.struct())
        for field in schema.fields:
            builder.field(field.name, field.schema)
        made = {
            "topic": (STRING, OPTIONAL_STRING),
            "partition": (INT32, OPTIONAL_INT32),
            "offset": (INT64, OPTIONAL_INT64),
            "timestamp": (TIMESTAMP_SCHEMA, _OPTIONAL_TIMESTAMP),
            "static": (STRING, OPTIONAL_STRING),
        }
        for kind, spec in self._insert:
            builder.field(spec.name, made[kind][spec.optional])
        return builder.build()


class MaskField(PartTransformation):
    """Mask specified fields with a valid null value for the field type (i.e. 0, false, empty string, and so on)."""

    config_def = simple_def(
        ("fields", ConfigType.LIST, REQUIRED, ValidList(empty=False), Importance.HIGH, "Names of fields to mask."),
        (
            "replacement",
            ConfigType.STRING,
            None,
            NonEmptyString(),
            Importance.LOW,
            "Custom value replacement, that will be applied to all 'fields' values (numeric or non-empty string values "
            "only).",
        ),
        replaces_null(),
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""
        self._fields: list[str] = settings["fields"]
        self._replacement: str | None = settings["replacement"]
        self._with_default: bool = settings["replace.null.with.default"]

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        schema, value = self.schema(record), self.value(record)
        if schema is None:
            found = require_map(value, "mask fields")
            masked = {name: self._masked(None, found.get(name)) for name in self._fields}
            return self.with_part(record, None, {**found, **masked})
        struct = require_struct(value, "mask fields")
        made = Struct(struct.schema)
        for field in struct.schema.fields:
            each = struct.at(field, with_default=self._with_default)
            made.put(field.name, self._masked(field.schema, each) if field.name in self._fields else each)
        return self.with_part(record, schema, made)

    def _masked(self, schema: Schema | None, value: Any) -> Any:
        if value is None:
            return None
        if self._replacement is None:
            return _nothing(value)
        return _replaced(schema, value, self._replacement)


def _nothing(value: Any) -> Any:
    for kind, masked in _NOTHINGS:
        if isinstance(value, kind):
            return masked()
    raise DataError(f"Cannot mask value of type: {java_class(value)}")


_NOTHINGS: tuple[tuple[type | tuple[type, ...], Callable[[], Any]], ...] = (
    (bool, lambda: False),
    (Int8, lambda: Int8(0)),
    (Int16, lambda: Int16(0)),
    (Int32, lambda: Int32(0)),
    (int, lambda: 0),
    (Float32, lambda: Float32(0)),
    (float, lambda: 0.0),
    (Decimal, lambda: Decimal(0)),
    (str, lambda: ""),
    (datetime, lambda: datetime(1970, 1, 1, tzinfo=UTC)),
    (date, lambda: date(1970, 1, 1)),
    (time, lambda: time(0)),
    ((list, tuple), list),
    (dict, dict),
)
_NUMBERS = {
    SchemaType.INT8: INT8,
    SchemaType.INT16: INT16,
    SchemaType.INT32: INT32,
    SchemaType.INT64: INT64,
    SchemaType.FLOAT32: FLOAT32,
    SchemaType.FLOAT64: FLOAT64,
}


def _replaced(schema: Schema | None, value: Any, replacement: str) -> Any:
    """Return the replacement in the value's own type; raises DataError."""
    if isinstance(value, str):
        return replacement
    if isinstance(value, Decimal):
        found = parse_decimal(replacement)
        if found is None:
            raise DataError(f"Unable to convert {replacement} ({java_class(replacement)}) to number")
        return found
    type_ = schema_type_of(value)
    if type_ in (SchemaType.INT64, SchemaType.FLOAT64) and schema is not None:
        type_ = schema.type
    if type_ not in _NUMBERS:
        raise DataError(f"Cannot mask value of type {java_class(value)} with custom replacement.")
    return convert_to(_NUMBERS[type_], None, replacement)


class HeaderFrom(PartTransformation):
    """Moves or copies fields in the key/value of a record into that record's headers."""

    config_def = simple_def(
        (
            "fields",
            ConfigType.LIST,
            REQUIRED,
            NonEmptyList(),
            Importance.HIGH,
            "Field names in the record whose values are to be copied or moved to headers.",
        ),
        (
            "headers",
            ConfigType.LIST,
            REQUIRED,
            NonEmptyList(),
            Importance.HIGH,
            "Header names, in the same order as the field names listed in the fields configuration property.",
        ),
        (
            "operation",
            ConfigType.STRING,
            REQUIRED,
            ValidString("move", "copy"),
            Importance.HIGH,
            "Either <code>move</code> if the fields are to be moved to the headers (removed from the key/value), or "
            "<code>copy</code> if the fields are to be copied to the headers (retained in the key/value).",
        ),
        replaces_null(),
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings; raises ConfigError where there are not as many headers as fields."""
        self._fields: list[str] = settings["fields"]
        self._headers: list[str] = settings["headers"]
        if len(self._fields) != len(self._headers):
            raise config_error("'fields' config must have the same number of elements as 'headers' config.")
        self._moves = settings["operation"] == "move"
        self._purpose = f"header {settings['operation']}"
        self._with_default: bool = settings["replace.null.with.default"]
        self._schemas = kept(self._schema)

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        schema, value = self.schema(record), self.value(record)
        pairs = zip(self._fields, self._headers, strict=True)
        if schema is None:
            found = require_map(value, self._purpose)
            added = tuple(Header(header, self._taken(found, name)) for name, header in pairs)
            left = {name: each for name, each in found.items() if not (self._moves and name in self._fields)}
            return self.with_part(record, None, left, headers=record.headers + added)
        struct = require_struct(value, self._purpose)
        added = tuple(self._header(struct, name, header) for name, header in pairs)
        if not self._moves:
            return self.with_part(record, schema, struct, headers=record.headers + added)
        made = Struct(self._schemas(schema))
        for field in made.schema.fields:
            made.put(field.name, self._value(struct, field.name))
        return self.with_part(record, made.schema, made, headers=record.headers + added)

    def _taken(self, found: dict[str, Any], name: str) -> Any:
        return found.get(name)

    def _value(self, struct: Struct, name: str) -> Any:
        return struct.get(name) if self._with_default else struct.get_without_default(name)

    def _header(self, struct: Struct, name: str, header: str) -> Header:
        field = struct.schema.field(name)
        if field is None:
            raise DataError(f"{name} is not a valid field name")
        return Header(header, self._value(struct, name), field.schema)

    def _schema(self, schema: Schema) -> Schema:
        builder = copied_basics(schema, SchemaBuilder.struct())
        for field in schema.fields:
            if field.name not in self._fields:
                builder.field(field.name, field.schema)
        return builder.build()


class InsertHeader(ConfiguredPlugin):
    """Add a header to each record."""

    java_name = TRANSFORMS + "InsertHeader"
    config_def = simple_def(
        ("header", ConfigType.STRING, REQUIRED, NonNull(), Importance.HIGH, "The name of the header."),
        (
            "value.literal",
            ConfigType.STRING,
            REQUIRED,
            NonNull(),
            Importance.HIGH,
            "The literal value that is to be set as the header value on all records.",
        ),
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""
        schema, value = parse_value(settings["value.literal"])
        self._header = Header(settings["header"], value, schema)

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        return record.replace(headers=(*record.headers, self._header))


class DropHeaders(ConfiguredPlugin):
    """Removes one or more headers from each record."""

    java_name = TRANSFORMS + "DropHeaders"
    config_def = simple_def(
        (
            "headers",
            ConfigType.LIST,
            REQUIRED,
            ValidList(empty=False),
            Importance.HIGH,
            "The name of the headers to be removed.",
        )
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""
        self._names = frozenset(settings["headers"])

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        return record.replace(headers=tuple(each for each in record.headers if each.key not in self._names))


class Filter(ConfiguredPlugin):
    """Drops all records; with a predicate, those that it holds for."""

    java_name = TRANSFORMS + "Filter"

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        return None


class RegexRouter(ConfiguredPlugin):
    """Update the record topic using the configured regular expression and replacement string."""

    java_name = TRANSFORMS + "RegexRouter"
    config_def = simple_def(
        ("regex", ConfigType.STRING, REQUIRED, Regex(), Importance.HIGH, "Regular expression to use for matching."),
        ("replacement", ConfigType.STRING, REQUIRED, None, Importance.HIGH, "Replacement string."),
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""
        self._regex = compile_java(settings["regex"])
        self._replacement: str = settings["replacement"]

    def apply(self, record: Any) -> Any:
        """See `Transformation`; a replacement that names no group raises IllegalArgumentError, as in Kafka."""
        if record.topic is None or not self._regex.fullmatch(record.topic):
            return record
        make = replacement_of(self._replacement, self._regex)
        found = self._regex.search(record.topic)
        assert found is not None
        topic = record.topic
        return record.replace(topic=topic[: found.start()] + make(found) + topic[found.end() :])
