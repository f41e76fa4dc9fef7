"""What is killed: the workers and all below them, and the way to the store."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.processes import below, command_of, end, python_workers

__all__ = ["Gate", "Worker"]

ROOT = Path(__file__).parents[3]
JVM = "SparkSubmit"
STOP_SECONDS_MAX = 60.0
CHUNK_BYTES = 65536
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER for a close that is a reset."""


class Worker:
    """One distributed worker, over all its lives: `ottla connect-distributed` with Spark under it."""

    def __init__(self, number: int, folder: Path, port: int, properties: Mapping[str, str]) -> None:
        self.number, self.port = number, port
        self._folder, self._known = folder, set[int]()
        self._path = folder / f"worker-{number}.properties"
        own = {**properties, "listeners": f"http://127.0.0.1:{port}"}
        self._path.write_text("".join(f"{key}={value}\n" for key, value in own.items()))
        self.process: subprocess.Popen[bytes] | None = None
        self.is_wanted = False

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it; it answers some seconds later."""
        self.is_wanted = True
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with (self._folder / f"worker-{self.number}.out").open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ottla.cli.main", "connect-distributed", str(self._path)],
                stdout=out,
                stderr=out,
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )

    def tasks(self) -> list[int]:
        """Return the processes of its tasks."""
        return python_workers(self._all())

    def machines(self) -> list[int]:
        """Return its JVM, which is Spark's driver and executor."""
        return sorted(pid for pid in self._all() if JVM in command_of(pid))

    def _all(self) -> set[int]:
        found = below(self.process.pid) if self.process is not None and self.is_alive else set()
        self._known |= found
        return found

    def signal_one(self, pids: list[int], number: int, rng: random.Random) -> int | None:
        """Send a signal to one of these processes; returns which, None where there is none."""
        if not pids:
            return None
        chosen = rng.choice(pids)
        try:
            os.kill(chosen, number)
        except ProcessLookupError:
            return None
        return chosen

    def signal_all(self, number: int) -> list[int]:
        """Send a signal to the worker and everything below it; returns the processes."""
        found = sorted(self._all())
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return found

    def kill(self) -> None:
        """End its own process as `kill -9` does; what it has started lives on as long as it likes."""
        self._all()
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """Ask it to stop; it leaves its group and goes on ending by itself."""
        self.is_wanted = False
        self._all()
        if self.process is not None and self.is_alive:
            self.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """End it with everything that it ever started and that is known to be its own."""
        self.is_wanted = False
        self._all()
        if self.process is not None:
            end(self.process, STOP_SECONDS_MAX)
        for pid in self._known:
            if str(ROOT) in command_of(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class Gate:
    """A port that leads to another; shut, it resets every connection and takes none, as a server does that is killed.

    moto keeps its objects in memory, so a kill of the server itself would lose what it has acknowledged.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = self._listening(0)
        self.port: int = self._listener.getsockname()[1]

    def _listening(self, port: int) -> socket.socket:
        made = socket.create_server(("127.0.0.1", port), backlog=64)
        threading.Thread(target=self._accept, args=(made,), daemon=True).start()
        return made

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            with self._lock:
                self._open |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(CHUNK_BYTES):
                other.sendall(data)
        except OSError:
            pass
        with self._lock:
            self._open -= {one, other}
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def shut(self) -> None:
        """Reset every connection, and take no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            broken, self._open = self._open, set()
        for each in broken:
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                each.shutdown(socket.SHUT_RDWR)

    def open(self) -> None:
        """Take connections again."""
        self._listener = self._listening(self.port)
