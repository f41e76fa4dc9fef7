"""Workers, requests to them and failures drawn from seeds; `make fuzz-workers SECONDS=60` for more of them."""

from __future__ import annotations

import pytest

from tests.connect.machine.mutations import MUTATIONS, found_in
from tests.connect.machine.sinks import run_sink_world
from tests.connect.machine.world import World, run_world


@pytest.mark.parametrize("seed", range(500, 540))
def test_every_request_is_answered_and_what_was_accepted_last_runs_once(seed: int) -> None:
    run_world(seed)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_every_record_of_a_topic_that_was_made_again_is_put(first: int) -> None:
    for seed in range(first, first + 20):
        run_sink_world(seed)


def test_the_world_of_a_seed_is_the_same_each_time() -> None:
    first, again = World(7), World(7)
    first.run()
    again.run()
    assert (first.loop.steps, first.loop.time(), first.told) == (again.loop.steps, again.loop.time(), again.told)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MUTATIONS))
def test_a_fault_that_is_put_back_is_found(name: str) -> None:
    assert found_in(MUTATIONS[name]) is not None, MUTATIONS[name].sentence
