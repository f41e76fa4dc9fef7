"""`python -m tests.mirror.machine --seconds N`: schedules that no run had before, then each request of some failing once.

A case is a seed, or `seed:request:fault`; one that fails prints its own, and `--case` does it again. `--mutations` puts
known faults back, one after the other: each has to be found.
"""

from __future__ import annotations

import argparse
import logging
import random
import time
from collections.abc import Iterator

from tests.mirror.machine.client import FAULTS
from tests.mirror.machine.mutations import MUTATIONS
from tests.mirror.machine.run import Case, checked

SWEPT_EVERY = 50
"""Of so many schedules one has each of its requests fail in each way."""


def swept(seed: int) -> Iterator[Case]:
    """Yield a schedule's cases in which one request fails: each, in each way."""
    _, asked = checked(Case(seed, at=(-1, "refused")))
    for number in range(len(asked)):
        for fault in FAULTS:
            yield Case(seed, at=(number, fault))


def cases(rng: random.Random) -> Iterator[Case]:
    """Yield cases without end."""
    while True:
        for _ in range(SWEPT_EVERY):
            yield Case(rng.randrange(1 << 40))
        yield from swept(rng.randrange(1 << 40))


def mutated() -> int:
    """Put each fault back; returns 1 where one was not found."""
    missed = 0
    for each in MUTATIONS:
        found = each.found()
        missed += found is None
        print(f"{each.name}: {'MISSED' if found is None else f'--case {found[0]}: {found[1][:100]}'}", flush=True)
    print(f"{len(MUTATIONS) - missed} found, {missed} missed")
    return int(missed > 0)


def main() -> int:
    """Run; returns 1 where a case failed."""
    parser = argparse.ArgumentParser(prog="tests.mirror.machine")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--case", help="seed, or seed:request:fault")
    parser.add_argument("--mutations", action="store_true")
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if asked.mutations:
        return mutated()
    if asked.case is not None:
        said, _ = checked(Case.of(asked.case))
        print(said or "held")
        return int(said is not None)
    until, done = time.monotonic() + asked.seconds, 0
    for case in cases(random.SystemRandom()):
        if time.monotonic() >= until:
            break
        said, _ = checked(case)
        if said is not None:
            print(f"--case {case}: {said}")
            return 1
        done += 1
    print(f"{done} cases held")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
