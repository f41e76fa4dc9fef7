"""Whatever a statement says, others are answered meanwhile: a process counts what its loop does in one piece."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla.sql.tree import statements as s
from tests.server import Server
from tests.sql_server.stalls import CHEAP, TEXTS

ROOT = Path(__file__).parents[2]
STRETCH_MAX = 10_000
"""Units of work, of which a loop of Python does some ten million in a second; the costly expressions are 40,000 each."""
CALL_MAX = 1 << 20
"""Units of work of one call of C, which are elements that are copied."""


@pytest.fixture(scope="module")
def report(broker: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("stalls") / "report.json"
    command = [sys.executable, "-m", "tests.sql_server.stalls", broker.bootstrap, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert path.exists(), f"{done.stdout}\n{done.stderr}"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("name", TEXTS)
def test_no_statement_holds_the_loop(name: str, report: dict[str, Any]) -> None:
    found = report[name]
    assert found["stretch"] <= STRETCH_MAX and found["call"] <= CALL_MAX, found
    if name.startswith("endless"):
        assert "takes longer than" in found["answer"] or "could not be planned" in found["answer"], found
    elif name == "long":
        assert found["status"] == 400 and "should be issued" in found["answer"], found
    else:
        assert found["status"] == 200 and "rror_code" not in found["answer"], found


def test_every_kind_of_statement_is_among_them() -> None:
    kinds = {name for name, each in vars(s).items() if isinstance(each, type) and each.__module__ == s.__name__}
    told = {each.partition(" ")[0] for each in TEXTS} | CHEAP.keys()
    assert kinds <= told, kinds - told
