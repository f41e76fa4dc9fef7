"""Compaction: what the cleaner costs those who produce meanwhile, and how fast a compacted topic is in memory."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from bench.broker import FETCH_RATE_COLUMN, LOAD_SECONDS_MAX, generate
from bench.generator import Load
from bench.rows import Case, Metric
from bench.systems import KAFKA, System
from ottla.base import Offset, TopicPartition
from ottla.client import EARLIEST, LATEST, BlockingClient, FetchPosition
from ottla.wire import ColumnDecoder, next_offset
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tests import peer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["compaction_cases"]

RECORDS = 1_000_000
LOAD = "a million 100 B records of a compacted topic into memory"
QUIET = "produce latency at 1,000/s without compaction, p99"
WRITER = "produce latency at 1,000/s beside a writer, p99"
BESIDE = "produce latency at 1,000/s beside compaction, p99"
RATIO = "produce latency p99 beside compaction / without"
CLEANING = "produce latency p99 beside compaction / beside the same writer"
CLEANER = ("log.cleaner.backoff.ms=200",)
CLEANED_SECONDS_MAX = 60
FETCH_BYTES = 4 << 20
FETCH_TIME_COLUMN = 7


def compaction_cases(fresh: Callable[[str, Path], System], *, scale: float) -> list[Case]:
    """Return the cases of compacted topics."""

    def beside(system: System) -> dict[str, float]:
        other = fresh(system.name, Path(mkdtemp(prefix="ottla-bench-")))
        other.overrides = CLEANER
        other.start()
        try:
            return latencies(other, max(100, int(5_000 * scale)))
        finally:
            other.stop()

    def load(system: System) -> dict[str, float]:
        make_topic(system, name := f"compacted-{time.monotonic_ns()}", {"cleanup.policy": "compact"})
        records = max(1600, int(RECORDS * scale))
        requests = records // 800  # about so many records lie in a batch of 100 KB
        generate(
            Load("produce", system.port, name, connections=1, batch_bytes=100_000, requests=requests, keys=records)
        )
        return {LOAD: java_load(system, name, records) if system.name == KAFKA else python_load(system, name)}

    metrics = [
        *(Metric(QUIET, "ms"), Metric(WRITER, "ms"), Metric(BESIDE, "ms"), Metric(RATIO, "x")),
        Metric(CLEANING, "x", at_most=3, absolute=True),
    ]
    return [
        Case("produce beside compaction", metrics, beside),  # type: ignore[arg-type]
        Case("load a compacted topic", [Metric(LOAD, "s")], load),  # type: ignore[arg-type]
    ]


def make_topic(system: System, name: str, settings: dict[str, str]) -> None:
    """Create a topic of one partition."""
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in settings.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
    with BlockingClient(system.bootstrap) as client:
        answer = client.request(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
    if code := answer.topics[0].error_code:
        raise RuntimeError(f"creating {name} was answered with error {code}")


def latencies(system: System, requests: int) -> dict[str, float]:
    """Return p99 of single requests: alone, while keyed records are written, and while such have to be compacted.

    The second tells what the writer itself costs, on few processors most of it, from what the cleaner does.
    """
    segments = {"segment.bytes": "4194304"}
    make_topic(system, "latency", {})
    make_topic(system, "deleted", segments)
    make_topic(system, "compacted", {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", **segments})
    probe = Load("latency", system.port, "latency", connections=1, batch_bytes=170, requests=requests)
    generate(probe)
    quiet = generate(probe)["p99"]
    writer, beside = _p99_beside(system, "deleted", probe), _p99_beside(system, "compacted", probe)
    return {QUIET: quiet, WRITER: writer, BESIDE: beside, RATIO: beside / quiet, CLEANING: beside / writer}


def _p99_beside(system: System, topic: str, probe: Load) -> float:
    """Return p99 while keyed records are written to a topic."""
    ended = threading.Event()

    def write() -> None:
        burst = Load("produce", system.port, topic, connections=1, requests=64, keys=20_000)
        while not ended.is_set():
            generate(burst)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        return generate(probe)["p99"]
    finally:
        ended.set()
        writer.join(LOAD_SECONDS_MAX)


def python_load(system: System, topic: str) -> float:
    """Return the seconds that a Python program takes to have the latest value of every key in a dict."""
    started = time.perf_counter()
    partition = TopicPartition(topic, 0)
    latest: dict[bytes, bytes] = {}
    decoder = ColumnDecoder()
    with BlockingClient(system.bootstrap) as client:
        ends = client.list_offsets({partition: LATEST})
        position = client.list_offsets({partition: EARLIEST})[partition].offset
        while position < ends[partition].offset:
            [fetched] = client.fetch([FetchPosition(partition, Offset(position), FETCH_BYTES)])
            records = fetched.check().records
            for columns in decoder.decode(records, start=Offset(position)).columns:
                data = bytes(columns.data)
                latest.update(zip(texts(data, columns.key_bounds), texts(data, columns.value_bounds), strict=True))
            position = next_offset(records, Offset(position))
    return time.perf_counter() - started


def texts(data: bytes, bounds: NDArray[np.int32]) -> Iterator[bytes]:
    """Yield what lies between each start and end: keys or values of records that all have one."""
    places = bounds.tolist()
    return (data[first:last] for first, last in zip(places[0::2], places[1::2], strict=True))


def java_load(system: System, topic: str, records: int) -> float:
    """Return the seconds for which Kafka's own Java consumer fetches the same, as its performance tool counts them.

    Raises RuntimeError where the tool prints no figures.
    """
    options = ["--bootstrap-server", system.bootstrap, "--num-records", str(records * 9 // 10), "--hide-header"]
    result = peer.tool("consumer-perf", "--topic", topic, *options, timeout=LOAD_SECONDS_MAX, flags=peer.FULL_SPEED)
    lines = [line.split(",") for line in result.stdout.splitlines() if line.count(",") >= FETCH_RATE_COLUMN]
    if not lines:
        raise RuntimeError(f"Kafka's performance tool has printed no figures: {result.stdout[-500:]}")
    return int(re.sub(r"\D", "", lines[-1][FETCH_TIME_COLUMN])) / 1000
