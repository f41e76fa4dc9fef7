"""Refuse a commit message whose subject is longer than 72 columns or runs into its body; git's hook `commit-msg` runs it."""

from __future__ import annotations

import sys
from pathlib import Path

SUBJECT_COLUMNS_MAX = 72


def mistake(message: str) -> str | None:
    """Return what is wrong with a message; None where nothing is."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    while lines and not lines[0].strip():
        lines.pop(0)
    if not lines:
        return None  # git itself refuses it
    if len(lines[0]) > SUBJECT_COLUMNS_MAX:
        return f"the subject has {len(lines[0])} columns, and {SUBJECT_COLUMNS_MAX} is the most; the body says why"
    if len(lines) > 1 and lines[1].strip():
        return "an empty line is missing between the subject and the body"
    return None


def main(argv: list[str]) -> int:
    """Look at the message in the file that git names."""
    found = mistake(Path(argv[0]).read_text())
    if found:
        print(f"commit message: {found}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
