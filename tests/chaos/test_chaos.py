"""One short round of chaos: `make chaos ROUNDS=` runs more, with every kind of fault."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from tests.chaos.faults import Fault, kill_leader
from tests.chaos.rolling import run_rolling
from tests.chaos.rounds import run_round
from tests.chaos.world import World, running_world
from tests.ports import free_port

PAUSE_SECONDS = 2.0


def short_pause(world: World, topic: str, rng: Random, say: object) -> None:
    node = world.leader_of(topic) or 1
    world.pause(node)
    time.sleep(PAUSE_SECONDS)  # the fault itself
    world.revive()
    world.await_ready()


@pytest.mark.compat
@pytest.mark.timeout(400)
def test_nothing_is_lost_while_a_leader_is_killed_and_another_one_halts(tmp_path: Path) -> None:
    faults = [Fault("kill leader", kill_leader), Fault("pause", short_pause)]
    with running_world(tmp_path, free_port()) as world:
        found = run_round(world, "short", faults, Random(6), print)
        logs = "\n".join(f"--- node {node.id}\n{node.log.read_text()[-2000:]}" for node in world.cluster.nodes)
    assert not found.problems, (found.problems[:10], logs)
    assert found.acknowledged > 0


@pytest.mark.compat
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_rolling_restart_is_hidden_by_the_retries_of_four_libraries(tmp_path: Path) -> None:
    with running_world(tmp_path, free_port()) as world:
        found = run_rolling(world, "rolling", print)
    assert not found.problems, found.problems[:10]
