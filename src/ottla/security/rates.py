"""How fast something happens: Kafka's rate over sampled windows, and its token bucket (KIP-13, KIP-599)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import floor

__all__ = ["SampledRate", "TokenBucket", "Windows"]


@dataclass(frozen=True, slots=True)
class Windows:
    """What a rate is measured over: `quota.window.num` windows of `quota.window.size.seconds`."""

    count: int = 11
    size_ms: int = 1000


class _Window:
    """What was recorded from `start_ms` on, and when the last of it was."""

    __slots__ = ("amount", "last_ms", "start_ms")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.last_ms = start_ms
        self.amount = 0.0


class SampledRate:
    """An amount per second over the last windows, of which the newest is still being filled.

    The time that is divided by is what has passed since the oldest window began, and never less than all windows but
    one: so a first burst is spread over the whole time instead of counting as an enormous rate.
    """

    __slots__ = ("_count", "_kept", "_newest", "_size_ms", "_span_s_min", "_sum_before")

    def __init__(self, windows: Windows) -> None:
        self._count = windows.count
        self._size_ms = windows.size_ms
        self._span_s_min = max(windows.count - 1, 1) * windows.size_ms / 1000
        self._kept: deque[_Window] = deque()
        self._newest: _Window | None = None
        self._sum_before = 0.0
        """What all windows but the newest have recorded."""

    def record(self, amount: float, now_ms: int) -> None:
        """Count an amount, which may be negative to take one back."""
        newest = self._newest
        if newest is None or now_ms - newest.start_ms >= self._size_ms:
            newest = self._next_window(now_ms)
        newest.amount += amount
        newest.last_ms = now_ms

    def _next_window(self, now_ms: int) -> _Window:
        kept = self._kept
        if len(kept) > self._count:
            kept.popleft()
        self._sum_before = sum(each.amount for each in kept)
        self._newest = newest = _Window(now_ms)
        kept.append(newest)
        return newest

    def per_second(self, now_ms: int) -> float:
        """Return the rate."""
        span_ms = self.span_ms(now_ms)
        newest = self._newest
        return 0.0 if newest is None else (self._sum_before + newest.amount) * 1000 / span_ms

    def span_ms(self, now_ms: int) -> int:
        """Return the time that the rate is measured over now; forgets windows that are too old."""
        kept, size_ms = self._kept, self._size_ms
        if kept and now_ms - kept[0].last_ms >= self._count * size_ms:
            self._forget(now_ms)
        passed_ms = now_ms - kept[0].start_ms if kept else 0
        missing = self._count - 1 - passed_ms // size_ms
        if missing > 0:
            passed_ms += missing * size_ms
        return passed_ms or size_ms

    def _forget(self, now_ms: int) -> None:
        kept = self._kept
        while kept and now_ms - kept[0].last_ms >= self._count * self._size_ms:
            kept.popleft()
        if not kept:
            self._newest = None
        self._sum_before = sum(each.amount for each in kept if each is not self._newest)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return how long nothing may come until the rate is within the bound again; 0 where it is."""
        newest = self._newest
        if newest is None or self._sum_before + newest.amount <= bound * self._span_s_min:
            return 0  # even if all of it counts, over the shortest time: no need to look closer
        rate = self.per_second(now_ms)
        return floor((rate - bound) / bound * self.span_ms(now_ms) + 0.5) if rate > bound else 0

    def is_idle(self, now_ms: int) -> bool:
        """True where nothing that was recorded counts any more."""
        newest = self._newest
        return newest is None or now_ms - newest.last_ms >= self._count * self._size_ms


class TokenBucket:
    """Tokens that come at a rate and may be overdrawn; a full bucket holds what comes during all windows.

    It suits what happens in bursts: a request that overdraws it is let through, and the next waits until the debt is
    paid.
    """

    __slots__ = ("_filled_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None
        self._filled_ms = 0

    def take(self, amount: float, bound: float, now_ms: int) -> None:
        """Take tokens, whether or not there are so many."""
        self._tokens = min(self._full(bound), self.tokens(bound, now_ms) - amount)

    def tokens(self, bound: float, now_ms: int) -> float:
        """Return what is in the bucket, below 0 where it is overdrawn; tokens come at `bound` per second."""
        full = self._full(bound)
        held = full if self._tokens is None else self._tokens + bound * (now_ms - self._filled_ms) / 1000
        self._tokens, self._filled_ms = min(full, held), now_ms
        return self._tokens

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return how long it takes until the debt is paid; 0 where there is none."""
        tokens = self.tokens(bound, now_ms)
        return floor(-tokens / bound * 1000 + 0.5) if tokens < 0 else 0

    def is_idle(self, now_ms: int) -> bool:
        """True where the bucket is sure to be full again."""
        return self._tokens is None or now_ms - self._filled_ms >= 2 * self._windows.count * self._windows.size_ms

    def _full(self, bound: float) -> float:
        return self._windows.count * self._windows.size_ms / 1000 * bound
