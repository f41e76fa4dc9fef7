"""The broker's cases: produce, fetch, latency, processor time, memory, start-up, and Kafka's own load tools."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import mkdtemp

from bench.answering import answering
from bench.generator import Load
from bench.rows import Case, Metric
from bench.systems import System
from ottla.base import Millis, TopicPartition
from ottla.client import BlockingClient
from ottla.wire import Record, build_batch
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests import peer

__all__ = [
    "Topic",
    "batch_cases",
    "broker_cases",
    "create",
    "fetch_case",
    "generate",
    "produce_case",
    "unique",
    "write_to_each",
]

PARTITIONS = 4
GB = 1e9
FETCH_RATE_COLUMN = 8
"""`fetch.MB.sec` in ConsumerPerformance's line."""
JOIN_GROUP = 11
LOAD_SECONDS_MAX = 300
CREATE_MS_MAX = 300_000
ROUND_SECONDS, MEMORY_SECONDS = 5.0, 2.0
"""Of a round; with the logs in memory less, since a broker writes more than a GB there in a second."""
REQUESTS_MAX = 1 << 30
"""Of a load that ends by its time."""
CREATED = 1_000
MEMORY = Path("/dev/shm")
IN_MEMORY = ", logs in memory"
GENERATOR_SHARE_MAX = 0.9
"""Above this share of one processor the generator is named as a possible limit."""


def generate(load: Load) -> dict[str, float]:
    """Run the generator in a process of its own and return what it measured."""
    command = [sys.executable, "-m", "bench.generator", load.text()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_SECONDS_MAX, check=False)
    if result.returncode:
        raise RuntimeError(f"the load failed: {result.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(result.stdout)
    if (share := found["generator_cpu"] / found["seconds"]) > GENERATOR_SHARE_MAX:
        print(f"  the generator used {share:.0%} of a processor: it may be what limits this figure", flush=True)
    return found


class Topic:
    """A topic that exists for the length of a block."""

    def __init__(self, system: System, name: str) -> None:
        from confluent_kafka.admin import AdminClient

        self.name = name
        self._admin = AdminClient({"bootstrap.servers": system.bootstrap})

    def __enter__(self) -> str:
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        self._admin.create_topics([NewTopic(self.name, PARTITIONS, 1)])[self.name].result(30)
        return self.name

    def __exit__(self, *error: object) -> None:
        self._admin.delete_topics([self.name])[self.name].result(30)


def unique(name: str) -> str:
    """Return a topic name that was not used before."""
    return f"{name}-{time.monotonic_ns()}"


def produce_case(name: str, requests: int, targets: dict[str, float], **shape: float) -> Case:
    """Return a case that produces in bursts; its CPU figure is the broker's, per GB or per 100,000 requests.

    It sends `requests`, or with `seconds` in its shape for as long, and before that a tenth that does not count.
    """
    small = shape.get("batch_bytes", 16384) < 1000
    cpu = f"{name}, broker CPU"
    metrics = [
        Metric(name, "requests/s" if small else "MB/s", at_least=targets.get("rate")),
        Metric(cpu, "s/100k requests" if small else "s/GB", at_most=targets.get("cpu")),
    ]

    def run(system: System) -> dict[str, float]:
        with Topic(system, unique("produce")) as topic:
            way = {"port": system.port, **system.loads}
            load = {"kind": "produce", **way, "topic": topic, "connections": PARTITIONS, **shape}
            brief = {**load, "seconds": shape.get("seconds", 0.0) / 10}
            generate(Load(**brief, requests=max(64, requests // 10)))
            before = system.cpu_seconds()
            found = generate(Load(**load, requests=requests))
            used = system.cpu_seconds() - before
        if small:
            return {name: found["requests"] / found["seconds"], cpu: used / found["requests"] * 100_000}
        return {name: found["bytes"] / 1e6 / found["seconds"], cpu: used / (found["bytes"] / GB)}

    return Case(name, metrics, run)  # type: ignore[arg-type]


def fetch_case(name: str, fetch_bytes: int, total: int, targets: dict[str, float], seconds: float = 0.0) -> Case:
    """Return a case that reads a topic of `total` bytes from its start, in answers of at most `fetch_bytes`.

    With `seconds` it begins anew at the end, for as long.
    """
    cpu = f"{name}, broker CPU"
    metrics = [Metric(name, "MB/s", at_least=targets.get("rate")), Metric(cpu, "s/GB", at_most=targets.get("cpu"))]

    def run(system: System) -> dict[str, float]:
        with Topic(system, unique("fetch")) as topic:
            common = {"port": system.port, "topic": topic, "connections": PARTITIONS}
            fill = Load(kind="produce", **common, batch_bytes=16384, requests=total // 16384)  # type: ignore[arg-type]
            generate(fill)
            load = {"kind": "fetch", **common, **system.loads, "fetch_bytes": fetch_bytes}
            requests = int(total * 0.9) // max(fetch_bytes, 16384)
            generate(Load(**load, requests=min(64, requests)))
            if seconds:
                load["seconds"], requests = seconds, REQUESTS_MAX
            before = system.cpu_seconds()
            found = generate(Load(**load, requests=requests))
            used = system.cpu_seconds() - before
        return {name: found["bytes"] / 1e6 / found["seconds"], cpu: used / (found["bytes"] / GB)}

    return Case(name, metrics, run)  # type: ignore[arg-type]


def latency_case(requests: int) -> Case:
    """Return the case of single requests at 1,000 a second, and what the machine takes for such a round trip."""
    names = {"p50": "produce latency at 1,000/s, p50", "p99": "produce latency at 1,000/s, p99"}
    least = "produce latency at 1,000/s, p50 of a process that only answers"
    metrics = [Metric(names["p50"], "ms", at_most=0.7), Metric(names["p99"], "ms", at_most=0.5), Metric(least, "ms")]

    def run(system: System) -> dict[str, float]:
        with Topic(system, unique("latency")) as topic:
            load = {"kind": "latency", "port": system.port, "topic": topic, "batch_bytes": 170}
            generate(Load(**load, requests=min(1000, requests)))  # type: ignore[arg-type]
            found = generate(Load(**load, requests=requests))  # type: ignore[arg-type]
        with answering() as port:
            answered = generate(Load(**{**load, "port": port}, requests=min(1000, requests)))  # type: ignore[arg-type]
        return {**{name: found[key] for key, name in names.items()}, least: answered["p50"]}

    return Case("latency", metrics, run)  # type: ignore[arg-type]


def perf_case(records: int, record_bytes: int) -> Case:
    """Return a case of Kafka's own tools with their defaults (acks=all): ProducerPerformance, then ConsumerPerformance.

    The consumer joins a group: it has no figure where the broker has no groups.
    """
    names = [f"{tool}, {record_bytes} B records" for tool in ("producer-perf", "consumer-perf")]
    cpu = f"{names[0]}, broker CPU"
    metrics = [Metric(names[0], "MB/s"), Metric(cpu, "s/GB", at_most=0.2), Metric(names[1], "MB/s")]

    def run(system: System) -> dict[str, float]:
        with Topic(system, unique("perf")) as topic:
            options = ["--num-records", str(records), "--record-size", str(record_bytes), "--throughput", "-1"]
            properties = ["--producer-props", f"bootstrap.servers={system.bootstrap}", "acks=all"]
            before = system.cpu_seconds()
            written = peer.tool(
                "producer-perf",
                "--topic",
                topic,
                *options,
                *properties,
                timeout=LOAD_SECONDS_MAX,
                flags=peer.FULL_SPEED,
            )
            used = system.cpu_seconds() - before
            read = consumer_perf(system, topic, records) if system.serves(JOIN_GROUP) else None
        rates = re.findall(r"\(([\d.]+) MB/sec\)", written.stdout)
        if not rates:
            raise RuntimeError(f"producer-perf failed: {written.stderr.strip()[-300:]}")
        found = {names[0]: float(rates[-1]), cpu: used / (records * record_bytes / GB)}
        if read is not None:
            found[names[1]] = read
        return found

    return Case(names[0], metrics, run)  # type: ignore[arg-type]


def consumer_perf(system: System, topic: str, records: int) -> float | None:
    """Return ConsumerPerformance's MB/s without the time it took to join its group; None where it says nothing."""
    options = ["--bootstrap-server", system.bootstrap, "--num-records", str(records), "--hide-header"]
    result = peer.tool("consumer-perf", "--topic", topic, *options, timeout=LOAD_SECONDS_MAX, flags=peer.FULL_SPEED)
    lines = [line.split(",") for line in result.stdout.splitlines() if line.count(",") >= FETCH_RATE_COLUMN]
    return float(lines[-1][FETCH_RATE_COLUMN]) if lines else None


def start_case(fresh: Callable[[str, Path], System]) -> Case:
    """Return the case of a start with an empty folder: until the first answer, and memory once idle."""
    metrics = [
        Metric("start-up, empty folder", "s", at_most=0.5, absolute=True),
        Metric("memory, idle", "MiB", at_most=100, absolute=True),
    ]

    def run(system: System) -> dict[str, float]:
        other = fresh(system.name, Path(mkdtemp(prefix="ottla-bench-")))
        try:
            started = time.perf_counter()
            other.start()
            seconds = time.perf_counter() - started
            time.sleep(1)  # what a start leaves behind is part of being idle; nothing is asserted here
            return {metrics[0].name: seconds, metrics[1].name: other.memory_mib()}
        finally:
            other.stop()

    return Case("start", metrics, run)  # type: ignore[arg-type]


def memory_case() -> Case:
    """Return the case of memory after the loads before it."""
    name = "memory, loaded"
    return Case(name, [Metric(name, "MiB")], lambda system: {name: system.memory_mib()})  # type: ignore[attr-defined]


def create_case(fresh: Callable[[str, Path], System], partitions: int) -> Case:
    """Return the case of a topic of many partitions in an empty folder: its answer, and until each log takes a record."""
    title = f"a topic of {partitions:,} partitions"
    names = f"{title}: answered", f"{title}: until every log is writable"
    metrics = [Metric(names[0], "s"), Metric(names[1], "s", at_most=0.5)]

    def run(system: System) -> dict[str, float]:
        other = fresh(system.name, Path(mkdtemp(prefix="ottla-bench-")))
        try:
            other.start()
            return dict(zip(names, create(other, 1, partitions), strict=True))
        finally:
            other.stop()

    return Case("create", metrics, run)  # type: ignore[arg-type]


def create(system: System, topics: int, partitions: int) -> tuple[float, float]:
    """Create topics, one request at a time; returns the seconds until all are answered, and until each log has a record.

    Raises RuntimeError where a broker refuses.
    """
    started = time.perf_counter()
    names = [f"many-{number}" for number in range(topics)]
    with BlockingClient(system.bootstrap) as client:
        for name in names:
            topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            request = CreateTopicsRequest(topics=[topic], timeout_ms=CREATE_MS_MAX)
            answer = client.run(client.client.request(request, controller=True, timeout_s=CREATE_MS_MAX / 1000))
            if code := answer.topics[0].error_code:
                raise RuntimeError(f"creating {topic.name} was answered with error {code}")
        answered_s = time.perf_counter() - started
    write_to_each(system.bootstrap, names, partitions)
    return answered_s, time.perf_counter() - started


def write_to_each(bootstrap: str, topics: Sequence[str], partitions: int) -> None:
    """Write a record to each partition of some topics, which returns when all copies in sync have them."""
    record = build_batch([Record(timestamp=Millis(time.time_ns() // 1_000_000), key=b"key", value=b"value")])
    with BlockingClient(bootstrap) as client:
        for topic in topics:
            client.run(client.client.produce({TopicPartition(topic, each): record for each in range(partitions)}))


def broker_cases(fresh: Callable[[str, Path], System], *, scale: float) -> list[Case]:
    """Return the broker's cases in the order in which they run; `scale` shortens them."""

    def size(full: int) -> int:
        return max(128, int(full * scale))

    seconds = ROUND_SECONDS * scale
    fetched = size(600_000_000)
    return [
        create_case(fresh, max(10, int(CREATED * scale))),
        start_case(fresh),
        *batch_cases(scale),
        produce_case(
            "produce single 100 B records", REQUESTS_MAX, {"rate": 4}, batch_bytes=170, depth=64, seconds=seconds
        ),
        fetch_case("fetch 1 MiB", 1 << 20, fetched, {"cpu": 0.4}, seconds),
        fetch_case("fetch 64 KiB", 1 << 16, fetched, {"cpu": 0.5}, seconds),
        latency_case(size(int(1000 * ROUND_SECONDS))),
        perf_case(size(2_000_000), 100),
        perf_case(size(300_000), 1000),
        memory_case(),
    ]


def batch_cases(scale: float, where: str = "") -> list[Case]:
    """Return the cases of whole batches, which the device matters to; `where` ends their names, and they have no targets."""
    shapes = [
        ("100 B records, 16 KiB batches", 100, 16384, 8, {"rate": 4.0, "cpu": 0.2}),
        ("1 KB records, 16 KiB batches", 1000, 16384, 8, {"rate": 2.2, "cpu": 0.35}),
        ("100 B records, 1 MiB batches", 100, 1 << 20, 2, {"rate": 1.1, "cpu": 0.6}),
        ("1 KB records, 1 MiB batches", 1000, 1 << 20, 2, {"rate": 1.1, "cpu": 0.6}),
    ]
    return [
        produce_case(
            f"produce {name}{where}",
            REQUESTS_MAX,
            {} if where else targets,
            record_bytes=record_bytes,
            batch_bytes=batch_bytes,
            depth=depth,
            seconds=(MEMORY_SECONDS if where else ROUND_SECONDS) * scale,
        )
        for name, record_bytes, batch_bytes, depth, targets in shapes
    ]
