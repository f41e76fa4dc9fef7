"""What `make new-api` and `make new-command` share: what is wrong is one line, and what was made is formatted and named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class NewFilesError(Exception):
    """What was asked for cannot be made; its text is the one line that is printed."""


def make_files(target: str, make: Callable[[], Sequence[Path]], *, walk: str) -> int:
    """Make files, and say what comes next: the rest of a walk of CONTRIBUTING.md's; returns the exit code of `target`."""
    try:
        files = make()
    except NewFilesError as error:
        print(f"{target}: {error}", file=sys.stderr)
        return 1
    ruff = Path(sys.executable).parent / "ruff"
    for words in (("check", "--fix", "--quiet", "--select", "I"), ("format", "--quiet")):
        subprocess.run([ruff, *words, *files], check=True)
    for path in files:
        print(path.relative_to(ROOT))
    print(f"Next: write them, `make generate`, a line in CHANGELOG.md (CONTRIBUTING.md, “{walk}”)")
    return 0
