"""As much of Kubernetes' interface as a driver of Spark asks for: pods are processes of this machine.

A pod's container is started with the arguments and the variables that Spark has given it, by the script that the image has
as its entry point; a pod whose process has ended is shown as such.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

UNTIL_KILLED = 9


@dataclass
class Cluster:
    """What there is: pods and their processes."""

    entry: Sequence[str]
    folder: Path
    url: str = ""
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    """What was asked for that nobody here knows."""

    def make(self, pod: dict[str, Any]) -> dict[str, Any]:
        name = pod["metadata"]["name"]
        pod["metadata"] |= {"uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"}
        (container,) = pod["spec"]["containers"]
        given = {"status.podIP": "127.0.0.1", "metadata.name": name}
        variables = {}
        for each in container["env"]:
            path = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            variables[each["name"]] = each.get("value") or given.get(path, "")
        local = self.folder / name
        local.mkdir()
        variables["SPARK_LOCAL_DIRS"] = variables["SPARK_CONF_DIR"] = str(local)
        with open(local / "log", "wb") as log:
            self.processes[name] = subprocess.Popen(
                [*self.entry, *container["args"]], env={**os.environ, **variables}, stdout=log, stderr=log, cwd=local
            )
        self.pods[name] = pod
        return pod

    def shown(self, name: str) -> dict[str, Any]:
        pod, process = self.pods[name], self.processes[name]
        code = process.poll()
        status: dict[str, Any] = {"phase": "Running" if code is None else "Failed", "podIP": "127.0.0.1"}
        state = {"running": {}} if code is None else {"terminated": {"exitCode": abs(code), "reason": "Error"}}
        status["containerStatuses"] = [
            {"name": pod["spec"]["containers"][0]["name"], "state": state, "ready": code is None}
        ]
        return {**pod, "status": status}

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self.pods.pop(name, None)
            if process := self.processes.get(name):
                process.kill()
                process.wait(20)

    def chosen(self, selector: str) -> list[str]:
        wanted = dict(each.split("=", 1) for each in selector.split(",") if "=" in each and "!=" not in each)
        return [
            name
            for name, pod in self.pods.items()
            if all(pod["metadata"]["labels"].get(key) == value for key, value in wanted.items())
        ]


def _handler(cluster: Cluster) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            parts = urlsplit(self.path)
            query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
            status, answer = self._answered(parts.path, query, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _answered(self, path: str, query: Mapping[str, str], body: dict[str, Any]) -> tuple[int, object]:
            kind, _, name = path.partition("/namespaces/default/")[2].partition("/")
            names = [name] if name else cluster.chosen(query.get("labelSelector", ""))
            if kind == "pods" and self.command == "POST":
                return 201, cluster.make(body)
            if kind == "pods" and self.command == "DELETE":
                cluster.delete(names)
                return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
            if kind == "pods" and name and self.command == "GET":
                known = name in cluster.pods
                driver = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "uid": "driver"}, "spec": {}}
                return 200, cluster.shown(name) if known else {**driver, "status": {"phase": "Running"}}
            if kind == "pods" and name and self.command == "PATCH":
                return 200, cluster.shown(name)
            if self.command == "GET":
                items = [cluster.shown(each) for each in names] if kind == "pods" and "watch" not in query else []
                return 200, {
                    "kind": "PodList",
                    "apiVersion": "v1",
                    "metadata": {"resourceVersion": "1"},
                    "items": items,
                }
            if self.command == "POST":
                body["metadata"] |= {"uid": "uid", "creationTimestamp": "2026-01-01T00:00:00Z"}
                return 201, body
            if self.command != "DELETE":
                cluster.refused.append(f"{self.command} {self.path}")
            return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _answer

    return Handler


@contextmanager
def running_cluster(entry: Sequence[str], folder: Path) -> Iterator[Cluster]:
    """Kubernetes' interface on this machine; every pod has ended when the block ends."""
    cluster = Cluster(entry, folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(cluster))
    cluster.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield cluster
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
        cluster.delete(list(cluster.processes))
