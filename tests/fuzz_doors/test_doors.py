"""The quick form: growth of every kind of text, and damaged texts by seeds that are always the same."""

from __future__ import annotations

import pytest

from tests.fuzz_doors.cases import Case, checked
from tests.fuzz_doors.doors import DOORS, read_or_refused
from tests.fuzz_doors.work import TooMuchWork, work_of

MOST = 30_000_000
GROWTH_MAX = 6.0
"""Of four times as much, n log n and what a call costs anyhow counted in: twice the square's root is 8."""
SEEDS = 4


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, door in DOORS.items() for kind in door.kinds])
def test_work_grows_with_what_comes(name: str, kind: str) -> None:
    door = DOORS[name]
    small, large = door.sizes
    read_or_refused(door, door.kinds[kind](small))  # what is worked out once
    works = [work_of(lambda size=size: read_or_refused(door, door.kinds[kind](size)), MOST) for size in (small, large)]
    assert works[1] <= GROWTH_MAX * works[0], works


@pytest.mark.parametrize("name", DOORS)
def test_damaged_texts_are_read_or_refused(name: str) -> None:
    for kind in DOORS[name].kinds:
        for seed in range(SEEDS):
            case = Case(name, kind, seed)
            said = checked(case)
            assert said is None, f"python -m tests.fuzz_doors --case '{case}': {said}"


def test_too_much_work_is_found() -> None:
    """The machine itself: a square is no line."""

    def square(size: int) -> int:
        return sum(1 for _ in range(size) for _ in range(size))

    small, large = (work_of(lambda size=size: square(size), MOST) for size in (40, 160))
    assert large > 12 * small
    with pytest.raises(TooMuchWork):
        work_of(lambda: square(1000), 10_000)
