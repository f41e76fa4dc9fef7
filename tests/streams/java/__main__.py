"""`python -m tests.streams.java goldens [GROUP ...] | compare FIRST COUNT`: renew Java's answers; compare on other seeds."""

from __future__ import annotations

import sys

from tests.peer import streams
from tests.streams.java.cases import GROUPS, cases
from tests.streams.java.compare import differences, final_differences
from tests.streams.java.goldens import write


def _compare(first: int, count: int) -> int:
    """Print every difference; return how many cases differ."""
    wrong = 0
    for group in GROUPS:
        given = cases(group, count, first)
        for case, answer in zip(given, streams.answers(given), strict=True):
            found = differences(case, answer)
            if not case.get("sequence_only") and "error" not in answer:
                found += [each for batch in (2, 7, 1000) for each in final_differences(case, answer, batch=batch)]
            wrong += bool(found)
            for each in found:
                print(f"{group}, {case['name']}, seed {case['seed']}: {each}")
        print(f"{group}: {len(given)} cases", flush=True)
    return wrong


def main(argv: list[str]) -> int:
    """Run one of the commands; return the exit code."""
    match argv:
        case ["goldens", *groups]:
            write(*groups)
        case ["compare", first, count]:
            return min(1, _compare(int(first), int(count)))
        case _:
            print(__doc__, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
