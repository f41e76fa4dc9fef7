"""The chaos runs' checker finds what is wrong with made-up histories, and nothing where nothing is."""

from __future__ import annotations

import pytest

from tests.chaos.history import (
    Entry,
    Outcome,
    Sent,
    Transaction,
    Verdict,
    check_commits,
    check_seen,
    check_sent,
    check_transactions,
    longest_stall,
)

A = ("a", 0)


def sent(*numbers: int, acknowledged: tuple[int, ...] | None = None) -> dict[tuple[str, int], Sent]:
    offsets = numbers if acknowledged is None else acknowledged
    return {A: Sent(list(numbers), {number: number for number in offsets})}


def log(*numbers: int) -> list[Entry]:
    return [Entry(0, offset, "a", number) for offset, number in enumerate(numbers)]


def kinds(verdict: Verdict) -> dict[str, int]:
    return {kind: len(found) for kind, found in verdict.against.items() if found}


def test_a_history_that_was_kept_is_right() -> None:
    assert not check_sent(sent(0, 1, 2), log(0, 1, 2))


def test_an_acknowledged_record_that_is_not_there_is_lost() -> None:
    found = check_sent(sent(0, 1, 2), log(0, 1))
    assert kinds(found) == {"lost": 1}
    assert found.against["lost"] == ["('a', 0) 2, acknowledged at offset 2"]


def test_a_record_without_acknowledgement_may_be_there_or_not() -> None:
    assert not check_sent(sent(0, 1, 2, acknowledged=(0, 1)), log(0, 1))
    assert not check_sent(sent(0, 1, 2, acknowledged=(0, 1)), log(0, 1, 2))


def test_a_record_that_is_there_twice_is_a_duplicate() -> None:
    assert kinds(check_sent(sent(0, 1, 2, acknowledged=(0, 1)), log(0, 1, 1))) == {"duplicated": 1}
    assert kinds(check_sent(sent(0, 1), log(0, 1, 0, 1))) == {"duplicated": 2}, "a whole batch that was sent again"


def test_records_of_a_producer_in_another_order_are_found() -> None:
    found = check_sent({A: Sent([0, 1, 2], {0: 0, 1: 2, 2: 1})}, log(0, 2, 1))
    assert kinds(found) == {"reordered": 1}


def test_two_producers_may_interleave() -> None:
    both = {("a", 0): Sent([0, 1], {0: 0, 1: 2}), ("b", 0): Sent([0, 1], {0: 1, 1: 3})}
    entries = [Entry(0, 0, "a", 0), Entry(0, 1, "b", 0), Entry(0, 2, "a", 1), Entry(0, 3, "b", 1)]
    assert not check_sent(both, entries)


def test_a_record_at_another_offset_than_acknowledged_has_moved() -> None:
    assert kinds(check_sent({A: Sent([0], {0: 7})}, log(0))) == {"moved": 1}


def test_what_nobody_sent_is_invented() -> None:
    assert kinds(check_sent(sent(0), [*log(0), Entry(0, 1, "stranger", 5)])) == {"invented": 1}


def test_an_offset_that_is_read_twice_is_found() -> None:
    assert kinds(check_sent(sent(0, 1), [Entry(0, 4, "a", 0), Entry(0, 4, "a", 1)]))["reordered"] == 1


@pytest.mark.parametrize(
    ("outcome", "read", "expected"),
    [
        (Outcome.COMMITTED, (0, 1), {}),
        (Outcome.COMMITTED, (0,), {"lost": 1}),
        (Outcome.ABORTED, (), {}),
        (Outcome.ABORTED, (1,), {"aborted read": 1}),
        (Outcome.UNKNOWN, (), {}),
        (Outcome.UNKNOWN, (0, 1), {}),
        (Outcome.UNKNOWN, (0,), {"torn": 1}),
    ],
)
def test_a_transaction_is_there_whole_or_not_at_all(
    outcome: Outcome, read: tuple[int, ...], expected: dict[str, int]
) -> None:
    transaction = Transaction("t", [(0, 0), (1, 1)], outcome)
    entries = [Entry(number, number, "t", number) for number in read]
    assert kinds(check_transactions([transaction], entries)) == expected


def test_a_committed_record_that_is_there_twice_is_a_duplicate() -> None:
    transaction = Transaction("t", [(0, 0)], Outcome.COMMITTED)
    found = check_transactions([transaction], [Entry(0, 0, "t", 0), Entry(0, 1, "t", 0)])
    assert kinds(found) == {"duplicated": 1}


def test_what_a_reader_has_seen_must_stay() -> None:
    seen = [Entry(0, 0, "a", 0), Entry(0, 1, "a", 1)]
    assert not check_seen(seen, log(0, 1, 2))
    assert kinds(check_seen(seen, log(0, 5))) == {"changed": 1}, "another value at the same offset"
    assert kinds(check_seen(seen, log(0))) == {"changed": 1}, "nothing there any more"


def test_a_committed_offset_may_not_go_back() -> None:
    assert not check_commits({0: 5, 1: 2}, {0: 5, 1: 3})
    assert kinds(check_commits({0: 5, 1: 2}, {0: 4})) == {"offset lost": 2}


def test_the_longest_stall_is_the_longest_gap_of_any_partition() -> None:
    assert longest_stall({0: [1.0, 2.0, 2.5], 1: [1.0, 1.1]}, until=3.0) == pytest.approx(1.9)
    assert longest_stall({}, until=3.0) == 0.0
