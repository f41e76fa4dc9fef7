"""One Spark session that measures both connectors in turn: `python -m bench.spark_session KAFKA OWN ROUNDS METRIC...`.

Prints a JSON line for every figure. A first round of each case warms the JVM up and is not told.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.spark import session
from tests import spark_connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Bench", "main"]

CONNECTORS = ("ottla", "kafka")
TUNED = {"kafka.max.partition.fetch.bytes": "4194304", "kafka.max.poll.records": "50000"}
WRITTEN_ROWS = 1_000_000
BATCH_ROWS = "500000"


@dataclass(frozen=True)
class Bench:
    """The session and the two brokers."""

    spark: SparkSession
    kafka: str
    own: str

    def frame(self, connector: str, topic: str, bootstrap: str, options: dict[str, str]) -> DataFrame:
        """Return a batch reader of a topic."""
        reader = (
            self.spark.read.format(connector).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
        )
        return reader.options(**options).load()

    def read(self, topic: str, *, headers: bool = False, tuned: bool = False) -> Callable[[str], int]:
        """Read a whole topic."""
        shared = {"includeHeaders": "true"} if headers else {}

        def run(connector: str) -> int:
            options = {**shared, **(TUNED if tuned and connector == "kafka" else {})}
            self.frame(connector, topic, self.kafka, options).write.format("noop").mode("overwrite").save()
            return self.count(topic, self.kafka)

        return run

    def read_at_home(self, topic: str) -> Callable[[str], int]:
        """Read a whole topic, each connector from its own broker."""

        def run(connector: str) -> int:
            bootstrap = self.own if connector == "ottla" else self.kafka
            self.frame(connector, topic, bootstrap, {}).write.format("noop").mode("overwrite").save()
            return self.count(topic, bootstrap)

        return run

    def stream(self, topic: str, options: dict[str, str]) -> Callable[[str], int]:
        """Read a whole topic as a stream that ends."""

        def run(connector: str) -> int:
            reader = self.spark.readStream.format(connector).option("kafka.bootstrap.servers", self.kafka)
            reader = reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options)
            with tempfile.TemporaryDirectory() as checkpoint:
                writer = reader.load().writeStream.format("noop").option("checkpointLocation", checkpoint)
                writer.trigger(availableNow=True).start().awaitTermination()
            return self.count(topic, self.kafka)

        return run

    def write(self, columns: list[str], options: dict[str, str]) -> Callable[[str], int]:
        """Write generated rows to a topic."""

        def run(connector: str) -> int:
            frame = self.spark.range(WRITTEN_ROWS).selectExpr(*columns)
            writer = frame.write.format(connector).option("kafka.bootstrap.servers", self.kafka).options(**options)
            writer.option("topic", f"written-{connector}").mode("append").save()
            return WRITTEN_ROWS

        return run

    def count(self, topic: str, bootstrap: str) -> int:
        """Return how many records a topic holds, from its offsets."""
        from ottla.client import LATEST, BlockingClient

        with BlockingClient(bootstrap) as client:
            partitions = client.metadata([topic]).partitions_of(topic)
            return sum(found.offset for found in client.list_offsets(dict.fromkeys(partitions, LATEST)).values())

    def cases(self) -> dict[str, Callable[[str], int]]:
        """Return every case by its metric: a call that runs it with one connector and returns the rows."""
        value = "rpad(cast(id as string), 100, 'x') as value"
        return {
            "spark read, 100 B": self.read("bench-100"),
            "spark read, 100 B, JVM connector tuned": self.read("bench-100", tuned=True),
            "spark read, 1 KB": self.read("bench-1k"),
            "spark read, keys": self.read("bench-keys"),
            "spark read, keys and headers": self.read("bench-headers", headers=True),
            "spark read, keys, zstd": self.read("bench-zstd"),
            "spark read, keys, lz4": self.read("bench-lz4"),
            "spark stream, one batch": self.stream("bench-100", {}),
            "spark stream, batches of 500 k rows": self.stream("bench-100", {"maxOffsetsPerTrigger": BATCH_ROWS}),
            "spark write, 100 B": self.write([value], {}),
            "spark write, keys, lz4": self.write(
                [value, "concat('key-', id % 100000) as key"], {"kafka.compression.type": "lz4"}
            ),
            "spark read, 100 B, each on its own broker": self.read_at_home("bench-100"),
        }


def main(kafka: str, own: str, rounds: int, metrics: list[str]) -> int:
    """Run the cases named, connector by connector, round by round."""
    spark = session("bench", master="local[2]", settings={"spark.jars": spark_connector.jars()})
    bench = Bench(spark, kafka, own)
    cases = bench.cases()
    for metric in metrics:
        for number in range(rounds + 1):
            # the order turns, so that a drifting machine favours nobody
            for connector in CONNECTORS if number % 2 else reversed(CONNECTORS):
                started = time.perf_counter()
                rows = cases[metric](connector)
                value = rows / (time.perf_counter() - started)
                if number:
                    print(json.dumps({"metric": metric, "connector": connector, "value": value}), flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
