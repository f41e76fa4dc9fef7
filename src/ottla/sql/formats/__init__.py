"""Rows as bytes and back, in ksqlDB's formats: JSON, DELIMITED, KAFKA and NONE.

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
from ottla.sql.schema import SqlColumn

__all__ = ["FORMATS", "Codec", "FormatError", "codec"]

FORMATS = ("AVRO", "DELIMITED", "JSON", "JSON_SR", "KAFKA", "NONE", "PROTOBUF", "PROTOBUF_NOSR")
"""Every format of ksqlDB's, by its name."""


def codec(format_: str, columns: Sequence[SqlColumn], *, wrapped: bool = True, delimiter: str = ",") -> Codec:
    """Return how rows of these columns are bytes.

    `wrapped` says of JSON whether a single column stands in an object, `delimiter` what stands between two fields of
    DELIMITED. Raises SqlError for a format that is not known or not there yet, and for columns that it cannot hold.
    """
    name = format_.upper()
    if name == "JSON":
        return json_codec(columns, wrapped=wrapped or len(columns) > 1)
    if name == "DELIMITED":
        return delimited_codec(columns, delimiter)
    if name == "KAFKA":
        return kafka_codec(columns)
    if name == "NONE":
        return none_codec(columns)
    if name in FORMATS:
        raise SqlError(f"The '{name}' format is not there yet; JSON, DELIMITED, KAFKA and NONE are.")
    raise SqlError(f"Unknown format: {format_}")
