"""Three brokers beside three nodes of Apache Kafka: replicated produce, failover, catching up, shards, many partitions.

The whole family has a bound on its time; what does not fit in is named and left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import psutil
from confluent_kafka import KafkaException

from bench.broker import GB, generate, unique, write_to_each
from bench.clusters import Cluster, KafkaCluster, OttlaCluster, awaited, shards
from bench.generator import Connection, Load, await_burst, batch_of, error_position, produce_request
from bench.rows import Metric, Rounds
from bench.systems import KAFKA
from ottla.base import OttlaError, TopicPartition
from ottla.client import BlockingClient, Limits

__all__ = ["measure"]

FAMILY_SECONDS_MAX = 900.0
PARTITIONS = 6
RATE = 200
CATCH_UP_BYTES = 1_000_000_000
FAILOVER_SECONDS_MAX = 60.0
STEADY_SECONDS = 1.0
WARM_UPS_MAX = 5
WARM_UP_PAUSE_SECONDS = 0.5
IDLE_SECONDS = 4.0
PROBE_PAUSE_SECONDS = 0.005
PROBE_LIMITS = Limits(connect_s=0.5, request_s=0.5, call_s=0.5, unreachable_s=0.0)
FAILOVER_ROUNDS = 2
SHARDS = (1, 2, 4)
CROWDS = (100, 1_000, 10_000)
KAFKA_CROWD_MAX = 1_000
CROWD_TOPIC_PARTITIONS = 1_000
PREFIX = "three brokers: "

Run = Callable[[Cluster], dict[str, float]]


@dataclass(frozen=True)
class ClusterCase:
    """One measurement of a cluster, with how often it is made."""

    name: str
    metrics: Sequence[Metric]
    run: Run
    rounds: int = 1


def measure(mode: str, scale: float, rounds: int) -> tuple[list[Metric], Rounds]:
    """Measure both clusters case by case, in turn, and then what only Ottla has; what takes long has fewer rounds.

    While one is measured no process of the other runs: three idle nodes of Kafka take up to a whole processor.
    """
    clusters: list[Cluster] = [
        OttlaCluster(mode, Path(mkdtemp(prefix="ottla-bench-cluster-"))),
        KafkaCluster(KAFKA, Path(mkdtemp(prefix="ottla-bench-cluster-"))),
    ]
    cases = cluster_cases(scale)
    measured, started = Rounds(), time.monotonic()
    try:
        for cluster in clusters:
            say(started, f"starting three nodes of {cluster.name}")
            cluster.start()
        for case in cases:
            for number in range(max(1, rounds) if case.rounds > 1 else 1):
                turn = number % len(clusters)
                order = clusters[turn:] + clusters[:turn]
                for cluster, other in zip(order, reversed(order), strict=True):
                    _measure(case, cluster, number, measured, started, other)
    finally:
        for cluster in clusters:
            cluster.stop()
    shard_case = _shard_case(mode, scale)
    _measure(shard_case, clusters[0], 0, measured, started)
    metrics = [metric for case in (*cases, shard_case) for metric in case.metrics]
    return metrics, measured


def _measure(
    case: ClusterCase, cluster: Cluster, number: int, measured: Rounds, started: float, other: Cluster | None = None
) -> None:
    label = f"{case.name}: round {number + 1}, {cluster.name}"
    if time.monotonic() - started > FAMILY_SECONDS_MAX:
        say(started, f"{label}: left out, the family has had its time")
        return
    say(started, label)
    try:
        with nullcontext() if other is None else other.stopped():
            values = case.run(cluster)
    except (RuntimeError, OSError, OttlaError, KafkaException) as error:
        say(started, f"  failed on {cluster.name}: {error}")
        return
    units = {metric.name: metric.unit for metric in case.metrics}
    for name, value in values.items():
        measured.add(cluster.name, name, value)
        say(started, f"    {name}: {value:.4g} {units[name]}")


def cluster_cases(scale: float) -> list[ClusterCase]:
    """Return the cases that both clusters run, in order."""

    def size(full: int) -> int:
        return max(384, int(full * scale))

    return [
        _produce_case("produce 100 B records, 16 KiB batches", size(24_000), 100, 8.0),
        _produce_case("produce 1 KB records, 16 KiB batches", size(24_000), 1000, 3.5),
        _latency_case(size(2_000)),
        _failover_case("kill -9 of a partition's leader", controller=False),
        _failover_case("kill -9 of a leader that is the active controller", controller=True),
        _catch_up_case(int(CATCH_UP_BYTES * scale)),
        *(_crowd_case(each) for each in CROWDS),
    ]


@contextmanager
def topic_on(cluster: Cluster, name: str, partitions: int) -> Iterator[str]:
    """Create a topic of three copies for the length of a block."""
    topic = unique(name)
    cluster.create(topic, partitions)
    try:
        yield topic
    finally:
        cluster.delete(topic)


def warm_up(load: Load) -> None:
    """Run a load whose figures do not count, again where a new leader does not know of its office yet."""
    for attempt in range(WARM_UPS_MAX):
        try:
            generate(load)
            return
        except RuntimeError:
            if attempt == WARM_UPS_MAX - 1:
                raise
            time.sleep(WARM_UP_PAUSE_SECONDS)


def _produce_case(what: str, requests: int, record_bytes: int, at_least: float) -> ClusterCase:
    """Return the case of producing in bursts with acks=all; the processor time is that of all three brokers."""
    name = f"{PREFIX}{what}"
    cpu = f"{name}, CPU of all brokers"
    metrics = [Metric(name, "MB/s", at_least=at_least), Metric(cpu, "s/GB", at_most=0.5)]

    def run(cluster: Cluster) -> dict[str, float]:
        with topic_on(cluster, "produce", PARTITIONS) as topic:
            ports = cluster.leader_ports(topic)
            common = {"kind": "produce", "port": 0, "topic": topic, "connections": PARTITIONS, "ports": ports}
            shape = {**common, "record_bytes": record_bytes, "batch_bytes": 16384, "depth": 8}
            warm_up(Load(**shape, requests=max(384, requests // 6)))  # type: ignore[arg-type]
            before = cluster.cpu_seconds()
            found = generate(Load(**shape, requests=requests))  # type: ignore[arg-type]
            used = cluster.cpu_seconds() - before
        return {name: found["bytes"] / 1e6 / found["seconds"], cpu: used / (found["bytes"] / GB)}

    return ClusterCase(what, metrics, run, rounds=2)


def _latency_case(requests: int) -> ClusterCase:
    """Return the case of single requests at a moderate rate."""
    title = f"{PREFIX}produce latency at {RATE}/s"
    names = {"p50": f"{title}, p50", "p99": f"{title}, p99"}
    metrics = [Metric(names["p50"], "ms"), Metric(names["p99"], "ms", at_most=1)]

    def run(cluster: Cluster) -> dict[str, float]:
        with topic_on(cluster, "latency", 1) as topic:
            ports = cluster.leader_ports(topic)
            load = {"kind": "latency", "port": 0, "topic": topic, "batch_bytes": 170, "rate": RATE, "ports": ports}
            warm_up(Load(**load, requests=max(200, requests // 4)))  # type: ignore[arg-type]
            found = generate(Load(**load, requests=requests))  # type: ignore[arg-type]
        return {name: found[key] for key, name in names.items()}

    return ClusterCase("latency", metrics, run, rounds=2)


# -- failover


def _failover_case(what: str, *, controller: bool) -> ClusterCase:
    """Return the case of a leader's death: the longest gap until a produce succeeds."""
    name = f"{PREFIX}{what}, longest gap until a produce succeeds"

    def run(cluster: Cluster) -> dict[str, float]:
        with topic_on(cluster, "failover", PARTITIONS) as topic:
            active = cluster.controller()
            leaders = cluster.leaders(topic)
            partition, victim = next(item for item in leaders.items() if (item[1] == active) is controller)
            gap = longest_gap(cluster, topic, partition, lambda: cluster.kill(victim))
            cluster.begin(victim)
            cluster.await_in_sync(topic)
            cluster.await_brokers()
        return {name: gap}

    return ClusterCase(what, [Metric(name, "s", at_most=0.3)], run, rounds=FAILOVER_ROUNDS)


def longest_gap(cluster: Cluster, topic: str, partition: int, disturb: Callable[[], None]) -> float:
    """Return the longest time between two successful produces, one of which is disturbed.

    A prober without a library's own pauses: it asks who leads and tries again until it succeeds.
    """
    load = Load(kind="produce", port=0, topic=topic)
    request, error_at = produce_request(load, partition, batch_of(100, 170)), error_position(load)
    connection: Connection | None = None
    last = started = time.perf_counter()
    longest, disturbed_at, recovered_at = 0.0, 0.0, 0.0
    while time.perf_counter() - started < FAILOVER_SECONDS_MAX:
        now = time.perf_counter()
        if not disturbed_at and now - started > STEADY_SECONDS:
            disturb()
            disturbed_at = time.perf_counter()
        if recovered_at and now - recovered_at > STEADY_SECONDS:
            return longest
        try:
            if connection is None:
                connection = _to_leader(cluster, topic, partition)
            connection.send(request)
            await_burst(connection, 1, error_at)
        except (OSError, RuntimeError, OttlaError):
            if connection is not None:
                connection.close()
            connection = None
            time.sleep(PROBE_PAUSE_SECONDS)
            continue
        now = time.perf_counter()
        if disturbed_at:
            longest = max(longest, now - last)
            recovered_at = recovered_at or (
                now if now - disturbed_at > STEADY_SECONDS or longest > STEADY_SECONDS else 0.0
            )
        last = now
        time.sleep(PROBE_PAUSE_SECONDS)
    raise RuntimeError(f"no produce succeeded for {FAILOVER_SECONDS_MAX:.0f} s")


def _to_leader(cluster: Cluster, topic: str, partition: int) -> Connection:
    """Return a connection to whoever leads the partition now, as a node that answers says."""
    alive = [cluster.ports[node] for node in cluster.pids()]
    with BlockingClient([f"127.0.0.1:{port}" for port in alive], limits=PROBE_LIMITS) as client:
        leader = client.metadata([topic]).leader_of(TopicPartition(topic, partition))
    if leader is None or leader not in cluster.ports:  # a node may not have heard of a new topic yet
        raise RuntimeError("the partition has no leader")
    return Connection(cluster.ports[leader], timeout=1.0)


# -- catching up


def _catch_up_case(total: int) -> ClusterCase:
    """Return the case of a broker that comes back a gigabyte behind."""
    name = f"{PREFIX}catching up {total / GB:.1f} GB, from the start of the broker until it is in sync"
    cpu = f"{PREFIX}catching up {total / GB:.1f} GB, CPU of all brokers"
    batch_bytes = 1 << 20

    def run(cluster: Cluster) -> dict[str, float]:
        with topic_on(cluster, "behind", PARTITIONS) as topic:
            away = next(node for node in cluster.ports if node != cluster.controller())
            cluster.halt(away)
            awaited(lambda: away not in cluster.leaders(topic).values(), FAILOVER_SECONDS_MAX, "moving the leaders")
            ports = cluster.leader_ports(topic)
            shape = {"connections": PARTITIONS, "record_bytes": 1000, "batch_bytes": batch_bytes, "depth": 2}
            requests = max(2 * PARTITIONS, total // batch_bytes)
            generate(Load(kind="produce", port=0, topic=topic, ports=ports, requests=requests, **shape))  # type: ignore[arg-type]
            before = cluster.cpu_seconds()
            started = time.perf_counter()
            cluster.begin(away)
            cluster.await_in_sync(topic)
            seconds = time.perf_counter() - started
            used = cluster.cpu_seconds() - before
            cluster.await_brokers()
        return {name: seconds, cpu: used / (requests * batch_bytes / GB)}

    return ClusterCase("catching up", [Metric(name, "s"), Metric(cpu, "s/GB")], run)


# -- many partitions, and shards


def _crowd_case(partitions: int) -> ClusterCase:
    """Return the case of so many partitions of three copies: creation, memory, idling, a failover among them."""
    title = f"{PREFIX}{partitions:,} partitions"
    names = {
        "create": f"{title}: creating them, all copies in sync",
        "writable": f"{title}: until all copies of each have a record",
        "memory": f"{title}: memory of all brokers",
        "idle": f"{title}: CPU of all idle brokers",
        "gap": f"{title}: kill -9 of a leader, longest gap until a produce succeeds",
    }
    units = {"create": "s", "writable": "s", "memory": "MiB", "idle": "% of one processor", "gap": "s"}

    def run(cluster: Cluster) -> dict[str, float]:
        if cluster.name == KAFKA and partitions > KAFKA_CROWD_MAX:
            return {}
        topics = [unique("crowd") for _ in range(max(1, partitions // CROWD_TOPIC_PARTITIONS))]
        each = min(partitions, CROWD_TOPIC_PARTITIONS)
        started = time.perf_counter()
        found = {names["create"]: sum(cluster.create(topic, each) for topic in topics)}
        write_to_each(cluster.bootstrap, topics, each)
        found[names["writable"]] = time.perf_counter() - started
        found[names["memory"]] = cluster.memory_mib()
        before = cluster.cpu_seconds()
        time.sleep(IDLE_SECONDS)  # being idle is what is measured
        found[names["idle"]] = (cluster.cpu_seconds() - before) / IDLE_SECONDS * 100
        victim = cluster.leaders(topics[0])[0]
        found[names["gap"]] = longest_gap(cluster, topics[0], 0, lambda: cluster.kill(victim))
        cluster.begin(victim)
        for topic in topics:
            cluster.await_in_sync(topic)
        cluster.await_brokers()
        for topic in topics:
            cluster.delete(topic)
        return found

    return ClusterCase(f"{partitions:,} partitions", [Metric(name, units[key]) for key, name in names.items()], run)


def _shard_case(mode: str, scale: float) -> ClusterCase:
    """Return the case of `ottla server start --shards` with 1, 2 and 4 shards, one copy of each partition."""
    names = {count: f"produce 100 B records, 16 KiB batches, --shards {count}" for count in SHARDS}
    cpus = {count: f"{name}, CPU of all shards" for count, name in names.items()}
    metrics = [Metric(name, "MB/s") for name in names.values()] + [Metric(cpu, "s/GB") for cpu in cpus.values()]

    def one(count: int) -> dict[str, float]:
        with shards(Path(mkdtemp(prefix="ottla-bench-shards-")), count, mode) as (first, parent):
            ports = {node: first + node - 1 for node in range(1, count + 1)}
            cluster = Cluster("shards", Path(), ports)
            topic = unique("shards")
            cluster.create(topic, 4, copies=1)
            shape = {"connections": 4, "ports": cluster.leader_ports(topic), "batch_bytes": 16384, "depth": 8}
            requests = max(256, int(30_000 * scale))
            warm_up(Load(kind="produce", port=0, topic=topic, requests=requests // 6, **shape))  # type: ignore[arg-type]
            processes = psutil.Process(parent).children(recursive=True)
            before = sum(sum(each.cpu_times()[:2]) for each in processes)
            found = generate(Load(kind="produce", port=0, topic=topic, requests=requests, **shape))  # type: ignore[arg-type]
            used = sum(sum(each.cpu_times()[:2]) for each in processes) - before
        return {names[count]: found["bytes"] / 1e6 / found["seconds"], cpus[count]: used / (found["bytes"] / GB)}

    def run(cluster: Cluster) -> dict[str, float]:
        return {name: value for count in SHARDS for name, value in one(count).items()}

    return ClusterCase("shards", metrics, run)


def say(started: float, text: str) -> None:
    """Print a line of progress at once."""
    print(f"[{time.monotonic() - started:4.0f} s] {text}", flush=True)
