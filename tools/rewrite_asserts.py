"""Write the bytecode of test files as pytest writes it, with its asserts rewritten, each file once and on every processor.

Each process of pytest-xdist imports every test file, and where there is no bytecode yet all of them rewrite the same file
at the same time. `tools/run_tests.sh` calls this first. What is up to date is left.

pytest has no public function for it. `tests/test_rewriting.py` holds what is written here against what pytest reads.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

from _pytest.assertion import AssertionState, rewrite
from _pytest.config import get_config

__all__ = ["main", "rewritten", "write"]

FILES = ("test_*.py", "conftest.py")
CHUNK = 8
"""How many files a process takes at a time."""


def rewritten(source: Path) -> Path:
    """Return where pytest keeps the bytecode of a test file."""
    folder: Path = rewrite.get_cache_dir(source)
    return folder / f"{source.stem}{rewrite.PYC_TAIL}"


def write(source: Path, root: Path) -> bool:
    """Write the bytecode of a file where that is not there or not of this source; returns whether it was written.

    What is no Python is left to pytest, which says so where it collects it.
    """
    found = rewritten(source)
    if rewrite._read_pyc(source, found) is not None:
        return False
    config = get_config(["--rootdir", str(root)])
    try:
        hash_, code = rewrite._rewrite_test(source, config)
    except (SyntaxError, ValueError):
        return False
    found.parent.mkdir(exist_ok=True)
    return rewrite._write_pyc(AssertionState(config, "rewrite"), code, hash_, found)


def main(folder: Path) -> int:
    """Write what is missing below a folder, and return for how many files that was."""
    files = sorted(path for pattern in FILES for path in folder.rglob(pattern))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return sum(pool.map(write, files, repeat(folder.parent), chunksize=CHUNK))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
