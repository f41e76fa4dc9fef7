"""The brokers that are measured: how they start, and what the operating system says of their processes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ottla.wire import ApiKey, read_response
from ottla.wire.messages.api_versions import ApiVersionsResponse
from tests import peer
from tests.ports import free_port
from tests.processes import end

__all__ = ["KAFKA", "KAFKA_VERSION", "Kafka", "Ottla", "System"]

KAFKA = "kafka"
KAFKA_VERSION = "4.3.0"
"""Of the jars that `make peer` fetches."""
READY_SECONDS_MAX = 180.0
PROBE = b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"
"""ApiVersions version 0, which every broker answers."""


@dataclass
class System:
    """A broker on 127.0.0.1, started by `start` and ended by `stop`."""

    name: str
    folder: Path
    port: int = 0
    pid: int = 0
    overrides: tuple[str, ...] = ()
    """Settings of the broker beside its port and folder, `key=value`."""
    loads: Mapping[str, Any] = field(default_factory=dict)
    """What loads are told of their way in, where that is not the broker's port in clear."""
    _stack: ExitStack = field(default_factory=ExitStack)

    @property
    def bootstrap(self) -> str:
        """host:port of the broker."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start with an empty folder and return when the broker answers."""
        raise NotImplementedError

    def halt(self) -> None:
        """Stop and keep the data: `start` goes on with it."""
        self._stack.close()

    def stop(self) -> None:
        """Stop, and remove the data."""
        self.halt()
        shutil.rmtree(self.folder, ignore_errors=True)

    def serves(self, api_key: int) -> bool:
        """Return whether the broker has this API."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(PROBE)
            with connection.makefile("rb") as answer:
                frame = answer.read(int.from_bytes(answer.read(4), "big"))
        _, response = read_response(ApiVersionsResponse, memoryview(frame), ApiKey.API_VERSIONS, 0)
        return any(each.api_key == api_key for each in response.api_keys)

    def _tree(self) -> list[psutil.Process]:
        parent = psutil.Process(self.pid)
        return [parent, *parent.children(recursive=True)]

    def cpu_times(self) -> tuple[float, float]:
        """Return the broker's processor time in user mode and in the kernel, its worker processes included (seconds)."""
        times = [process.cpu_times() for process in self._tree()]
        return sum(each.user for each in times), sum(each.system for each in times)

    def cpu_seconds(self) -> float:
        """Return the processor time that the broker has used, its worker processes included."""
        return sum(self.cpu_times())

    def memory_mib(self) -> float:
        """Return resident memory, worker processes included."""
        return float(sum(process.memory_info().rss for process in self._tree()) / (1 << 20))


class Kafka(System):
    """Apache Kafka with the heap that its own scripts give it, 1 GiB."""

    def start(self) -> None:
        """Format and start a one-node KRaft broker."""
        self.port = self.port or free_port()
        broker = peer.running_broker(
            self.folder, self.port, overrides=self.overrides, flags=peer.FULL_SPEED, timeout=READY_SECONDS_MAX
        )
        process = self._stack.enter_context(broker)
        self.pid = process.pid


class Ottla(System):
    """Ottla with no configuration but its port and folder; `pure` runs it without compiled modules."""

    def start(self) -> None:
        """Start `ottla server start`; the folder is formatted on the way."""
        self.port = self.port or free_port()
        self.folder.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **({"OTTLA_PURE": "1"} if self.name == "pure" else {})}
        command = [sys.executable, "-m", "ottla.cli.main", "server", "start"]
        places = (f"listeners=PLAINTEXT://{self.bootstrap}", f"log.dirs={self.folder / 'data'}")
        for setting in (*places, *self.overrides):
            command += ["--override", setting]
        output = (self.folder / "broker.out").open("ab")
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        self.pid = process.pid
        self._stack.callback(output.close)
        self._stack.callback(end, process, 30)
        await_answer(process, self.port)


def await_answer(process: subprocess.Popen[bytes], port: int) -> None:
    """Return when the broker answers; raises RuntimeError when it ends or takes too long."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the broker ended with exit code {process.returncode}")
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(PROBE)
                if connection.recv(4):
                    return
        except OSError:
            time.sleep(0.005)
    raise RuntimeError(f"the broker did not answer on port {port}")
