"""How fast, and how late: a brake for senders, and the figures that Kafka's performance tools print."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Latencies", "Throttle"]

SAMPLES_MAX = 500_000
PAUSE_SECONDS_MIN = 0.002
"""Shorter pauses are put together, because a system does not sleep that short."""
MEBIBYTE = 1024 * 1024


class Throttle:
    """Keeps a sender at a rate of records per second; one below 0 is no limit.

    `pause(seconds)` is how it waits, so that answers can be taken meanwhile.
    """

    def __init__(self, per_second: float, pause: Callable[[float], object]) -> None:
        self._per_second = per_second
        self._pause = pause
        self._begun_s = time.perf_counter()

    def wait(self, sent: int) -> None:
        """Return when record number `sent` (from 0) is due."""
        if self._per_second < 0:
            return
        due_s = self._begun_s + sent / self._per_second
        while (left_s := due_s - time.perf_counter()) >= PAUSE_SECONDS_MIN:
            self._pause(left_s)


@dataclass
class Latencies:
    """Counts, bytes and latencies of records, whole and since the last report; at most 500,000 latencies are kept."""

    expected: int
    kind: str = "records"
    count: int = 0
    size: int = 0
    total_ms: float = 0.0
    worst_ms: float = 0.0
    begun_s: float = field(default_factory=time.perf_counter)
    _samples: list[float] = field(default_factory=list)
    _window: list[float] = field(default_factory=lambda: [0, 0, 0.0, 0.0])
    _window_begun_s: float = field(default_factory=time.perf_counter)

    def record(self, latency_ms: float, size: int) -> None:
        """Count one record of `size` bytes that was answered after `latency_ms` milliseconds."""
        if self.count % max(1, -(-self.expected // SAMPLES_MAX)) == 0:
            self._samples.append(latency_ms)
        self.count += 1
        self.size += size
        self.total_ms += latency_ms
        self.worst_ms = max(self.worst_ms, latency_ms)
        window = self._window
        window[0] += 1
        window[1] += size
        window[2] += latency_ms
        window[3] = max(window[3], latency_ms)

    def window_line(self) -> str:
        """Return the line on what came since the last one, and begin anew."""
        seconds = max(1e-9, time.perf_counter() - self._window_begun_s)
        count, size, total_ms, worst_ms = self._window
        self._window, self._window_begun_s = [0, 0, 0.0, 0.0], time.perf_counter()
        return (
            f"{count:.0f} records sent, {count / seconds:.1f} records/sec ({size / seconds / MEBIBYTE:.2f} MB/sec), "
            f"{total_ms / max(1, count):.1f} ms avg latency, {worst_ms:.1f} ms max latency."
        )

    def total_line(self) -> str:
        """Return the last line: everything, and how late the latest were."""
        seconds = max(1e-9, time.perf_counter() - self.begun_s)
        shares = " ".join(
            f"{self.percentile_ms(share / 100):.0f} ms {share:g}th{'.' if share == 99.9 else ','}"
            for share in (50, 95, 99, 99.9)
        )
        return (
            f"{self.count} {self.kind} sent, {self.count / seconds:f} records/sec "
            f"({self.size / seconds / MEBIBYTE:.2f} MB/sec), {self.total_ms / max(1, self.count):.2f} ms avg latency, "
            f"{self.worst_ms:.2f} ms max latency, {shares}"
        )

    def percentile_ms(self, share: float) -> float:
        """Return the latency that a share of the records did not exceed; 0 without records."""
        ordered = sorted(self._samples)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
