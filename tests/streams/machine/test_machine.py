"""A sample of the machine's cases (`make chaos-streams` runs all), and each fault that Streams had, put back, is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.connect.testing import Fault
from tests.streams.machine.cases import Again, Case, Kind, Topics, cases, run, run_all
from tests.streams.machine.mutations import MUTATIONS, Mutation

pytestmark = pytest.mark.timeout(600)
SAMPLED = 8
"""About so many cases of each kind and promise."""

STEPS = {
    "plan",
    "fetch input",
    "compute",
    "take a producer id",
    "produce results",
    "commit offsets in a transaction",
    "commit a transaction",
    "Spark's own commit",
    "commit offsets",
}
"""Of the delivery of a batch, whatever the application does."""
WITH_STATE = {Kind.STATE: {"commit state", "produce changelog"}, Kind.BOTH: {"commit state"}}
CUT_OFF = (Fault.KILL_BEFORE, Fault.KILL_AFTER)


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name.lower())
def test_every_step_of_a_batchs_delivery_is_cut_off_and_followed_by_every_kind_of_start(
    kind: Kind, tmp_path: Path
) -> None:
    violations, steps, _ = run(Case(kind, exactly_once=True), tmp_path)
    possible = list(cases(Case(kind, exactly_once=True), steps))
    assert not violations
    for name in STEPS | WITH_STATE.get(kind, set()):
        mine = [each for each in possible if each.injected is not None and each.injected.step == name]
        assert {each.injected.fault for each in mine if each.injected} >= {*CUT_OFF}, name
        assert {each.again for each in mine} == set(Again), name
        if name != "take a producer id":  # of two drivers both take one, which is the step itself
            assert Fault.FENCED in {each.injected.fault for each in mine if each.injected}, name
    ways = {(each.again, each.topics) for each in possible}
    anew = {Topics.SAME, Topics.AGAIN, Topics.REFILLED}
    changed = {Kind.STATE: {*anew, Topics.CUT}, Kind.BOTH: anew}.get(kind, set(Topics))
    assert ways == {(again, topics) for again in Again for topics in changed}


@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly-once", "at-least-once"])
@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name.lower())
def test_nothing_is_lost_or_doubled_whatever_fails(kind: Kind, exactly_once: bool, tmp_path: Path) -> None:
    found, ran = run_all(kind, exactly_once, tmp_path, sample=SAMPLED)
    assert ran > SAMPLED // 2
    assert not found, f"{len(found)}:\n" + "\n".join(str(each) for each in found[:20])


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "-"))
def test_a_fault_that_was_there_is_found_when_it_is_put_back(mutation: Mutation, tmp_path: Path) -> None:
    violations, _, happened = run(mutation.case, tmp_path / "as it is")
    assert happened or mutation.case.injected is None
    assert not violations
    with mutation.made():
        violations, _, _ = run(mutation.case, tmp_path / "put back")
    assert violations
