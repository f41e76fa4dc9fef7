"""What files consist of: the interface of a format, and the two that need no schema, lines of JSON and bytes.

A format works in two steps. `convert` makes of a value what the file will hold and raises DataError for a value that cannot
be written, before the record counts; what it has returned can always be added to the file.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ottla.base import ConfigError, bring_extra
from ottla.connect import ConnectError, DataError, Schema, converters

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "FORMATS",
    "BytesFormat",
    "Encoder",
    "FileFormat",
    "JsonFormat",
    "Output",
    "checked_format",
    "checked_text",
    "format_name",
    "needs_extra",
    "read_safely",
]

FORMATS = ("Json", "Avro", "Parquet", "ByteArray", "String")
"""The formats; `String` is ours, the others are Confluent's."""

_CLASS = re.compile(
    r"(?:(?:io\.confluent\.connect\.(?:s3|hdfs|gcs)\.)?(?:format\.)?(?:json|avro|parquet|bytearray|string)\.)?(\w+?)(?:Format)?"
)
_ESCAPED = '["\\\\]'
_BEYOND = "[\\x00-\\x1f\\x{10000}-\\x{10ffff}]"


class Output(Protocol):
    """Where a file's bytes go."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Take bytes and return how many."""
        ...


class Encoder(Protocol):
    """One file that is being written."""

    def add(self, converted: Any) -> None:
        """Add what `convert` has returned."""
        ...

    def finish(self) -> None:
        """Write all that is left to the output."""
        ...


class FileFormat(Protocol):
    """How values stand in files."""

    extension: str
    """Of the files' names, with its point."""

    def convert(self, topic: str, schema: Schema | None, value: Any) -> Any:
        """Return what a file holds of a value; raises DataError for one that cannot be written."""
        ...

    def encoder(self, schema: Schema | None, output: Output, seed: str) -> Encoder:
        """Begin a file of values of one schema; the bytes depend on the values and the seed only."""
        ...

    def block(self, values: pa.Array) -> memoryview | None:
        """Return what the file holds of many strings or bytes, None to be asked one by one."""
        ...


def format_name(text: str) -> str | None:
    """Return which of `FORMATS` a class name means, None for one that is not known."""
    match = _CLASS.fullmatch(text)
    return next((name for name in FORMATS if match and match[1].lower() == name.lower()), None)


def needs_extra(library: str, what: str) -> ConnectError:
    """Return the error for a library that is not installed."""
    return ConnectError(f"{what} needs the Python package {library}, which is not installed: {bring_extra('connect')}")


def checked_text(value: str) -> str:
    """Return a text that can be written; raises DataError for one that is no UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError("The text has half of a surrogate pair and is no UTF-8") from error
    return value


def read_safely(values: Iterator[Any], form: str) -> Iterator[Any]:
    """Yield what is read of a file; raises DataError for bytes that are none, and for times that Python has not."""
    while True:
        try:
            value = next(values)
        except StopIteration:
            return
        except (ValueError, OverflowError, EOFError, IndexError, OSError, zlib.error, DataError) as error:
            raise DataError(f"A value of this {form} file cannot be read: {error}") from error
        yield value


class _Lines:
    """A file of pieces that end as they are."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def add(self, converted: Any) -> None:
        """See `Encoder`."""
        self._output.write(converted)

    def finish(self) -> None:
        """See `Encoder`."""


class JsonFormat:
    """One value as JSON on each line, without its schema."""

    extension = ".json"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._converter = converters.JsonConverter()
        decimals = settings.get("json.decimal.format", "BASE64")
        self._converter.configure({"schemas.enable": "false", "decimal.format": decimals}, is_key=False)

    def convert(self, topic: str, schema: Schema | None, value: Any) -> bytes:
        """See `FileFormat`."""
        return (self._converter.from_connect(topic, schema, value) or b"null") + b"\n"

    def encoder(self, schema: Schema | None, output: Output, seed: str) -> Encoder:
        """See `FileFormat`."""
        return _Lines(output)

    def block(self, values: pa.Array) -> memoryview | None:
        """See `FileFormat`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not pa.types.is_string(values.type) or pc.any(pc.match_substring_regex(values, _BEYOND)).as_py():
            return None
        if pc.any(pc.match_substring_regex(values, _ESCAPED)).as_py():
            values = pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), '"', '\\"')
        return _joined(pc.binary_join_element_wise('"', values, '"\n', ""))


class BytesFormat:
    """Each value's bytes with a separator behind it; text may be allowed too, as UTF-8."""

    def __init__(self, settings: Mapping[str, Any], *, text: bool = False) -> None:
        separator = settings.get("format.bytearray.separator")
        self._separator = ("\n" if separator is None else separator).encode()
        extension = settings.get("format.bytearray.extension", ".bin")
        self.extension: str = ".txt" if text else extension
        self._text = text

    def convert(self, topic: str, schema: Schema | None, value: Any) -> bytes:
        """See `FileFormat`."""
        if self._text and isinstance(value, str):
            return checked_text(value).encode() + self._separator
        if not isinstance(value, bytes | bytearray | memoryview):
            name, wanted = ("StringFormat", "text or bytes") if self._text else ("ByteArrayFormat", "bytes")
            hint = "" if self._text else ", as org.apache.kafka.connect.converters.ByteArrayConverter gives"
            raise DataError(f"{name} writes {wanted}{hint}; the record has {type(value).__name__}")
        return bytes(value) + self._separator

    def encoder(self, schema: Schema | None, output: Output, seed: str) -> Encoder:
        """See `FileFormat`."""
        return _Lines(output)

    def block(self, values: pa.Array) -> memoryview | None:
        """See `FileFormat`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._text and pa.types.is_string(values.type):
            values = values.cast(pa.binary())
        if not pa.types.is_binary(values.type):
            return None
        return _joined(pc.binary_join_element_wise(values, pa.scalar(self._separator), pa.scalar(b"")))


def _joined(values: pa.Array) -> memoryview:
    """Return the bytes of all values behind each other, which is how Arrow has them."""
    import pyarrow as pa

    _, offsets, data = values.buffers()
    first, last = (
        pa.Array.from_buffers(pa.int32(), len(values) + 1, [None, offsets], offset=values.offset)
        .take(pa.array([0, len(values)]))
        .to_pylist()
    )
    return memoryview(data)[first:last] if data is not None else memoryview(b"")


def checked_format(name: str, value: Any) -> None:
    """Raise ConfigError for a class name that is no format's."""
    if value is None or format_name(value) is None:
        listed = ", ".join(f"{each}Format" for each in FORMATS)
        raise ConfigError(name, value, f"expected one of {listed}")
