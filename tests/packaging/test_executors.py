"""A Connect worker whose executors are pods: Spark's own driver asks for them, and the image's entry point runs them.

Kubernetes itself is played: its interface is small, and a pod is a process here (`kubernetes_api`). The worker's settings
are those of the manifest, but for addresses and times.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer

from tests.packaging.kubernetes_api import Cluster, running_cluster
from tests.ports import free_port
from tests.server import Server, running_server
from tests.waiting import until

pytestmark = pytest.mark.slow  # JVMs: a driver's, and one for each executor
FOLDER = Path(__file__).resolve().parents[2] / "packaging"
MANIFEST = FOLDER / "kubernetes" / "connect" / "worker.yaml"


def manifest_settings() -> tuple[dict[str, str], str]:
    """Return the worker's settings of the manifest, and its template of executors' pods."""
    data = next(each["data"] for each in yaml.safe_load_all(MANIFEST.read_text()) if each["kind"] == "ConfigMap")
    lines = [line.partition("=") for line in data["worker.properties"].splitlines() if line]
    return {key: value for key, _, value in lines}, data["executor.yaml"]


@contextmanager
def running_worker(folder: Path, server: Server, cluster: Cluster) -> Iterator[str]:
    """A worker as the manifest has it, but for addresses; yields the address of its interface."""
    settings, template = manifest_settings()
    (folder / "executor.yaml").write_text(template)
    port = free_port()
    settings |= {
        "bootstrap.servers": server.bootstrap,
        "listeners": f"http://127.0.0.1:{port}",
        "rest.advertised.port": str(port),
        "rest.advertised.host.name": "127.0.0.1",
        "spark.master": f"k8s://{cluster.url}",
        "spark.kubernetes.executor.podTemplateFile": str(folder / "executor.yaml"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.kubernetes.driver.pod.name": "ottla-connect-0",
        "spark.kubernetes.executor.apiPollingInterval": "1s",
        "spark.executor.instances": "1",
        "spark.executor.cores": "2",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "task.restart.backoff.ms": "500",
        "offset.flush.interval.ms": "1000",
        **{f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")},
    }
    (folder / "worker.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    with open(folder / "worker.log", "wb") as log:
        command = [sys.executable, "-m", "ottla.cli.main", "connect-distributed", str(folder / "worker.properties")]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: asked(url, "/"), lambda: (folder / "worker.log").read_text()[-3000:], past=(OSError,))
        yield url
    finally:
        process.terminate()
        process.wait(60)


def asked(url: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


@pytest.fixture
def entry(tmp_path: Path) -> list[str]:
    """The image's entry point, beside the programs that it finds in the image's folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')  # a link would not find its packages
    (folder / "python3").chmod(0o755)
    (folder / "ottla-work").symlink_to(FOLDER / "image" / "work.sh")
    return [str(folder / "ottla-work")]


def test_tasks_run_in_pods_and_go_on_in_others_when_one_is_killed(tmp_path: Path, entry: list[str]) -> None:
    source = tmp_path / "lines.txt"
    source.write_text("".join(f"{number}\n" for number in range(100)))
    pods = tmp_path / "pods"
    pods.mkdir()
    with running_server(tmp_path) as server, running_cluster(entry, pods) as cluster:
        with running_worker(tmp_path, server, cluster) as url:
            config = {"connector.class": "FileStreamSource", "file": str(source), "topic": "lines", "tasks.max": "1"}
            asked(url, "/connectors", {"name": "lines", "config": config})

            def state() -> str:
                tasks = asked(url, "/connectors/lines/status")["tasks"]
                return str(tasks[0]["state"]) if tasks else ""

            def said() -> str:
                logs = [each.read_text()[-2000:] for each in pods.glob("*/log")]
                return "\n".join([(tmp_path / "worker.log").read_text()[-3000:], *logs])

            reader = Consumer(
                {"bootstrap.servers": server.bootstrap, "group.id": "check", "auto.offset.reset": "earliest"}
            )
            reader.subscribe(["lines"])
            seen: list[str] = []

            def has_come(count: int) -> bool:
                while (record := reader.poll(0.5)) is not None:
                    if not record.error():
                        value = record.value()
                        assert value is not None
                        seen.append(json.loads(value)["payload"])
                return len(set(seen)) >= count

            until(lambda: has_come(100), said, seconds=180)
            (pod,) = cluster.pods.values()
            assert pod["spec"]["securityContext"]["runAsUser"] == 10001
            assert pod["spec"]["containers"][0]["image"].startswith("ottla-connect:")
            (name,) = cluster.pods
            cluster.processes[name].kill()
            until(lambda: len(cluster.processes) > 1, said, seconds=120)
            with source.open("a") as more:
                more.write("".join(f"{number}\n" for number in range(100, 150)))
            until(lambda: has_come(150), said, seconds=180)
            until(lambda: state() == "RUNNING", said, seconds=60)
            assert set(seen) == {str(number) for number in range(150)}
            reader.close()
        until(lambda: not cluster.pods, lambda: sorted(cluster.pods), seconds=60)
        assert cluster.refused == []
