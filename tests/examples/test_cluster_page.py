"""The page about a cluster's administration: its commands, on a cluster that is started as the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.examples.test_pages import ROOT, SECONDS_MAX, commands, pattern
from tests.ports import free_port

PAGE = "docs/cluster-administration.md"
READY_SECONDS_MAX = 100.0
SETTLED_SECONDS_MAX = 100.0
READING = re.compile(r"describe|list|verify|doctor")


@cache
def first_port() -> int:
    """Return the port that stands for the page's 9092."""
    return free_port()


def here(text: str) -> str:
    """Return text of the page with this test's ports: 9092 and those after it, and the controllers' from 9192 on."""
    return re.sub(r"\b9([01])9(\d)\b", lambda found: str(first_port() + 100 * int(found[1]) + int(found[2]) - 2), text)


@contextmanager
def running(folder: Path, *words: str) -> Iterator[None]:
    """Run `ottla …` in the background, from when it says that it is ready to the end of the block."""
    log = folder / f"{words[0]}.out"
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "ottla.cli.main", *words], stdout=out, stderr=out, cwd=folder)
    try:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not re.search(r"^ready", log.read_text(), re.MULTILINE):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(READY_SECONDS_MAX)


def told(command: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", here(command)],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env=environment,
        cwd=folder,
        check=False,
    )


def try_commands(found: list[tuple[str, str]], folder: Path, environment: dict[str, str]) -> None:
    """Run commands; one that only looks is run until it shows what the page shows."""
    for command, printed in found:
        wanted = pattern(re.sub(r" {2,}", " ", here(printed)))
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while True:
            done = told(command, folder, environment)
            if done.returncode == 0 and wanted.fullmatch(re.sub(r" {2,}", " ", done.stdout)):
                break
            again = READING.search(command) and time.monotonic() < deadline
            assert again, f"{command}\nprinted\n{done.stdout}{done.stderr}\nthe page shows\n{printed}"
            time.sleep(0.2)


@pytest.mark.slow  # three brokers and some sixty commands, each of which has tests of its own
def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "ottla"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla.cli.main "$@"\n')
    program.chmod(0o755)
    text = (ROOT / PAGE).read_text()
    (settings,) = re.findall(r"^```properties\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "4.properties").write_text(here(settings))
    (start,) = re.findall(r"^ottla (cluster start .*)", text, re.MULTILINE)
    found = commands(PAGE)
    formatted = next(at for at, (command, _) in enumerate(found, 1) if command.startswith("ottla storage format"))
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "OTTLA_BOOTSTRAP_SERVERS": here("127.0.0.1:9092,127.0.0.1:9093"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
    with running(tmp_path, *here(start).split()):
        try_commands(found[:formatted], tmp_path, environment)
        with running(tmp_path, "server", "start", "4.properties"):
            try_commands(found[formatted:], tmp_path, environment)
