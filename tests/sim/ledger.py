"""What the world has promised its clients, and so what must be found again.

Per partition three ends are kept. Below `durable_end` every record survives a power loss: it was acknowledged by a topic
that flushes every message, or a clean stop came after. Below `os_end` every record survives the end of the process: it
was acknowledged, or shown to a reader. Whatever offset was ever seen with a value has that value for ever, except that a
power loss may take records from `durable_end` on, whose offsets are then given out again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "Ledger",
    "PartitionFacts",
    "Row",
    "Tally",
    "TopicFacts",
    "Violation",
    "check_exactly_once",
    "remember_acknowledged",
    "remember_seen",
]

Row = tuple[int, bytes, int]
"""(offset, value, timestamp) as a reader sees a record."""


class Violation(AssertionError):
    """A promise that was not kept."""


@dataclass
class Tally:
    """How much a world has promised, for its figures."""

    records: int = 0


def remember_acknowledged(
    name: str, known: dict[int, tuple[bytes, int]], base_offset: int, values: list[bytes], log_append_time: int
) -> int:
    """Enter what a producer was told into what is known by offset; return the offset after it."""
    for offset, value in enumerate(values, base_offset):
        before = known.setdefault(offset, (value, log_append_time))
        if before[0] != value:
            raise Violation(f"{name}: offset {offset} was acknowledged for {value!r} but holds {before[0]!r}")
    return base_offset + len(values)


def remember_seen(name: str, known: dict[int, tuple[bytes, int]], rows: list[Row]) -> int:
    """Enter what a reader was shown, which may not differ from what is known; return the offset after it."""
    for offset, value, timestamp in rows:
        before = known.get(offset)
        if before is None or (before[1] == -1 and before[0] == value):
            known[offset] = (value, timestamp)
        elif before != (value, timestamp):
            raise Violation(f"{name}: offset {offset} was {before} and is now {(value, timestamp)}")
    return rows[-1][0] + 1 if rows else 0


def check_exactly_once(name: str, rows: list[Row]) -> None:
    """No value is there twice, but for a vandal's, and an idempotent producer's are in the order they were sent."""
    seen: dict[bytes, int] = {}
    last: dict[bytes, tuple[int, int]] = {}
    for offset, value, _ in rows:
        before = seen.setdefault(value, offset)
        if before != offset and not value.startswith(b"vandal"):
            raise Violation(f"{name}: {value!r} is there twice, at {before} and {offset}")
        producer, _, number = value.split()[0].partition(b":")
        if producer.startswith(b"idempotent"):
            major, _, minor = number.partition(b".")
            place = (int(major), int(minor))
            if place <= last.get(producer, (-1, -1)):
                raise Violation(f"{name}: {value!r} at {offset} came after number {last[producer]}")
            last[producer] = place


@dataclass
class PartitionFacts:
    """One partition's promises."""

    name: str
    flushes: bool
    tally: Tally = field(default_factory=Tally)
    values: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    os_end: int = 0
    durable_end: int = 0
    power_losses: int = 0

    def acknowledge(self, base_offset: int, values: list[bytes], log_append_time: int) -> None:
        """A producer was told that its records are at these offsets."""
        self.tally.records += len(values)
        end = remember_acknowledged(self.name, self.values, base_offset, values, log_append_time)
        self.os_end = max(self.os_end, end)
        if self.flushes:
            self.durable_end = max(self.durable_end, end)

    def observe(self, rows: list[Row]) -> None:
        """A reader saw these records."""
        self.os_end = max(self.os_end, remember_seen(self.name, self.values, rows))

    def watermarks(self, seen: dict[str, int], log_start: int, high_watermark: int) -> None:
        """A reader saw these bounds: in order, and on one connection (`seen`) the high watermark never goes back."""
        if log_start >= 0 and high_watermark >= 0 and log_start > high_watermark:
            raise Violation(f"{self.name}: log start {log_start} is beyond the high watermark {high_watermark}")
        before = seen.get(self.name, 0)
        if 0 <= high_watermark < before:
            raise Violation(f"{self.name}: the high watermark went from {before} back to {high_watermark}")
        seen[self.name] = max(before, high_watermark)

    def came_back(self, log_start: int, end: int, rows: list[Row], *, lost_power: bool) -> None:
        """The broker has started again; `rows` is everything from its log start to its end."""
        floor = self.durable_end if lost_power else self.os_end
        if end < floor:
            raise Violation(f"{self.name}: ends at {end}, but everything below {floor} was promised")
        if [offset for offset, _, _ in rows] != list(range(log_start, end)):
            raise Violation(f"{self.name}: {log_start} to {end} has offsets {[row[0] for row in rows][:50]}…")
        if lost_power:
            self.power_losses += 1
            self.values = {offset: value for offset, value in self.values.items() if offset < end}
            self.os_end = end
        self.observe(rows)
        check_exactly_once(self.name, rows)

    def stopped_cleanly(self) -> None:
        """A clean stop makes everything durable."""
        self.durable_end = max(self.durable_end, self.os_end)


@dataclass
class TopicFacts:
    """One topic's promises; `certain` is False while an unanswered request may have changed it."""

    name: str
    topic_id: bytes
    partitions: int
    configs: dict[str, str]
    certain: bool = True
    possible: list[tuple[str, str]] = field(default_factory=list)
    """Config changes whose answer never came."""


class Ledger:
    """All promises of a world."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.topics: dict[str, TopicFacts] = {}
        self.gone: dict[str, bytes] = {}
        self.partitions: dict[tuple[str, int], PartitionFacts] = {}

    def created(self, name: str, topic_id: bytes, partitions: int, configs: dict[str, str]) -> None:
        """A topic is there from now on."""
        self.topics[name] = TopicFacts(name, topic_id, partitions, configs)
        self.gone.pop(name, None)
        self.grown(name, partitions)

    def grown(self, name: str, partitions: int) -> None:
        """A topic has this many partitions from now on."""
        facts = self.topics[name]
        facts.partitions = partitions
        flushes = facts.configs.get("flush.messages") == "1"
        for index in range(partitions):
            self.partitions.setdefault((name, index), PartitionFacts(f"{name}-{index}", flushes, self.tally))

    def deleted(self, name: str) -> None:
        """A topic is gone for good."""
        facts = self.topics.pop(name)
        self.gone[name] = facts.topic_id
        for index in range(facts.partitions):
            del self.partitions[name, index]

    def check_topics(self, found: dict[str, tuple[bytes, int]]) -> None:
        """Compare with the metadata of a broker: name → (id, partitions)."""
        for name, facts in self.topics.items():
            if not facts.certain:
                continue
            if found.get(name) != (facts.topic_id, facts.partitions):
                raise Violation(f"topic {name} was {(facts.topic_id.hex(), facts.partitions)}, now {found.get(name)}")
        for name, topic_id in self.gone.items():
            if name in found and found[name][0] == topic_id:
                raise Violation(f"topic {name} was deleted and is there again")

    def check_configs(self, name: str, found: dict[str, str]) -> None:
        """Compare a topic's own configuration with what was acknowledged."""
        facts = self.topics[name]
        for key in {*facts.configs, *found, *(key for key, _ in facts.possible)}:
            allowed = {facts.configs.get(key), *(value for each, value in facts.possible if each == key)}
            if found.get(key) not in allowed:
                raise Violation(f"topic {name}: {key} was {sorted(map(str, allowed))} and is {found.get(key)}")
        facts.configs = dict(found)
        facts.possible.clear()
