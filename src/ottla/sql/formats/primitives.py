"""KAFKA, a single column as Kafka's own serializers write it, and NONE, no column at all."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from ottla.sql.errors import SqlError
from ottla.sql.formats.codec import Codec, FormatError, Values
from ottla.sql.schema import SqlColumn

_PACKED = {"INTEGER": struct.Struct(">i"), "BIGINT": struct.Struct(">q"), "DOUBLE": struct.Struct(">d")}


def kafka_codec(columns: Sequence[SqlColumn]) -> Codec:
    """KAFKA for one column, or for none; raises SqlError for more, and for a type that Kafka has no serializer of."""
    if not columns:
        return none_codec(columns)
    if len(columns) > 1:
        raise SqlError(f"The 'KAFKA' format only supports a single field. Got: [{', '.join(map(str, columns))}]")
    base = columns[0].type.base
    if base not in (*_PACKED, "STRING", "BYTES"):
        raise SqlError(f"The 'KAFKA' format does not support type '{base}'")
    write, read = _functions(base)

    def encode(values: Values | None) -> bytes | None:
        return None if values is None or values[0] is None else write(values[0])

    def decode(data: bytes | None) -> Values | None:
        return None if data is None else (read(data),)

    return Codec(encode, decode)


def _functions(base: str) -> tuple[Callable[..., bytes], Callable[[bytes], object]]:
    if base == "STRING":
        return lambda text: text.encode(errors="replace"), lambda data: data.decode(errors="replace")
    if base == "BYTES":
        return bytes, lambda data: data
    packed = _PACKED[base]

    def read(data: bytes) -> object:
        if len(data) != packed.size:
            raise FormatError(f"Size of data received by a deserializer of {base} is not {packed.size}: {len(data)}")
        return packed.unpack(data)[0]

    return packed.pack, read


def none_codec(columns: Sequence[SqlColumn]) -> Codec:
    """NONE: nothing is written, and what is read is left out. Raises SqlError where there are columns."""
    if columns:
        raise SqlError("The 'NONE' format can only be used when no columns are defined. Got: [" + _names(columns) + "]")
    return Codec(lambda values: None, lambda data: None)


def _names(columns: Sequence[SqlColumn]) -> str:
    return ", ".join(map(str, columns))
