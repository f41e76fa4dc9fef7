"""A sample of the machine's cases (`make chaos-streams` runs all), and each fault that Streams had, put back, is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.streams.machine.cases import Kind, run, run_all
from tests.streams.machine.mutations import MUTATIONS, Mutation

pytestmark = pytest.mark.timeout(600)
SAMPLED = 8
"""About so many cases of each kind and promise."""


@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly-once", "at-least-once"])
@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name.lower())
def test_nothing_is_lost_or_doubled_whatever_fails(kind: Kind, exactly_once: bool, tmp_path: Path) -> None:
    found, ran = run_all(kind, exactly_once, tmp_path, sample=SAMPLED)
    assert ran > SAMPLED // 2
    assert not found, f"{len(found)}:\n" + "\n".join(str(each) for each in found[:20])


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "-"))
def test_a_fault_that_was_there_is_found_when_it_is_put_back(mutation: Mutation, tmp_path: Path) -> None:
    violations, _, happened = run(mutation.case, tmp_path / "as it is")
    assert happened and not violations
    with mutation.made():
        violations, _, _ = run(mutation.case, tmp_path / "put back")
    assert violations
