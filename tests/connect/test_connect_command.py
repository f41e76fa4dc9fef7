"""`ottla connect` against a worker: what it prints, does, and says where it is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.cli.main import main
from tests.connect.whole import WholeWorker, running_connect
from tests.server import running_server
from tests.waiting import until

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeWorker]:
    folder = tmp_path_factory.mktemp("worker")
    with running_server(folder) as server, running_connect(folder, server.bootstrap) as running:
        yield running


@pytest.fixture
def run(worker: WholeWorker, capsys: pytest.CaptureFixture[str]) -> Run:
    def typed(action: str, *words: str) -> tuple[int, str, str]:
        code = main(["connect", action, *words, "--url", worker.url])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return typed


def test_a_connector_is_created_of_a_file_looked_at_changed_and_removed(
    run: Run, worker: WholeWorker, tmp_path: Path
) -> None:
    given = tmp_path / "in.txt"
    given.write_text("one\n")
    path = tmp_path / "source.properties"
    path.write_text(f"name=lines\nconnector.class=FileStreamSource\nfile={given}\ntopic=lines\n")
    assert run("create", str(path)) == (0, "lines: created\n", "")
    worker.until("lines", "RUNNING", "RUNNING")
    assert run("create", str(path))[0] == 1
    assert run("create", str(path), "--replace") == (0, "lines: configured\n", "")
    worker.until("lines", "RUNNING", "RUNNING")
    assert run("list", "-o", "name") == (0, "lines\n", "")
    (row,) = json.loads(run("list", "-o", "json")[1])
    assert (row["name"], row["type"], row["state"], row["tasks"]) == ("lines", "source", "RUNNING", "1/1 running")
    head, line = run("list")[1].splitlines()
    assert head.split() == ["CONNECTOR", "TYPE", "STATE", "TASKS", "RESTARTS"] and line.startswith("lines")
    until(lambda: "position=4" in run("offsets", "lines")[1])
    text = run("describe", "lines")[1]
    assert f"  file={given}\n" in text and "task 0: RUNNING" in text and "topics: lines" in text
    for action, state in (("pause", "PAUSED"), ("resume", "RUNNING"), ("restart", "RUNNING")):
        assert run(action, "lines")[0] == 0
        worker.until("lines", state, state)
    assert run("offsets", "lines", "--reset")[0] == 1, "it has to be stopped first"
    assert run("stop", "lines") == (0, "lines: stopped\n", "")
    new = tmp_path / "offsets.json"
    new.write_text(json.dumps({"offsets": [{"partition": {"filename": str(given)}, "offset": {"position": 2}}]}))
    assert run("offsets", "lines", "--set", str(new))[0] == 0
    assert json.loads(run("offsets", "lines", "-o", "json")[1]) == json.loads(new.read_text())
    assert "have been reset" in run("offsets", "lines", "--reset")[1]
    assert run("delete", "lines", "nobody") == (1, "lines: deleted\n", "nobody: Connector nobody not found\n")


def test_what_is_installed_is_listed(run: Run) -> None:
    assert "FileStreamSourceConnector" in run("plugins", "-o", "name")[1]
    assert "JsonConverter" in run("plugins", "--all")[1]


def test_a_worker_that_is_not_there_is_told_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "list", "--url", "http://127.0.0.1:1"]) == 1
    assert "no Connect worker answers at http://127.0.0.1:1" in capsys.readouterr().err
