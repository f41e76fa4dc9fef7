"""Comparing what leads to itself: pairs of schemas, each calculated once, however deeply they stand in each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Pairs"]

Schema = TypeVar("Schema")
Where = TypeVar("Where")
Reason = TypeVar("Reason")

_DEPTH_MAX = 40
_STEPS_MAX = 100_000
"""Pairs that are calculated in one comparison."""


class Pairs(Generic[Schema, Where, Reason]):
    """The pairs of one comparison.

    A pair that is met while it is under way, or too deep, counts as one that fits. Those that were too deep are looked
    at afterwards; where one does not fit, everything that counted on it is calculated again. So the answer is the largest
    set of pairs that fit as long as the others do, which is what schemas that lead to themselves mean.
    """

    def __init__(
        self, calculate: Callable[[Schema, Schema, Where], tuple[Reason, ...]], too_much: Callable[[Where], Reason]
    ) -> None:
        self._calculate = calculate
        self._too_much = too_much
        self._answers: dict[tuple[int, int], tuple[Reason, ...]] = {}
        self._misfits: dict[tuple[int, int], tuple[Reason, ...]] = {}
        self._later: list[tuple[Schema, Schema, Where]] = []
        self._kept: list[tuple[Schema, Schema]] = []  # so that no other schema comes to have the id of one
        self._depth = 0
        self._steps_left = _STEPS_MAX

    def settled(self, old: Schema, new: Schema, where: Where) -> tuple[Reason, ...]:
        """Return why a pair does not fit, with all that it leads to."""
        while True:
            count = len(self._misfits)
            self._answers = dict(self._misfits)
            found = self.compare(old, new, where)
            while self._later:
                pair = self._later.pop()
                if reasons := self.compare(*pair):
                    self._misfits[id(pair[0]), id(pair[1])] = reasons
            if len(self._misfits) == count:
                return found

    def compare(self, old: Schema, new: Schema, where: Where) -> tuple[Reason, ...]:
        """Return why a pair does not fit, as far as is known now; for what calculates a pair."""
        key = (id(old), id(new))
        known = self._answers.get(key)
        if known is not None:
            return known
        self._kept.append((old, new))
        if self._steps_left <= 0:
            return (self._too_much(where),)  # not known to fit
        if self._depth >= _DEPTH_MAX:
            self._later.append((old, new, where))
            return ()
        self._steps_left -= 1
        self._answers[key] = ()
        self._depth += 1
        found = self._answers[key] = self._calculate(old, new, where)
        self._depth -= 1
        return found
