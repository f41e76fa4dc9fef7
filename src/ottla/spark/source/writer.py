"""The sink: rows into topics, at least once.

A task sends whole record batches, several in flight, and returns when all of them are acknowledged; Spark then commits. A
task or micro-batch that is run again sends its rows again: readers see every row at least once. Within one task batches
carry a producer id and sequences (KIP-98), so that a request that was sent twice is stored once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType, TimestampType

from ottla.base import ConfigError
from ottla.spark.source.client_pool import pooled_client
from ottla.spark.source.columns import HEADERS
from ottla.spark.source.options import WriteOptions
from ottla.spark.source.sender import Sender

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = [
    "OttlaStreamWriter",
    "OttlaWriter",
    "RowsWritten",
    "check_overwrite",
    "check_schema",
    "update_writer",
    "write_rows",
]


@dataclass(frozen=True)
class RowsWritten(WriterCommitMessage):
    """What a task tells the driver."""

    rows: int


class OttlaWriter(DataSourceArrowWriter):
    """Writes one batch."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        check_schema(schema, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send a task's rows; returns when all are acknowledged."""
        return write_rows(iterator, self._options)


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        check_schema(schema, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send a task's rows; returns when all are acknowledged."""
        return write_rows(iterator, self._options)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Need nothing: what the tasks sent is in the topic."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Leave what was sent: the sink is at least once."""


def update_writer(rows: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
    """Return a writer of changed rows (update mode) to a topic, with the sink's options.

    Spark refuses update mode for sinks written in Python, so each micro-batch is written as a batch: the same sink, and at
    least once as well.
    """

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.format("ottla").options(**options).mode("append").save()

    return rows.writeStream.outputMode("update").foreachBatch(write)


def check_overwrite(overwrite: bool) -> None:
    """Refuse `mode("overwrite")`: a topic is only appended to."""
    if overwrite:
        raise ConfigError("mode", "overwrite", "a topic is appended to; use append")


def check_schema(schema: StructType, options: WriteOptions) -> None:
    """Refuse columns that a topic cannot take; columns of other names are not written, as in Spark's Kafka connector."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise ConfigError("columns", ", ".join(types) or None, "a column value is needed")
    if options.topic is None and "topic" not in types:
        raise ConfigError("topic", None, "the option topic or a column topic is needed")
    allowed: dict[str, tuple[type, ...]] = {
        "key": (StringType, BinaryType),
        "value": (StringType, BinaryType),
        "topic": (StringType,),
        "partition": (IntegerType,),
        "timestamp": (TimestampType, LongType),
    }
    for name, kinds in allowed.items():
        if name in types and not isinstance(types[name], kinds):
            wanted = " or ".join(kind.__name__.removesuffix("Type").lower() for kind in kinds)
            raise ConfigError(f"column {name}", types[name].simpleString(), f"{wanted} is expected")
    if "headers" in types and types["headers"].simpleString() != HEADERS.simpleString():
        raise ConfigError("column headers", types["headers"].simpleString(), f"{HEADERS.simpleString()} is expected")


def write_rows(batches: Iterator[pa.RecordBatch], options: WriteOptions) -> RowsWritten:
    """Send Arrow batches to their topics and wait for every acknowledgement; raises KafkaError."""
    rows = 0
    found = (batch for batch in batches if batch.num_rows)
    first = next(found, None)
    if first is None:
        return RowsWritten(0)
    with pooled_client(options.connecting) as pooled:
        sender = Sender(pooled, options)
        for batch in chain([first], found):
            sender.send(batch)
            rows += batch.num_rows
        sender.finish()
    return RowsWritten(rows)
