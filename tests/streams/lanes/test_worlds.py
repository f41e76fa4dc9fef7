"""Lanes, hosts and drivers under failures drawn from seeds; `SECONDS=60 python -m tests.streams.lanes` for more of them."""

from __future__ import annotations

import pytest

from tests.streams.lanes.mutations import MUTATIONS, found_in
from tests.streams.lanes.world import World, run_world


@pytest.mark.parametrize("seed", range(20))
def test_each_result_is_there_as_often_as_it_has_to_be_and_each_work_has_one_host(seed: int) -> None:
    run_world(seed)


def test_the_world_of_a_seed_is_the_same_each_time() -> None:
    first, again = World(7), World(7)
    first.run()
    again.run()
    assert (first.loop.steps, first.loop.time(), first.told) == (again.loop.steps, again.loop.time(), again.told)
    assert first.cluster.copied == again.cluster.copied and first.cluster.offsets == again.cluster.offsets


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MUTATIONS))
def test_a_fault_that_is_put_back_is_found(name: str) -> None:
    assert found_in(MUTATIONS[name]) is not None, MUTATIONS[name].sentence
