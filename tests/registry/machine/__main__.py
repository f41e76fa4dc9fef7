"""`python -m tests.registry.machine --seconds N`: requests by seeds that no run had before; `--seed` does one again.

`--mutations` puts known faults back, one after the other: each has to be found.
"""

from __future__ import annotations

import argparse
import random
import time

from tests.registry.machine.mutations import MUTATIONS
from tests.registry.machine.run import checked


def mutated() -> int:
    """Put each fault back; returns 1 where one was not found."""
    missed = 0
    for each in MUTATIONS:
        found = each.found()
        missed += found is None
        print(f"{each.name}: {'MISSED' if found is None else f'--seed {found[0]}: {found[1][:100]}'}", flush=True)
    print(f"{len(MUTATIONS) - missed} found, {missed} missed")
    return int(missed > 0)


def main() -> int:
    """Run; returns 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="tests.registry.machine")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--mutations", action="store_true")
    asked = parser.parse_args()
    if asked.mutations:
        return mutated()
    if asked.seed is not None:
        said = checked(asked.seed)
        print(said or "held")
        return int(said is not None)
    rng, until, done = random.SystemRandom(), time.monotonic() + asked.seconds, 0
    while time.monotonic() < until:
        seed = rng.randrange(1 << 40)
        if (said := checked(seed)) is not None:
            print(f"--seed {seed}: {said}")
            return 1
        done += 1
    print(f"{done} cases held")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
