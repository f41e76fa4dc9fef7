"""`python -m tests.sim --seed NAME --seconds S`: one world, or as many as the time allows; ends with a plain count.

A name is `cluster:17`, `quorum:3` or `broker:5`; a bare number is a `broker`. Worlds run on every processor, each in a
process of its own.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from random import SystemRandom

from tests.sim.course import Outcome
from tests.sim.kinds import KINDS, names_from, run_world
from tests.sim.pool import processors, run_worlds

__all__ = ["Figures", "main"]

HOUR_S, MINUTE_S = 3600, 60
SHOWN_EVERY_S = 5


@dataclass
class Figures:
    """How much was simulated."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    simulated_s: float = 0.0
    acknowledged: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, outcome: Outcome) -> None:
        """Count one world."""
        self.simulated_s += outcome.simulated_s
        self.acknowledged += outcome.acknowledged
        self.faults.update(each.partition(" n")[0] for each in outcome.faults)
        if outcome.error:
            self.failed.append(name)
        else:
            self.passed += 1

    def lines(self, seconds: float) -> Iterator[str]:
        """Yield what a reader wants to know, with rates per minute of real time."""
        worlds = self.passed + len(self.failed)
        rate = MINUTE_S / max(seconds, 1e-9)
        yield f"{self.simulated_s / HOUR_S:.2f} simulated hours, {worlds} worlds, {self.faults.total()} faults, "
        yield f"{self.acknowledged} acknowledged records and tickets in {seconds:.0f} s; per minute: "
        yield f"{worlds * rate:.0f} worlds, {self.faults.total() * rate:.0f} faults, "
        yield f"{self.acknowledged * rate:.0f} records, {self.simulated_s * rate / HOUR_S:.2f} h\n"
        if self.faults:
            yield "    " + ", ".join(f"{name} {count}" for name, count in self.faults.most_common()) + "\n"


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
    parser.add_argument("--worlds", type=int, help="run so many instead")
    parser.add_argument("--first", type=int, help="begin with this number and count up")
    parser.add_argument("--kind", choices=KINDS, help="worlds of this kind only")
    parser.add_argument("--workers", type=int, default=processors(), help="processes that run worlds")
    return parser.parse_args()


def main() -> int:
    """Run worlds; returns 1 where a promise was broken."""
    given = options()
    return _one(given.seed) if given.seed is not None else _many(given)


def _one(name: str) -> int:
    outcome = run_world(name)
    if outcome.error:
        show(name, outcome)
    print(f"seed {name}: {outcome.events} events, {outcome.steps} steps, faults: {', '.join(outcome.faults)}")
    print(f"trace {outcome.digest}")
    print("failed" if outcome.error else "passed")
    return 1 if outcome.error else 0


def _many(given: argparse.Namespace) -> int:
    first = given.first if given.first is not None else SystemRandom().randrange(10**9)
    print(f"from seed {first}, {given.workers} at a time", flush=True)
    names = names_from(first, given.kind)
    is_over: Callable[[], bool] = lambda: time.monotonic() - began >= given.seconds  # noqa: E731
    if given.worlds is not None:
        names, is_over = islice(names, given.worlds), lambda: False
    figures = Figures()
    began = shown = time.monotonic()
    for name, outcome in run_worlds(names, given.workers, is_over=is_over):
        figures.add(name, outcome)
        if outcome.error:
            show(name, outcome)
        now = time.monotonic()
        if now - shown > SHOWN_EVERY_S:
            shown = now
            print(f"{now - began:.0f} s: {figures.passed} passed, {len(figures.failed)} failed", flush=True)
    print("".join(figures.lines(time.monotonic() - began)), end="")
    if figures.failed:
        print(f"failed: {' '.join(figures.failed)}")
    print(f"{figures.passed} passed, {len(figures.failed)} failed")
    return 1 if figures.failed else 0


if __name__ == "__main__":
    sys.exit(main())
