"""The commands that the documentation prints do what it says: every `console` block is run, and its output compared.

In a block, `$ ` begins a command, and what follows is what it prints on standard output; `…` stands for what differs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.page import kept, read
from bench.page import page as benchmark_page
from bench.runs import Run
from tests.server import running_server

ROOT = Path(__file__).resolve().parent.parent.parent
CODE_PAGES = ["docs/clients.md"]
PAGES = ["docs/command-line.md"]
"""Pages each on a server of its own; the first steps are in `test_first_steps`."""
SECONDS_MAX = 100.0


def commands(page: str) -> list[tuple[str, str]]:
    """Return each command of a page with what it prints, in order."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"^```console\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], ""))
            else:
                command, printed = found[-1]
                found[-1] = command, printed + line + "\n"
    return found


def pattern(printed: str) -> re.Pattern[str]:
    """Return what the output must match; `…` on a line of its own stands for any lines."""
    lines = [
        r"(?:.*\n)*" if line == "…\n" else r".*".join(map(re.escape, line.split("…")))
        for line in printed.splitlines(True)
    ]
    return re.compile("".join(lines))


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "ottla"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla.cli.main "$@"\n')
    program.chmod(0o755)
    found = commands(page)
    assert found
    with running_server(tmp_path, overrides=["group.initial.rebalance.delay.ms=0"]) as server:
        environment = {
            **os.environ,
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "OTTLA_BOOTSTRAP_SERVERS": server.bootstrap,
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
        }
        for command, printed in found:
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command.replace(".venv/bin/ottla", "ottla")],
                capture_output=True,
                text=True,
                timeout=SECONDS_MAX,
                env=environment,
                cwd=tmp_path,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            assert pattern(printed).fullmatch(done.stdout), (
                f"{command}\nprinted\n{done.stdout}\nthe page shows\n{printed}"
            )


def test_the_page_of_the_benchmark_is_made_whole_of_the_kept_result() -> None:
    runs = [read(each) for each in kept()]
    assert runs and benchmark_page(runs) == (ROOT / "docs" / "benchmark.md").read_text()


def test_a_result_without_a_case_says_so() -> None:
    run, notes = read(ROOT / "bench" / "results" / "broker.json")
    assert isinstance(run, Run)
    for missing in ("producer-perf, 100 B records", "fetch 64 KiB"):
        metrics = [each for each in run.metrics if each.name != missing]
        page = benchmark_page([(Run(run.facts, metrics, run.samples), notes)])
        assert missing in page.rpartition("No run of these is kept")[2]


@pytest.mark.parametrize("page", CODE_PAGES)
def test_the_code_of_a_page_runs(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    with running_server(tmp_path, overrides=["group.initial.rebalance.delay.ms=0"]) as server:
        for block in blocks:
            code = block.replace("localhost:9092", server.bootstrap)
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
            )
            assert done.returncode == 0 and done.stdout, done.stderr


@pytest.mark.parametrize(
    "page", ["README.md", *(str(each.relative_to(ROOT)) for each in sorted((ROOT / "docs").rglob("*.md")))]
)
def test_the_links_of_a_page_lead_somewhere(page: str) -> None:
    path = ROOT / page
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL)  # code has no links
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    assert [
        page.name for page in (ROOT / "docs").glob("*.md") if page.name != "README.md" and page.name not in index
    ] == []
