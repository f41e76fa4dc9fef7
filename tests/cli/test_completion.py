"""Completion: nouns, options, choices and live names; quick silence where there is no broker; scripts that shells read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.catalogue import options_of, parsers_of
from ottla.cli.main import NOUNS
from tests.cli.conftest import Run
from tests.server import running_server


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No contexts, and a cluster that is not there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("''", {"topics", "consume", "--help"}),
        ("con", {"context", "consume", "console-consumer", "console-producer"}),
        ("server ''", {"start", "stop", "format"}),
        ("server st", {"start", "stop"}),
        ("server start --over", {"--override"}),
        ("topics --part", {"--partitions", "--partition-size-limit-per-response"}),
        ("topics -o ''", {"text", "table", "wide", "json", "jsonl", "yaml", "name"}),
        ("topics --output=j", {"--output=json", "--output=jsonl"}),
        ("topics --output = ya", {"yaml"}),
        ("context ''", {"create", "use", "list", "show", "delete", "rename"}),
        ("completion z", {"zsh"}),
        ("@kafka-topics.sh --part", {"--partitions"}),
        ("@kafka-server-start --over", {"--override"}),
    ],
)
def test_what_may_come_next_is_offered(run: Run, words: str, offered: set[str]) -> None:
    found = run(f"__complete {words}")
    assert found.code == 0
    assert offered <= set(found.out.split())


@pytest.mark.parametrize(
    "words", ["", "nonsense ''", "topics --topic ''", "consume ''", "topics --context ''", "dump-log x"]
)
def test_where_nothing_can_be_offered_there_is_silence(run: Run, words: str) -> None:
    found = run(f"__complete {words}")
    assert (found.code, found.err) == (0, "")
    assert words == "" or found.out == ""


def test_an_option_is_offered_once_and_old_names_never(run: Run) -> None:
    offered = set(run("__complete console-consumer --topic t --").out.split())
    assert "--topic" not in offered and "--property" not in offered
    assert {"--formatter-property", "--include"} <= offered


def test_topics_are_asked_for(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_server(tmp_path) as server:
        assert run(f"topics --bootstrap-server {server.bootstrap} --create --topic greetings").code == 0
        for words in (f"topics --bootstrap-server {server.bootstrap} --topic gr", "consume gr"):
            monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", server.bootstrap)
            assert run(f"__complete {words}").out == "greetings\n"


def test_contexts_are_offered_by_name(run: Run) -> None:
    run("context create prod --bootstrap-server a:1")
    assert run("__complete topics --context p").out == "prod\n"
    assert run("__complete context use ''").out == "prod\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_reads(run: Run, tmp_path: Path, shell: str) -> None:
    script = tmp_path / "script"
    script.write_text(run(f"completion {shell}").out)
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([program, "-n", str(script)], check=True)


def test_bash_completes_with_the_script(run: Run, tmp_path: Path) -> None:
    script = run("completion bash").out
    (tmp_path / "ottla").write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla.cli.main "$@"\n')
    (tmp_path / "ottla").chmod(0o755)
    lines = f"{script}\nCOMP_WORDS=(ottla topics --exclude)\nCOMP_CWORD=2\n_ottla\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    path = f"{tmp_path}:{os.environ['PATH']}"
    found = subprocess.run(["bash", "-c", lines], env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert found.stdout == "--exclude-internal\n", found.stderr


@pytest.mark.parametrize("noun", NOUNS)
def test_every_option_of_every_noun_says_what_it_is_for(noun: str) -> None:
    for parser in parsers_of(noun):
        assert not [action.dest for action in options_of(parser) if not action.help], parser.prog
