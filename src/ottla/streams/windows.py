"""Windows over event time, in milliseconds, with Kafka's bounds: a time window [start, end), a session [start, end].

Sizes and graces are timedeltas, milliseconds or text: `TimeWindows.of_size(minutes=5, grace="30s").advance_by("1m")`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ottla.streams.durations import Duration, milliseconds, of_units

__all__ = ["JoinWindows", "SessionWindows", "SlidingWindows", "TimeWindows", "UnlimitedWindows", "Windowed", "Windows"]

K = TypeVar("K")

OLD_GRACE_MS = 86_400_000
"""How late a record might be where nothing was said (KIP-633 has made that an error of its own)."""


@dataclass(frozen=True, slots=True)
class Windowed(Generic[K]):
    """A key within a window: what a windowed table is keyed by. For a time window `end_ms` is exclusive."""

    key: K
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Tumbling (advance = size) and hopping windows."""

    size_ms: int
    advance_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise ValueError(f"TimeWindows: expected a size of at least 1 ms, got {self.size_ms}")
        if not 0 < self.advance_ms <= self.size_ms:
            raise ValueError(f"TimeWindows: expected an advance of 1 to {self.size_ms} ms, got {self.advance_ms}")

    @classmethod
    def of_size(cls, size: Duration | None = None, *, grace: Duration, **units: float) -> TimeWindows:
        """Tumbling windows that take late records for `grace` after their end: `of_size(minutes=5, grace="1m")`."""
        size_ms = of_units(size, units, "TimeWindows.of_size")
        return cls(size_ms, size_ms, milliseconds(grace, "TimeWindows: grace"))

    @classmethod
    def of_size_with_no_grace(cls, size: Duration | None = None, **units: float) -> TimeWindows:
        """Tumbling windows that drop every late record."""
        size_ms = of_units(size, units, "TimeWindows.of_size_with_no_grace")
        return cls(size_ms, size_ms, 0)

    def advance_by(self, advance: Duration | None = None, **units: float) -> TimeWindows:
        """Hopping windows: one begins every `advance`, which is at most the size."""
        return replace(self, advance_ms=of_units(advance, units, "TimeWindows.advance_by"))


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """One window for each distinct set of records that lie within `difference_ms` of one another (KIP-450)."""

    difference_ms: int
    grace_ms: int

    @classmethod
    def of_difference(cls, difference: Duration | None = None, *, grace: Duration, **units: float) -> SlidingWindows:
        """Windows that hold records at most `difference` apart, and take late ones for `grace`."""
        found = of_units(difference, units, "SlidingWindows.of_difference")
        return cls(found, milliseconds(grace, "SlidingWindows: grace"))

    @classmethod
    def of_difference_with_no_grace(cls, difference: Duration | None = None, **units: float) -> SlidingWindows:
        """Windows that hold records at most `difference` apart, and drop every late one."""
        return cls(of_units(difference, units, "SlidingWindows.of_difference_with_no_grace"), 0)


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Records that follow one another within `gap_ms`."""

    gap_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.gap_ms <= 0:
            raise ValueError(f"SessionWindows: expected a gap of at least 1 ms, got {self.gap_ms}")

    @classmethod
    def of_inactivity_gap(cls, gap: Duration | None = None, *, grace: Duration, **units: float) -> SessionWindows:
        """Sessions that end after `gap` without a record, and take late ones for `grace`."""
        found = of_units(gap, units, "SessionWindows.of_inactivity_gap")
        return cls(found, milliseconds(grace, "SessionWindows: grace"))

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, gap: Duration | None = None, **units: float) -> SessionWindows:
        """Sessions that end after `gap` without a record, and drop every late one."""
        return cls(of_units(gap, units, "SessionWindows.of_inactivity_gap_with_no_grace"), 0)


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window from `start_ms` on."""

    start_ms: int = 0

    @classmethod
    def of(cls) -> UnlimitedWindows:
        """One window from the epoch on."""
        return cls()

    def start_on(self, start_ms: int) -> UnlimitedWindows:
        """Leave out what is before `start_ms`, milliseconds since the epoch."""
        if start_ms < 0:
            raise ValueError(f"UnlimitedWindows: expected a start of at least 0, got {start_ms}")
        return replace(self, start_ms=start_ms)


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """How far the other side's record may lie before and after this side's; negative where it may not reach this side's."""

    before_ms: int
    after_ms: int
    grace_ms: int
    unmatched_at_once: bool = False
    """Left and outer joins forward a record without partner as it comes, and again with each partner that comes later."""

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise ValueError(
                f"JoinWindows: expected an end that is not before the start, got {-self.before_ms} to {self.after_ms} ms"
            )

    @classmethod
    def of_time_difference(cls, difference: Duration | None = None, *, grace: Duration, **units: float) -> JoinWindows:
        """Records at most `difference` apart meet; late ones are taken for `grace`."""
        found = of_units(difference, units, "JoinWindows.of_time_difference")
        return cls(found, found, milliseconds(grace, "JoinWindows: grace"))

    @classmethod
    def of(cls, difference: Duration | None = None, **units: float) -> JoinWindows:
        """Kafka's rule from before KIP-633, deprecated there: a grace of 24 hours, and what has no partner comes at once."""
        found = of_units(difference, units, "JoinWindows.of")
        return cls(found, found, OLD_GRACE_MS, unmatched_at_once=True)

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration | None = None, **units: float) -> JoinWindows:
        """Records at most `difference` apart meet; late ones are dropped."""
        found = of_units(difference, units, "JoinWindows.of_time_difference_with_no_grace")
        return cls(found, found, 0)

    def before(self, difference: Duration | None = None, **units: float) -> JoinWindows:
        """Change how far the other side's record may lie before this side's."""
        return replace(self, before_ms=of_units(difference, units, "JoinWindows.before"))

    def after(self, difference: Duration | None = None, **units: float) -> JoinWindows:
        """Change how far the other side's record may lie after this side's."""
        return replace(self, after_ms=of_units(difference, units, "JoinWindows.after"))

    @property
    def size_ms(self) -> int:
        """The width of the window around a record."""
        return self.before_ms + self.after_ms


Windows = TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows
