"""When a disk is full, if it goes on as it did. Pure.

A line through what was free (least squares) over the last day, or over as much as is known of it, ten minutes at least. It
is said only where the line fits: a disk that is emptied by retention as fast as it fills has no day on which it is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.console.figures.history import Bucket

__all__ = ["DAY_MS", "Forecast", "forecast"]

DAY_MS = 24 * 3_600_000
SPAN_MS_MIN = 600_000
POINTS_MIN = 10
FIT_MIN = 0.5
"""How much of what changes the line has to explain (R²)."""
SECONDS_MAX = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """In how many seconds nothing is free, and over how many the pace was seen."""

    full_in_s: float
    seen_s: float


def forecast(points: Sequence[Bucket], now_ms: int) -> Forecast | None:
    """Return when what is free (bytes) comes to its end; None where it does not, or where too little is known."""
    if len(points) < POINTS_MIN or points[-1].at_ms - points[0].at_ms < SPAN_MS_MIN:
        return None
    times = [(each.at_ms - now_ms) / 1000 for each in points]
    free = [each.last for each in points]
    count = len(points)
    mean_t, mean_f = sum(times) / count, sum(free) / count
    spread_t = sum((each - mean_t) ** 2 for each in times)
    spread_f = sum((each - mean_f) ** 2 for each in free)
    together = sum((at - mean_t) * (left - mean_f) for at, left in zip(times, free, strict=True))
    if together >= 0 or not spread_f or together * together < FIT_MIN * spread_t * spread_f:
        return None
    full_in_s = free[-1] / -(together / spread_t)
    return Forecast(full_in_s, times[-1] - times[0]) if full_in_s < SECONDS_MAX else None
