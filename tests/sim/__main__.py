"""`python -m tests.sim --seed N --seconds S`: one seed, or as many as the time allows; ends with a plain count."""

from __future__ import annotations

import argparse
import sys
import time
from random import SystemRandom

from tests.sim.world import Outcome, run_seed

__all__ = ["main"]


def show(outcome: Outcome) -> None:
    """Print what broke in a world and how to see it again."""
    print(f"\nseed {outcome.seed} failed after {outcome.events} events; faults: {', '.join(outcome.faults) or 'none'}")
    for line in outcome.recent:
        print(f"    {line}")
    print(outcome.error)
    print(f"again: make sim SEED={outcome.seed}\n", flush=True)


def main() -> int:
    """Run worlds; returns 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--seconds", type=float, default=60.0, help="otherwise run new seeds for so long")
    parser.add_argument("--first", type=int, help="begin with this seed and count up")
    options = parser.parse_args()
    passed = failed = 0
    began = shown = time.monotonic()
    seed = options.seed if options.seed is not None else options.first
    if seed is None:
        seed = SystemRandom().randrange(10**9)
        print(f"from seed {seed}")
    while True:
        outcome = run_seed(seed)
        if outcome.error:
            failed += 1
            show(outcome)
        else:
            passed += 1
        now = time.monotonic()
        if options.seed is not None:
            print(f"seed {seed}: {outcome.events} events, {outcome.steps} steps, faults: {', '.join(outcome.faults)}")
            print(f"trace {outcome.digest}")
        elif now - shown > 5:
            shown = now
            print(f"{now - began:.0f} s: {passed} passed, {failed} failed", flush=True)
        if options.seed is not None or now - began >= options.seconds:
            break
        seed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
