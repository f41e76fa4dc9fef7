"""What a host counts of itself between two reports: how often something was done, how much of it, and the most at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["LaneMeters", "Meter", "Metered", "TopicMeter"]


class Metered(NamedTuple):
    """A meter as it is told: both totals since the host began, and the largest amount since it was told before."""

    occasions: int
    total: float
    most: float


@dataclass(slots=True)
class Meter:
    """Counts occasions, and adds up what each amounted to (seconds, records)."""

    count: int = 0
    total: float = 0.0
    most: float = 0.0
    """The largest amount since `told`."""

    def add(self, amount: float, occasions: int = 1) -> None:
        """Note occasions, at least one, of this amount together."""
        self.count += occasions
        self.total += amount
        if (each := amount / occasions) > self.most:
            self.most = each

    def told(self) -> Metered:
        """Return what is to be told, and begin with the largest amount anew."""
        found, self.most = Metered(self.count, self.total, self.most), 0.0
        return found


@dataclass(slots=True)
class LaneMeters:
    """What Kafka Streams measures of a thread, here of a lane; seconds, and records of one turn."""

    commit: Meter = field(default_factory=Meter)
    poll: Meter = field(default_factory=Meter)
    """Waiting for records, once a turn."""
    process: Meter = field(default_factory=Meter)
    """Seconds in which a work's records were processed, by records."""
    punctuate: Meter = field(default_factory=Meter)
    poll_records: Meter = field(default_factory=Meter)
    process_records: Meter = field(default_factory=Meter)
    created: int = 0
    """Works that were taken on."""
    closed: int = 0

    def told(self) -> dict[str, object]:
        """Return all as a message holds it."""
        names = ("commit", "poll", "process", "punctuate", "poll_records", "process_records")
        return {
            **{name: list(getattr(self, name).told()) for name in names},
            "created": self.created,
            "closed": self.closed,
        }


@dataclass(slots=True)
class TopicMeter:
    """Records and bytes of a work that came from a topic, or went into one, and how old the records were then."""

    records: int = 0
    size_bytes: int = 0
    age: Meter = field(default_factory=Meter)
    """Milliseconds between a record's time and its processing's end (`record-e2e-latency`)."""
    age_min: float | None = None
    """The least since it was told."""

    def add(self, size_bytes: int, ages_ms: Sequence[int]) -> None:
        """Note records that go together, at least one."""
        self.size_bytes += size_bytes
        self.add_many(len(ages_ms), total_ms=sum(ages_ms), least_ms=min(ages_ms), most_ms=max(ages_ms))

    def add_many(self, count: int, *, total_ms: int, least_ms: int, most_ms: int) -> None:
        """Note records that go together, at least one, by what their ages come to."""
        self.records += count
        self.age.count += count
        self.age.total += total_ms
        self.age.most = max(self.age.most, most_ms)
        self.age_min = least_ms if self.age_min is None else min(self.age_min, least_ms)

    def told(self) -> list[object]:
        """Return what is to be told, and begin with the extremes anew."""
        least, self.age_min = self.age_min, None
        return [self.records, self.size_bytes, list(self.age.told()), least]
