"""Property tests draw new examples in every run, say from which seed, and draw the same again when they are told it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROPERTY = """
from hypothesis import given, strategies as st

@given(st.integers(0, 2**64))
def test_property(number):
    with open("drawn", "a") as file:
        file.write(f"{number}\\n")
    assert number < 1000, "false on purpose"
"""
SAID = re.compile(r"--hypothesis-seed=(\d+)")


def drawn(folder: Path, *options: str) -> tuple[str, str]:
    """Run a property that is false under this checkout's settings, as in CI; returns what was drawn, and what was said."""
    folder.mkdir(exist_ok=True)
    (folder / "test_it.py").write_text(PROPERTY)
    (folder / "drawn").write_text("")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:xdist",
        "-p",
        "tests.conftest",
        "-c",
        str(ROOT / "pyproject.toml"),
    ]
    found = subprocess.run(
        [*command, "--rootdir", str(folder), *options, "test_it.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"CI": "true", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    assert found.returncode == 1, found.stdout + found.stderr
    return (folder / "drawn").read_text(), found.stdout


def test_each_run_draws_new_examples_and_its_seed_draws_them_again(tmp_path: Path) -> None:
    first, said = drawn(tmp_path / "a")
    other, _ = drawn(tmp_path / "b")
    assert first != other
    seed = SAID.search(said)
    assert seed is not None
    assert "@reproduce_failure(" in said, "the failing example is kept in what the run prints"
    again, said_again = drawn(tmp_path / "a", f"--hypothesis-seed={seed[1]}")
    assert again == first
    assert seed[0] in said_again
