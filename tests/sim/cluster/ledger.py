"""What a simulated cluster has promised its clients: with RF 3, `acks=all` and two in sync, for ever."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.sim.ledger import Row, Tally, Violation, check_exactly_once, remember_acknowledged, remember_seen

__all__ = ["ClusterLedger", "Promises", "TopicPromises"]


@dataclass
class Promises:
    """One partition's: the offset of every record that was acknowledged or shown, and how far all that goes."""

    name: str
    tally: Tally = field(default_factory=Tally)
    values: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    kept: set[bytes] = field(default_factory=set)
    """Values that were acknowledged, some without their offset."""
    end: int = 0
    trimmed_to: int = 0
    """Records before this may have been deleted."""
    power_losses: int = 0
    """Always none: what one broker may lose, a cluster must not."""

    def acknowledge(self, base_offset: int, values: list[bytes], log_append_time: int) -> None:
        """A producer was told that its records are there; -1 where it was not told at which offsets."""
        self.tally.records += len(values)
        self.kept.update(values)
        if base_offset < 0:
            return
        self.end = max(self.end, remember_acknowledged(self.name, self.values, base_offset, values, log_append_time))

    def observe(self, rows: list[Row]) -> None:
        """A reader saw these records."""
        self.end = max(self.end, remember_seen(self.name, self.values, rows))

    def last_look(self, log_start: int, end: int, rows: list[Row]) -> None:
        """Everything is quiet; `rows` is all that the leader shows, from its log start to its end."""
        if end < self.end:
            raise Violation(f"{self.name}: ends at {end}, but everything below {self.end} was promised")
        if log_start > self.trimmed_to:
            raise Violation(f"{self.name}: starts at {log_start}, and nobody deleted records beyond {self.trimmed_to}")
        if [offset for offset, _, _ in rows] != list(range(log_start, end)):
            raise Violation(f"{self.name}: {log_start} to {end} has offsets {[row[0] for row in rows][:50]}…")
        self.observe(rows)
        there = {value for _, value, _ in rows}
        deleted = {value for offset, (value, _) in self.values.items() if offset < log_start}
        if log_start == 0 and (lost := self.kept - there - deleted):
            raise Violation(f"{self.name}: acknowledged, and nowhere: {sorted(lost)[:5]}")
        check_exactly_once(self.name, rows)


@dataclass
class TopicPromises:
    """A topic's: the states in which it may be now, each None for absent or (partitions, retention)."""

    name: str
    topic_id: bytes
    partitions: int


class ClusterLedger:
    """All promises of a cluster."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.topics: dict[str, TopicPromises] = {}
        self.partitions: dict[tuple[str, int], Promises] = {}

    def created(self, name: str, topic_id: bytes, partitions: int) -> None:
        """A topic is there from now on, for ever."""
        self.topics[name] = TopicPromises(name, topic_id, partitions)
        for index in range(partitions):
            self.partitions[name, index] = Promises(f"{name}-{index}", self.tally)
