"""Code that is broken on purpose is found out; all mutations run in `make mutations`."""

from __future__ import annotations

import pytest

from tests.sim.mutations import FIRST, MUTATIONS, found_in

QUICK = (
    "vote twice",
    "answer before the commit",
    "apply before the commit",
    "hide the timer while it ticks",
    "read a codec again",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_the_simulation_finds_code_that_is_broken_on_purpose(name: str) -> None:
    found, tried, _ = found_in(MUTATIONS[name], range(FIRST, FIRST + 20), enough=1)
    assert found, f"not in {tried} worlds"


def test_a_mutation_leaves_no_trace() -> None:
    from ottla.raft import elections

    before = elections.would_vote
    with MUTATIONS["vote twice"].applied():
        assert elections.would_vote is not before
    assert elections.would_vote is before
