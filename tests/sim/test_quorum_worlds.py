"""Controllers alone in simulation, and every world that ever failed."""

from __future__ import annotations

import pytest

from tests.sim.check import check
from tests.sim.kinds import kept_seeds

SEEDS, VOTERS_SEEDS = 30, 8
SEEDS_PER_TEST = 5


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_controllers_give_no_ticket_twice(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        check(f"quorum:{seed}")


@pytest.mark.parametrize("seed", range(VOTERS_SEEDS))
def test_no_ticket_is_given_twice_while_voters_change(seed: int) -> None:
    check(f"voters:{seed}")


@pytest.mark.parametrize("name", kept_seeds())
def test_what_failed_once_holds(name: str) -> None:
    check(name)
