"""Two worker processes with real tasks on Spark: one is killed, the other goes on where it was."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.connect.rest.asked import ask_once
from tests.connect.rest.calls import Call
from tests.ports import free_port
from tests.processes import end
from tests.server import running_server
from tests.waiting import until

PROPERTIES = """
group.id=connect-cluster
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
offset.storage.partitions=3
config.storage.topic=connect-configs
config.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
offset.flush.interval.ms=200
session.timeout.ms=6000
heartbeat.interval.ms=1000
scheduled.rebalance.max.delay.ms=1000
tasks.slots=4
"""
FIRST, MORE = 1000, 500


@contextmanager
def running_process(folder: Path, bootstrap: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run `ottla connect-distributed` until the block ends."""
    path = folder / f"worker-{port}.properties"
    path.write_text(f"bootstrap.servers={bootstrap}\nlisteners=http://127.0.0.1:{port}\n{PROPERTIES}")
    with (folder / f"worker-{port}.out").open("wb") as out:
        command = [sys.executable, "-m", "ottla.cli.main", "connect-distributed", str(path)]
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
        try:
            yield process
        finally:
            end(process, 60)


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_killed_workers_connectors_and_tasks_run_on_another_and_offsets_go_on(tmp_path: Path) -> None:
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"line {number}\n" for number in range(FIRST)))
    ports = [free_port(), free_port()]
    overrides = ["group.initial.rebalance.delay.ms=0"]
    with (
        running_server(tmp_path, overrides=overrides) as server,
        running_process(tmp_path, server.bootstrap, ports[0]) as one,
        running_process(tmp_path, server.bootstrap, ports[1]) as other,
    ):
        for port in ports:
            until(
                lambda port=port: ask_once(port, Call("GET", "/health"))["status"] == 200,
                "health",
                seconds=240,
                past=(OSError,),
            )
        configs = {
            "src": {"connector.class": "FileStreamSource", "file": str(source), "topic": "lines"},
            "snk": {"connector.class": "FileStreamSink", "file": str(sink), "topics": "lines"},
        }
        for name, config in configs.items():
            made = ask_once(ports[0], Call("POST", "/connectors", {"name": name, "config": config}))
            assert made["status"] == 201, made
        until(lambda: len(lines_of(sink)) == FIRST, "the first lines", seconds=240)
        end = source.stat().st_size
        until(
            lambda: str(end) in json.dumps(ask_once(ports[0], Call("GET", "/connectors/src/offsets"))),
            "the offset",
            seconds=240,
            past=(OSError,),
        )
        owner = _owner(ports[0], "src")
        victim, left = (one, ports[1]) if owner == ports[0] else (other, ports[0])
        victim.kill()
        victim.wait()
        with source.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(FIRST, FIRST + MORE))
        until(lambda: len(set(lines_of(sink))) == FIRST + MORE, "the other lines", seconds=240)
        until(lambda: _owner(left, "src") == _owner(left, "snk") == left, "the new owner", seconds=30, past=(OSError,))
        # What was stored before the kill was not read again: the source went on behind it.
        assert lines_of(sink)[-MORE:] == [f"line {number}" for number in range(FIRST, FIRST + MORE)]
        assert len(lines_of(sink)) <= 2 * FIRST + MORE


def _owner(port: int, name: str) -> int:
    """Return the port of the worker that runs a connector's task, and its connector too."""

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", f"/connectors/{name}/status")
    status = json.loads(connection.getresponse().read())
    connection.close()
    return int(status["tasks"][0]["worker_id"].rpartition(":")[2])
