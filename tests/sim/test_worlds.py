"""Two hundred worlds, and that a seed is a world."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.world import run_seed

SEEDS = 200
SEEDS_PER_TEST = 10


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_every_promise_is_kept(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        outcome = run_seed(seed)
        if outcome.error:
            events = "\n".join(outcome.recent)
            raise AssertionError(
                f"seed {seed} (make sim SEED={seed}), faults {outcome.faults}:\n{events}\n{outcome.error}"
            )


def test_a_seed_is_one_world_whatever_the_hash_seed() -> None:
    digests = set()
    for hash_seed in ("0", "4711"):
        run = subprocess.run(
            [sys.executable, "-m", "tests.sim", "--seed", "3"],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            timeout=60,
        )
        digests.add(run.stdout.partition("trace ")[2].split()[0])
    assert len(digests) == 1


def test_two_seeds_are_two_worlds() -> None:
    assert run_seed(1).digest != run_seed(2).digest


def test_a_disk_whose_fsync_lies_is_found_out() -> None:
    assert run_seed(1, fsync_lies=True).error
