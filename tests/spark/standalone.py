"""A standalone Spark cluster from PySpark's wheel, on the loopback address: a master and workers, each a process group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ottla.spark.java import find_java
from tests.processes import end

__all__ = ["SparkCluster", "spark_cluster"]

SECONDS_MAX = 100.0
LOOK_SECONDS = 0.1
HOST = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
PACKAGE = "org.apache.spark.deploy"


@dataclass
class SparkCluster:
    """The daemons' processes; `url` is the master's."""

    folder: Path
    environment: dict[str, str]
    url: str = ""
    master: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] | None = None

    def start_master(self) -> None:
        """Start the master; returns when it listens."""
        self.master, output = self._start("master", f"{PACKAGE}.master.Master", *HOST)
        self.url = _said(output, "Starting Spark master at ")
        assert urlsplit(self.url).scheme == "spark", self.url

    def add_worker(self, *, cores: int = 1, memory: str = "1g") -> subprocess.Popen[bytes]:
        """Start a worker; returns when the master knows it."""
        self.workers = self.workers or []
        name = f"worker-{len(self.workers)}"
        size = ("--cores", str(cores), "--memory", memory, "--work-dir", str(self.folder / name))
        process, output = self._start(name, f"{PACKAGE}.worker.Worker", *HOST, *size, self.url)
        self.workers.append(process)
        _said(output, "Successfully registered with master ")
        return process

    def _start(self, name: str, *words: str) -> tuple[subprocess.Popen[bytes], Path]:
        output = self.folder / f"{name}.out"
        command = [str(Path(self.environment["SPARK_HOME"]) / "bin" / "spark-class"), *words]
        with output.open("wb") as log:
            environment = self.environment
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        return process, output

    def stop(self) -> None:
        """Stop all of it."""
        processes = [each for each in (*(self.workers or ()), self.master) if each is not None]
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            end(process, 20)


@contextmanager
def spark_cluster(
    folder: Path, *, workers: int = 2, cores: int = 1, environment: Mapping[str, str] | None = None
) -> Iterator[SparkCluster]:
    """Run a master and workers until the block ends; `environment` is theirs besides this process's.

    Raises RuntimeError where they do not come up.
    """
    import pyspark

    java = find_java()
    assert java is not None, "the caller has looked"
    folder.mkdir(parents=True, exist_ok=True)
    given = {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "JAVA_HOME": str(java.home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        **(environment or {}),
    }
    cluster = SparkCluster(folder, given)
    try:
        cluster.start_master()
        for _ in range(workers):
            cluster.add_worker(cores=cores)
        yield cluster
    finally:
        cluster.stop()


def _said(output: Path, mark: str) -> str:
    """Return the word behind a mark in a daemon's log; raises RuntimeError where it does not come."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        text = output.read_text(errors="replace")
        if mark in text and (rest := text.split(mark, 1)[1]).strip() and "\n" in rest:
            return rest.split()[0]
        time.sleep(LOOK_SECONDS)
    raise RuntimeError(f"Spark's cluster did not come up: {output.read_text(errors='replace')[-500:]}")
