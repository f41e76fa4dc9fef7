"""What a cluster's figures were: rings of points per series, coarser the older, within a bound of memory. Pure.

A series is a name such as `lag/billing/orders`. Its points are kept as they came for an hour, then one a minute for a day,
then one in ten minutes for two weeks; the coarse ones are the last of their time, with the smallest and the largest.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["POINTS_MAX", "SERIES_MAX", "Bucket", "History", "Mark"]

LEVELS: tuple[tuple[int, int], ...] = ((5_000, 720), (60_000, 1_440), (600_000, 2_016))
"""Of each level: the milliseconds between its points, and how many it keeps: an hour, a day, two weeks."""
MINUTES = 1
"""The level of the minutes."""
SERIES_MAX = 500
"""Series that are kept: each has 4,176 points of 32 bytes at most, all of them 64 MiB; the least changed leave first."""
OUTSIDE_MAX = 100_000
"""Series without room of which the last value is known."""
POINTS_MAX = 600
"""Points that one question is answered with."""
MARKS_MAX = 500


@dataclass(frozen=True, slots=True)
class Bucket:
    """A stretch of a series: its last value, the smallest and the largest; `at_ms` is where it begins."""

    at_ms: int
    last: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a time, to be drawn beside a series."""

    at_ms: int
    kind: str
    text: str


class _Ring:
    """Buckets of one level: four arrays that are written round and round."""

    def __init__(self, step_ms: int, size: int) -> None:
        self._step_ms = step_ms
        self._size = size
        self._at = array("q")
        self._values = array("d")
        self._first = 0

    @property
    def is_full(self) -> bool:
        """True once the oldest leave."""
        return len(self._at) >= self._size

    def add(self, at_ms: int, last: float, least: float, most: float) -> None:
        start = at_ms - at_ms % self._step_ms
        newest = (self._first - 1) % len(self._at) if self._at else -1
        if newest >= 0 and self._at[newest] >= start:
            at = 3 * newest  # a clock that was set back adds to the newest
            self._values[at] = last
            self._values[at + 1] = min(self._values[at + 1], least)
            self._values[at + 2] = max(self._values[at + 2], most)
        elif len(self._at) < self._size:
            self._at.append(start)
            self._values.extend((last, least, most))
        else:
            self._at[self._first] = start
            self._values[3 * self._first : 3 * self._first + 3] = array("d", (last, least, most))
            self._first = (self._first + 1) % self._size

    def __iter__(self) -> Iterator[Bucket]:
        for index in range(len(self._at)):
            at = (self._first + index) % len(self._at)
            yield Bucket(self._at[at], *self._values[3 * at : 3 * at + 3])


class History:
    """Series by name, with what happened meanwhile."""

    def __init__(self, series_max: int = SERIES_MAX) -> None:
        self._series_max = series_max
        self._series: dict[str, list[_Ring]] = {}
        self._last: dict[str, tuple[float, int]] = {}
        """Of each series: its last value, and since when it has that."""
        self._outside: dict[str, float] = {}
        """The last values of series for which there is no room: one of them comes in when it changes."""
        self._marks: list[tuple[str, Mark]] = []

    def add(self, name: str, at_ms: int, value: float) -> None:
        """Take a point of a series in.

        Where there are too many series, one that changes comes in, and the one that changed longest ago leaves.
        """
        self.take(name, Bucket(at_ms, value, value, value))

    def take(self, name: str, bucket: Bucket) -> None:
        """Take in a stretch of a series, which is later than what is there; see `add`."""
        at_ms, value = bucket.at_ms, bucket.last
        rings = self._series.get(name)
        if rings is None:
            if len(self._series) >= self._series_max:
                if not self._has_changed(name, value):
                    return
                oldest = min(self._last, key=lambda each: self._last[each][1])
                self._outside[oldest] = self._last[oldest][0]
                del self._series[oldest], self._last[oldest]
            rings = self._series[name] = [_Ring(step, size) for step, size in LEVELS]
        for ring in rings:
            ring.add(at_ms, value, bucket.least, bucket.most)
        known = self._last.get(name)
        if known is None or known[0] != value:
            self._last[name] = (value, at_ms)

    def _has_changed(self, name: str, value: float) -> bool:
        """Return whether a series without room has another value than before; then it is no longer without."""
        before = self._outside.get(name)
        if before is not None and before != value:
            del self._outside[name]
            return True
        if before is None and len(self._outside) < OUTSIDE_MAX:
            self._outside[name] = value
        return False

    def newest(self, name: str) -> float | None:
        """Return a series' last value, also of one without room."""
        known = self._last.get(name)
        return self._outside.get(name) if known is None else known[0]

    def mark(self, name: str, mark: Mark) -> None:
        """Keep what happened to a series; the oldest of `MARKS_MAX` leave."""
        self._marks.append((name, mark))
        del self._marks[:-MARKS_MAX]

    def absorb(self, newer: History) -> None:
        """Take in what has happened since, point by point."""
        for name, rings in newer._series.items():
            for bucket in rings[0]:
                self.take(name, bucket)
        for name, mark in newer._marks:
            self.mark(name, mark)

    def minutes(self, from_ms: int, to_ms: int) -> dict[str, list[Bucket]]:
        """Return the minutes of every series that begin in a time, `to_ms` left out; series without any are left out."""
        found = {
            name: [each for each in rings[MINUTES] if from_ms <= each.at_ms < to_ms]
            for name, rings in self._series.items()
        }
        return {name: each for name, each in found.items() if each}

    def marked(self, from_ms: int, to_ms: int) -> list[tuple[str, Mark]]:
        """Return what happened to any series in a time, `to_ms` left out."""
        return [(name, mark) for name, mark in self._marks if from_ms <= mark.at_ms < to_ms]

    def names(self, prefix: str = "") -> list[str]:
        """Return the series that there are, sorted."""
        return sorted(name for name in self._series if name.startswith(prefix))

    def marks(self, name: str, from_ms: int, to_ms: int) -> list[Mark]:
        """Return what happened to a series in a time."""
        return [mark for series, mark in self._marks if series == name and from_ms <= mark.at_ms <= to_ms]

    def read(self, name: str, from_ms: int, to_ms: int, points: int = POINTS_MAX) -> list[Bucket]:
        """Return a series between two times, of the finest level that reaches back so far, in at most `points` buckets."""
        rings = self._series.get(name)
        if rings is None or to_ms < from_ms:
            return []
        chosen = next((ring for ring in rings if _reaches(ring, from_ms)), rings[-1])
        found = [each for each in chosen if from_ms <= each.at_ms <= to_ms]
        wanted = max(1, min(points, POINTS_MAX))
        return found if len(found) <= wanted else list(_fewer(found, wanted))


def _reaches(ring: _Ring, from_ms: int) -> bool:
    """Whether a ring begins early enough, or has never been full: then nothing is older than what it holds."""
    first = next(iter(ring), None)
    return first is None or first.at_ms <= from_ms or not ring.is_full


def _fewer(found: list[Bucket], wanted: int) -> Iterable[Bucket]:
    size = -(-len(found) // wanted)
    for start in range(0, len(found), size):
        part = found[start : start + size]
        least, most = min(each.least for each in part), max(each.most for each in part)
        yield Bucket(part[0].at_ms, part[-1].last, least, most)
