"""The Spark connectors beside each other: `format("ottla")` and Spark's own, in one session, on one and the same broker.

Apache Kafka serves both, so that only the connectors differ; one more row has each connector on its own broker. A session
runs in a process of its own (`bench.spark_session`), once for each mode. Where the JVM connector's jars or a Java are
absent, there are no rows, and a line says why.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from bench.rows import Metric, Rounds
from bench.systems import KAFKA, System
from ottla.base import Millis, TopicPartition
from ottla.client import BlockingClient
from ottla.spark import java_missing
from ottla.wire import Codec, Record, build_batch
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests import spark_connector

__all__ = ["METRICS", "measure"]

PARTITIONS = 4
ROWS = 5_000_000
IN_FLIGHT = 20
UNIT = "rows/s"
METRICS: dict[str, list[Metric]] = {
    "compiled": [
        Metric("spark read, 100 B", UNIT, at_least=2.5),
        Metric("spark read, 100 B, JVM connector tuned", UNIT, at_least=1.8),
        Metric("spark read, 1 KB", UNIT),
        Metric("spark read, keys", UNIT),
        Metric("spark read, keys and headers", UNIT),
        Metric("spark read, keys, zstd", UNIT),
        Metric("spark read, keys, lz4", UNIT),
        Metric("spark stream, one batch", UNIT, at_least=1.5),
        Metric("spark stream, batches of 500 k rows", UNIT, at_least=1.1),
        Metric("spark write, 100 B", UNIT, at_least=1.5),
        Metric("spark write, keys, lz4", UNIT),
        Metric("spark read, 100 B, each on its own broker", UNIT),
    ],
    "pure": [
        Metric("spark read, 100 B", UNIT, at_least=2.0),
        Metric("spark read, keys", UNIT),
        Metric("spark stream, one batch", UNIT),
        Metric("spark write, 100 B", UNIT),
    ],
}
"""What is measured, by mode; ratios are to the JVM connector."""


def measure(systems: list[System], scale: float, rounds: int) -> tuple[list[Metric], Rounds]:
    """Measure the connectors; returns nothing, and says why, where the other connector cannot run."""
    measured = Rounds()
    if reason := java_missing() or spark_connector.missing():
        print(f"no Spark rows: {reason}")
        return [], measured
    kafka = next(system for system in systems if system.name == KAFKA)
    own = [system for system in systems if system.name != KAFKA]
    for system in (kafka, *own):
        print(f"spark: filling topics of {system.name}", flush=True)
        with BlockingClient(system.bootstrap) as client:
            fill(client, scale, every=system is kafka)
    metrics: list[Metric] = []
    for system in own:
        print(f"spark: measuring, {system.name}", flush=True)
        metrics += [each for each in METRICS[system.name] if each not in metrics]
        _measure(kafka, system, [metric.name for metric in METRICS[system.name]], rounds, measured)
    return metrics, measured


def fill(client: BlockingClient, scale: float, *, every: bool) -> None:
    """Make the topics that are read and written, of batches as producers of 16 KiB make them."""
    now = Millis(time.time_ns() // 1_000_000)
    text = b" some text that compresses" * 4

    def batch(
        value: bytes, count: int, *, key: bool = False, headers: bool = False, codec: Codec = Codec.NONE
    ) -> bytes:
        pairs = (("trace", b"0123456789abcdef"), ("number", b"7")) if headers else ()
        records = [
            Record(timestamp=now, key=b"key-%06d" % n if key else None, value=value, headers=pairs)
            for n in range(count)
        ]
        return bytes(build_batch(records, codec=codec))

    kinds = {"bench-100": batch(b"x" * 100, 150)}
    if every:
        kinds |= {
            "bench-1k": batch(b"x" * 1000, 15),
            "bench-keys": batch(b"x" * 100, 140, key=True),
            "bench-headers": batch(b"x" * 100, 110, key=True, headers=True),
            "bench-zstd": batch(text, 130, key=True, codec=Codec.ZSTD),
            "bench-lz4": batch(text, 130, key=True, codec=Codec.LZ4),
        }
    sizes = {"bench-1k": ROWS // 10, "bench-headers": ROWS // 2}
    names = [*kinds, *(f"written-{connector}" for connector in ("ottla", "kafka"))]
    topics = [CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1) for name in names]
    client.request(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
    for name, records in kinds.items():
        per_batch = int.from_bytes(records[57:61], "big")
        _append(client, name, records, int(sizes.get(name, ROWS) * scale) // (PARTITIONS * per_batch) + 1)


def _append(client: BlockingClient, topic: str, records: bytes, times: int) -> None:
    batches = {TopicPartition(topic, partition): records for partition in range(PARTITIONS)}
    pending = []
    for _ in range(times):
        pending.append(client.begin(client.client.produce(batches)))
        if len(pending) >= IN_FLIGHT:
            pending.pop(0).result()
    for each in pending:
        each.result()


def _measure(kafka: System, own: System, names: Sequence[str], rounds: int, measured: Rounds) -> None:
    """Run a session of one mode and gather its lines: metric, connector, rows per second."""
    environment = {**os.environ, **({"OTTLA_PURE": "1"} if own.name == "pure" else {})}
    command = [sys.executable, "-m", "bench.spark_session", kafka.bootstrap, own.bootstrap, str(rounds), *names]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                entry = json.loads(line)
                system = own.name if entry["connector"] == "ottla" else KAFKA
                measured.add(system, entry["metric"], entry["value"])
                print(f"  {entry['metric']}: {entry['connector']} {entry['value']:,.0f} rows/s", flush=True)
    if process.returncode:
        print(f"  the Spark session ended with exit code {process.returncode}")
