"""The examples run as a reader would run them, against a broker, and print what docs/use-cases.md shows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server import running_server

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LINES_MAX = 80
SECONDS_MAX = 100


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = ["group.initial.rebalance.delay.ms=0", "log.cleaner.backoff.ms=100"]
    with running_server(tmp_path_factory.mktemp("ottla"), overrides=settings) as server:
        yield server.bootstrap


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_prints_what_its_page_shows(bootstrap: str, example: Path) -> None:
    command = [sys.executable, str(example), bootstrap]
    found = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert found.returncode == 0, found.stderr
    page = (ROOT / "docs" / "use-cases.md").read_text()
    for line in found.stdout.splitlines():
        assert re.sub(r"did \d+", "did N", line) in re.sub(r"did \d+", "did N", page), (
            f"docs/use-cases.md lacks: {line}"
        )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_one_short_file_that_its_page_names(example: Path) -> None:
    assert len(example.read_text().splitlines()) < LINES_MAX
    assert f"examples/{example.name}" in (ROOT / "docs" / "use-cases.md").read_text()
