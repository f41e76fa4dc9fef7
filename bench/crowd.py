"""Many partitions and many connections: ten thousand partitions, 5,000 idle connections, 500 busy ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from bench.broker import create, generate
from bench.generator import Load
from bench.rows import Case, Metric
from bench.systems import System

__all__ = ["crowd_cases"]

PARTITIONS = 10_000
TOPIC_PARTITIONS = 1_000
IDLE = 5_000
BUSY = 500
RATE = 1_000


def crowd_cases(fresh: Callable[[str, Path], System], *, scale: float) -> list[Case]:
    """Return the case of a broker with many partitions: its next start, its memory, and latency in a crowd."""
    title = f"{PARTITIONS:,} partitions"
    names = {
        "create": f"{title}: creating them",
        "writable": f"{title}: until every log is writable",
        "start": f"{title}: start-up after a clean stop",
        "memory": f"{title}: memory after the start",
        "p50": f"{title}, {IDLE:,} idle and {BUSY} busy connections, p50 at {RATE:,}/s",
        "p99": f"{title}, {IDLE:,} idle and {BUSY} busy connections, p99 at {RATE:,}/s",
        "crowd": f"{title}, {IDLE:,} idle and {BUSY} busy connections: memory",
    }
    units = {"create": "s", "writable": "s", "start": "s", "memory": "MiB", "p50": "ms", "p99": "ms", "crowd": "MiB"}

    def size(full: int) -> int:
        return max(1, int(full * scale))

    def run(system: System) -> dict[str, float]:
        other = fresh(system.name, Path(mkdtemp(prefix="ottla-bench-")))
        try:
            other.start()
            partitions = min(TOPIC_PARTITIONS, size(PARTITIONS))
            took = create(other, size(PARTITIONS) // partitions, partitions)
            found = dict(zip((names["create"], names["writable"]), took, strict=True))
            other.halt()
            started = time.perf_counter()
            other.start()
            found |= {names["start"]: time.perf_counter() - started, names["memory"]: other.memory_mib()}
            common = {"kind": "crowd", "port": other.port, "topic": "many-0", "batch_bytes": 170, "rate": RATE}
            generate(Load(**common, connections=size(BUSY), requests=size(2_000)))  # type: ignore[arg-type]
            load = Load(**common, connections=size(BUSY), idle=size(IDLE), requests=size(15_000))  # type: ignore[arg-type]
            measured = generate(load)
            found |= {names[each]: measured[each] for each in ("p50", "p99")}
            return {**found, names["crowd"]: other.memory_mib()}
        finally:
            other.stop()

    targets = {"p99": 1.0, "writable": 0.5}
    metrics = [Metric(name, units[key], at_most=targets.get(key)) for key, name in names.items()]
    return [Case("crowd", metrics, run)]  # type: ignore[arg-type]
