"""`ottla registry start` as a process of its own, and asking it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.processes import end

__all__ = ["AVRO", "Asked", "RegistryProcess", "record", "running_registry", "start_registry"]

READY_SECONDS_MAX = 100.0
V1 = "application/vnd.schemaregistry.v1+json"
AVRO = '{"type":"record","name":"A","fields":[]}'


def record(name: str, *fields: str) -> str:
    """Return an Avro record of whole numbers."""
    found = [{"name": each, "type": "int"} for each in fields]
    return json.dumps({"type": "record", "name": name, "fields": found}, separators=(",", ":"))


@dataclass(frozen=True)
class Asked:
    """An answer."""

    status: int
    body: Any
    headers: dict[str, str]


@dataclass
class RegistryProcess:
    """An instance's process; `lines` is what it has printed so far, standard error included."""

    process: subprocess.Popen[str]
    url: str = ""
    lines: list[str] = field(default_factory=list)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Asked:
        """Return an answer of whatever status; headers' names have `_` for `-`."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data, {"Content-Type": V1, **named}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return _asked(answer.status, answer.read(), answer.headers)
        except urllib.error.HTTPError as error:
            return _asked(error.code, error.read(), error.headers)

    def get(self, path: str) -> Any:
        """Return a body that has to be there."""
        found = self.ask("GET", path)
        assert found.status == 200, found
        return found.body

    def error(self, method: str, path: str, body: Any = None) -> tuple[int, int, str]:
        """Return status, code and words of a refusal."""
        found = self.ask(method, path, body)
        assert found.status >= 400, found
        return found.status, found.body["error_code"], found.body["message"]

    def register(self, subject: str, schema: str = AVRO, **more: Any) -> int:
        """Register a schema, and return its id."""
        found = self.ask("POST", f"/subjects/{subject}/versions", {"schema": schema, **more})
        assert found.status == 200, found
        return int(found.body["id"])

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.process.kill()
        self.process.wait()

    def said(self) -> str:
        """Return all that it has printed."""
        return "".join(self.lines)


def _asked(status: int, body: bytes, headers: Any) -> Asked:
    try:
        found = json.loads(body) if body else None
    except ValueError:
        found = body.decode()
    return Asked(status, found, dict(headers.items()))


def start_registry(bootstrap: str, *, port: int = 0, overrides: Sequence[str] = ()) -> RegistryProcess:
    """Start an instance; returns when it has printed `ready`, or has ended."""
    command = [sys.executable, "-m", "ottla.cli.main", "registry", "start", "--bootstrap-server", bootstrap]
    listeners = (
        [] if any(each.startswith("listeners=") for each in overrides) else [f"listeners=http://127.0.0.1:{port}"]
    )
    for each in (*listeners, *overrides):
        command += ["--override", each]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    registry = RegistryProcess(process)
    ready = threading.Event()
    threading.Thread(target=_read, args=(registry, ready), daemon=True).start()
    ready.wait(READY_SECONDS_MAX)
    return registry


def _read(registry: RegistryProcess, ready: threading.Event) -> None:
    assert registry.process.stdout is not None
    for line in registry.process.stdout:
        registry.lines.append(line)
        if line.startswith("ready ") and not registry.url:
            registry.url = line.split()[1]
            ready.set()
    ready.set()


@contextmanager
def running_registry(bootstrap: str, *, port: int = 0, overrides: Sequence[str] = ()) -> Iterator[RegistryProcess]:
    """Run an instance until the block ends."""
    registry = start_registry(bootstrap, port=port, overrides=overrides)
    try:
        assert registry.url, registry.said()
        yield registry
    finally:
        end(registry.process, 60)
