"""What a stage becomes for Spark (`Query`), and rows behind executors as the steps that follow them take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from ottla.spark.streams.lowering.direct import Direct
from ottla.spark.streams.lowering.results import Results
from ottla.spark.streams.lowering.rows import HEADERS_DDL, OUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["FLOW", "SKIPPED", "Query", "tail_rows"]

SKIPPED = "ottla-skipped"
"""The name under which a query's progress (`observedMetrics`) has `records`: skipped by a handler, before any state."""

FLOW = (
    "_key binary, _value binary, timestamp bigint, "
    f"headers {HEADERS_DDL}, topic string, partition int, offset bigint, _step int, _task int, _out struct<{OUT}>"
)


@dataclass(frozen=True)
class Query:
    """A stage as Spark runs it: `rows` in shape OUT, and the output mode that its operators need."""

    rows: DataFrame
    mode: str
    direct: Direct | None = None
    """If given, tasks fetch and deliver by themselves what is to be made of `rows`, the source."""
    pushed: bool = False
    """True where a source's rows are not the records that were read."""
    finish: Results | None = None
    """If given, what writing tasks make of `rows`, which is then in its shape and not in shape OUT."""


def tail_rows(frame: DataFrame, topic: str) -> DataFrame:
    """Return rows of a topic as records; those that leave as they are stand in `_out`."""
    out = f.struct("topic", "key", "value", "timestamp", "headers", "partition")
    return frame.select(
        f.col("key").alias("_key"),
        f.col("value").alias("_value"),
        f.expr("timestamp_millis(timestamp)").alias("timestamp"),
        "headers",
        f.col("topic"),
        f.lit(0).alias("partition"),
        f.lit(-1).cast("bigint").alias("offset"),
        f.when(f.col("topic").isNull() | (f.col("topic") != topic), out).alias("_out"),
    )
