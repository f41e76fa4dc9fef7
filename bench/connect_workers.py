"""The Connect workers that are measured: Ottla's and Apache Kafka's, standalone, on one Ottla broker."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.systems import KAFKA
from tests.peer import debezium
from tests.peer.connect.worker import running_worker
from tests.ports import free_port

__all__ = ["OTTLA", "KafkaConnect", "OttlaConnect", "Worker"]

ROOT = Path(__file__).resolve().parents[1]
OTTLA = "ottla"
START_SECONDS_MAX, STOP_SECONDS_MAX = 90.0, 30.0
REQUEST_SECONDS_MAX = 60.0
LOOK_SECONDS = 0.02
MIB = 1 << 20


@dataclass
class Worker:
    """A worker that answers REST on 127.0.0.1, started by `start` and ended by `stop`."""

    bootstrap: str
    folder: Path
    name: str = ""
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and return when it answers."""
        raise NotImplementedError

    def stop(self) -> None:
        """End it."""
        raise NotImplementedError

    def create(self, name: str, config: dict[str, str]) -> None:
        """Create a connector; raises RuntimeError with what the worker says."""
        self._ask("POST", "/connectors", {"name": name, "config": config})

    def delete(self, name: str) -> None:
        """Delete a connector, which ends its tasks."""
        self._ask("DELETE", f"/connectors/{name}")

    def trouble(self, name: str) -> str | None:
        """Return what a connector or a task of it failed with, None where none has."""
        status = self._ask("GET", f"/connectors/{name}/status")
        parts = [status["connector"], *status["tasks"]]
        return next((each.get("trace", "FAILED") for each in parts if each["state"] == "FAILED"), None)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_SECONDS_MAX)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path} was answered {answer.status}: {text.decode(errors='replace')[:500]}")
        return json.loads(text) if text else None

    def processes(self) -> list[psutil.Process]:
        """Return the worker's processes."""
        assert self.process is not None
        whole = psutil.Process(self.process.pid)
        return [whole, *whole.children(recursive=True)]

    def memory_mib(self) -> float:
        """Return the memory of all its processes, shared pages counted once (PSS)."""
        total = 0
        for each in self.processes():
            try:
                total += each.memory_full_info().pss
            except psutil.Error:
                continue
        return total / MIB

    def cpu_s(self) -> float:
        """Return the processor time of all its processes."""
        total = 0.0
        for each in self.processes():
            try:
                times = each.cpu_times()
            except psutil.Error:
                continue
            total += times.user + times.system
        return total


@dataclass
class OttlaConnect(Worker):
    """`ottla connect-standalone`."""

    name: str = OTTLA

    def start(self) -> None:
        """See `Worker`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "worker.properties"
        properties.write_text(
            f"bootstrap.servers={self.bootstrap}\nlisteners=http://127.0.0.1:{self.port}\n"
            "key.converter=org.apache.kafka.connect.json.JsonConverter\n"
            "value.converter=org.apache.kafka.connect.json.JsonConverter\n"
            f"plugin.path={ROOT / 'bench' / 'plain_connectors.py'}\n"
            f"offset.flush.interval.ms=1000\noffset.storage.file.filename={self.folder / 'offsets'}\n"
        )
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "ottla.cli.main", "connect-standalone", str(properties)]
        with (self.folder / "worker.out").open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": path}, start_new_session=True
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                said = (self.folder / "worker.out").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the worker does not start:\n{said}")
            time.sleep(LOOK_SECONDS)

    def _answers(self) -> bool:
        try:
            self._ask("GET", "/health")
        except (OSError, RuntimeError, http.client.HTTPException):
            return False
        return True

    def stop(self) -> None:
        """See `Worker`."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass
class KafkaConnect(Worker):
    """Apache Kafka's ConnectStandalone."""

    name: str = KAFKA
    _stack: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        """See `Worker`."""
        lines = [] if debezium.missing() else [f"plugin.path={debezium.plugins()}"]
        running = running_worker(
            "standalone", self.folder, self.bootstrap, self.port, options=("-Xmx1g",), properties=lines
        )
        self.process = self._stack.enter_context(running)

    def stop(self) -> None:
        """See `Worker`."""
        self._stack.close()
