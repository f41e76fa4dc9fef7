"""The engine's results are Kafka Streams' on inputs that no golden has: Java's TopologyTestDriver is asked."""

from __future__ import annotations

import pytest

from tests.peer import streams
from tests.streams.java.cases import GROUPS, cases
from tests.streams.java.compare import differences, final_differences

pytestmark = [pytest.mark.peer, pytest.mark.slow]  # with `make compat`; goldens are compared in every run
FIRST_SEED = 100


@pytest.mark.parametrize("group", GROUPS)
def test_results_are_javas(group: str) -> None:
    given = cases(group, seeds=1, first=FIRST_SEED)
    for case, answer in zip(given, streams.answers(given), strict=True):
        assert differences(case, answer) == [], (case["name"], case["seed"])
        if not case.get("sequence_only") and "error" not in answer:
            assert final_differences(case, answer, batch=7) == [], (case["name"], case["seed"])
