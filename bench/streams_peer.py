"""Kafka Streams in a JVM of its own, with our plans (`StreamsPeer.java`)."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import peer

__all__ = ["compiled", "kafka_latency", "kafka_rate", "kafka_throughput"]

SOURCE = Path(__file__).with_name("StreamsPeer.java")
THREADS = 2
JVM_SECONDS_MAX = 150.0
LOOK_SECONDS = 0.2
WARM_SHARE = 0.2
"""The share of the records that warms up and is not counted, as the first batch of five does on the other side."""


def compiled(folder: Path) -> Path:
    """Compile the Java program and return the folder of its classes; raises RuntimeError where that fails."""
    classes = folder / "classes"
    command = ["javac", "-nowarn", "-cp", f"{peer.cache() / 'lib'}/*", "-d", str(classes), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"javac: {done.stderr.strip()[-500:]}")
    return classes


@contextmanager
def _running(classes: Path, bootstrap: str, words: Sequence[str], settings: dict[str, str]) -> Iterator[Any]:
    """Run the program, in a state folder of its own; yields the process once it runs. Raises RuntimeError otherwise."""
    with tempfile.TemporaryDirectory(prefix="ottla-bench-streams-") as state, tempfile.TemporaryFile("w+") as errors:
        given = {
            "application.id": f"kafka-bench-{time.time_ns()}",
            "bootstrap.servers": bootstrap,
            "num.stream.threads": str(THREADS),
            "state.dir": state,
            "auto.offset.reset": "earliest",
            "replication.factor": "1",
            **settings,
        }
        path = f"{classes}:{peer.cache() / 'lib'}/*"
        level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        command = ["java", "-Xmx1g", level, "-cp", path, "StreamsPeer", *words]
        command += [f"{name}={value}" for name, value in given.items()]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "RUNNING":
                errors.seek(0)
                raise RuntimeError(f"Kafka Streams ended: {errors.read().strip()[-500:]}")
            yield process
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def kafka_throughput(classes: Path, bootstrap: str, job: dict[str, Any], settings: dict[str, str]) -> float:
    """Return rows/s; see `kafka_rate`."""
    return kafka_rate(classes, bootstrap, job, settings)[0]


def kafka_rate(classes: Path, bootstrap: str, job: dict[str, Any], settings: dict[str, str]) -> tuple[float, float]:
    """Return rows/s at which Kafka Streams catches up with a preloaded topic, by its own count of processed records.

    Beside it the processor time that a row costs, in seconds.

    `job` has `factor`: how often it processes a row (once more for each word that goes through a repartition topic).
    """
    total = job["rows"] * job["factor"]
    words = [job["plan"], job["source"], job["sink"], str(int(total * WARM_SHARE)), str(total)]
    with _running(classes, bootstrap, words, settings) as process:
        told = _line(process)
        seconds, first, last, spent = told.split()
    rows = (int(last) - int(first)) / job["factor"]
    return rows / float(seconds), float(spent) / rows


def _line(process: Any) -> str:
    """Return the next line; raises RuntimeError where it takes too long or the process ends."""
    timer = threading.Timer(JVM_SECONDS_MAX, process.kill)
    timer.start()
    try:
        line: str = process.stdout.readline()
    finally:
        timer.cancel()
    if not line:
        raise RuntimeError(f"Kafka Streams was not done within {JVM_SECONDS_MAX:.0f} s, or ended")
    return line


def kafka_latency(classes: Path, bootstrap: str, job: dict[str, Any], settings: dict[str, str]) -> dict[str, float]:
    """Return p50 and p99 of Kafka Streams under the same load as the other side."""
    with _running(classes, bootstrap, [job["plan"], job["source"], job["sink"], "0", "0"], settings):
        words = (bootstrap, job["source"], job["sink"], str(job["seconds"]), str(job["rate"]))
        command = [sys.executable, "-m", "bench.streams_latency", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=JVM_SECONDS_MAX)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    found: dict[str, float] = json.loads(done.stdout)
    return found
