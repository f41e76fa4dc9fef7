"""A run of the benchmark, kept whole: every round of every case, what the machine did meanwhile, and what became rows of it.

A round says how much processor time its broker took in user mode and in the kernel. On a machine that others share, system
time can jump for all; a round whose share of it is `MARK` times its case's median, or that much below, is marked. Marked
rounds count in the medians like any other; `bench.compare` leaves them out.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.rows import Metric, Row
from bench.systems import KAFKA

__all__ = ["Run", "Sample", "facts", "marked", "rows_of"]

MARK = 1.5
SECONDS_MIN = 0.2
"""Below so much processor time a share says nothing."""


@dataclass(frozen=True)
class Sample:
    """One round of one case on one system."""

    case: str
    system: str
    round: int
    values: Mapping[str, float]
    """By metric."""
    user_s: float | None = None
    system_s: float | None = None
    """The broker's processor time in the round; None where the case starts brokers of its own."""
    load: float = 0.0
    """The machine's load (one minute) when the round began."""

    @property
    def system_share(self) -> float | None:
        """Which part of the processor time was the kernel's; None where there was too little of it to say."""
        if self.user_s is None or self.system_s is None or self.user_s + self.system_s < SECONDS_MIN:
            return None
        return self.system_s / (self.user_s + self.system_s)


@dataclass
class Run:
    """All that a run has measured. `facts` say of which machine, when, and how."""

    facts: dict[str, Any]
    metrics: list[Metric] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write the run as JSON, a sample a line."""
        metrics = ",\n".join("  " + json.dumps(asdict(each)) for each in self.metrics)
        samples = ",\n".join("  " + json.dumps(asdict(each)) for each in self.samples)
        text = f'{{"facts": {json.dumps(self.facts)},\n "metrics": [\n{metrics}],\n "samples": [\n{samples}]}}\n'
        path.write_text(text)

    @classmethod
    def load(cls, path: Path) -> Run:
        """Read what `save` has written; raises ValueError, naming the file, for anything else."""
        try:
            found = json.loads(path.read_text())
            metrics = [Metric(**each) for each in found["metrics"]]
            samples = [Sample(**each) for each in found["samples"]]
            return cls(dict(found["facts"]), metrics, samples)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path} is no run of the benchmark: {error}") from error

    def values(self, metric: str, system: str, *, without: Iterable[Sample] = ()) -> dict[int, float]:
        """Return a metric's values on a system by round."""
        left_out = {(each.case, each.system, each.round) for each in without}
        return {
            each.round: each.values[metric]
            for each in self.samples
            if each.system == system and metric in each.values and (each.case, each.system, each.round) not in left_out
        }

    @property
    def modes(self) -> list[str]:
        """Return the systems beside Kafka, in the order in which they came."""
        return list(dict.fromkeys(each.system for each in self.samples if each.system != KAFKA))


def facts(**more: Any) -> dict[str, Any]:
    """Return what there is to say of this machine and this moment."""
    return {
        "at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "processors": os.cpu_count(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **more,
    }


def marked(samples: Sequence[Sample]) -> list[Sample]:
    """Return the rounds whose share of system time is `MARK` times off the median of their case on their system."""
    found = []
    for case, system in dict.fromkeys((each.case, each.system) for each in samples):
        own = [each for each in samples if (each.case, each.system) == (case, system)]
        shares = {each.round: each.system_share for each in own}
        known = [share for share in shares.values() if share is not None]
        if len(known) < 3:
            continue
        middle = median(known)
        for each in own:
            share = each.system_share
            if share is not None and middle and not middle / MARK <= share <= middle * MARK:
                found.append(each)
    return found


def rows_of(run: Run) -> list[Row]:
    """Return a row for each metric and mode: medians over the rounds, and the median of the ratios of each round."""
    odd = marked(run.samples)
    rows = []
    for metric in run.metrics:
        theirs = run.values(metric.name, KAFKA)
        for mode in run.modes or [KAFKA]:
            ours = run.values(metric.name, mode) if mode != KAFKA else {}
            if not ours and not theirs:
                continue
            ratios = [ours[at] / theirs[at] for at in ours.keys() & theirs.keys() if theirs[at]]
            ratio = median(ratios) if ratios else None
            value = median(ours.values()) if ours else None
            own = [each for each in run.samples if metric.name in each.values and each.system in (mode, KAFKA)]
            row = Row(
                metric.name,
                metric.unit,
                value,
                median(theirs.values()) if theirs else None,
                ratio,
                metric.target,
                metric.met(value, ratio),
                max(len(ours), len(theirs)),
                mode,
                system_share=_share(own, mode),
                kafka_system_share=_share(own, KAFKA),
                load=median(each.load for each in own),
                marked=sum(each in odd for each in own),
            )
            rows.append(row)
    return rows


def _share(samples: Iterable[Sample], system: str) -> float | None:
    known = [each.system_share for each in samples if each.system == system and each.system_share is not None]
    return median(known) if known else None
