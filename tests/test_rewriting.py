"""The bytecode of tests that is written before a run is what pytest reads; it is written where it is missing or old."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.rewrite_asserts import main, rewritten, write

TEST = """
def test_it():
    one = 1
    assert one == 2
"""


def run(folder: Path) -> str:
    """Run the folder's tests in a pytest of their own, which may write bytecode, and return what it says."""
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    done = subprocess.run(
        [*command, str(folder)], cwd=folder, capture_output=True, text=True, timeout=60, check=False, env={}
    )
    return done.stdout + done.stderr


@pytest.fixture
def test(tmp_path: Path) -> Path:
    found = tmp_path / "test_it.py"
    found.write_text(TEST)
    return found


def test_pytest_reads_what_was_written_and_writes_nothing_itself(test: Path) -> None:
    assert main(test.parent) == 1
    written = rewritten(test).stat()
    assert "assert 1 == 2" in run(test.parent)
    assert [each.name for each in rewritten(test).parent.glob("test_it*")] == [rewritten(test).name]
    assert (rewritten(test).stat().st_ino, rewritten(test).stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_a_file_is_written_once_and_again_when_it_has_changed(test: Path) -> None:
    assert [write(test, test.parent), write(test, test.parent)] == [True, False]
    test.write_text(TEST.replace("== 2", "== 3"))
    before = rewritten(test).read_bytes()
    assert [write(test, test.parent), write(test, test.parent)] == [True, False]
    assert rewritten(test).read_bytes() != before


def test_bytecode_that_was_cut_short_is_written_anew(test: Path) -> None:
    write(test, test.parent)
    whole = rewritten(test).read_bytes()
    rewritten(test).write_bytes(whole[:40])
    assert write(test, test.parent)
    assert rewritten(test).read_bytes() == whole


def test_what_is_no_python_is_left_to_pytest(test: Path) -> None:
    test.write_text("def test_it(:")
    assert main(test.parent) == 0
    assert not rewritten(test).exists()
