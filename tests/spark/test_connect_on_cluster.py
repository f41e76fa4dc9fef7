"""Connect workers whose tasks run on a standalone Spark cluster, with kills of a Spark worker and of a Connect worker.

The cluster's Python has no Ottla: it is sent, and so is a plugin.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.connect.rest.asked import ask_once
from tests.connect.rest.calls import Call
from tests.ports import free_port
from tests.processes import end
from tests.server import running_server
from tests.spark.standalone import SparkCluster, spark_cluster

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

WAIT_S = 240.0
CORES = 2
JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
WORKER = """
listeners=http://127.0.0.1:{port}
bootstrap.servers={bootstrap}
spark.master={master}
plugin.path={plugins}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.flush.interval.ms=300
consumer.session.timeout.ms=6000
"""
GROUP = """
group.id=on-cluster
config.storage.topic=configs
config.storage.replication.factor=1
offset.storage.topic=offsets
offset.storage.partitions=2
offset.storage.replication.factor=1
status.storage.topic=status
status.storage.partitions=2
status.storage.replication.factor=1
session.timeout.ms=6000
"""
PLUGIN = """
import ottla
from ottla.connect import SourceConnector, SourceRecord, SourceTask

class WhereTask(SourceTask):
    def start(self, props):
        self.said = False
    def poll(self):
        if self.said:
            return None
        self.said = True
        return [SourceRecord(topic="where", value=ottla.__file__, source_partition={}, source_offset={"n": 1})]

class Where(SourceConnector):
    task_class = WhereTask
"""
WITHOUT_OTTLA = "import sys\nsys.path[:] = [each for each in sys.path if not each.endswith('/src')]\n"


@dataclass
class World:
    """A broker, a cluster whose executors have no Ottla, and a folder that all machines see."""

    bootstrap: str
    cluster: SparkCluster
    folder: Path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("cluster")
    hidden, plugins = folder / "hidden", folder / "plugins"
    for each in (hidden, plugins):
        each.mkdir()
    (hidden / "sitecustomize.py").write_text(WITHOUT_OTTLA)
    (plugins / "where.py").write_text(PLUGIN)
    with (
        running_server(folder, overrides=["group.initial.rebalance.delay.ms=0"]) as server,
        spark_cluster(folder / "spark", cores=CORES, environment={"PYTHONPATH": str(hidden)}) as cluster,
    ):
        yield World(server.bootstrap, cluster, folder)


@dataclass
class Worker:
    """A Connect worker's process, and how it is asked."""

    process: subprocess.Popen[bytes]
    port: int
    output: Path

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return an answer's body; None where nobody answers."""
        try:
            return ask_once(self.port, Call(method, path, body))["body"]
        except OSError:
            return None

    def tasks(self, name: str) -> list[dict[str, Any]]:
        """Return what is said of a connector's tasks."""
        status = self.ask("GET", f"/connectors/{name}/status") or {}
        return list(status.get("tasks", []))

    def runs(self, *names: str) -> bool:
        """Whether the only task of each connector runs."""
        return all([each["state"] for each in self.tasks(name)] == ["RUNNING"] for name in names)

    def create(self, connectors: Mapping[str, Mapping[str, str]]) -> None:
        """Create connectors, when the worker takes them."""
        for name, config in connectors.items():
            body = {"name": name, "config": dict(config)}
            self.until(lambda body=body: (self.ask("POST", "/connectors", body) or {}).get("name"))

    def until(self, holds: Callable[[], Any]) -> None:
        """Return when something holds; raises AssertionError with what the worker has printed."""
        deadline = time.monotonic() + WAIT_S
        while not holds():
            assert self.process.poll() is None and time.monotonic() < deadline, self.output.read_text()[-8000:]
            time.sleep(0.1)


@contextmanager
def connect_worker(world: World, kind: str, name: str, more: str) -> Iterator[Worker]:
    """Run `ottla connect-standalone` or `connect-distributed` as a user does, with the cluster as its master."""
    port, path, output = free_port(), world.folder / f"{name}.properties", world.folder / f"{name}.out"
    given = {"port": port, "bootstrap": world.bootstrap, "master": world.cluster.url}
    path.write_text(WORKER.format(**given, plugins=world.folder / "plugins") + more)
    with output.open("wb") as out:
        command = [sys.executable, "-m", "ottla.cli.main", kind, str(path)]
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=world.folder)
        try:
            yield Worker(process, port, output)
        finally:
            end(process, 60)


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def copying(folder: Path) -> dict[str, dict[str, str]]:
    """Return a file source and a file sink, between `in.txt` and `out.txt`."""
    return {
        "in": {"connector.class": "FileStreamSource", "file": str(folder / "in.txt"), "topic": folder.name},
        "out": {"connector.class": "FileStreamSink", "file": str(folder / "out.txt"), "topics": folder.name},
    }


def processes_of(world: World) -> list[int]:
    """Return the executors that the cluster runs now."""
    mark, found = str(world.folder / "spark").encode(), []
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdecimal() and os.readlink(each / "cwd").encode().startswith(mark):
                found.append(int(each.name))
        except OSError:
            continue
    return found


def test_tasks_run_on_a_cluster_that_has_no_ottla_and_go_on_elsewhere_when_a_spark_worker_is_killed(
    world: World, tmp_path: Path
) -> None:
    given, taken, lake = tmp_path / "in.txt", tmp_path / "out.txt", tmp_path / "lake"
    given.write_text("".join(f"line {number}\n" for number in range(1000)))
    connectors = {
        **copying(tmp_path),
        "made": {"connector.class": "DatagenConnector", "kafka.topic": "orders", "quickstart": "orders", **JSON},
        "lake": {
            "connector.class": "FilesystemSink",
            "topics": "orders",
            "path": str(lake),
            "rotate.interval.ms": "1000",
            **JSON,
        },
    }
    offsets = f"offset.storage.file.filename={tmp_path / 'offsets'}\n"
    with connect_worker(world, "connect-standalone", "alone", offsets) as worker:
        worker.create(connectors)
        worker.until(lambda: len(lines_of(taken)) == 1000)
        worker.until(lambda: list(lake.rglob("*.parquet")))
        worker.until(lambda: worker.runs(*connectors))
        assert world.cluster.workers is not None
        world.cluster.workers[0].kill()
        # Two of four cores are left: what ran on the others says why it does not run.
        worker.until(
            lambda: any("SlotError" in each.get("trace", "") for name in connectors for each in worker.tasks(name))
        )
        text = worker.output.read_text()
        assert "Automatic restart 1 of 10" in text and "give the Spark cluster more cores" in text
        world.cluster.add_worker(cores=CORES)
        worker.until(lambda: worker.runs(*connectors))
        with given.open("a") as file:
            file.write("more\n")
        before = len(list(lake.rglob("*.parquet")))
        worker.until(lambda: "more" in lines_of(taken) and len(list(lake.rglob("*.parquet"))) > before)
        worker.process.terminate()
        assert worker.process.wait(60) == 143
    assert set(lines_of(taken)) == {*(f"line {number}" for number in range(1000)), "more"}


def test_a_killed_connect_worker_leaves_no_task_on_the_cluster_and_the_next_goes_on(
    world: World, tmp_path: Path
) -> None:
    given, taken, where = tmp_path / "in.txt", tmp_path / "out.txt", tmp_path / "where.txt"
    given.write_text("one\n")
    with connect_worker(world, "connect-distributed", "first", GROUP) as worker:
        worker.create(copying(tmp_path))
        worker.create(
            {
                "where": {"connector.class": "Where"},
                "told": {"connector.class": "FileStreamSink", "file": str(where), "topics": "where"},
            }
        )
        worker.until(lambda: lines_of(taken) == ["one"] and lines_of(where))
        assert ".zip" in lines_of(where)[0]  # the Ottla that was sent
        offset = json.dumps({"position": 4})
        worker.until(lambda: offset in json.dumps(worker.ask("GET", "/connectors/in/offsets")))
        assert len(processes_of(world)) > 0
        worker.process.kill()
        worker.process.wait()
    deadline = time.monotonic() + WAIT_S
    while processes_of(world):
        assert time.monotonic() < deadline, processes_of(world)
        time.sleep(0.1)
    with given.open("a") as file:
        file.write("two\n")
    with connect_worker(world, "connect-distributed", "second", GROUP) as worker:
        worker.until(lambda: "two" in lines_of(taken))
        worker.until(lambda: worker.runs("in", "out", "where", "told"))
    assert lines_of(taken) == ["one", "two"]
