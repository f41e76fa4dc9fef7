"""The engine's results are Kafka Streams': against answers of Java's TopologyTestDriver 4.3.0 that are checked in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.streams.java.cases import GROUPS
from tests.streams.java.compare import differences, final_differences
from tests.streams.java.goldens import read

CASES = [pytest.param(case, answer, id=f"{group}: {case['name']}") for group in GROUPS for case, answer in read(group)]
RESTARTED = [each for each in CASES if each.values[0]["name"] != "stream clock"]  # type: ignore[index]
"""A processor that has ended its schedule makes it anew where it is started again, as in Kafka Streams."""
SETTLED = [
    each
    for each in CASES
    if not each.values[0].get("sequence_only") and "error" not in each.values[1]  # type: ignore[union-attr]
]


@pytest.mark.parametrize(("case", "answer"), CASES)
def test_record_by_record_the_results_are_javas(case: dict[str, Any], answer: dict[str, Any]) -> None:
    assert differences(case, answer) == []


@pytest.mark.parametrize(("case", "answer"), RESTARTED)
def test_restored_before_every_record_the_results_are_javas(case: dict[str, Any], answer: dict[str, Any]) -> None:
    assert differences(case, answer, resident="restored") == []


@pytest.mark.parametrize(("case", "answer"), RESTARTED)
def test_restored_over_a_checkpoint_of_some_batches_ago_the_results_are_javas(
    case: dict[str, Any], answer: dict[str, Any]
) -> None:
    assert differences(case, answer, resident="saved") == []


@pytest.mark.parametrize(("case", "answer"), RESTARTED)
def test_where_a_standby_takes_over_the_results_are_javas(case: dict[str, Any], answer: dict[str, Any]) -> None:
    assert differences(case, answer, resident="standby") == []


@pytest.mark.parametrize(("case", "answer"), CASES)
def test_with_state_that_stays_decoded_the_results_are_javas(case: dict[str, Any], answer: dict[str, Any]) -> None:
    assert differences(case, answer, resident="kept") == []


@pytest.mark.parametrize(("case", "answer"), SETTLED)
def test_in_batches_with_caches_the_final_values_are_javas(case: dict[str, Any], answer: dict[str, Any]) -> None:
    assert final_differences(case, answer, batch=5) == []


def test_every_operator_has_cases() -> None:
    assert len(CASES) >= 200 and len(SETTLED) >= 170
