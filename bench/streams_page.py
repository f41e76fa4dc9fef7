"""`python -m bench.streams_page FILE.json > docs/streams-benchmark.md`: the rows of `bench.streams` as a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.rows import page_of

__all__ = ["page"]

INTRODUCTION = """# Streams on Spark beside Kafka Streams

Both on one machine, in one run, on the same topics of one Ottla broker: `make bench-streams OUT=bench-streams.json` (needs
`make peer` once; at most a quarter of an hour, `SIZE=0.1` for a trial), then
`python -m bench.streams_page bench-streams.json > docs/streams-benchmark.md`.

- **rows/s** are input records of a preloaded topic of four partitions, from topic to topic, with the broker on the same
  processors. The first fifth warms both sides up and is not counted: one of five micro-batches on Spark
  (`max.records.per.batch`), a fifth of the processed records in Kafka Streams.
- Kafka Streams 4.3.0 runs in a JVM of its own with `num.stream.threads=2`, default caches and default commits (30 s), by
  its own count of processed records (`process-total`); what its producer has not sent by then is not waited for.
  Ottla writes, and commits state and progress, after every batch.
- Map: `upper(value)` of events of 100 bytes, as a column expression, a Python function and a vectorised one. Word count:
  lines of eight words of a vocabulary of 10,000. Windowed count: windows of a minute, 1,000 keys. The stateful aggregate
  sums lengths by a Python function at 100,000 keys.
- **Latency** at 500 records/s: from a record's time, set by `confluent-kafka`'s producer, until a `confluent-kafka`
  consumer has its output; settings are the defaults, and Kafka Streams commits every 100 ms as Ottla does.
- **Price of exactly once**: rows/s that are lost by `processing.guarantee=exactly_once_v2`.
- The cluster is a standalone master and two workers of one core each, from PySpark's wheel, started by the
  benchmark; Ottla is installed where they run.
- *Continuous, one host*: `execution=continuous` in a session of one core (`local[1]`), beside Kafka Streams with
  `num.stream.threads=1` under the same targets of latency. Its rows/s are of what it has committed, to repartition
  topics as well, from a fifth of it to the end.
- *Auto*: `execution=auto`, behind it what it takes with so many records waiting, with `num.stream.threads` as Kafka
  Streams has in the same row: one on `local[1]`, two on two cores, where the cluster's application says
  `spark.cores.max=2`.
- Targets hold for two cores (`local[2]`), for continuous mode with one host, and for what `auto` takes. A ratio is
  Ottla's value by Kafka Streams' on two threads, and in continuous mode, and on `auto, local[1]`, by its value on one.

One round at full size, on a machine that did nothing else (load 0.2 to 2.8). Its pace changes from hour to hour: another
run of the same day made 668,000 (map), 206,000 (word count), 1,467,000 (windowed count) and 561,000 rows/s (aggregate) in
continuous mode, 1.8, 5.5, 3.3 and 2.0 times Kafka Streams' of that run.

What `auto` takes was measured in a run of its own, on a day on which both sides had half of the pace: each plan of these it
began in continuous mode. Beside Kafka Streams with as many threads: the aggregate of a Python function on `local[2]`
497,000 : 289,000 rows/s (1.7 times, target 1; micro-batches 140,000, 0.49); the windowed count on `local[1]` 1,580,000 :
327,000 (4.8, target 1.5), on `local[2]` 2,455,000 : 435,000 (5.6), on a cluster of two workers 2,936,000 : 435,000 (6.8,
target 1.2; micro-batches 294,000, 0.68). A windowed count of micro-batches took 407 ms (p50) from record to result that day.
"""


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page of these rows."""
    return page_of(INTRODUCTION, "Kafka Streams", rows)


def main(argv: list[str]) -> int:
    """Print the page of a result file."""
    print(page(json.loads(Path(argv[0]).read_text())), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
