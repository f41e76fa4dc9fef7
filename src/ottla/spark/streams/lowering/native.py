"""Aggregates by Spark's own operators, with Kafka's results: by key, and by key within tumbling or hopping windows.

Records without key or without value are left out; the result's time is its newest record's. Windows follow Spark's
watermark: a record counts as long as its window's end is later than the query's largest time of earlier batches less grace.
That is Kafka's rule but for the clock, which Kafka moves with each record of a partition. Results are written in update
mode: those that a batch changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType

from ottla.spark.streams.lowering.python import key_hashes
from ottla.spark.streams.lowering.stream_frame import FINISHED_DDL, RecordField, StreamFrame, column, encoded
from ottla.streams import StoreSpec, TimeWindows, UnsupportedPlan, operations

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["aggregated", "key_serde", "results"]

LONG = "unhex(lpad(hex({0}), 16, '0'))"
"""Eight bytes of a number, the highest first."""
SEQUENCE = "unhex('00000000')"
"""What a window store's changelog has behind the window's start where it keeps one value per window."""


def aggregated(
    flow: StreamFrame | DataFrame,
    operation: operations.StreamAggregate | operations.WindowAggregate,
    spec: StoreSpec,
    *,
    changelog: str | None,
    tasks: int,
    tail: bool,
    step: str,
) -> StreamFrame:
    """Return the aggregate's changed results, and beside each its changelog's row (as one that has left: `_out`).

    `flow` may be counts that were taken before (`partial`). `tail` says whether anybody takes the results themselves.
    """
    windows = _windows(operation)
    rows = _aggregate(flow, operation, spec, step)
    value = spec.value
    assert value.sql_type is not None, "stages saw to it"
    result = f.col("_result").cast(value.sql_type).alias("value")
    key = f.col("_base")
    hashed = []
    if windows is not None:
        key = f.expr(f"concat(_base, {LONG.format('_start')})")
        hashed = [_hash(f.col("_base")).alias("_hash")]
    rows = rows.select("_base", key.alias("_key"), result, "timestamp", *hashed)
    encoded_value = f.expr(value.sql_encode("value"))
    out = _changelog(changelog, encoded_value, windows is not None, tasks) if changelog is not None else None
    choices = [f.lit(None).cast(FINISHED_DDL)] * tail + ([out] if out is not None else [])
    if not choices:
        choices, rows = [f.lit(None).cast(FINISHED_DDL)], rows.where("false")
    kept = ["_key", "value", "timestamp", *(["_hash"] if hashed else [])]
    frame = rows.select(*kept, f.explode(f.array(*choices)).alias("_out")) if out is not None else rows.select(*kept)
    frame = frame.select(
        "*",
        f.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
        f.lit(None).cast("string").alias("topic"),
        f.lit(None).cast("int").alias("partition"),
        f.lit(None).cast("bigint").alias("offset"),
    )
    return StreamFrame(
        frame, RecordField(key_serde(operation, spec)), RecordField(value, raw=False, decoded=True), step
    )


def results(
    flow: StreamFrame | DataFrame,
    operation: operations.StreamAggregate | operations.WindowAggregate,
    spec: StoreSpec,
    step: str,
) -> DataFrame:
    """Return the aggregate's changed results as `results` takes them."""
    rows = _aggregate(flow, operation, spec, step)
    assert spec.value.sql_type is not None, "stages saw to it"
    number = f.col("_result").cast(spec.value.sql_type)
    if spec.value.name == "long":
        value = number.alias("_value")
    else:
        rows = rows.withColumn("_number", number)
        value = f.expr(spec.value.sql_encode("_number")).alias("_value")
    start = [] if _windows(operation) is None else ["_start"]
    return rows.select("_base", *start, value, f.expr("unix_millis(timestamp)").alias("timestamp"))


def _windows(operation: operations.StreamAggregate | operations.WindowAggregate) -> Any:
    return operation.windows if isinstance(operation, operations.WindowAggregate) else None


def _aggregate(
    flow: StreamFrame | DataFrame,
    operation: operations.StreamAggregate | operations.WindowAggregate,
    spec: StoreSpec,
    step: str,
) -> DataFrame:
    """Return `_base`, `_start` for windows, `_result` and `timestamp` of what a batch changed."""
    windows = _windows(operation)
    if isinstance(flow, StreamFrame):
        return _grouped(_prepared(flow, operation.aggregator, spec, step), operation.aggregator.kind, windows, step)
    rows = flow.withColumn("timestamp", f.expr("timestamp_millis(timestamp)"))
    return _grouped(rows, "sum", windows, step)


def key_serde(operation: operations.StreamAggregate | operations.WindowAggregate, spec: StoreSpec) -> Any:
    """Return the serde of the results' keys."""
    from ottla.streams import TimeWindowedSerde

    windows = _windows(operation)
    return spec.key if not isinstance(windows, TimeWindows) else TimeWindowedSerde(spec.key, windows.size_ms)


def _changelog(topic: str, value: Column, windowed: bool, tasks: int) -> Column:
    """Return a changelog's row: a window store's keys end with a sequence, and lie where their task is."""
    return f.struct(
        f.lit(topic).alias("topic"),
        (f.expr(f"concat(_key, {SEQUENCE})") if windowed else f.col("_key")).alias("key"),
        value.alias("value"),
        f.expr("unix_millis(timestamp)").alias("timestamp"),
        f.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
        (f.expr(f"pmod(_hash, {tasks})") if windowed else f.lit(None)).cast("int").alias("partition"),
    ).cast(FINISHED_DDL)


def _prepared(flow: StreamFrame, aggregator: operations.Aggregator, spec: StoreSpec, step: str) -> DataFrame:
    """Return what is aggregated: key bytes, the argument, time and place, without null keys and values."""
    present = f.col("_value" if flow.value.raw else "value").isNotNull()
    key = encoded(flow, "key", spec.key, step)
    if aggregator.argument is not None:
        argument = column(aggregator.argument)
    else:
        argument = f.lit(1) if aggregator.kind == "count" else f.col("value")
    return (
        flow.frame.where(present)
        .select(key.alias("_base"), argument.alias("_argument"), "timestamp")
        .where("_base is not null")
    )


def _grouped(rows: DataFrame, kind: str, windows: object, step: str) -> DataFrame:
    results = [_result(kind, step).alias("_result"), f.max("timestamp").alias("timestamp")]
    if windows is None:
        return rows.groupBy("_base").agg(*results)
    assert isinstance(windows, TimeWindows)
    size, advance = (f"{each} milliseconds" for each in (windows.size_ms, windows.advance_ms))
    rows = rows.withWatermark("timestamp", f"{windows.grace_ms} milliseconds")
    grouped = rows.groupBy(f.window("timestamp", size, advance).alias("_window"), "_base").agg(*results)
    start = f.expr("unix_millis(_window.start)").alias("_start")
    # Kafka's windows begin at 0 at the earliest
    return grouped.select("_base", start, "_result", "timestamp").where("_start >= 0")


def _result(kind: str, step: str) -> Column:
    argument = f.col("_argument")
    made = {
        "count": lambda: f.count(argument),
        "sum": lambda: f.sum(argument),
        "min": lambda: f.min(argument),
        "max": lambda: f.max(argument),
        "avg": lambda: f.avg(argument),
    }
    if kind not in made:
        raise UnsupportedPlan(f"step {step}: Spark has no aggregate {kind}")
    return made[kind]()


def _hash(key: Column) -> Column:
    """Return Kafka's hash of key bytes, in Python: whose remainder is the partition."""

    def hashes(keys: pa.Array) -> pa.Array:
        return pa.array(key_hashes(keys), pa.int32())

    made: Column = f.arrow_udf(hashes, IntegerType())(key)  # type: ignore[attr-defined]
    return made
