"""Worlds of every kind with fixed seeds, every world that ever failed, and that a seed is a world."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sim.check import check
from tests.sim.kinds import KINDS, kept_seeds, run_world
from tests.sim.world import run_seed

SEEDS = {
    "broker4": 4,
    "cluster4": 3,
    "lonely4": 2,
    "quorum4": 4,
    "voters4": 2,
    "broker2": 12,
    "broker3": 4,
    "cluster3": 3,
    "lonely3": 2,
    "cluster2": 4,
    "lonely2": 2,
    "quorum2": 6,
    "voters2": 3,
    "broker": 16,
    "cluster": 4,
    "lonely": 2,
    "quorum": 3,
    "voters": 1,
}
"""How many of each kind, fewer of the first generation, which has fewer faults; `make sim` runs new ones."""
SEEDS_AT_NIGHT = {
    "broker4": 2,
    "cluster4": 1,
    "lonely4": 1,
    "quorum4": 2,
    "voters4": 1,
    "broker2": 8,
    "broker3": 2,
    "cluster3": 1,
    "lonely3": 1,
    "cluster2": 3,
    "lonely2": 1,
    "quorum2": 3,
    "voters2": 2,
    "broker": 16,
    "cluster": 3,
    "lonely": 2,
    "quorum": 3,
    "voters": 1,
}
"""So many of those run at night only: they have not failed since they first ran, and took two minutes of two processors.

Of the first generation one world of a cluster, which has all that its others draw from, is left for the day.
"""
SEEDS_PER_TEST = {"quorum4": 2, "broker2": 4, "broker3": 2, "broker": 4, "quorum": 3}
FIRST = 100
"""Of later generations: their first seeds are those of the first one's tests."""


def some_of_every_kind() -> Iterator[Any]:
    """Yield the names of the worlds of each test."""
    for kind, count in SEEDS.items():
        begin, size = FIRST if kind[-1].isdigit() else 0, SEEDS_PER_TEST.get(kind, 1)
        names = [f"{kind}:{begin + at}" for at in range(count)]
        by_day = count - SEEDS_AT_NIGHT.get(kind, 0)
        for at in range(0, count, size):
            yield pytest.param(names[at : at + size], id=names[at], marks=() if at < by_day else pytest.mark.slow)


def what_failed_once() -> Iterator[Any]:
    """Yield each world that ever failed.

    At night only are those whose mistake was the model's, which seldom changes, and those of the first generation, which
    have held since they were mended and took a minute of two processors.
    """
    for name, what in kept_seeds().items():
        by_night = what.startswith("model:") or not name.partition(":")[0][-1].isdigit()
        yield pytest.param(name, marks=pytest.mark.slow if by_night else ())


def test_every_kind_has_worlds_here() -> None:
    assert set(SEEDS) == set(KINDS)


@pytest.mark.parametrize("names", list(some_of_every_kind()))
def test_every_promise_is_kept(names: list[str]) -> None:
    for name in names:
        check(name)


@pytest.mark.parametrize("name", list(what_failed_once()))
def test_what_failed_once_holds(name: str) -> None:
    check(name)


@pytest.mark.parametrize(
    "name",
    # two processes each; a cluster has all that the others draw from
    ["quorum4:3", "cluster2:3", *(pytest.param(each, marks=pytest.mark.slow) for each in ("broker:3", "cluster4:3"))],
)
def test_a_seed_is_one_world_whatever_the_hash_seed(name: str) -> None:
    digests = set()
    for hash_seed in ("0", "4711"):
        run = subprocess.run(
            [sys.executable, "-m", "tests.sim", "--seed", name],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            timeout=200,
        )
        digests.add(run.stdout.partition("trace ")[2].split()[0])
    assert len(digests) == 1


@pytest.mark.parametrize("kind", ["broker", "quorum"])
def test_two_seeds_are_two_worlds(kind: str) -> None:
    assert run_world(f"{kind}:1").digest != run_world(f"{kind}:2").digest


def test_a_disk_whose_fsync_lies_is_found_out() -> None:
    assert run_seed(1, fsync_lies=True).error


def test_a_broker_that_forgets_what_producers_wrote_after_a_snapshot_is_found_out() -> None:
    script = (
        "from ottla.log import producer_state; from tests.sim.world import run_seed; "
        "producer_state._replay_segment = lambda segment, producers, end: None; print(run_seed(3).error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OTTLA_PURE": "1"},  # a compiled module does not look up what stands in its own names
        timeout=60,
    )
    assert "an idempotent batch was refused: OUT_OF_ORDER_SEQUENCE_NUMBER" in run.stdout, run.stderr
