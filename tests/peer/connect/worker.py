"""A worker of Apache Kafka Connect on loopback, standalone or distributed, with the file connectors."""

from __future__ import annotations

import http.client
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import peer
from tests.processes import end

__all__ = ["MODES", "running_worker"]

MODES = {
    "standalone": "org.apache.kafka.connect.cli.ConnectStandalone",
    "distributed": "org.apache.kafka.connect.cli.ConnectDistributed",
}
START_S = 90.0
QUICK_START = ("-Xmx512m", "-XX:TieredStopAtLevel=1")


def _properties(mode: str, folder: Path, bootstrap: str, port: int, more: Sequence[str]) -> str:
    lines = [
        f"bootstrap.servers={bootstrap}",
        f"listeners=http://127.0.0.1:{port}",
        "rest.advertised.host.name=127.0.0.1",
        "key.converter=org.apache.kafka.connect.json.JsonConverter",
        "value.converter=org.apache.kafka.connect.json.JsonConverter",
        "offset.flush.interval.ms=1000",
        "plugin.discovery=hybrid_warn",
    ]
    if mode == "standalone":
        lines.append(f"offset.storage.file.filename={folder / 'offsets'}")
    else:
        lines.append("group.id=connect-cluster")
        lines += [f"{kind}.storage.topic=connect-{kind}" for kind in ("config", "offset", "status")]
        lines += [f"{kind}.storage.replication.factor=1" for kind in ("config", "offset", "status")]
        lines += ["offset.storage.partitions=2", "status.storage.partitions=2"]
    return "\n".join([*lines, *more]) + "\n"


@contextmanager
def running_worker(
    mode: str,
    folder: Path,
    bootstrap: str,
    port: int,
    *,
    options: tuple[str, ...] = QUICK_START,
    properties: Sequence[str] = (),
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker until the block ends; it answers on 127.0.0.1:`port` when the block begins.

    `options` are the JVM's: those that make it start quickly, unless it is to be measured. `properties` are more lines of
    the worker's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "worker.properties"
    path.write_text(_properties(mode, folder, bootstrap, port, properties))
    log = (folder / "worker.out").open("ab")
    command = peer.java(*options, MODES[mode], str(path))
    process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _await_answer(process, port)
        yield process
    finally:
        end(process, 20)
        log.close()


def _await_answer(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"Apache Kafka Connect ended with exit code {process.returncode} during its start")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"Apache Kafka Connect was not ready within {START_S:g} s")
