"""What the demonstrations beside this file share: processes under a supervisor, and connectors made over REST."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.commands.demo import DemoError, run_demo
from ottla.cli.options import Options

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["PLAIN_JSON", "Part", "created", "free_port", "run_on_postgres"]

STOP_SECONDS_MAX = 20.0
ANSWER_SECONDS_MAX = 100.0
JSON = "org.apache.kafka.connect.json.JsonConverter"
PLAIN_JSON = {"key.converter": JSON, "key.converter.schemas.enable": "false"} | {
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}


@dataclass
class Part:
    """A process that is started again when it ends; `ready` is what its output shows once it works."""

    name: str
    command: Sequence[str]
    log: Path
    ready: str
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    _read_from: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Start the process in a group of its own."""
        with self.log.open("ab") as out:
            self._read_from = out.tell()
            self.process = subprocess.Popen(
                self.command,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **self.environment},
            )
        self.starts += 1

    def supervise(self) -> None:
        """Start the process again where it has ended."""
        if self.process is None or self.process.poll() is not None:
            self.start()

    def state(self) -> str:
        """Return `ready`, `starting` or `down`."""
        if self.process is None or self.process.poll() is not None:
            return "down"
        return "ready" if re.search(self.ready, self.output(), re.MULTILINE) else "starting"

    def output(self) -> str:
        """Return what the process has printed since it was last started."""
        with self.log.open("rb") as file:
            file.seek(self._read_from)
            return file.read().decode(errors="replace")

    def kill(self) -> None:
        """End the process and all that it has started, as `kill -9` does."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Ask the process to end, and see to it that it does."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS_MAX)


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_on_postgres(name: str, about: str, argv: list[str] | None, run: Callable[[Console, Path, str], bool]) -> int:
    """Run a demonstration in a folder of its own on the database that is named; returns 0 where what it compares is equal.

    That database is `OTTLA_POSTGRES_URL`.
    """
    from rich.console import Console

    Options(name, about).parse(argv or [])
    console = Console(highlight=False)
    url = os.environ.get("OTTLA_POSTGRES_URL")
    if not url:
        console.print(f"[red]{name}: OTTLA_POSTGRES_URL names no database; `make {name}` starts one[/red]")
        return 1
    folder = Path(tempfile.mkdtemp(prefix=f"ottla-{name}-"))
    try:
        return run_demo(console, name, lambda: 0 if run(console, folder, url) else 1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def created(rest: str, name: str, config: Mapping[str, str]) -> bool:
    """Create a connector; returns false where the worker cannot yet, raises DemoError where it refuses."""
    body = json.dumps({"name": name, "config": config}).encode()
    request = urllib.request.Request(f"{rest}/connectors", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX):
            return True
    except urllib.error.HTTPError as error:
        if error.code == 409:  # the group is about to move connectors
            return False
        raise DemoError(f"connector {name}: {error.read().decode(errors='replace')}") from error
    except OSError:
        return False
