"""Offsets of records that are taken together are held back and let go as those of records taken one by one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.connect import SourceRecord
from ottla.connect.tasks.submitted import SubmittedRecords

PLACES: list[dict[str, Any]] = [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"c": 3}, {}]
"""The first two are one partition, in another order."""
RECORD = st.builds(
    SourceRecord,
    topic=st.just("t"),
    source_partition=st.sampled_from(PLACES),
    source_offset=st.none() | st.sampled_from([{}, {"at": 1}, {"at": 2}, {"at": 3}]),
)


@given(st.lists(st.lists(RECORD, max_size=6), max_size=4), st.randoms(use_true_random=False))
def test_records_taken_together_are_as_taken_one_by_one(runs: list[list[SourceRecord]], random: Any) -> None:
    together, alone = SubmittedRecords(), SubmittedRecords()
    for run in runs:
        tokens = together.submit_all(run)
        others = []
        for each in run:
            partition, offset = each.source_partition, each.source_offset
            stores = offset is not None and bool(partition or offset)
            others.append(alone.submit(each, partition, offset, stores=stores))
        assert [token.record for token in tokens] == run
        for mine, other in zip(tokens, others, strict=True):
            mine.left = other.left = random.randrange(2)
        assert together.committable() == alone.committable()


def test_one_late_acknowledgement_holds_back_what_is_behind_it_in_its_partition_alone() -> None:
    records = [SourceRecord(topic="t", source_partition=PLACES[n % 2 * 2], source_offset={"at": n}) for n in range(6)]
    submitted = SubmittedRecords()
    tokens = submitted.submit_all(records)
    for each in tokens:
        each.left = 0
    tokens[2].left = 1
    assert {at["at"] for _, at in submitted.committable().values() if at} == {0, 5}
    tokens[2].left = 0
    assert {at["at"] for _, at in submitted.committable().values() if at} == {4}
