"""Kafka Streams in a JVM of its own, with our plans (`StreamsPeer.java`), and a standalone cluster of Spark's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests import peer

__all__ = ["compiled", "kafka_latency", "kafka_throughput", "spark_cluster"]

SOURCE = Path(__file__).with_name("StreamsPeer.java")
THREADS = 2
JVM_SECONDS_MAX = 150.0
CLUSTER_SECONDS_MAX = 60.0
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
    """Return rows/s at which Kafka Streams catches up with a preloaded topic, by its own count of processed records.

    `job` has `factor`: how often it processes a row (once more for each word that goes through a repartition topic).
    """
    total = job["rows"] * job["factor"]
    words = [job["plan"], job["source"], job["sink"], str(int(total * WARM_SHARE)), str(total)]
    with _running(classes, bootstrap, words, settings) as process:
        told = _line(process)
        seconds, first, last = told.split()
    return (int(last) - int(first)) / job["factor"] / float(seconds)


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


@contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """Run a standalone master and workers of one core each, from PySpark's wheel, on 127.0.0.1; yields the master's URL.

    Raises RuntimeError where they do not come up.
    """
    import pyspark

    from ottla.spark.java import find_java

    java = find_java()
    assert java is not None, "the caller has looked"
    home = Path(pyspark.__file__).parent
    source = str(Path(__file__).resolve().parents[1] / "src")
    environment = {
        **os.environ,
        # as a cluster's machines have it where it is installed there: nothing is sent
        "PYTHONPATH": os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])]),
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java.home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
    }
    program, package = str(home / "bin" / "spark-class"), "org.apache.spark.deploy"
    folder.mkdir(parents=True, exist_ok=True)
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, *words: str) -> Path:
        output = folder / f"{name}.out"
        with output.open("wb") as log:
            processes.append(
                subprocess.Popen([program, *words], stdout=log, stderr=log, env=environment, start_new_session=True)
            )
        return output

    try:
        host = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = start("master", f"{package}.master.Master", *host)
        url = _said(master, "Starting Spark master at ")
        assert urlsplit(url).scheme == "spark", url
        size = ("--cores", "1", "--memory", "1g")
        for number in range(workers):
            worker = (f"{package}.worker.Worker", *host, *size, "--work-dir", str(folder / f"work-{number}"), url)
            _said(start(f"worker-{number}", *worker), "Successfully registered with master ")
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _said(output: Path, mark: str) -> str:
    """Return the word behind a mark in a daemon's log; raises RuntimeError where it does not come."""
    deadline = time.monotonic() + CLUSTER_SECONDS_MAX
    while time.monotonic() < deadline:
        text = output.read_text(errors="replace")
        if mark in text and (rest := text.split(mark, 1)[1]).strip() and "\n" in rest:
            return rest.split()[0]
        time.sleep(LOOK_SECONDS)
    raise RuntimeError(f"Spark's cluster did not come up: {output.read_text(errors='replace')[-500:]}")
