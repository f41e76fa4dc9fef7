"""Run every generator `tools/gen_*.py`; with `--check`, exit 1 and name each file that is not what they would write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent


def main(argv: list[str]) -> int:
    """Run the generators in the order of their names; returns the exit code."""
    stale = 0
    for script in sorted(TOOLS.glob("gen_*.py")):
        stale |= subprocess.run([sys.executable, str(script), *argv], check=False).returncode
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
