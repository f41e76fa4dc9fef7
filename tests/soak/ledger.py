"""What was acknowledged, and what is read at the end: the two have to agree."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["Ledger", "compare_latest", "compare_streams"]

Stream = tuple[str, int]
"""A producer and a partition: its numbers come in order, each once."""


@dataclass
class Ledger:
    """Shared by all threads of a run."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    acknowledged: dict[Stream, list[int]] = field(default_factory=lambda: defaultdict(list))
    committed: dict[Stream, list[int]] = field(default_factory=lambda: defaultdict(list))
    aborted: int = 0
    latest: dict[str, str | None] = field(default_factory=dict)
    consumed: dict[Stream, set[int]] = field(default_factory=lambda: defaultdict(set))
    """What the group's members have read and committed."""
    errors: list[str] = field(default_factory=list)

    def error(self, what: str) -> None:
        """Note what must not happen."""
        with self.lock:
            self.errors.append(what)


def compare_streams(wanted: Mapping[Stream, list[int]], found: Iterable[tuple[Stream, int]]) -> list[str]:
    """Return what differs between the numbers that were acknowledged, in order, and those that are read."""
    read: dict[Stream, list[int]] = defaultdict(list)
    for stream, number in found:
        read[stream].append(number)
    problems = []
    for stream in sorted(wanted.keys() | read.keys()):
        sent, seen = wanted.get(stream, []), read.get(stream, [])
        if sent == seen:
            continue
        lost = sorted(set(sent) - set(seen))
        more = sorted(set(seen) - set(sent))
        twice = len(seen) - len(set(seen))
        order = "" if sorted(seen) == seen else ", out of order"
        problems.append(
            f"{stream}: {len(lost)} lost {lost[:5]}, {len(more)} not acknowledged {more[:5]}, {twice} twice{order}"
        )
    return problems


def compare_latest(wanted: Mapping[str, str | None], found: Mapping[str, str | None]) -> list[str]:
    """Return the keys whose latest value is not what was acknowledged last; a deleted key may be absent."""
    return [
        f"{key}: {found.get(key)!r} in place of {wanted.get(key)!r}"
        for key in sorted(wanted.keys() | found.keys())
        if wanted.get(key) != found.get(key)
    ]
