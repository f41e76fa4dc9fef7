"""DELIMITED: a record as one line of fields. Null is an empty field."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable, Sequence

from ottla.base import decimal_of_text, plain_text
from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.expressions.casts import cast
from ottla.sql.expressions.texts import double_text
from ottla.sql.formats.codec import Codec, FormatError, Values
from ottla.sql.formats.exact import fitted
from ottla.sql.schema import SqlColumn
from ottla.sql.types import STRING, DecimalType, SqlType

_CONNECT_NAMES = {"ARRAY": "ARRAY", "MAP": "MAP", "STRUCT": "STRUCT"}
CSV_FIELD_MAX = 1 << 24


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
        fields = ["" if value is None else write(value) for write, value in zip(writers, values, strict=True)]
        return delimiter.join(_quoted(text, delimiter, at == 0) for at, text in enumerate(fields)).encode(
            errors="replace"
        )

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
        found = next((row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row), None)
    except csv.Error as error:
        raise FormatError(f"Error deserializing delimited row: {error}") from None
    if found is None:
        raise FormatError("No fields in record")
    return found


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
        case "DATE" | "TIME" | "TIMESTAMP":
            return int
        case _:
            return cast(STRING, type_)
