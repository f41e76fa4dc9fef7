"""`python -m tests.sim --seed NAME --seconds S`: one world, or as many as the time allows; ends with a plain count.

A name is `cluster:17`, `quorum:3` or `broker:5`; a bare number is a `broker`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from random import SystemRandom

from tests.sim.kinds import KINDS, names_from, run_world
from tests.sim.world import Outcome

__all__ = ["main"]

HOUR_S = 3600


def show(name: str, outcome: Outcome) -> None:
    """Print what broke in a world and how to see it again."""
    print(f"\nseed {name} failed after {outcome.events} events; faults: {', '.join(outcome.faults) or 'none'}")
    for line in outcome.recent:
        print(f"    {line}")
    print(outcome.error)
    print(f"again: make sim SEED={name}\n", flush=True)


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", help="run this world alone, such as cluster:17")
    parser.add_argument("--seconds", type=float, default=60.0, help="otherwise run new worlds for so long")
    parser.add_argument("--first", type=int, help="begin with this number and count up")
    parser.add_argument("--kind", choices=KINDS, help="worlds of this kind only")
    return parser.parse_args()


def main() -> int:
    """Run worlds; returns 1 where a promise was broken."""
    given = options()
    names: Iterator[str] = iter([given.seed])
    if given.seed is None:
        first = given.first if given.first is not None else SystemRandom().randrange(10**9)
        print(f"from seed {first}")
        names = names_from(first, given.kind)
    failed: list[str] = []
    passed, simulated_s = 0, 0.0
    faults: Counter[str] = Counter()
    began = shown = time.monotonic()
    for name in names:
        outcome = run_world(name)
        simulated_s += outcome.simulated_s
        faults.update(each.partition(" n")[0] for each in outcome.faults)
        if outcome.error:
            failed.append(name)
            show(name, outcome)
        else:
            passed += 1
        now = time.monotonic()
        if given.seed is not None:
            print(f"seed {name}: {outcome.events} events, {outcome.steps} steps, faults: {', '.join(outcome.faults)}")
            print(f"trace {outcome.digest}")
        elif now - shown > 5:
            shown = now
            print(f"{now - began:.0f} s: {passed} passed, {len(failed)} failed", flush=True)
        if now - began >= given.seconds:
            break
    summarise(passed + len(failed), simulated_s, faults)
    if failed:
        print(f"failed: {' '.join(failed)}")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


def summarise(seeds: int, simulated_s: float, faults: Counter[str]) -> None:
    """Print how much was simulated."""
    print(f"{simulated_s / HOUR_S:.2f} simulated hours, {seeds} seeds, {faults.total()} faults")
    if faults:
        print("    " + ", ".join(f"{name} {count}" for name, count in faults.most_common()))


if __name__ == "__main__":
    sys.exit(main())
