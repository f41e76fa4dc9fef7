"""Stories of a broker: of each way to fail one call; all of them: `make faults`."""

from __future__ import annotations

import pytest

from tests.faults.broker_runner import broken_of_broker, broker_cases_of, run_broker_case
from tests.faults.broker_stories import BROKER_STORIES


@pytest.mark.parametrize("story", BROKER_STORIES)
def test_one_failing_call_costs_a_broker_no_more_than_it_may(story: str) -> None:
    assert not broken_of_broker(story)


@pytest.mark.parametrize(
    "story",
    # what is appended in transactions is appended, too
    ["follower-transactions", "follower-start-truncate", pytest.param("follower-append", marks=pytest.mark.slow)],
)
def test_one_failing_call_of_a_follower_costs_nothing_that_was_acknowledged(story: str) -> None:
    assert not broken_of_broker(story)


@pytest.mark.parametrize("kind", ["EIO", "full"])
def test_a_start_whose_metadata_log_fails_ends_or_waits_for_room_and_never_hangs(kind: str) -> None:
    tried = [
        case
        for case in broker_cases_of("broker-start-unclean")
        if case.kind == kind and case.call.path.startswith("/m/__cluster") and case.call.path.endswith(".log")
    ]
    assert {"pwrite"} <= {case.call.name for case in tried}
    assert not [f"{case}: {error}" for case in tried if (error := run_broker_case(case))]
