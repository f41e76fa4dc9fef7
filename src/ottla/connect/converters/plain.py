"""Converters without a structure: strings, bytes, booleans, numbers, and header values as text."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ottla.config import ConfigType
from ottla.connect.config_def import ConfigDef, Importance, Width
from ottla.connect.converters.text_columns import as_strings
from ottla.connect.data.builder import (
    BYTES,
    OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
)
from ottla.connect.data.java_text import AS_JAVA, Float32, Int8, Int16, Int32, java_class, java_text
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import SchemaAndValue
from ottla.connect.data.value_text import to_text
from ottla.connect.data.values import parse_value
from ottla.connect.errors import DataError, SerializationError
from ottla.connect.validators import ValidString
from ottla.connect.version import STOCK_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "BooleanConverter",
    "ByteArrayConverter",
    "DoubleConverter",
    "FloatConverter",
    "IntegerConverter",
    "LongConverter",
    "PlainConverter",
    "ShortConverter",
    "SimpleHeaderConverter",
    "StringConverter",
    "converter_def",
]

_CONVERTERS = "org.apache.kafka.connect.converters."


def converter_def() -> ConfigDef:
    """Return a definition with what every converter is told: whether it is for keys, values or headers."""
    return ConfigDef().define(
        "converter.type",
        ConfigType.STRING,
        importance=Importance.LOW,
        doc="How this converter will be used.",
        validator=ValidString("key", "value", "header"),
    )


class PlainConverter:
    """A converter that treats header values as it treats keys and values."""

    java_name: ClassVar[str]
    version: ClassVar[str] = STOCK_VERSION
    config_def: ClassVar[ConfigDef] = converter_def()

    def configure(self, props: Mapping[str, Any], *, is_key: bool) -> None:
        """See `Converter`."""
        self.settle(self.config_def.parse({**props, "converter.type": "key" if is_key else "value"}))

    def configure_header(self, props: Mapping[str, Any]) -> None:
        """See `HeaderConverter`."""
        self.settle(self.config_def.parse(props))

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        raise NotImplementedError

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        raise NotImplementedError

    def from_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `HeaderConverter`."""
        return self.from_connect(topic, schema, value)

    def to_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """See `HeaderConverter`."""
        return self.to_connect(topic, data)


class StringConverter(PlainConverter):
    """Any value as its text; every text is a value."""

    java_name = "org.apache.kafka.connect.storage.StringConverter"
    config_def = converter_def().define(
        "converter.encoding",
        ConfigType.STRING,
        "UTF-8",
        importance=Importance.HIGH,
        doc="The name of the Java character set to use for encoding strings as byte arrays.",
        width=Width.MEDIUM,
        display_name="Encoding",
    )

    def __init__(self) -> None:
        self._encoding = "utf-8"

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the encoding; raises SerializationError for one that is not known."""
        name = settings["converter.encoding"]
        try:
            self._encoding = codecs.lookup(name).name
        except LookupError as error:
            raise SerializationError(f"Unsupported encoding {name}") from error

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        if value is None:
            return None
        if self._encoding == "utf-16":
            return codecs.BOM_UTF16_BE + java_text(value).encode("utf-16-be", "replace")  # as Java writes it
        return java_text(value).encode(self._encoding, "replace")

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        return SchemaAndValue(OPTIONAL_STRING, None if data is None else data.decode(self._encoding, AS_JAVA))

    def columns_from_connect(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """See `ColumnsConverter`."""
        import pyarrow as pa

        return values.cast(pa.binary()) if self._encoding == "utf-8" and values.type == pa.string() else None

    def columns_to_connect(self, topic: str, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """See `ColumnsConverter`."""
        found = as_strings(data) if self._encoding == "utf-8" else None
        return None if found is None else (OPTIONAL_STRING, found)


class ByteArrayConverter(PlainConverter):
    """Bytes as they are."""

    java_name = _CONVERTERS + "ByteArrayConverter"

    def configure(self, props: Mapping[str, Any], *, is_key: bool) -> None:
        """Nothing can be configured."""

    def configure_header(self, props: Mapping[str, Any]) -> None:
        """Nothing can be configured."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        if schema is not None and schema.type is not SchemaType.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type}")
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise DataError(f"ByteArrayConverter is not compatible with objects of type {java_class(value)}")
        return None if value is None else bytes(value)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        return SchemaAndValue(OPTIONAL_BYTES, data)

    def columns_from_connect(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """See `ColumnsConverter`."""
        import pyarrow as pa

        fits = schema is None or schema.type is SchemaType.BYTES
        return values if fits and values.type == pa.binary() else None

    def columns_to_connect(self, topic: str, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """See `ColumnsConverter`."""
        return OPTIONAL_BYTES, data


class BooleanConverter(PlainConverter):
    """One byte, 1 or 0."""

    java_name = _CONVERTERS + "BooleanConverter"

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        if schema is not None and schema.type is not SchemaType.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataError(f"BooleanConverter is not compatible with objects of type {java_class(value)}")
        return b"\x01" if value else b"\x00"

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        if data is not None and data not in (b"\x00", b"\x01"):
            raise DataError("Failed to deserialize boolean: ")
        return SchemaAndValue(OPTIONAL_BOOLEAN, None if data is None else data == b"\x01")


class _NumberConverter(PlainConverter):
    _word: ClassVar[str]
    _format: ClassVar[struct.Struct]
    _schema: ClassVar[Schema]
    _kind: ClassVar[type]
    """The class of a value that carries its width; a plain int or float of a fitting size is taken too."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        if value is None:
            return None
        plain = type(value) in (int, float) and type(value) in self._kind.__mro__
        other = schema is not None and schema.type is not self._schema.type
        if other or not (plain or isinstance(value, self._kind)) or isinstance(value, bool) or self._is_narrower(value):
            raise DataError(f"Failed to serialize to {self._word} (was {java_class(value)}): ")
        try:
            return self._format.pack(value)
        except (struct.error, OverflowError) as error:
            raise DataError(f"Failed to serialize to {self._word} (was {java_class(value)}): ") from error

    def _is_narrower(self, value: Any) -> bool:
        """True where the value says that it has another width, as a Short is no Long in Java."""
        return isinstance(value, Int8 | Int16 | Int32 | Float32) and not (
            isinstance(value, self._kind) and self._kind not in (int, float)
        )

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        if data is None:
            return SchemaAndValue(self._schema, None)
        if len(data) != self._format.size:
            raise DataError(f"Failed to deserialize {self._word}: ")
        return SchemaAndValue(self._schema, self._kind(self._format.unpack(data)[0]))


class ShortConverter(_NumberConverter):
    """Two bytes."""

    java_name = _CONVERTERS + "ShortConverter"
    _word, _format, _schema, _kind = "short", struct.Struct(">h"), OPTIONAL_INT16, Int16


class IntegerConverter(_NumberConverter):
    """Four bytes."""

    java_name = _CONVERTERS + "IntegerConverter"
    _word, _format, _schema, _kind = "integer", struct.Struct(">i"), OPTIONAL_INT32, Int32


class LongConverter(_NumberConverter):
    """Eight bytes."""

    java_name = _CONVERTERS + "LongConverter"
    _word, _format, _schema, _kind = "long", struct.Struct(">q"), OPTIONAL_INT64, int


class FloatConverter(_NumberConverter):
    """Four bytes of IEEE 754."""

    java_name = _CONVERTERS + "FloatConverter"
    _word, _format, _schema, _kind = "float", struct.Struct(">f"), OPTIONAL_FLOAT32, Float32


class DoubleConverter(_NumberConverter):
    """Eight bytes of IEEE 754."""

    java_name = _CONVERTERS + "DoubleConverter"
    _word, _format, _schema, _kind = "double", struct.Struct(">d"), OPTIONAL_FLOAT64, float


class SimpleHeaderConverter:
    """Header values as text, and back into the narrowest type that the text says."""

    java_name: ClassVar[str] = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    version: ClassVar[str] = STOCK_VERSION
    config_def: ClassVar[ConfigDef] = ConfigDef()

    def configure_header(self, props: Mapping[str, Any]) -> None:
        """Nothing can be configured."""

    def from_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `HeaderConverter`."""
        return None if value is None else to_text(value).encode("utf-8", "replace")

    def to_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """See `HeaderConverter`; bytes that cannot be read as a value stay bytes."""
        if data is None:
            return SchemaAndValue(None, None)
        try:
            return parse_value(data.decode("utf-8", AS_JAVA))
        except (DataError, RecursionError):
            return SchemaAndValue(BYTES, data)
