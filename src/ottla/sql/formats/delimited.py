"""DELIMITED: a record as one line of fields.

Null is an empty field, and an empty field is null. An empty text that a line begins with is written as `""`, which other
readers of CSV tell from null; a single column that is null is no byte at all.
"""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Callable, Sequence

from ottla.base import decimal_of_text, plain_text
from ottla.java import double_text
from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.expressions.casts import INT_BITS, LONG_BITS, wrapped
from ottla.sql.formats.codec import Codec, FormatError, Values
from ottla.sql.formats.exact import fitted
from ottla.sql.schema import SqlColumn
from ottla.sql.types import DecimalType, SqlType

_CONNECT_NAMES = {"ARRAY": "ARRAY", "MAP": "MAP", "STRUCT": "STRUCT"}
CSV_FIELD_MAX = 1 << 24
_BEHIND_QUOTE = re.compile(r'(?<!")"[ \t]+(?=\W|$)')
_DIGITS = re.compile(r"[+-]?\d+")
_JAVA_DOUBLE = re.compile(
    r"([+-]?(?:NaN|Infinity|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+|"
    r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))(?:(?<=[\d.])[fFdD])?"
)


def delimited_codec(columns: Sequence[SqlColumn], delimiter: str) -> Codec:
    """DELIMITED for columns without parts; raises SqlError for others."""
    for column in columns:
        if column.type.base in _CONNECT_NAMES:
            raise SqlError(
                f"The 'DELIMITED' format does not support type '{column.type.base}', column: `{column.name}`"
            )
    writers = [_writer(column.type) for column in columns]
    readers = [_reader(column.type) for column in columns]

    def encode(values: Values | None) -> bytes | None:
        if values is None:
            return None
        fields = [
            "" if value is None else _quoted(write(value), delimiter, at == 0)
            for at, (write, value) in enumerate(zip(writers, values, strict=True))
        ]
        return delimiter.join(fields).encode(errors="replace")

    def decode(data: bytes | None) -> Values | None:
        if data is None:
            return None
        fields = _fields(data, delimiter)
        if len(fields) != len(readers):
            raise FormatError(f"Unexpected field count, csvFields:{len(fields)} schemaFields:{len(readers)}")
        try:
            return tuple(None if not text else read(text) for read, text in zip(readers, fields, strict=True))
        except (EvaluationError, ValueError) as error:
            raise FormatError(f"Error deserializing delimited row: {error}") from None

    return Codec(encode, decode)


def _fields(data: bytes, delimiter: str) -> list[str]:
    text = data.decode(errors="replace")
    if len(text) > CSV_FIELD_MAX:
        raise FormatError(f"a row of {len(text)} characters; at most {CSV_FIELD_MAX} are read")
    csv.field_size_limit(CSV_FIELD_MAX)
    try:
        found = _first_row(text, delimiter)
    except csv.Error:
        found = None
    if found is None:  # perhaps for blanks behind a closing quote, which commons-csv passes over
        try:
            found = _first_row(_BEHIND_QUOTE.sub('"', text), delimiter)
        except csv.Error as error:
            raise FormatError(f"Error deserializing delimited row: {error}") from None
    if found is None:
        raise FormatError("No fields in record")
    return found


def _first_row(text: str, delimiter: str) -> list[str] | None:
    """The first line that is not empty; raises csv.Error for quotes that do not close, or within a field."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    return next((row for row in rows if row), None)


def _quoted(text: str, delimiter: str, first: bool) -> str:
    """A field, in quotes where commons-csv's MINIMAL mode sets them."""
    if not text:
        return '""' if first else ""
    needs = text[0] <= "#" or text[-1] <= " " or any(each in text for each in ("\r", "\n", '"', delimiter))
    if first and not (text[0].isascii() and text[0].isalnum()):
        needs = True
    return '"' + text.replace('"', '""') + '"' if needs else text


def _writer(type_: SqlType) -> Callable[..., str]:
    match type_.base:
        case "BOOLEAN":
            return lambda value: "true" if value else "false"
        case "DOUBLE":
            return double_text
        case "DECIMAL":
            return plain_text
        case "BYTES":
            return lambda value: base64.b64encode(value).decode()
        case _:
            return str


def _reader(type_: SqlType) -> Callable[[str], object]:
    if isinstance(type_, DecimalType):
        return lambda text: fitted(decimal_of_text(text), type_)
    match type_.base:
        case "BOOLEAN":
            return lambda text: text.lower() == "true"
        case "STRING":
            return lambda text: text
        case "BYTES":
            return lambda text: base64.b64decode(text, validate=True)
        case "DOUBLE":
            return _double
        case "DATE" | "TIME" | "TIMESTAMP":
            return int
        case _:
            return _whole(INT_BITS if type_.base == "INTEGER" else LONG_BITS)


def _whole(bits: int) -> Callable[[str], int]:
    """Reads a number as `Integer.parseInt` does: nothing may stand around it."""

    def read(text: str) -> int:
        value = int(text) if _DIGITS.fullmatch(text) else None
        if value is None or wrapped(value, bits) != value:
            raise ValueError(f'For input string: "{text}"')
        return value

    return read


def _double(text: str) -> float:
    """Reads a number as `Double.parseDouble` does: with blanks around it, a type's letter behind it, or in base 16."""
    found = _JAVA_DOUBLE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f'For input string: "{text}"')
    return float.fromhex(found[1]) if "x" in found[1].lower() else float(found[1])
