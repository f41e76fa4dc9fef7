"""The time of a record where it is not the topic's: timestamp extractors at a query's sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f

from ottla.spark.streams.lowering.python import HEADERS
from ottla.spark.streams.lowering.record_times import invalid_time, takes_own_time
from ottla.spark.streams.lowering.rows import HEADERS_DDL
from ottla.spark.streams.lowering.stream_frame import RecordField, StreamFrame, decoded
from ottla.streams import (
    ExceptionPolicy,
    Origin,
    ProcessingFailed,
    Record,
    Serde,
    ValueTimestamp,
    WallclockTimestampExtractor,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

    from ottla.spark.streams.lowering.topics import TopicRead

__all__ = ["timed", "told"]

INVALID = "ottla-invalid"
"""The beginning of the name under which a query's progress has how many `records` were dropped for their time."""
COLUMNS = (
    f"_key binary, _value binary, timestamp bigint, headers {HEADERS_DDL}, topic string, partition int, offset bigint"
)
SCHEMA = pa.schema(
    [
        ("_key", pa.binary()),
        ("_value", pa.binary()),
        ("timestamp", pa.int64()),
        ("headers", HEADERS),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)


def told(wanted: TopicRead) -> TopicRead:
    """Return what Spark reads: records that are to be dropped for their time are dropped, and counted, behind the source."""
    return replace(wanted, invalid_time="tell") if wanted.invalid_time == "skip" else wanted


def timed(flow: StreamFrame, extractor: Any, policy: ExceptionPolicy) -> StreamFrame:
    """Return a source's records with an extractor's times; those whose time is negative are dropped, and counted."""
    if invalid_time(extractor) == "fail":
        return flow
    flow = flow if takes_own_time(extractor) else _extracted(flow, extractor, policy)
    is_invalid = f.expr("timestamp < timestamp_millis(0)")
    count = f.sum(f.when(is_invalid, 1).otherwise(0)).alias("records")
    return replace(flow, frame=flow.frame.observe(f"{INVALID}-{flow.node}", count).where(~is_invalid))


def _extracted(flow: StreamFrame, extractor: Any, policy: ExceptionPolicy) -> StreamFrame:
    if isinstance(extractor, WallclockTimestampExtractor) and extractor.clock is None:
        return _with_time(flow, f.current_timestamp())
    serde = flow.value.serde
    in_columns = serde is not None and serde.sql_type is not None
    if isinstance(extractor, ValueTimestamp) and isinstance(extractor.source, str) and in_columns:
        flow = decoded(flow, policy)
        time: Column = f.expr(extractor.source)
        kind = flow.frame.select(time.alias("time")).schema["time"].dataType.simpleString()
        made = f.expr(f"timestamp_millis(cast({extractor.source} as bigint))") if kind != "timestamp" else time
        return _with_time(flow, made)
    return _in_python(flow, extractor)


def _with_time(flow: StreamFrame, time: Column) -> StreamFrame:
    """Return the bytes again, with another time."""
    names = [each for each in flow.frame.columns if each not in ("key", "value", "timestamp")]
    frame = flow.frame.select(*names, time.alias("timestamp"))
    return StreamFrame(frame, RecordField(flow.key.serde), RecordField(flow.value.serde), flow.node)


def _in_python(flow: StreamFrame, extractor: Any) -> StreamFrame:
    frame = flow.frame.select(
        "_key", "_value", f.expr("unix_millis(timestamp)").alias("timestamp"), "headers", "topic", "partition", "offset"
    )
    timing = _Timing(extractor, flow.key.serde, flow.value.serde, flow.node)
    frame = frame.mapInArrow(timing, COLUMNS)
    return _with_time(replace(flow, frame=frame), f.expr("timestamp_millis(timestamp)"))


@dataclass(frozen=True)
class _Timing:
    """Asks an extractor for each record's time, in Spark's workers. The partition's time is that of the micro-batch."""

    extractor: Any
    key: Serde | None
    value: Serde | None
    node: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Replace the times of batches."""
        latest: dict[tuple[str, int], int] = {}
        for batch in batches:
            times = np.fromiter((self._time(row, latest) for row in batch.to_pylist()), np.int64, batch.num_rows)
            made = batch.set_column(2, pa.field("timestamp", pa.int64()), pa.array(times))
            yield pa.RecordBatch.from_arrays(made.columns, schema=SCHEMA)

    def _time(self, row: dict[str, Any], latest: dict[tuple[str, int], int]) -> int:
        place = row["topic"], row["partition"]
        try:
            key = row["_key"] if self.key is None else self.key.deserialize(row["_key"])
            value = row["_value"] if self.value is None else self.value.deserialize(row["_value"])
            headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
            record = Record(key, value, row["timestamp"], headers, row["topic"], row["partition"], row["offset"])
            time = int(self.extractor.extract(record, latest.get(place, -1)))
        except Exception as error:  # a user's function may raise anything
            raise ProcessingFailed(self.node, Origin(*place, row["offset"]), error) from error
        latest[place] = max(time, latest.get(place, -1))
        return time
