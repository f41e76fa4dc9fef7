"""The name of one failing call, and the choice of them for runs that cannot pay for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.faults.disk import Call, ways_to_fail

__all__ = ["Case", "cases_of_calls", "sampled"]


@dataclass(frozen=True)
class Case:
    """One call of a story that fails in one way; `name` runs it again."""

    story: str
    number: int
    kind: str
    call: Call

    @property
    def name(self) -> str:
        """Such as `produce:14:ENOSPC`."""
        return f"{self.story}:{self.number}:{self.kind}"

    def __str__(self) -> str:
        return f"{self.story}, call {self.number}, {self.call.name}, {self.call.path}, {self.kind}"


def cases_of_calls(story: str, calls: Sequence[Call]) -> list[Case]:
    """Return each way in which each call of a story can fail; calls are numbered from 1."""
    return [
        Case(story, number, kind, call)
        for number, (call, kinds) in enumerate(zip(calls, ways_to_fail(calls), strict=True), 1)
        for kind in kinds
    ]


def sampled(cases: Sequence[Case], *, of_each_kind: int) -> list[Case]:
    """Return so many cases of each kind, always the same ones, spread over the story: no two kinds begin at one call."""
    by_kind: dict[str, list[Case]] = {}
    for case in cases:
        by_kind.setdefault(case.kind, []).append(case)
    chosen = []
    for at, found in enumerate(by_kind.values()):
        count = min(of_each_kind, len(found))
        first = at * len(found) // len(by_kind)
        chosen += [found[(first + each * len(found) // count) % len(found)] for each in range(count)]
    return chosen
