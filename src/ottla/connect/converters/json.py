"""JsonConverter: values as JSON, in an envelope with their schema or without.

What writes and what reads a schema's values is put together once for the schema and kept; an envelope whose schema was
seen in the same bytes before is cut off without reading it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ottla.config import ConfigType
from ottla.connect.config_def import ConfigDef, Importance, Width
from ottla.connect.converters.json_columns import ColumnWriter
from ottla.connect.converters.json_read import read_plain, reader_of
from ottla.connect.converters.json_schema import schema_from_json, schema_text
from ottla.connect.converters.json_text import parse_json, parse_json_at
from ottla.connect.converters.json_write import write_plain, writer_of
from ottla.connect.converters.plain import PlainConverter, converter_def
from ottla.connect.converters.text_columns import is_plain_string, unquoted_column
from ottla.connect.data.builder import STRING
from ottla.connect.data.schema import Schema
from ottla.connect.data.struct import SchemaAndValue
from ottla.connect.errors import DataError
from ottla.connect.validators import CaseInsensitiveValidString

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["JsonConverter"]

_HEAD = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"schema"[ \t\r\n]*:[ \t\r\n]*')
_BEHIND = re.compile(r'[ \t\r\n]*,[ \t\r\n]*"payload"[ \t\r\n]*:')
PREFIXES_MAX = 4
"""How many envelopes' beginnings are compared before a message is read whole."""

_REPLACE_DOC = (
    "Whether to replace fields that have a default value and that are null to the default value. "
    "When set to true, the default value is used, otherwise null is used."
)


def _definition() -> ConfigDef:
    schemas, serialization = "Schemas", "Serialization"
    found = converter_def()
    found.define(
        "schemas.enable",
        ConfigType.BOOLEAN,
        True,
        importance=Importance.HIGH,
        doc="Include schemas within each of the serialized values and keys.",
        group=schemas,
        order=0,
        width=Width.MEDIUM,
        display_name="Enable Schemas",
    )
    found.define(
        "schemas.cache.size",
        ConfigType.INT,
        1000,
        importance=Importance.HIGH,
        doc="The maximum number of schemas that can be cached in this converter instance.",
        group=schemas,
        order=1,
        width=Width.MEDIUM,
        display_name="Schema Cache Size",
    )
    found.define(
        "schema.content",
        ConfigType.STRING,
        None,
        importance=Importance.HIGH,
        doc="When set, this is used as the schema for all messages, and the schemas within each of the message will be "
        "ignored.Otherwise, the schema will be included in the content of each message. This configuration applies only "
        "'schemas.enable' is true, and it exclusively affects the sink connector.",
        group=schemas,
        order=2,
        width=Width.MEDIUM,
        display_name="Schema Content",
    )
    found.define(
        "decimal.format",
        ConfigType.STRING,
        "BASE64",
        importance=Importance.LOW,
        doc="Controls which format this converter will serialize decimals in. This value is case insensitive and can be "
        "either 'BASE64' (default) or 'NUMERIC'",
        validator=CaseInsensitiveValidString("NUMERIC", "BASE64"),
        group=serialization,
        order=0,
        width=Width.MEDIUM,
        display_name="Decimal Format",
    )
    return found.define(
        "replace.null.with.default",
        ConfigType.BOOLEAN,
        True,
        importance=Importance.LOW,
        doc=_REPLACE_DOC,
        group=serialization,
        order=1,
        width=Width.MEDIUM,
        display_name="Replace null with default",
    )


class JsonConverter(PlainConverter):
    """JSON, with `{"schema":…,"payload":…}` around each value or, where `schemas.enable` is false, without."""

    java_name = "org.apache.kafka.connect.json.JsonConverter"
    config_def = _definition()

    def __init__(self) -> None:
        self.settle({each.name: None if each.required else each.default for each in self.config_def.keys.values()})

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the settings; raises DataError for a `schema.content` that is no schema."""
        self._enveloped: bool = settings["schemas.enable"]
        self._numeric = settings["decimal.format"].upper() == "NUMERIC"
        self._replace_null: bool = settings["replace.null.with.default"]
        kept = lru_cache(max(settings["schemas.cache.size"], 1))
        self._writers = kept(self._writer)
        self._readers = kept(self._reader)
        self._heads = kept(self._head)
        self._column_writers = kept(self._column_writer)
        self._prefixes: list[tuple[bytes, Schema]] = []
        content = settings["schema.content"]
        self._fixed = self._schema(parse_json(content.encode())) if content else None

    def _writer(self, schema: Schema) -> Callable[[Any], str]:
        return writer_of(schema, numeric=self._numeric, replace_null=self._replace_null)

    def _column_writer(self, schema: Schema) -> ColumnWriter:
        return ColumnWriter(schema, numeric=self._numeric, replace_null=self._replace_null)

    def _reader(self, schema: Schema) -> Callable[[Any], Any]:
        return reader_of(schema, replace_null=self._replace_null)

    def _head(self, schema: Schema) -> str:
        return schema_text(schema, lambda each, value: self._writer(each)(value))

    def _schema(self, node: Any) -> Schema | None:
        return schema_from_json(node, lambda schema, default: self._read(schema, default))

    def _read(self, schema: Schema | None, node: Any) -> Any:
        return read_plain(node) if schema is None else self._readers(schema)(node)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        if schema is None and value is None:
            return None
        payload = write_plain(value) if schema is None else self._writers(schema)(value)
        if self._enveloped:
            head = "null" if schema is None else self._heads(schema)
            payload = f'{{"schema":{head},"payload":{payload}}}'
        try:
            return payload.encode()
        except UnicodeEncodeError as error:
            text = "Converting Kafka Connect data to byte[] failed due to serialization error: "
            raise DataError(text) from error

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        if data is None:
            return SchemaAndValue(None, None)
        if not self._enveloped:
            return SchemaAndValue(None, read_plain(parse_json(data)))
        if self._fixed is not None:
            return SchemaAndValue(self._fixed, self._read(self._fixed, parse_json(data)))
        for prefix, schema in self._prefixes:
            if data.startswith(prefix):
                found = self._behind(prefix, schema, data)
                if found is not None:
                    return found
        return self._whole(data)

    def columns_from_connect(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """See `ColumnsConverter`: values of a schema, or strings without one."""
        import pyarrow as pa

        if schema is None and (values.type != pa.string() or values.null_count):
            return None  # without a schema null is no text, but nothing at all
        around = ("", "")
        if self._enveloped:
            around = (f'{{"schema":{"null" if schema is None else self._heads(schema)},"payload":', "}")
        found = self._column_writers(STRING if schema is None else schema).write(values, *around)
        return None if found is None else found.cast(pa.binary())

    def columns_to_connect(self, topic: str, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """See `ColumnsConverter`: strings only, whose envelopes all begin with the same bytes."""
        if not self._enveloped:
            found = unquoted_column(data, b"", b"")
            return None if found is None else (None, found)
        if self._fixed is not None or not len(data) or data.null_count:
            return None
        self.to_connect(topic, data[0].as_py())  # so that its beginning is known
        first = data[0].as_py()
        for prefix, schema in self._prefixes:
            if first.startswith(prefix) and is_plain_string(schema):
                found = unquoted_column(data, prefix, b"}")
                return None if found is None else (schema, found)
        return None

    def _behind(self, prefix: bytes, schema: Schema, data: bytes) -> SchemaAndValue | None:
        """Read an envelope whose beginning is known; None where more than the payload stands behind it."""
        try:
            text = data[len(prefix) :].decode()
        except UnicodeDecodeError:
            return None
        start = len(text) - len(text.lstrip(" \t\r\n"))
        node, end = parse_json_at(text, start)
        return SchemaAndValue(schema, self._readers(schema)(node)) if text[end:].strip(" \t\r\n") == "}" else None

    def _whole(self, data: bytes) -> SchemaAndValue:
        node = parse_json(data)
        if not isinstance(node, dict) or len(node) != 2 or "schema" not in node or "payload" not in node:
            raise DataError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional '
                "fields. If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter "
                "configuration."
            )
        schema = self._schema(node["schema"])
        if schema is not None:
            self._remember(data, schema)
        return SchemaAndValue(schema, self._read(schema, node["payload"]))

    def _remember(self, data: bytes, schema: Schema) -> None:
        """Keep the bytes up to the payload, where the schema stands first."""
        head = _HEAD.match(data)
        if head is None:
            return
        try:
            text = data.decode()
            behind = _BEHIND.match(text, parse_json_at(text, len(head[0]))[1])
        except (UnicodeDecodeError, DataError):  # read above by other rules: other encodings, leading zeros
            return
        if behind is not None:
            self._prefixes = [(text[: behind.end()].encode(), schema), *self._prefixes[: PREFIXES_MAX - 1]]
