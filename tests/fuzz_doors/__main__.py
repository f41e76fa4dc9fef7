"""`python -m tests.fuzz_doors --seconds N`: damaged texts for every door, by seeds that no run had before.

A case is `door:kind:seed`; one that fails prints its own, and `--case` does it again.
"""

from __future__ import annotations

import argparse
import random
import time

from tests.fuzz_doors.cases import Case, checked
from tests.fuzz_doors.doors import DOORS


def main() -> int:
    """Run; returns how many cases failed, at most 1."""
    parser = argparse.ArgumentParser(prog="tests.fuzz_doors")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--case", help="door:kind:seed")
    asked = parser.parse_args()
    if asked.case is not None:
        said = checked(Case.of(asked.case))
        print(said or "held")
        return int(said is not None)
    rng = random.SystemRandom()
    until, done = time.monotonic() + asked.seconds, 0
    while time.monotonic() < until:
        door = rng.choice(sorted(DOORS))
        case = Case(door, rng.choice(sorted(DOORS[door].kinds)), rng.randrange(1 << 40))
        said = checked(case)
        if said is not None:
            print(f"--case '{case}': {said}")
            return 1
        done += 1
    print(f"{done} cases held")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
