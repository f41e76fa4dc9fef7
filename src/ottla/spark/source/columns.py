"""Kafka's columns in Spark, and Arrow record batches of them made from decoded columns.

Nothing is copied row by row: a binary column is an Arrow array over the unchanged fetch buffer whose every second element
is a row's, and Arrow's `take` gathers those in C.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.base import ConfigError
from ottla.client.arrow.gathering import Gatherer
from ottla.spark.private_api.arrow_types import arrow_schema
from ottla.wire import text_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ottla.wire import Columns

__all__ = ["HEADERS", "SCHEMA", "ColumnBuilder", "chosen_schema"]

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", HEADERS),
    ]
)
"""The columns of Spark's Kafka connector; `headers` only where `includeHeaders` is true."""
BATCH_BYTES_MAX = 64 << 20
"""Bytes of values and keys after which a further Arrow batch is begun, so that a JVM of default size holds it."""
MICROS_PER_MILLI = 1000


def chosen_schema(schema: StructType, *, include_headers: bool) -> StructType:
    """Check a schema given by the reader's user: any of Kafka's columns in any order, which saves making the others."""
    known = {field.name: field for field in SCHEMA.fields if include_headers or field.name != "headers"}
    for field in schema.fields:
        if field.name not in known or known[field.name].dataType != field.dataType:
            allowed = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in known.values())
            raise ConfigError("schema", f"{field.name} {field.dataType.simpleString()}", f"the columns are {allowed}")
    return schema


class ColumnBuilder:
    """Makes Arrow record batches of one topic partition's decoded columns, in a Spark schema's columns and order."""

    def __init__(self, schema: StructType, topic: str, partition: int) -> None:
        self._schema = arrow_schema(schema, timezone="UTC")
        self._names = schema.fieldNames()
        self._topic = topic
        self._partition = partition
        self._gatherer = Gatherer()
        self._constant: dict[str, pa.Array] = {}

    def batches(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in several batches where they are many bytes."""
        first, rows = 0, len(columns)
        while first < rows:
            last = self._fitting(columns, first)
            yield self._batch(columns.rows(first, last))
            first = last

    def _fitting(self, columns: Columns, first: int) -> int:
        """Return the row behind those that fit into one batch; at least one does."""
        ends = columns.value_bounds[1::2]
        limit = int(columns.value_bounds[2 * first]) + BATCH_BYTES_MAX
        return max(first + 1, int(ends.searchsorted(limit, side="right")))

    def _batch(self, columns: Columns) -> pa.RecordBatch:
        data = pa.py_buffer(columns.data)
        arrays = [self._column(name, columns, data) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, columns: Columns, data: pa.Buffer) -> pa.Array:
        if name == "value":
            return self._gather(data, columns.value_bounds, columns.value_nulls)
        if name == "key":
            return self._gather(data, columns.key_bounds, columns.key_nulls)
        if name == "offset":
            return pa.array(columns.offsets)
        if name == "timestamp":
            return pa.array(columns.timestamps_ms * MICROS_PER_MILLI).view(self._schema.field(name).type)
        if name == "timestampType":
            return pa.array(columns.log_append_time.astype(np.int32))
        if name == "headers":
            return self._headers(columns, data)
        return self._repeated(name, len(columns))

    def _repeated(self, name: str, count: int) -> pa.Array:
        """Return the topic or partition as often as there are rows, from one array made as large as was ever needed."""
        made = self._constant.get(name)
        if made is None or len(made) < count:
            value: Any = self._topic if name == "topic" else self._partition
            made = pa.repeat(pa.scalar(value, self._schema.field(name).type), count)
            self._constant[name] = made
        return made.slice(0, count)

    def _gather(
        self, data: pa.Buffer, bounds: NDArray[np.int32], nulls: NDArray[np.bool_], kind: pa.DataType | None = None
    ) -> pa.Array:
        return self._gatherer.gather(data, bounds, nulls, kind)

    def _headers(self, columns: Columns, data: pa.Buffer) -> pa.Array:
        """Return lists of (key, value); null, as in Spark's connector, where a record has none."""
        headers = columns.headers
        assert headers is not None, "the decoder was told to find headers"
        kind = self._schema.field("headers").type
        counts = headers.counts
        if not len(headers.value_nulls):
            return pa.nulls(len(counts), kind)
        none = np.zeros(len(headers.value_nulls), np.bool_)
        keys = _texts(self._gather(data, headers.key_bounds, none))
        values = self._gather(data, headers.value_bounds, headers.value_nulls)
        pairs = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
        offsets = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        absent = counts == 0
        valid = pa.py_buffer(np.packbits(~absent, bitorder="little"))
        return pa.Array.from_buffers(
            kind, len(counts), [valid, pa.py_buffer(offsets)], int(np.count_nonzero(absent)), children=[pairs]
        )


def _texts(keys: pa.Array) -> pa.Array:
    """Return bytes as text. A header's producer could have sent anything as its key: bad bytes are replaced, as in Kafka."""
    try:
        return keys.cast(pa.string())  # copies nothing, and looks whether it is UTF-8
    except pa.ArrowInvalid:
        return pa.array([text_of(each) for each in keys.to_pylist()], pa.string())
