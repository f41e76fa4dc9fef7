"""`ottla sql server` as a process of its own, and asking it."""

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
from tests.waiting import until

__all__ = ["Asked", "SqlProcess", "begun_sql", "running_sql", "start_sql"]

READY_SECONDS_MAX = 100.0
PROGRAM = ("ottla.cli.main", "sql", "server")
DELIMITED = "application/vnd.ksqlapi.delimited.v1"


@dataclass(frozen=True)
class Asked:
    """An answer."""

    status: int
    body: Any
    headers: dict[str, str]


@dataclass
class SqlProcess:
    """A server's process; `lines` is what it has printed so far, standard error included."""

    process: subprocess.Popen[str]
    url: str = ""
    lines: list[str] = field(default_factory=list)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Asked:
        """Return an answer of whatever status; headers' names have `_` for `-`."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data, named, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return _asked(answer.status, answer.read(), answer.headers)
        except urllib.error.HTTPError as error:
            return _asked(error.code, error.read(), error.headers)

    def ksql(self, text: str, **properties: str) -> list[dict[str, Any]]:
        """Carry statements out, and return their answers."""
        given = {
            "auto.offset.reset": "earliest",
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
        found = self.ask("POST", "/ksql", {"ksql": text, "streamsProperties": given})
        assert found.status == 200, found
        answers: list[dict[str, Any]] = found.body
        return answers

    def follow(self, made: dict[str, Any]) -> None:
        """Return when this server has taken in what another has answered to a statement."""
        number = made["commandSequenceNumber"]
        found = self.ask("POST", "/ksql", {"ksql": "LIST STREAMS;", "commandSequenceNumber": number})
        assert found.status == 200, found

    def refused(self, text: str, path: str = "/ksql") -> tuple[int, int, str]:
        """Return status, code and words of a refusal."""
        found = self.ask("POST", path, {"ksql": text})
        assert found.status >= 400, found
        return found.status, found.body["error_code"], found.body["message"]

    def rows(self, text: str, **properties: str) -> list[Any]:
        """Return a query's rows."""
        given = {
            "auto.offset.reset": "earliest",
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
        found = self.ask("POST", "/query-stream", {"sql": text, "properties": given}, Accept="application/json")
        assert found.status == 200, found
        rows: list[Any] = found.body[1:]
        return rows

    def wait_rows(self, text: str, rows: Sequence[Any]) -> None:
        """Return when a pull query gives these rows, in whatever order."""
        found: list[Any] = []

        def same() -> bool:
            found[:] = self.rows(text)
            return sorted(found, key=str) == sorted(rows, key=str)

        until(same, lambda: f"{text}: {found} are not {rows}; {self.said()}")

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


def start_sql(
    bootstrap: str,
    *,
    port: int = 0,
    overrides: Sequence[str] = (),
    options: Sequence[str] = (),
    wait: bool = True,
    program: Sequence[str] = PROGRAM,
) -> SqlProcess:
    """Start a server; returns when it has printed `ready`, or has ended, at once where it is not to `wait`."""
    command = [sys.executable, "-m", *program, "--bootstrap-server", bootstrap, *options]
    if "--engine" not in options:
        command += ["--engine", "python"]
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
    found = SqlProcess(process)
    ready = threading.Event()
    threading.Thread(target=_read, args=(found, ready), daemon=True).start()
    if wait:
        ready.wait(READY_SECONDS_MAX)
    return found


def _read(found: SqlProcess, ready: threading.Event) -> None:
    assert found.process.stdout is not None
    for line in found.process.stdout:
        found.lines.append(line)
        if line.startswith("ready ") and not found.url:
            found.url = line.split()[1]
            ready.set()
    ready.set()


@contextmanager
def begun_sql(bootstrap: str, overrides: Sequence[str]) -> Iterator[SqlProcess]:
    """Run a server until the block ends, which begins before it is ready."""
    found = start_sql(bootstrap, overrides=overrides, wait=False)
    try:
        yield found
    finally:
        end(found.process, 60)


@contextmanager
def running_sql(
    bootstrap: str, *, port: int = 0, overrides: Sequence[str] = (), options: Sequence[str] = ()
) -> Iterator[SqlProcess]:
    """Run a server until the block ends."""
    found = start_sql(bootstrap, port=port, overrides=overrides, options=options)
    try:
        assert found.url, found.said()
        yield found
    finally:
        end(found.process, 60)
