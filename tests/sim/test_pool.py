"""Worlds on every processor: in order, and the same as alone."""

from __future__ import annotations

from tests.sim.kinds import run_world
from tests.sim.pool import run_worlds

NAMES = ["quorum:1", "broker:2", "quorum:3"]


def test_a_world_is_the_same_alone_and_in_the_pool_whatever_ran_before_it() -> None:
    alone = {name: run_world(name) for name in reversed(NAMES)}
    together = list(run_worlds(NAMES, 2))
    assert [name for name, _ in together] == NAMES
    assert {name: outcome.digest for name, outcome in together} == {name: each.digest for name, each in alone.items()}


def test_what_was_acknowledged_is_counted() -> None:
    assert run_world("quorum:1").acknowledged > 0 and run_world("broker:2").acknowledged > 0


def test_no_world_begins_when_the_time_is_over() -> None:
    assert list(run_worlds(NAMES, 2, is_over=lambda: True)) == []
