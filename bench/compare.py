"""`python -m bench.compare A.json B.json`: what has changed from one run of the benchmark to another, beyond the noise.

For each metric the rounds' ratios Ottla / Kafka of both runs are compared, or where Kafka has none, Ottla's values: a drift
of the machine from one day to the next moves both systems, and hardly their ratio. Marked rounds (`bench.runs`) are left
out. The test is Mann and Whitney's of two small samples (Annals of Mathematical Statistics 18, 1947), exact: the share of
all ways to deal the values out to the two runs whose rank sums lie as far from the middle as the one that was measured.
Below `P_MAX`, and where the medians differ by `CHANGE_MIN` or more, a metric has changed. With three rounds in each run no
difference is beyond the noise; five against five can tell p = 0.008.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from pathlib import Path
from random import Random
from statistics import median

from bench.rows import Metric, number
from bench.runs import Run, marked
from bench.systems import KAFKA

__all__ = ["Change", "changes", "main", "p_value"]

P_MAX = 0.05
CHANGE_MIN = 0.03
DEALT_MAX = 20_000
"""So many ways to deal are looked at one by one; of more, a sample of as many."""


@dataclass(frozen=True)
class Change:
    """One metric in two runs."""

    metric: Metric
    mode: str
    before: float
    after: float
    p: float
    is_ratio: bool

    @property
    def by(self) -> float:
        """How much the second is above the first, as a part of the first."""
        return self.after / self.before - 1 if self.before else 0.0

    @property
    def verdict(self) -> str:
        """`better`, `worse`, or nothing where the difference is within the noise."""
        if self.p >= P_MAX or abs(self.by) < CHANGE_MIN:
            return ""
        return "better" if (self.by > 0) == self.metric.unit.endswith("/s") else "worse"


def p_value(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the two-sided p of Mann and Whitney's test; 1 where a sample is empty."""
    if not one or not other:
        return 1.0
    ranks = _ranks([*one, *other])
    middle = sum(ranks) * len(one) / len(ranks)
    seen = abs(sum(ranks[: len(one)]) - middle)
    places = range(len(ranks))
    if comb(len(ranks), len(one)) <= DEALT_MAX:
        dealt = [sum(ranks[at] for at in chosen) for chosen in combinations(places, len(one))]
    else:
        chance = Random(0)
        dealt = [sum(ranks[at] for at in chance.sample(places, len(one))) for _ in range(DEALT_MAX)]
    return sum(abs(each - middle) >= seen - 1e-9 for each in dealt) / len(dealt)


def _ranks(values: Sequence[float]) -> list[float]:
    """Return each value's rank from 1; equal ones share the mean of theirs."""
    ordered = sorted(values)
    return [(2 * ordered.index(each) + ordered.count(each) + 1) / 2 for each in values]


def changes(before: Run, after: Run) -> list[Change]:
    """Return every metric that both runs have, in the order of the first."""
    known = {each.name for each in after.metrics}
    found = []
    for metric in before.metrics:
        for mode in before.modes:
            if metric.name not in known or mode not in after.modes:
                continue
            sides = [_compared(run, metric.name, mode) for run in (before, after)]
            if not all(values for values, _ in sides) or sides[0][1] != sides[1][1]:
                continue
            (one, is_ratio), (other, _) = sides
            found.append(Change(metric, mode, median(one), median(other), p_value(one, other), is_ratio))
    return found


def _compared(run: Run, metric: str, mode: str) -> tuple[list[float], bool]:
    """Return the rounds' ratios to Kafka, or values where Kafka has none, and whether they are ratios."""
    odd = marked(run.samples)
    ours, theirs = (run.values(metric, system, without=odd) for system in (mode, KAFKA))
    ratios = [ours[at] / theirs[at] for at in sorted(ours.keys() & theirs.keys()) if theirs[at]]
    return (ratios, True) if ratios else (list(ours.values()), False)


def main(argv: list[str]) -> int:
    """Print what has changed; returns 0 whatever that is, 2 for a file that is no run."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description="what changed between two runs")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    args = parser.parse_args(argv)
    try:
        found = changes(Run.load(args.before), Run.load(args.after))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    for each in found:
        unit = "x Kafka" if each.is_ratio else each.metric.unit
        sides = f"{number(each.before)} -> {number(each.after)} {unit}"
        print(f"{each.verdict or 'same':6}  {each.by:+7.1%}  p={each.p:.3f}  {each.metric.name} ({each.mode}): {sides}")
    told = [each.verdict for each in found]
    print(f"{told.count('better')} better, {told.count('worse')} worse, {told.count('')} within the noise")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
