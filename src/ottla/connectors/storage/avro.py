"""Avro's container files. What stands in them is what AvroConverter makes of Connect's schemas and values.

Values are encoded as they come, so that one that Avro cannot hold is refused before its record counts; fastavro has the
header, the blocks and their codecs.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, cast

from ottla.connect import DataError, Schema, data
from ottla.connect.schema_converters.avro_values import AvroReader, AvroWriter, avro_reader, avro_writer
from ottla.connectors.storage.formats import Encoder, Output, needs_extra, read_safely

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AvroFormat", "read_avro"]

BLOCK_BYTES = 16_000
"""How many bytes of values a block has, before it is compressed."""


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ImportError as error:
        raise needs_extra("fastavro", "AvroFormat") from error
    return fastavro


class _Sink:
    """An output as the file that fastavro writes to."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def write(self, piece: bytes) -> int:
        return self._output.write(piece)

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing is kept here."""


@dataclass(slots=True)
class _Block:
    """Encoded values, as fastavro takes them."""

    bytes_: io.BytesIO = field(default_factory=io.BytesIO)
    num_records: int = 0


class _Container:
    """A container file."""

    def __init__(self, schema: Any, output: Output, codec: str, marker: bytes) -> None:
        from fastavro.write import Writer

        self._writer = Writer(cast("IO[bytes]", _Sink(output)), schema, codec, sync_marker=marker)
        self._block = _Block()

    def add(self, converted: Any) -> None:
        """See `Encoder`."""
        self._block.bytes_.write(converted)
        self._block.num_records += 1
        if self._block.bytes_.tell() >= BLOCK_BYTES:
            self._end_block()

    def _end_block(self) -> None:
        self._writer.write_block(cast(Any, self._block))
        self._block = _Block()

    def finish(self) -> None:
        """See `Encoder`."""
        if self._block.num_records:
            self._end_block()


class AvroFormat:
    """Container files of records, or of plain values, under the Avro schema of their Connect schema."""

    extension = ".avro"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        _fastavro()
        self._codec: str = settings.get("avro.codec") or "null"
        self._meta: bool = settings.get("connect.meta.data", True)
        self._scrub: bool = settings.get("scrub.invalid.names", False)
        self._known: dict[Schema, AvroWriter] = {}

    def _of(self, schema: Schema) -> AvroWriter:
        found = self._known.get(schema)
        if found is None:
            found = self._known[schema] = avro_writer(schema, meta=self._meta, scrub=self._scrub)
        return found

    def convert(self, topic: str, schema: Schema | None, value: Any) -> bytes:
        """See `FileFormat`."""
        if schema is None:
            raise DataError(
                "AvroFormat needs values with a schema: use a converter that gives one, such as JsonConverter with "
                "schemas.enable=true, or JsonFormat"
            )
        data.validate_value(schema, value)
        return self._of(schema).encode(value)

    def encoder(self, schema: Schema | None, output: Output, seed: str) -> Encoder:
        """See `FileFormat`."""
        assert schema is not None
        text = json.loads(self._of(schema).text)
        return _Container(text, output, self._codec, hashlib.md5(seed.encode()).digest())

    def block(self, values: pa.Array) -> memoryview | None:
        """See `FileFormat`."""
        return None


def read_avro(file: IO[bytes], settings: Mapping[str, Any] | None = None) -> tuple[Schema, Iterator[Any]]:
    """Return the Connect schema of a container file and its values; raises DataError for a file that is none.

    `settings` are a connector's: `connect.meta.data` and `enhanced.avro.schema.support`.
    """
    fastavro, given = _fastavro(), settings or {}
    try:
        blocks = fastavro.block_reader(file)
        text = blocks.metadata["avro.schema"]
    except Exception as error:  # fastavro's errors have no common root
        raise DataError(f"This is no Avro container file: {error}") from error
    meta, enhanced = given.get("connect.meta.data", True), given.get("enhanced.avro.schema.support", False)
    reader = avro_reader(text, meta=meta, enhanced=enhanced)
    return reader.schema, read_safely(_values(blocks, reader), "Avro")


def _values(blocks: Any, reader: AvroReader) -> Iterator[Any]:
    for block in blocks:
        for _ in range(block.num_records):
            yield reader.next(block.bytes_)
