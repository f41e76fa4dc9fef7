"""Serdes of rows: tuples by a layout's format, keys within windows, and the states of aggregates.

They are values (what they need is compiled where they run), so plans that hold them can travel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any, Literal

from ottla.base import decimal_of_text, plain_bytes, plain_value
from ottla.sql.catalogue import Layout, Source
from ottla.sql.errors import SqlError
from ottla.sql.formats import Codec, FormatError
from ottla.sql.schema import LogicalSchema, SqlColumn, WindowInfo
from ottla.streams import Serde, SerializationError, SessionWindowedSerde, TimeWindowedSerde

Line = Callable[[str], None]
"""Takes a line for the processing log."""
KEY_FORMAT_DEFAULT = "KAFKA"


class LostRecord(str):
    """A line about a key or a value that cannot be read, which it carries."""

    __slots__ = ("data", "error", "target")

    def __new__(cls, error: str, target: str, data: bytes | None) -> LostRecord:
        """Make the line: `target` is key or value, `data` its bytes."""
        made = super().__new__(cls, f"a record was left out: {error}")
        made.error, made.target, made.data = error, target, data
        return made

    error: str
    target: str
    data: bytes | None


class _PythonOnly:
    """No columns of Spark: these rows never meet an expression of Spark's."""

    @property
    def sql_type(self) -> str | None:
        """None: only Python can read it."""
        return None

    def sql_decode(self, column: str) -> str:
        """Refuse."""
        raise SerializationError(f"{type(self).__name__}: only Python can decode it")

    def sql_encode(self, column: str) -> str:
        """Refuse."""
        raise SerializationError(f"{type(self).__name__}: only Python can encode it")


@dataclass(frozen=True)
class RowSerde(_PythonOnly):
    """Rows of these columns as keys or values of a layout; `log` is told of what cannot be read."""

    layout: Layout
    columns: tuple[SqlColumn, ...]
    part: Literal["key", "value"]
    log: Line | None = None

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        format_ = self.layout.key_format if self.part == "key" else self.layout.value_format
        return f"{format_} row ({', '.join(map(str, self.columns))})"

    @cached_property
    def _codec(self) -> Codec:
        schema = LogicalSchema(self.columns)
        return self.layout.key_codec(schema) if self.part == "key" else self.layout.value_codec(schema)

    def __reduce__(self) -> tuple[type[RowSerde], tuple[object, ...]]:
        return RowSerde, (self.layout, self.columns, self.part, self.log)

    def serialize(self, value: Any) -> bytes | None:
        """Return a row's bytes; raises SerializationError for one that the format cannot hold."""
        try:
            return self._codec.encode(value)
        except FormatError as error:
            raise SerializationError(str(error)) from error

    def deserialize(self, data: bytes | None) -> Any:
        """Return the row of bytes, None for none; raises SerializationError for bytes that are no row."""
        try:
            return self._codec.decode(data)
        except FormatError as error:
            if self.log is not None:
                self.log(LostRecord(str(error), self.part, data))
            raise SerializationError(str(error)) from error


def key_serde(source: Source, log: Line | None = None) -> Serde:
    """The serde of a source's keys, within windows where it has them."""
    return windowed(RowSerde(source.layout, source.schema.key, "key", log), source.window)


def value_serde(source: Source, log: Line | None = None) -> Serde:
    """The serde of a source's values."""
    return RowSerde(source.layout, source.schema.value, "value", log)


def windowed(inner: Serde, window: WindowInfo | None) -> Serde:
    """The serde of keys within windows, in Kafka's forms; `inner` itself where there are none."""
    if window is None:
        return inner
    if window.kind == "SESSION":
        return SessionWindowedSerde(inner)
    assert window.size_ms is not None, window
    return TimeWindowedSerde(inner, window.size_ms)


def internal_layout(layout: Layout, key: tuple[SqlColumn, ...]) -> Layout:
    """The formats of internal topics: those of the source, but JSON or KAFKA where its key format cannot hold the key."""
    forms = [replace(form, full_name=None, schema_id=None, known=None) for form in (layout.key_form, layout.value_form)]
    found = replace(layout, wrapped=True, key_form=forms[0], value_form=forms[1])
    for format_ in (layout.key_format, KEY_FORMAT_DEFAULT, "JSON"):
        if format_ == "NONE":
            continue
        found = replace(found, key_format=format_)
        try:
            found.key_codec(LogicalSchema(key))
        except SqlError:
            continue
        break
    return found


@dataclass(frozen=True)
class StateSerde(_PythonOnly):
    """What an aggregate keeps: plain values, numbers and texts in lists, tuples and dictionaries.

    A DECIMAL, which that form does not know, becomes a marked text. What comes back is a changelog topic's, so that it is
    read with suspicion.
    """

    @property
    def name(self) -> str:
        """Its name in plans and messages."""
        return "aggregate"

    def serialize(self, value: Any) -> bytes | None:
        """Return a state's bytes."""
        if value is None:
            return None
        try:
            return b"\0" + plain_bytes(value)
        except ValueError:
            return b"\1" + plain_bytes(_packed(value))

    def deserialize(self, data: bytes | None) -> Any:
        """Return the state of bytes; raises SerializationError for what is none."""
        if data is None:
            return None
        try:
            if data[:1] not in (b"\0", b"\1"):
                raise ValueError("it begins with neither 0 nor 1")
            found = plain_value(data[1:])
            return _unpacked(found) if data[:1] == b"\1" else found
        except (ValueError, InvalidOperation) as error:
            raise SerializationError(f"no aggregate's state: {error}") from error


def _packed(value: Any) -> Any:
    """A state without DECIMALs: each is a frozen set of its text, which nothing else is."""
    if isinstance(value, Decimal):
        return frozenset((str(value),))
    if isinstance(value, list | tuple):
        return type(value)(_packed(each) for each in value)
    if isinstance(value, dict):
        return {_packed(key): _packed(each) for key, each in value.items()}
    return value


def _unpacked(value: Any) -> Any:
    if isinstance(value, frozenset):
        (text,) = value
        return decimal_of_text(str(text))
    if isinstance(value, list | tuple):
        return type(value)(_unpacked(each) for each in value)
    if isinstance(value, dict):
        return {_unpacked(key): _unpacked(each) for key, each in value.items()}
    return value
