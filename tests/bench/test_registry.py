"""The benchmark of the registry measures what it says: a load whose answers are looked at, on a topic of its records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.registry import Registry, cases, started
from bench.registry_load import Asking, answers
from bench.rows import Case


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with started(subjects=100, versions=100) as found:
        yield found


@pytest.mark.parametrize("case", cases(scale=0.001), ids=lambda each: each.name)
def test_a_case_measures_all_its_figures(case: Case, registry: Registry) -> None:
    found = case.run(registry)
    assert found.keys() == {each.name for each in case.metrics}
    assert all(value >= 0 for value in found.values())


def test_a_wrong_answer_ends_the_load(registry: Registry) -> None:
    with pytest.raises(RuntimeError, match="a wrong answer"):
        answers(Asking("id", registry.port, 50_000, known=50_000))
