"""Truncation, deletion, retention and compaction of a log: some calls fail, in every way; all: `make faults`."""

from __future__ import annotations

import pytest

from tests.faults.log_stories import REMOVING
from tests.faults.runner import broken_of


@pytest.mark.parametrize("story", REMOVING)
def test_one_failing_call_costs_no_more_than_it_may(story: str) -> None:
    assert not broken_of(story)
