"""What the clients were told, held against what is read: nothing lost, doubled, reordered, changed, torn or made up.

Plain values and functions, so that the checker itself is tested on histories that are made up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Entry", "Outcome", "Sent", "Transaction", "Verdict", "check_commits", "check_seen", "check_sent"]
__all__ += ["check_transactions", "longest_stall"]

Stream = tuple[str, int]
"""A producer and a partition: its numbers come in ascending order, each once."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record as it was read."""

    partition: int
    offset: int
    producer: str
    number: int


@dataclass
class Sent:
    """What one producer has given to its client for one partition, and what came back."""

    numbers: list[int] = field(default_factory=list)
    """In the order in which they were sent."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    """Number to offset. What is missing here may have been written, and may not."""


class Outcome(Enum):
    """How a transaction ended, as far as its producer knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass
class Transaction:
    """What one transaction has written: (partition, number)."""

    producer: str
    records: list[tuple[int, int]]
    outcome: Outcome = Outcome.UNKNOWN


@dataclass
class Verdict:
    """What speaks against a history, by kind; each item names the records."""

    against: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, what: str) -> None:
        """Note one violation."""
        self.against[kind].append(what)

    def count(self, kind: str) -> int:
        """Return how many violations of a kind there are."""
        return len(self.against.get(kind, ()))

    def merge(self, other: Verdict) -> None:
        """Take in another verdict's violations."""
        for kind, found in other.against.items():
            self.against[kind].extend(found)

    def __bool__(self) -> bool:
        return any(self.against.values())


def check_sent(sent: Mapping[Stream, Sent], log: Sequence[Entry]) -> Verdict:
    """Return what is wrong with the whole content of a topic: lost, duplicated, reordered, moved or invented records."""
    verdict = Verdict()
    _check_offsets(log, verdict)
    by_stream: dict[Stream, list[Entry]] = defaultdict(list)
    for entry in log:
        by_stream[entry.producer, entry.partition].append(entry)
    for stream in sorted(sent.keys() | by_stream.keys()):
        given, found = sent.get(stream, Sent()), by_stream.get(stream, [])
        _check_stream(stream, found, verdict)
        at = {entry.number: entry.offset for entry in reversed(found)}
        known = set(given.numbers)
        for number in at:
            if number not in known:
                verdict.add("invented", f"{stream} {number} at {at[number]} was never sent")
        for number, offset in given.acknowledged.items():
            if number not in at:
                verdict.add("lost", f"{stream} {number}, acknowledged at offset {offset}")
            elif offset >= 0 and all(each.offset != offset for each in found if each.number == number):
                verdict.add("moved", f"{stream} {number}, acknowledged at offset {offset}, stands at {at[number]}")
    return verdict


def _check_offsets(log: Iterable[Entry], verdict: Verdict) -> None:
    last: dict[int, int] = {}
    for entry in log:
        if entry.offset <= last.get(entry.partition, -1):
            verdict.add(
                "reordered", f"partition {entry.partition}: offset {entry.offset} after {last[entry.partition]}"
            )
        last[entry.partition] = entry.offset


def _check_stream(stream: Stream, found: Sequence[Entry], verdict: Verdict) -> None:
    count = Counter(entry.number for entry in found)
    for number, times in count.items():
        if times > 1:
            where = [entry.offset for entry in found if entry.number == number]
            verdict.add("duplicated", f"{stream} {number} at offsets {where}")
    highest = -1
    for entry in found:
        if entry.number < highest and count[entry.number] == 1:
            verdict.add("reordered", f"{stream} {entry.number} at offset {entry.offset}, after {highest}")
        highest = max(highest, entry.number)


def check_transactions(transactions: Sequence[Transaction], log: Sequence[Entry]) -> Verdict:
    """Return what is wrong with a topic read as `read_committed`: committed ones are there whole, aborted ones never."""
    verdict = Verdict()
    _check_offsets(log, verdict)
    found: dict[tuple[str, int, int], int] = Counter((each.producer, each.partition, each.number) for each in log)
    by_stream: dict[Stream, list[Entry]] = defaultdict(list)
    for entry in log:
        by_stream[entry.producer, entry.partition].append(entry)
    for stream, entries in by_stream.items():
        _check_stream(stream, entries, verdict)
    known = set()
    for each in transactions:
        keys = [(each.producer, partition, number) for partition, number in each.records]
        known.update(keys)
        there = [key for key in keys if found[key]]
        name = f"{each.producer} {sorted({number for _, _, number in keys})[:3]}…"
        if each.outcome is Outcome.ABORTED and there:
            verdict.add("aborted read", f"{name}: {there[:3]}")
        elif each.outcome is Outcome.COMMITTED and len(there) < len(keys):
            verdict.add("lost", f"{name}: {len(keys) - len(there)} of {len(keys)} records of a committed transaction")
        elif each.outcome is Outcome.UNKNOWN and 0 < len(there) < len(keys):
            verdict.add("torn", f"{name}: {len(there)} of {len(keys)} records")
    for key in found.keys() - known:
        verdict.add("invented", f"{key} was never sent")
    return verdict


def check_seen(seen: Iterable[Entry], log: Iterable[Entry]) -> Verdict:
    """Return which records a reader has seen, while faults went on, that do not stand there at the end."""
    verdict = Verdict()
    at = {(entry.partition, entry.offset): entry for entry in log}
    for entry in seen:
        now = at.get((entry.partition, entry.offset))
        if now != entry:
            verdict.add("changed", f"{entry} was seen; at the end there is {now}")
    return verdict


def check_commits(acknowledged: Mapping[int, int], at_the_end: Mapping[int, int]) -> Verdict:
    """Return for which partitions a group's committed offset has gone back behind one that was acknowledged."""
    verdict = Verdict()
    for partition, offset in acknowledged.items():
        if at_the_end.get(partition, -1) < offset:
            found = at_the_end.get(partition)
            verdict.add("offset lost", f"partition {partition}: {offset} was committed, {found} is read")
    return verdict


def longest_stall(acknowledged_at: Mapping[int, Sequence[float]], until: float) -> float:
    """Return the longest time that any partition went without an acknowledgement, from its first one on."""
    longest = 0.0
    for times in acknowledged_at.values():
        for before, after in zip(times, [*times[1:], until], strict=True):
            longest = max(longest, after - before)
    return longest
