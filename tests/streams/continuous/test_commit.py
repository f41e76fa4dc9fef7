"""Commits of hosts that are killed, cut off, fenced and unheard at any step: what comes of them, and of each step."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest

from ottla.base import TopicPartition
from ottla.streams.commit import (
    Commit,
    CommitFailed,
    Done,
    Due,
    End,
    Ended,
    Flush,
    Flushed,
    GoBack,
    Leave,
    OffsetsStored,
    Phase,
    Restored,
    StoreOffsets,
    WhyFailed,
    commit_step,
)
from tests.streams.continuous.committing import Simulation

POSITIONS = {"a": {TopicPartition("in", 0): 5}, "b": {TopicPartition("in", 1): 7}}


@pytest.mark.parametrize("seed", range(120))
def test_exactly_once_each_result_is_there_once_whoever_dies(seed: int) -> None:
    simulation = Simulation(seed, exactly_once=True)
    simulation.run()
    wanted = [(n, n + 1) for n in range(simulation.cluster.records)]
    for work in simulation.works:
        assert simulation.cluster.results[work] == wanted, f"seed {seed}, {work}"


def test_restarts_begin_with_files_and_refuse_those_that_are_ahead() -> None:
    used = refused = 0
    for seed in range(60):
        simulation = Simulation(seed, exactly_once=True)
        simulation.run()
        used, refused = used + simulation.used, refused + simulation.refused
    assert used > 200 and refused > 20, (used, refused)


@pytest.mark.parametrize("seed", range(60))
def test_at_least_once_no_result_is_lost_whoever_dies(seed: int) -> None:
    simulation = Simulation(seed, exactly_once=False)
    simulation.run()
    for work in simulation.works:
        found = {number for number, _ in simulation.cluster.results[work]}
        assert found == set(range(simulation.cluster.records)), f"seed {seed}, {work}"


@pytest.mark.parametrize("order", list(permutations(("flushed", "a", "b"))))
def test_a_transaction_ends_when_its_results_and_all_its_offsets_are_there(order: tuple[str, ...]) -> None:
    state, effects = commit_step(Commit(exactly_once=True), Due(POSITIONS))
    stored = (StoreOffsets(0, "a", POSITIONS["a"]), StoreOffsets(0, "b", POSITIONS["b"]))
    assert effects == (Flush(0), *stored) and state.phase is Phase.FLUSHING
    for step in order:
        assert effects != (End(0),)
        state, effects = commit_step(state, Flushed(0) if step == "flushed" else OffsetsStored(0, step))
    assert effects == (End(0),)
    assert commit_step(state, OffsetsStored(0, "a")) == (state, ()) and commit_step(state, Flushed(0)) == (state, ())
    state, effects = commit_step(state, Ended(0))
    assert effects == (Done(POSITIONS),) and state == Commit(exactly_once=True, number=1)


def test_at_least_once_offsets_are_the_last_step() -> None:
    state, effects = commit_step(Commit(exactly_once=False), Due({"a": POSITIONS["a"]}))
    assert effects == (Flush(0),)
    state, effects = commit_step(state, Flushed(0))
    assert effects == (StoreOffsets(0, "a", POSITIONS["a"]),)
    state, effects = commit_step(state, OffsetsStored(0, "a"))
    assert effects == (Done({"a": POSITIONS["a"]}),) and state.phase is Phase.RUNNING


def test_nothing_is_committed_where_nothing_has_moved() -> None:
    assert commit_step(Commit(exactly_once=True), Due({"a": {}})) == (Commit(exactly_once=True), ())


def test_the_end_of_a_transaction_without_an_answer_is_not_taken_for_its_commit() -> None:
    state = Commit(exactly_once=True, phase=Phase.ENDING, positions=POSITIONS)
    state, effects = commit_step(state, CommitFailed(0, WhyFailed.UNKNOWN))
    assert effects == (GoBack(),) and state.phase is Phase.BACK
    assert commit_step(state, Ended(0)) == (state, ())


def test_who_is_fenced_takes_nothing_over() -> None:
    state, effects = commit_step(Commit(exactly_once=True, phase=Phase.OFFSETS), CommitFailed(0, WhyFailed.FENCED, "a"))
    assert effects == (Leave(),)
    assert commit_step(state, Due(POSITIONS)) == (state, ()) and commit_step(state, Restored()) == (state, ())


def test_late_answers_of_a_commit_that_was_given_up_change_nothing() -> None:
    state, _ = commit_step(Commit(exactly_once=True), Due(POSITIONS))
    state, _ = commit_step(state, CommitFailed(0, WhyFailed.STALE, "a"))
    state, _ = commit_step(state, Restored())
    begun, _ = commit_step(state, Due(POSITIONS))
    for late in (Flushed(0), OffsetsStored(0, "a"), Ended(0), CommitFailed(0, WhyFailed.FENCED)):
        assert commit_step(begun, late) == (begun, ())
    numbers = [state.number, commit_step(state, Restored())[0].number]
    assert all(a <= b for a, b in pairwise(numbers))
