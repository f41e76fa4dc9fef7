"""`--watch` repeats until interrupted; `--dry-run` and `--yes` stand before what is destroyed."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ottla.cli.confirmation import confirmed
from tests.cli.conftest import Run
from tests.server import running_server


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("ottla")) as server:
        yield server.bootstrap


@pytest.fixture(autouse=True)
def environment(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", bootstrap)


def test_watch_prints_again_until_interrupted(run: Run) -> None:
    assert run("topics --create --topic w").code == 0
    command = [sys.executable, "-m", "ottla.cli.main", "topics", "--describe", "-o", "jsonl", "--watch", "0.05"]
    watching = subprocess.Popen([*command, "--topic", "w"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    for _ in range(3):
        assert json.loads(watching.stdout.readline())["topic"] == "w"
    watching.send_signal(signal.SIGINT)
    assert watching.wait(10) == 130
    assert watching.stderr is not None and "Traceback" not in watching.stderr.read()


@pytest.mark.parametrize("arguments", ["--create --topic x --watch", "--list --watch 0", "--list --watch x"])
def test_watch_is_refused_where_it_makes_no_sense(run: Run, arguments: str) -> None:
    found = run(f"topics {arguments}")
    assert found.code == 1 and "watch" in found.err


def test_a_dry_run_changes_nothing(run: Run) -> None:
    assert run("topics --create --topic d1 --dry-run").out == "would create topic d1\n"
    assert run("topics --create --topic d1").code == 0
    assert run("topics --create --topic d2 --partitions 9999999 --dry-run").code == 1
    assert run("topics --delete --topic d.* --dry-run").out == "would delete topic d1\n"
    assert run("topics --list --topic d.*").out == "d1\n"
    assert run("topics --delete --topic d.*").code == 0  # a script is not asked
    assert run("topics --list --topic d.*").out == "\n"


@pytest.mark.parametrize(
    ("answer", "goes_on"), [("y\n", True), ("yes\n", True), ("\n", False), ("n\n", False), ("", False)]
)
def test_a_person_is_asked_when_more_matches_than_was_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, goes_on: bool
) -> None:
    args = argparse.Namespace(dry_run=False, yes=False)
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin.readline", lambda: answer, raising=False)
    assert confirmed(args, "delete topic", ["a1", "a2"], asked_for=["a.*"]) is goes_on
    assert capsys.readouterr().err == "delete topic a1, a2? [y/N] "
    assert confirmed(args, "delete topic", ["a1"], asked_for=["a1"])
    assert confirmed(argparse.Namespace(dry_run=False, yes=True), "delete topic", ["a1", "a2"])
