"""Name the tests that failed in the last run of pytest; exits with 1 where there were none, or more than the given number.

`tools/run_tests.sh` asks before it gives them a second look: a run in which much fails is not one of bad luck.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(most: int) -> int:
    """Print the failed tests on one line and return the exit code."""
    failed = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    print(" ".join(failed))
    return 0 if 0 < len(failed) <= most else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
