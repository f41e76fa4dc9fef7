"""Clusters in simulation: every promise is kept, seed after seed, and a seed is one world."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.check import check
from tests.sim.kinds import run_world

SEEDS, LONELY_SEEDS = 40, 10
SEEDS_PER_TEST = 5


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_a_cluster_loses_nothing(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        check(f"cluster:{seed}")


@pytest.mark.parametrize("first", range(0, LONELY_SEEDS, SEEDS_PER_TEST))
def test_nothing_is_lost_with_the_last_copy_in_sync(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        check(f"lonely:{seed}")


@pytest.mark.parametrize("name", ["quorum:3", "cluster:3"])
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


def test_two_seeds_are_two_worlds() -> None:
    assert run_world("quorum:1").digest != run_world("quorum:2").digest
