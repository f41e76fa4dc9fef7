"""A console as a process beside a broker, and its interface asked as a page asks it."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.waiting import until

LINK = re.compile(r"console (http\S+?)/(?:#key=(\S+))?$", re.MULTILINE)


@dataclass
class Answer:
    """A status, the headers and the JSON of an answer, or its text."""

    status: int
    headers: Any
    body: Any


@dataclass
class RunningConsole:
    """A console's process and one session with it."""

    process: subprocess.Popen[str]
    lines: list[str]
    cookie: str = ""
    token: str = ""
    base: str = ""
    more: dict[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None

    def link(self) -> str:
        """The newest link that it has printed."""
        return [found[0] for line in list(self.lines) if (found := re.findall(r"console (http\S+)", line))][-1]

    def log_in(self) -> None:
        """Open a session with the newest link."""
        self.base, key = LINK.findall(f"console {self.link()}")[0]
        assert self.enter({"key": key}).status == 200

    def as_user(self, user: str, password: str, mechanism: str = "PLAIN") -> RunningConsole:
        """The same console for another session, that of a user who logs in."""
        other = RunningConsole(self.process, self.lines, base=self.base, tls=self.tls)
        answer = other.enter({"user": user, "password": password, "mechanism": mechanism})
        assert answer.status == 200, answer
        return other

    def enter(self, body: dict[str, str]) -> Answer:
        """Try to begin a session."""
        answer = self.ask("POST", "/api/login", body)
        if answer.status == 200:
            self.cookie = answer.headers["Set-Cookie"].split(";")[0]
            self.token = answer.body["token"]
        return answer

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Ask for a path, with the session's cookie and token where there are any; again where that was too quick."""
        answers: list[Answer] = []

        def asked() -> bool:
            answers[:] = [self._ask(method, path, body, **headers)]
            return not (answers[0].status == 429 and "calls a second" in str(answers[0].body))

        until(asked, every=0.1)
        return answers[0]

    def _ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        said = {"Content-Type": "application/json", **self.more, **headers}
        if self.cookie:
            said |= {"Cookie": self.cookie, "X-Ottla-Token": said.get("X-Ottla-Token", self.token)}
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, method=method, data=sent, headers=said)
        try:
            with urllib.request.urlopen(request, timeout=60, context=self.tls) as answer:
                data = answer.read()
                is_parquet = "parquet" in (answer.headers["Content-Type"] or "")
                return Answer(answer.status, answer.headers, data if is_parquet else _read(data))
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, _read(error.read()))

    def get(self, path: str) -> Any:
        """What is answered of the cluster at a path."""
        answer = self.ask("GET", f"/api/c/cluster{path}")
        assert answer.status == 200, answer
        return answer.body

    def given(self, path: str = "/c/cluster") -> dict[str, Any]:
        """The answers that a page is sent with."""
        (found,) = re.findall(r'id="given">(.*?)</script>', self.ask("GET", path).body, re.DOTALL)
        answers: dict[str, Any] = json.loads(found)
        return answers

    def post(self, path: str, body: Any) -> Answer:
        """Ask for a change."""
        return self.ask("POST", f"/api/c/cluster{path}", body)

    def scan(self, **asked: Any) -> list[Any]:
        """All frames of a search."""
        answer = self.post("/scans", asked)
        assert answer.status == 200, answer
        lines = answer.body.splitlines() if isinstance(answer.body, str) else [json.dumps(answer.body)]
        return [json.loads(line) for line in lines]

    def run(self, action: str, typed: str | None = None, **arguments: Any) -> Answer:
        """Plan an action and run it."""
        plan = self.post("/plans", {"action": action, "arguments": arguments})
        assert plan.status == 201, plan
        return self.post(f"/plans/{plan.body['id']}/run", {"hash": plan.body["hash"], "typed": typed})


def _read(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")


@contextmanager
def running_console(
    bootstrap: str, *options: str, log_in: bool = True, listen: str = "127.0.0.1:0"
) -> Iterator[RunningConsole]:
    """A console over brokers, with a session open; it has ended when the block ends."""
    command = [sys.executable, "-m", "ottla.cli.main", "console", "--bootstrap-server", bootstrap]
    yield from _serving([*command, "--listen", listen, *options], log_in=log_in)


def _serving(command: Sequence[str], *, log_in: bool) -> Iterator[RunningConsole]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    console = RunningConsole(process, [])
    assert process.stdout is not None
    stdout = process.stdout
    reading = threading.Thread(target=lambda: console.lines.extend(iter(stdout.readline, "")), daemon=True)
    reading.start()
    try:
        until(
            lambda: process.poll() is not None or any(LINK.search(line) for line in list(console.lines)),
            lambda: console.lines,
        )
        assert process.poll() is None, console.lines
        console.base = LINK.findall(f"console {console.link()}")[0][0]
        if log_in:
            console.log_in()
        yield console
    finally:
        process.terminate()
        process.wait(30)
        reading.join(30)
    assert "Traceback" not in "".join(console.lines), console.lines
