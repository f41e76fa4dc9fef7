"""Counters and distributions under Kafka's metric names; they are read by whoever exposes them.

Hot paths keep a reference to their counter and add to its `value`: no lookup, no lock (there is one loop), no
allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.broker.meters import Counter, RequestTimes

__all__ = ["Counter", "Histogram", "Metrics"]

BUCKET_BITS = 3
"""Eight buckets per power of two: a quantile is off by less than an eighth."""


class Histogram:
    """A distribution of non-negative integers in logarithmic buckets."""

    __slots__ = ("buckets", "count", "largest", "total")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.count = 0
        self.total = 0
        self.largest = 0

    def record(self, value: int) -> None:
        """Count one value."""
        shift = max(0, value.bit_length() - BUCKET_BITS - 1)
        bucket = (value >> shift) << shift
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.count += 1
        self.total += value
        if value > self.largest:
            self.largest = value

    def quantile(self, fraction: float) -> int:
        """Return the lower bound of the bucket in which that fraction of all values is reached."""
        wanted = fraction * self.count
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                return bucket
        return 0


class Metrics:
    """Every metric of one broker by its name (Kafka's MBean name: `type.name` and sorted tags)."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._gauges: dict[str, Callable[[], float]] = {}
        self.requests: dict[str, RequestTimes] = {}
        """Every kind of request by its API's name; Fetch by who asks: `FetchConsumer` and `FetchFollower`."""

    def counter(self, name: str) -> Counter:
        """Return the counter of that name, made on first use."""
        return self._counters.setdefault(name, Counter())

    def histogram(self, name: str) -> Histogram:
        """Return the distribution of that name, made on first use."""
        return self._histograms.setdefault(name, Histogram())

    def request(self, name: str) -> RequestTimes:
        """Return the times of one kind of request, made on first use."""
        return self.requests.setdefault(name, RequestTimes())

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Say how a value that is looked up when asked for is read."""
        self._gauges[name] = read

    def values(self) -> Iterator[tuple[str, float]]:
        """Yield (name, value) of everything, by name; a distribution gives its count, mean and quantiles."""
        found: dict[str, float] = {name: counter.value for name, counter in self._counters.items()}
        found |= {name: read() for name, read in self._gauges.items()}
        for name, each in self._histograms.items():
            found[f"{name}.Count"] = each.count
            found[f"{name}.Mean"] = each.total / each.count if each.count else 0.0
            found[f"{name}.Max"] = each.largest
            for percent in (50, 95, 99):
                found[f"{name}.{percent}thPercentile"] = each.quantile(percent / 100)
        yield from sorted(found.items())
