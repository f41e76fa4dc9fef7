"""The two shapes of rows inside a Streams query: what goes into a stateful stage, and what leaves a query for topics.

::

    source → lowering → ENTRY → shuffle by `task` → stateful stage → OUT → sink
    source → lowering (native aggregates too) ───────────────────────→ OUT → sink
"""

from __future__ import annotations

__all__ = ["ENTRY", "OUT"]

HEADERS_DDL = "array<struct<key: string, value: binary>>"

ENTRY = (
    "task int, edge int, key binary, value binary, timestamp bigint, "
    f"headers {HEADERS_DDL}, topic string, partition int, offset bigint, step int"
)
"""Rows for a stateful stage (Spark DDL).

`task` is the partition of the stage's (virtual) repartition topic, by Kafka's partitioner over the key's bytes: as in Kafka
Streams, a task sees one partition of each of its topics. `edge` is the index of the stage's entry that the record comes in
by. `timestamp` is in milliseconds. `topic`, `partition`, `offset` and `step` (the n-th of what one record became) tell the
order: a source partition's rows keep theirs, and between partitions the smaller timestamp goes first.
"""

OUT = f"topic string, key binary, value binary, timestamp bigint, headers {HEADERS_DDL}, partition int"
"""Rows for the sink (Spark DDL): `timestamp` in milliseconds; `partition` null is Kafka's default partitioner.

Changes of materialised stores are rows for their changelog topics, beside the results, so that one transaction holds both.
"""
