"""Rows as bytes and back, in ksqlDB's formats: JSON, DELIMITED, KAFKA, NONE, and those with schemas.

`codec(format, columns)` refuses, in ksqlDB's words, columns that a format cannot hold. What cannot be read raises
`FormatError`: the record is dropped and a line of the processing log says why.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.sql.errors import SqlError
from ottla.sql.formats.codec import Codec, FormatError
from ottla.sql.formats.delimited import delimited_codec
from ottla.sql.formats.json import json_codec
from ottla.sql.formats.primitives import kafka_codec, none_codec
from ottla.sql.formats.registry import WITH_SCHEMAS, SchemaForm, SchemaRegistry
from ottla.sql.schema import SqlColumn
from ottla.sql.types import STRING, ArrayType, MapType, SqlType, StructType

__all__ = ["FORMATS", "UNWRAPS", "WRAPS", "Codec", "FormatError", "SchemaForm", "SchemaRegistry", "check_new", "codec"]

FORMATS = ("AVRO", "DELIMITED", "JSON", "JSON_SR", "KAFKA", "NONE", "PROTOBUF", "PROTOBUF_NOSR")
"""Every format of ksqlDB's, by its name."""
WRAPS = frozenset(("AVRO", "JSON", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR"))
"""Formats in which a single column may stand in a record of its name."""
UNWRAPS = frozenset(("AVRO", "JSON", "JSON_SR", "KAFKA"))
"""Formats in which a single column may stand by itself."""
_OWN_FORM = SchemaForm()
_TEXT_KEYS = {
    "AVRO": "Avro only supports MAPs with STRING keys",
    "JSON": "JSON only supports MAP types with STRING keys",
    "JSON_SR": "JSON only supports MAP types with STRING keys",
}
"""What formats say of maps whose keys are no texts."""
_PROTOBUF_KEYS = (
    "PROTOBUF format only supports MAP types with STRING keys. See https://github.com/confluentinc/ksql/issues/6177."
)


def codec(
    format_: str,
    columns: Sequence[SqlColumn],
    *,
    wrapped: bool = True,
    delimiter: str = ",",
    form: SchemaForm = _OWN_FORM,
    registry: SchemaRegistry | None = None,
) -> Codec:
    """Return how rows of these columns are bytes.

    `wrapped` says of a single column whether it stands in a record of its name, where the format has both; `delimiter`
    what stands between two fields of DELIMITED; `form` how a schema tells the columns, and `registry` is where schemas of
    others are looked up: without it only what this codec wrote is read. Raises SqlError for a format that is not known,
    and for columns that it cannot hold.
    """
    name = format_.upper()
    if name in _TEXT_KEYS and any(map(_has_other_keys, (column.type for column in columns))):
        raise SqlError(_TEXT_KEYS[name])
    if name == "DELIMITED":
        return delimited_codec(columns, delimiter)
    if name == "KAFKA":
        return kafka_codec(columns)
    if name == "NONE":
        return none_codec(columns)
    whole = wrapped or len(columns) != 1 or name not in UNWRAPS
    if name == "JSON":
        return json_codec(columns, wrapped=whole)
    if name in WITH_SCHEMAS or name == "PROTOBUF_NOSR":
        from ottla.sql.formats.registered import registered_codec  # it brings libraries that the others do without

        return registered_codec(name, columns, wrapped=whole, form=form, registry=registry)
    raise SqlError(f"Unknown format: {format_}")


def check_new(format_: str, columns: Sequence[SqlColumn]) -> None:
    """Raise SqlError for columns that no new source may have in a format, whatever `codec` can still read and write."""
    if format_.startswith("PROTOBUF") and any(map(_has_other_keys, (column.type for column in columns))):
        raise SqlError(_PROTOBUF_KEYS)


def _has_other_keys(type_: SqlType) -> bool:
    """Whether a map whose keys are no texts is in a type."""
    match type_:
        case MapType(key, value):
            return key != STRING or _has_other_keys(value)
        case ArrayType(item):
            return _has_other_keys(item)
        case StructType(fields):
            return any(_has_other_keys(of) for _, of in fields)
        case _:
            return False
