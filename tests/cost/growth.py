"""Whether work grows with what is asked for, and no faster: four times the elements, four times the work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.cost.work import work

__all__ = ["RATIO_MAX", "Growth", "grows_linearly", "grows_linearly_awaited"]

TIMES = 4
RATIO_MAX = 5.5
"""n log n with n = 64 grows by 5.3 where n grows by 4; n squared grows by 16."""
UNITS_PER_ELEMENT = 24
"""Work below so much per element is not looked at: it cannot hold anybody, and little work has large ratios."""


@dataclass(frozen=True)
class Growth:
    """What one, n and four times n elements cost, each beyond what a request with one costs."""

    small: int
    large: int
    elements: int
    """Of the large one."""

    @property
    def is_linear(self) -> bool:
        """Return whether the work grew as n log n does, or more slowly."""
        return self.large <= max(RATIO_MAX * self.small, UNITS_PER_ELEMENT * self.elements)

    def __str__(self) -> str:
        ratio = self.large / max(1, self.small)
        return (
            f"{self.elements // TIMES} elements cost {self.small}, {self.elements} cost {self.large}: {ratio:.1f} times"
        )


def grows_linearly(make: Callable[[int], Any], run: Callable[[Any], object], n: int = 64) -> Growth:
    """Return how the work of `run` grows with what `make` makes of a count of elements; making is not counted.

    The modules that do the work have to be imported after `work.install`.
    """
    costs = []
    for count in (1, 1, n, TIMES * n):  # the first one pays for what is made on first use
        request = make(count)
        before = work()
        run(request)
        costs.append(work() - before)
    return Growth(costs[2] - costs[1], costs[3] - costs[1], TIMES * n)


async def grows_linearly_awaited(
    make: Callable[[int], Any], run: Callable[[Any], Awaitable[object]], n: int = 64
) -> Growth:
    """Return the same of what has to be awaited."""
    costs = []
    for count in (1, 1, n, TIMES * n):
        request = make(count)
        before = work()
        await run(request)
        costs.append(work() - before)
    return Growth(costs[2] - costs[1], costs[3] - costs[1], TIMES * n)
