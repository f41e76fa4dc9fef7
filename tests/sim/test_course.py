"""What ends a world that does not end by itself."""

from __future__ import annotations

import asyncio

import pytest

from tests.sim.cluster.quorum_world import QuorumWorld
from tests.sim.course import run_to_its_end


class SpinningWorld(QuorumWorld):
    """One of whose callbacks never comes back."""

    async def live(self) -> None:
        await self.begin()
        self.faults.log.append("spin")

        async def spin() -> None:
            while True:
                pass

        await asyncio.gather(spin(), asyncio.sleep(1))


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning", "error::RuntimeWarning")
def test_a_world_that_spins_is_a_finding_and_not_a_hang() -> None:
    outcome = run_to_its_end(SpinningWorld(7), processor_seconds_max=3.0)
    assert "the world did not end in 3 seconds of the processor" in outcome.error
    assert "in spin" in outcome.error
    assert (outcome.seed, outcome.faults[-1]) == (7, "spin")
    assert not run_to_its_end(QuorumWorld(1)).error


def test_a_turn_that_does_not_end_is_told_from_a_world_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.sim.course.CALLBACK_SECONDS_MAX", 0.5)
    outcome = run_to_its_end(SpinningWorld(7), processor_seconds_max=60.0)
    assert "one turn of the loop took more than 0.5 seconds of the processor" in outcome.error
    assert "in spin" in outcome.error
