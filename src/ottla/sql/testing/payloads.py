"""Keys and values as input.json and output.json show them ↔ bytes, by the layout of the source over their topic."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from ottla.base import ExactDecoder
from ottla.sql.catalogue import Source
from ottla.sql.errors import SqlError
from ottla.sql.expressions.casts import coerce_value
from ottla.sql.formats import UNWRAPS, Codec, SchemaForm, SchemaRegistry
from ottla.sql.formats.json import compact_text
from ottla.sql.formats.registry import WITH_SCHEMAS, subject_of
from ottla.sql.schema import SqlColumn
from ottla.sql.types import BIGINT, DOUBLE, INTEGER, STRING, SqlType

if TYPE_CHECKING:
    from ottla.serdes import KnownSchema

_BY_SCHEMA = (*WITH_SCHEMAS, "PROTOBUF_NOSR")
_FORMAT_OF = {type_: format_ for format_, type_ in WITH_SCHEMAS.items()}


@dataclass(frozen=True, slots=True)
class Window:
    """A window as a case shows it: its bounds in milliseconds, a session's end being its last record's time."""

    start: int
    end: int
    type: str

    def shown(self) -> dict[str, object]:
        """The window as output.json shows it."""
        return {"start": self.start, "end": self.end, "type": self.type}


def windowed_bytes(key: bytes | None, window: object, source: Source | None) -> bytes | None:
    """The bytes of a key within a window: behind its own those of the window's start, or of a session's end and start."""
    if source is None or source.window is None or key is None:
        return key
    if not isinstance(window, Mapping):
        raise SqlError(f"the keys of {source.name} are within windows: say the record's window")
    start, end = int(window["start"]), int(window["end"])
    return key + (struct.pack(">qq", end, start) if source.window.kind == "SESSION" else struct.pack(">q", start))


def key_and_window(
    data: bytes | None, source: Source, registry: SchemaRegistry | None = None
) -> tuple[object, Window | None]:
    """A key that was written, and the window that it is within."""
    info = source.window
    if info is None or data is None:
        return value_of(data, source, is_key=True, registry=registry), None
    if info.kind == "SESSION":
        end, start = struct.unpack(">qq", data[-16:])
        return value_of(data[:-16], source, is_key=True, registry=registry), Window(start, end, "session")
    (start,) = struct.unpack(">q", data[-8:])
    assert info.size_ms is not None, info
    return value_of(data[:-8], source, is_key=True, registry=registry), Window(
        start, start + info.size_ms, info.kind.lower()
    )


def bytes_of(
    value: object, source: Source | None, *, is_key: bool, topic: str = "", registry: SchemaRegistry | None = None
) -> bytes | None:
    """The bytes of a key or a value; raises SqlError for one that its format cannot hold.

    A format with schemas writes with the topic's latest one in the registry, else with that of the source's columns.
    """
    if value is None:
        return None
    if source is None:
        latest = _latest(registry, topic, is_key=is_key)
        if latest is None:
            return _text_bytes(value)
        from ottla.sql.testing.schema_payloads import encoded

        return encoded(value, _FORMAT_OF[latest.schema.schema_type], SchemaForm(), latest, registry)
    format_, columns, codec = _parts(source, is_key=is_key)
    if format_ in _BY_SCHEMA and columns:
        return _encoded(value, source, registry, is_key=is_key)
    if format_ == "KAFKA" and columns:
        return codec.encode((_typed(value, columns[0].type),))
    if format_ in ("KAFKA", "NONE", "DELIMITED"):
        return _text_bytes(value)
    return compact_text(value).encode()


def value_of(data: bytes | None, source: Source, *, is_key: bool, registry: SchemaRegistry | None = None) -> object:
    """A key or a value that was written, as output.json shows it."""
    if data is None:
        return None
    format_, columns, codec = _parts(source, is_key=is_key)
    if format_ in _BY_SCHEMA and columns:
        from ottla.sql.testing.schema_payloads import decoded

        form = source.layout.key_form if is_key else source.layout.value_form
        own = _own(source, is_key=is_key).schema
        return decoded(data, format_, form, own, source.layout.registry or registry)
    if format_ == "KAFKA" and columns:
        found = codec.decode(data)
        value = None if found is None else found[0]
        return base64.b64encode(value).decode() if isinstance(value, bytes) else value
    if format_ == "JSON":
        return ExactDecoder(float).of_bytes(data)
    return data.decode(errors="replace")


def _encoded(value: object, source: Source, registry: SchemaRegistry | None, *, is_key: bool) -> bytes:
    from ottla.sql.testing.schema_payloads import encoded

    layout = source.layout
    format_ = layout.key_format if is_key else layout.value_format
    form = layout.key_form if is_key else layout.value_form
    asked = registry or layout.registry
    latest = _latest(asked, source.topic, is_key=is_key) if format_ in WITH_SCHEMAS else None
    return encoded(value, format_, form, latest or _own(source, is_key=is_key), asked)


def _own(source: Source, *, is_key: bool) -> KnownSchema:
    """The schema that a source's columns make."""
    from ottla.serdes import KnownSchema
    from ottla.sql.formats.registered import own_schema

    layout = source.layout
    format_ = layout.key_format if is_key else layout.value_format
    columns = source.schema.key if is_key else source.schema.value
    wrapped = len(columns) != 1 or format_ not in UNWRAPS or (not is_key and layout.wrapped)
    form = layout.key_form if is_key else layout.value_form
    return KnownSchema(own_schema(format_, columns, wrapped=wrapped, form=form).schema, 0)


def _latest(registry: SchemaRegistry | None, topic: str, *, is_key: bool) -> KnownSchema | None:
    if registry is None:
        return None
    from ottla.serdes import SerdeError

    try:
        return registry.latest(subject_of(topic, is_key=is_key))
    except SerdeError:
        return None


def _parts(source: Source, *, is_key: bool) -> tuple[str, Sequence[SqlColumn], Codec]:
    layout, schema = source.layout, source.schema
    if is_key:
        return layout.key_format, schema.key, layout.key_codec(schema)
    return layout.value_format, schema.value, layout.value_codec(schema)


def _text_bytes(value: object) -> bytes:
    return value.encode() if isinstance(value, str) else compact_text(value).encode()


def _typed(value: object, type_: SqlType) -> object:
    kinds: dict[type[object], SqlType] = {str: STRING, int: BIGINT, Decimal: DOUBLE, float: DOUBLE}
    given = kinds.get(type(value))
    if isinstance(value, Decimal | float) and type_ == DOUBLE:
        return float(value)
    if isinstance(value, int) and type_ in (INTEGER, BIGINT):
        return value
    if isinstance(value, str) and type_.base == "BYTES":
        return base64.b64decode(value)
    convert = None if given is None else coerce_value(given, type_)
    if convert is None:
        raise SqlError(f"{value!r} is no {type_}")
    return convert(value)
