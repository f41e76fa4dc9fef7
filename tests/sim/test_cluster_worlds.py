"""Clusters in simulation: every promise is kept, seed after seed, and a seed is one world."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.kinds import kept_seeds, run_world

QUORUM_SEEDS = 40
SEEDS_PER_TEST = 5


def check(name: str) -> None:
    outcome = run_world(name)
    if outcome.error:
        events = "\n".join(outcome.recent)
        raise AssertionError(f"make sim SEED={name}, faults {outcome.faults}:\n{events}\n{outcome.error}")


@pytest.mark.parametrize("first", range(0, QUORUM_SEEDS, SEEDS_PER_TEST))
def test_controllers_give_no_ticket_twice(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        check(f"quorum:{seed}")


@pytest.mark.parametrize("name", kept_seeds())
def test_what_failed_once_holds(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", ["quorum:3"])
def test_a_seed_is_one_world_whatever_the_hash_seed(name: str) -> None:
    digests = set()
    for hash_seed in ("0", "4711"):
        run = subprocess.run(
            [sys.executable, "-m", "tests.sim", "--seed", name],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            timeout=100,
        )
        digests.add(run.stdout.partition("trace ")[2].split()[0])
    assert len(digests) == 1
