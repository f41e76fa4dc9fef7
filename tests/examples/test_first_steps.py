"""The first steps of a new user, word for word: README, then the slower page, in one go, in an empty folder, on the server
that they start. Nothing is repaired between two steps, so none may stand in the way of a later one.

What differs from the page is the port, which is this test's own. Steps on Spark are tried where slow tests are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.examples.test_pages import ROOT, pattern
from tests.ports import free_port

PAGES = ["README.md", "docs/five-minutes.md"]
PREPARED = re.compile(r"make |source \.venv/bin/activate")
"""What has been done here before: `ottla` is on the path."""
LASTING = re.compile(r"ottla (server start|streams run|console-consumer)")
ON_SPARK = re.compile(r"ottla streams|ottla\.spark|LongDeserializer")
SECONDS_MAX = 100.0
SPARK_SECONDS_MAX = 120


@dataclass(frozen=True)
class Step:
    """A command line, or a Python program; `printed` is what the page shows of it, None where it shows nothing."""

    text: str
    is_python: bool = False
    printed: str | None = None

    @property
    def on_spark(self) -> bool:
        return ON_SPARK.search(self.text) is not None


def steps(page: str) -> Iterator[Step]:
    """Yield the steps of a page in order."""
    text = (ROOT / page).read_text()
    for kind, block in re.findall(r"^```(console|python|)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if kind == "python":
            yield Step(block, is_python=True)
        elif kind == "console":
            for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                line, _, printed = command.partition("\n")
                yield Step(line, printed=printed)
        else:
            for line in block.replace("\\\n", "").splitlines():
                if not PREPARED.match(line):
                    yield Step(line)


@dataclass
class Terminal:
    """A user's folder and environment; what goes on in the background is ended with `going`."""

    folder: Path
    environment: dict[str, str]
    port: int
    going: ExitStack
    running: dict[str, Path] = field(default_factory=dict)

    def do(self, step: Step) -> None:
        """Do a step, and compare with what the page shows."""
        if LASTING.match(step.text):
            self._begin(step)
            return
        until = time.monotonic() + (SPARK_SECONDS_MAX if step.on_spark else 0)
        done = self._done(step)
        while done.returncode != 0 and time.monotonic() < until:  # a result that comes in a moment
            done = self._done(step)
        assert done.returncode == 0, f"{step.text}\n{done.stderr}\n{self._logs()}"
        assert step.printed is None or pattern(step.printed).fullmatch(done.stdout), f"{step.text}\n{done.stdout}"

    def _begin(self, step: Step) -> None:
        """Start what goes on; wait until a server is ready. A second start of the same is what a reader leaves out."""
        command = step.text.partition("#")[0].strip()
        if command in self.running:
            return
        log = self.running[command] = self.folder / f"{len(self.running)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {self._here(command)}"],
                stdout=out,
                stderr=out,
                cwd=self.folder,
                env=self.environment,
            )
        self.going.callback(process.wait)
        self.going.callback(process.terminate)
        until = time.monotonic() + SECONDS_MAX
        while command == "ottla server start" and "\nready " not in log.read_text():
            assert process.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.05)

    def _done(self, step: Step) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c"] if step.is_python else ["bash", "-o", "pipefail", "-c"]
        return subprocess.run(
            [*words, self._here(step.text)],
            capture_output=True,
            text=True,
            timeout=SPARK_SECONDS_MAX,
            env=self.environment,
            cwd=self.folder,
            check=False,
        )

    def _here(self, text: str) -> str:
        return text.replace("localhost:9092", f"127.0.0.1:{self.port}")

    def _logs(self) -> str:
        return "\n".join(log.read_text() for log in self.running.values())


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    program = tmp_path / "bin" / "ottla"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla.cli.main "$@"\n')
    program.chmod(0o755)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    port = free_port()
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONUNBUFFERED": "1",
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "OTTLA_BOOTSTRAP_SERVERS": f"127.0.0.1:{port}",
    }
    with ExitStack() as going:
        yield Terminal(tmp_path, environment, port, going)


def test_the_first_steps_go_one_after_the_other_in_an_empty_folder(terminal: Terminal) -> None:
    for page in PAGES:
        for step in steps(page):
            if not step.on_spark:
                terminal.do(step)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_first_steps_go_one_after_the_other_on_spark_too(terminal: Terminal) -> None:
    for page in PAGES:
        for step in steps(page):
            terminal.do(step)
    [shown] = [log for command, log in terminal.running.items() if command.startswith("ottla console-consumer")]
    until = time.monotonic() + SPARK_SECONDS_MAX
    while not re.search(r"^kafka\t\d+$", shown.read_text(), re.MULTILINE):
        assert time.monotonic() < until, shown.read_text()
        time.sleep(0.1)
