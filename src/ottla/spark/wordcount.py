"""Kafka's WordCountDemo as a Spark pipeline from topic to topic: the streaming query of `make demo`.

Words are what is left between characters outside [A-Za-z0-9_], in lower case. Each micro-batch writes the words whose count
has changed, with the word as key, so that the last record of a word holds its count: a compacted topic keeps just those.
Every operator is Spark's own; no Python function sees a row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["Progress", "WordCount", "follow", "update_writer"]

POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Progress:
    """A finished micro-batch, and the query so far."""

    batch: int
    rows: int
    seconds: float
    rows_total: int

    @property
    def rows_per_second(self) -> float:
        """Rows of the topic per second of this micro-batch."""
        return self.rows / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class WordCount:
    """The word count between two topics; `checkpoint` is the folder in which the query remembers offsets and counts.

    `value` says how counts are written: as Kafka's LongSerializer does (eight bytes, as WordCountDemo), or as digits.
    `rows_per_batch` bounds a micro-batch; None takes all that is there.
    """

    bootstrap: str
    checkpoint: str
    input_topic: str = "streams-plaintext-input"
    output_topic: str = "streams-wordcount-output"
    value: Literal["long", "string"] = "long"
    rows_per_batch: int | None = None
    starting_offsets: str = "earliest"

    def run(self, spark: SparkSession, on_progress: Callable[[Progress], None] | None = None) -> Progress:
        """Count everything that the input topic holds now, then end; calls back after each micro-batch.

        Returns the last progress, whose `rows_total` is the number of rows read and `seconds` the time of its batch.
        Raises pyspark's StreamingQueryException where the query fails.
        """
        query = self._writer(spark).trigger(availableNow=True).start()
        return follow(query, on_progress)

    def start(self, spark: SparkSession, *, interval: str = "1 second") -> StreamingQuery:
        """Start counting whatever arrives, in a micro-batch per interval, until the query is stopped."""
        return self._writer(spark).trigger(processingTime=interval).start()

    def counts(self, spark: SparkSession) -> DataFrame:
        """Return the plan: a streaming DataFrame of word and count."""
        from pyspark.sql import functions as f

        reader = spark.readStream.format("ottla").schema("value binary")
        for name, option in self._source_options().items():
            reader = reader.option(name, option)
        # \W is Java's, of ASCII alone, as in WordCountDemo
        words = f.split(f.lower(f.col("value").cast("string")), r"\W+")
        return reader.load().select(f.explode(words).alias("word")).where(f.col("word") != "").groupBy("word").count()

    def _source_options(self) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": self.input_topic,
            "startingOffsets": self.starting_offsets,
        }
        if self.rows_per_batch is not None:
            options["maxOffsetsPerTrigger"] = str(self.rows_per_batch)
        return options

    def _writer(self, spark: SparkSession) -> DataStreamWriter:
        from pyspark.sql import functions as f

        count = f.col("count")
        value = count.cast("string") if self.value == "string" else _eight_bytes(count)
        rows = self.counts(spark).select(f.col("word").alias("key"), value.alias("value"))
        sink = {"kafka.bootstrap.servers": self.bootstrap, "topic": self.output_topic}
        return update_writer(rows, sink).queryName("wordcount").option("checkpointLocation", self.checkpoint)


def update_writer(rows: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
    """Return a writer of changed rows (update mode) to a topic, with the sink's options.

    Spark refuses update mode for sinks written in Python, so each micro-batch is written as a batch: the same sink, and at
    least once as well.
    """

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.format("ottla").options(**options).mode("append").save()

    return rows.writeStream.outputMode("update").foreachBatch(write)


def _eight_bytes(count: Column) -> Column:
    """Return a count as Kafka's LongSerializer writes it: eight bytes, the highest first."""
    from pyspark.sql import functions as f

    return f.unhex(f.lpad(f.hex(count), 16, "0"))


def follow(query: StreamingQuery, on_progress: Callable[[Progress], None] | None = None) -> Progress:
    """Wait until a query ends, calling back after each micro-batch; raises what it failed with."""
    last = Progress(-1, 0, 0.0, 0)
    ended = False
    while not ended:
        ended = bool(query.awaitTermination(POLL_SECONDS))  # type: ignore[arg-type]  # whole milliseconds
        for entry in query.recentProgress:
            facts = json.loads(entry.json) if hasattr(entry, "json") else entry
            rows, batch = int(facts["numInputRows"]), int(facts["batchId"])
            if batch > last.batch and rows:
                seconds = facts["durationMs"].get("triggerExecution", 0) / 1000
                last = Progress(batch, rows, seconds, last.rows_total + rows)
                if on_progress is not None:
                    on_progress(last)
    return last
