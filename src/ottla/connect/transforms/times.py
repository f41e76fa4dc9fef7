"""TimestampConverter and TimestampRouter: times in other forms, and in topics' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from typing import Any

from ottla.config import ConfigType
from ottla.connect.config_def import REQUIRED, Importance
from ottla.connect.data import logical
from ottla.connect.data.builder import INT64, OPTIONAL_INT64, OPTIONAL_STRING, STRING, SchemaBuilder
from ottla.connect.data.date_format import DateFormat
from ottla.connect.data.java_text import Int8, Int16, Int32, java_class
from ottla.connect.data.logical import DATE_SCHEMA, MS_PER_DAY, TIME_SCHEMA, TIMESTAMP_SCHEMA
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import DATE, TIME, TIMESTAMP, Struct
from ottla.connect.errors import ConnectError, DataError, config_error
from ottla.connect.transforms.part import (
    TRANSFORMS,
    ConfiguredPlugin,
    PartTransformation,
    copied_basics,
    kept,
    replaces_null,
    require_map,
    require_struct,
    simple_def,
)
from ottla.connect.validators import ValidString, invalid

__all__ = ["TimestampConverter", "TimestampRouter"]

_PURPOSE = "converting timestamp formats"


_SCHEMAS = {
    "string": (STRING, OPTIONAL_STRING),
    "unix": (INT64, OPTIONAL_INT64),
    "Date": (DATE_SCHEMA, DATE_SCHEMA.with_optional(True)),
    "Time": (TIME_SCHEMA, TIME_SCHEMA.with_optional(True)),
    "Timestamp": (TIMESTAMP_SCHEMA, TIMESTAMP_SCHEMA.with_optional(True)),
}
_LOGICAL = {TIMESTAMP: "Timestamp", DATE: "Date", TIME: "Time"}
_LONG_MAX = (1 << 63) - 1


def _towards_zero(number: int, by: int) -> int:
    return number // by if number >= 0 else -(-number // by)


def _times(number: int, by: int) -> int:
    """Multiply, and stop at the bounds of a long as Java's TimeUnit does."""
    return max(-_LONG_MAX - 1, min(_LONG_MAX, number * by))


_FROM_UNIX: dict[str, Callable[[int], int]] = {
    "seconds": lambda number: _times(number, 1000),
    "milliseconds": lambda number: number,
    "microseconds": lambda number: _towards_zero(number, 1000),
    "nanoseconds": lambda number: _towards_zero(number, 1_000_000),
}
_TO_UNIX: dict[str, Callable[[int], int]] = {
    "seconds": lambda ms: _towards_zero(ms, 1000),
    "milliseconds": lambda ms: ms,
    "microseconds": lambda ms: _times(ms, 1000),
    "nanoseconds": lambda ms: _times(ms, 1_000_000),
}


class TimestampConverter(PartTransformation):
    """Convert timestamps between different formats such as Unix epoch, strings, and Connect Date/Timestamp types."""

    config_def = simple_def(
        (
            "field",
            ConfigType.STRING,
            "",
            None,
            Importance.HIGH,
            "The field containing the timestamp, or empty if the entire value is a timestamp",
        ),
        (
            "target.type",
            ConfigType.STRING,
            REQUIRED,
            ValidString("string", "unix", "Date", "Time", "Timestamp"),
            Importance.HIGH,
            "The desired timestamp representation: string, unix, Date, Time, or Timestamp",
        ),
        (
            "format",
            ConfigType.STRING,
            "",
            None,
            Importance.MEDIUM,
            "A SimpleDateFormat-compatible format for the timestamp. Used to generate the output when type=string or "
            "used to parse the input if the input is a string.",
        ),
        (
            "unix.precision",
            ConfigType.STRING,
            "milliseconds",
            ValidString("nanoseconds", "microseconds", "milliseconds", "seconds"),
            Importance.LOW,
            "The desired Unix precision for the timestamp: seconds, milliseconds, microseconds, or nanoseconds. Used to "
            "generate the output when type=unix or used to parse the input if the input is a Long.Note: This SMT will "
            "cause precision loss during conversions from, and to, values with sub-millisecond components.",
        ),
        replaces_null(),
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings; raises ConfigError for a pattern that is missing or cannot be read."""
        self._field: str = settings["field"]
        self._target: str = settings["target.type"]
        self._precision: str = settings["unix.precision"]
        self._with_default: bool = settings["replace.null.with.default"]
        pattern: str = settings["format"]
        if self._target == "string" and not pattern.strip():
            raise config_error("TimestampConverter requires format option to be specified when using string timestamps")
        try:
            self._format = DateFormat(pattern) if pattern.strip() else None
        except ConnectError as error:
            text = f"TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: {pattern}"
            raise invalid(text, f"java.lang.IllegalArgumentException: {error}") from error
        self._schemas = kept(self._schema)

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        schema, value = self.schema(record), self.value(record)
        if schema is None:
            if value is None or not self._field:
                return self.with_part(record, None, self._converted(value, None))
            found = require_map(value, _PURPOSE)
            changed = {**found, self._field: self._converted(found.get(self._field), None)}
            return self.with_part(record, None, changed)
        if not self._field:
            updated = _SCHEMAS[self._target][schema.optional]
            return self.with_part(record, updated, self._converted(value, _kind_of(schema)))
        struct = None if value is None else require_struct(value, _PURPOSE)
        updated = self._schemas(schema)
        return self.with_part(record, updated, None if struct is None else self._struct(struct, updated))

    def _schema(self, schema: Schema) -> Schema:
        builder = copied_basics(schema, SchemaBuilder.struct())
        for field in schema.fields:
            here = field.name == self._field
            builder.field(field.name, _SCHEMAS[self._target][field.schema.optional] if here else field.schema)
        if schema.optional:
            builder.optional()
        if schema.default is not None:
            builder.default(self._struct(schema.default, builder.build()))
        return builder.build()

    def _struct(self, struct: Struct, updated: Schema) -> Struct:
        made = Struct(updated)
        for field in struct.schema.fields:
            value = struct.at(field, with_default=self._with_default)
            made.put(field.name, self._converted(value, _kind_of(field.schema)) if field.name == self._field else value)
        return made

    def _converted(self, value: Any, kind: str | None) -> Any:
        if value is None:
            return None
        return self._made(self._ms_of(value, kind or _inferred(value)))

    def _ms_of(self, value: Any, kind: str) -> int:
        if kind == "string":
            if not isinstance(value, str):
                raise DataError(f"Expected string timestamp to be a String, but found {java_class(value)}")
            if self._format is None:
                raise DataError(
                    "TimestampConverter requires format option to be specified when using string timestamps"
                )
            ms = self._format.parse(value)
            if ms is None:
                pattern = self._format.pattern
                raise DataError(f"Could not parse timestamp: value ({value}) does not match pattern ({pattern})")
            return ms
        if kind == "unix":
            if not isinstance(value, int) or isinstance(value, bool | Int8 | Int16 | Int32):
                raise DataError(f"Expected Unix timestamp to be a Long, but found {java_class(value)}")
            return _FROM_UNIX[self._precision](value)
        if not isinstance(value, datetime | date | time):
            raise DataError(f"Expected {kind} to be a java.util.Date, but found {java_class(value)}")
        return logical.epoch_ms(value)

    def _made(self, ms: int) -> Any:
        match self._target:
            case "string":
                assert self._format is not None
                return self._format.format(ms)
            case "unix":
                return _TO_UNIX[self._precision](ms)
            case "Date":
                return logical.date_of_days(ms // MS_PER_DAY)
            case "Time":
                return logical.time_of_ms(ms % MS_PER_DAY)
        return logical.timestamp_of_ms(ms)


def _kind_of(schema: Schema) -> str:
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.type is SchemaType.STRING:
        return "string"
    if schema.type is SchemaType.INT64:
        return "unix"
    raise ConnectError(f"Schema {schema} does not correspond to a known timestamp type format")


def _inferred(value: Any) -> str:
    if isinstance(value, datetime | date | time):
        return "Timestamp"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int) and not isinstance(value, bool | Int8 | Int16 | Int32):
        return "unix"
    raise DataError(f"TimestampConverter does not support {java_class(value)} objects as timestamps")


class TimestampRouter(ConfiguredPlugin):
    """Update the record's topic field as a function of the original topic value and the record timestamp."""

    java_name = TRANSFORMS + "TimestampRouter"
    config_def = simple_def(
        (
            "topic.format",
            ConfigType.STRING,
            "${topic}-${timestamp}",
            None,
            Importance.HIGH,
            "Format string which can contain <code>${topic}</code> and <code>${timestamp}</code> as placeholders for the "
            "topic and timestamp, respectively.",
        ),
        (
            "timestamp.format",
            ConfigType.STRING,
            "yyyyMMdd",
            None,
            Importance.HIGH,
            "Format string for the timestamp that is compatible with <code>java.text.SimpleDateFormat</code>.",
        ),
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""
        self._topic: str = settings["topic.format"]
        self._format = DateFormat(settings["timestamp.format"])

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        if record.timestamp is None:
            raise DataError(f"Timestamp missing on record: {record}")
        topic = self._topic.replace("${topic}", record.topic)
        return record.replace(topic=topic.replace("${timestamp}", self._format.format(record.timestamp)))
