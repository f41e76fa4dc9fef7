"""The anomalies that were published about Kafka-compatible systems, each as a claim that it does not happen here.

Aborted read, torn transaction, duplicates under idempotence, offsets of an aborted transaction, spurious zero offsets; and
what KIP-890 is about: messages of an old attempt that arrive late.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.base import ErrorCode
from ottla.wire import iter_batch_records, iter_batches
from tests.server import Server
from tests.transactions.talker import Talker, transactional_batch
from tests.waiting import until

UNCOMMITTED, COMMITTED = 0, 1
SECONDS_MAX = 100.0


@pytest.fixture
def talker(server: Server) -> Iterator[Talker]:
    with Talker(server.port) as made:
        yield made


def begin(talker: Talker, name: str, *, timeout_ms: int = 60_000) -> tuple[int, int]:
    """Return (producer id, epoch) of a transactional id with a topic of its name."""
    talker.create(name, 2)
    talker.coordinate(name)
    code, producer_id, epoch = talker.init(name, timeout_ms=timeout_ms)
    assert code == 0
    return producer_id, epoch


def values(talker: Talker, topic: str, *, index: int = 0) -> list[bytes]:
    """Return what a reader of committed records makes of a Fetch: the aborted ones are left out by what the answer says."""
    found = talker.fetch(topic, index=index)
    aborted = sorted((each.first_offset, each.producer_id) for each in found.aborted_transactions or ())
    open_aborted: set[int] = set()
    read = []
    data = bytes(found.records or b"")
    for header, at in iter_batches(data):
        while aborted and aborted[0][0] <= header.last_offset:
            open_aborted.add(aborted.pop(0)[1])
        if header.is_control:
            open_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborted):
            read += [bytes(each.value or b"") for each in iter_batch_records(data, at, header)]
    return read


def test_no_aborted_read(talker: Talker) -> None:
    producer_id, epoch = begin(talker, "aborted-read")
    for round_ in range(5):
        batch = transactional_batch(producer_id, epoch, 0, b"%d" % round_)
        assert talker.produce("aborted-read", "aborted-read", batch) == 0
        assert b"%d" % round_ not in values(talker, "aborted-read")  # not while it is open
        code, producer_id, epoch = talker.end("aborted-read", producer_id, epoch, commit=round_ % 2 == 0)
        assert code == 0
    assert values(talker, "aborted-read") == [b"0", b"2", b"4"]


def test_no_torn_transaction_all_partitions_or_none(talker: Talker) -> None:
    producer_id, epoch = begin(talker, "torn")
    for round_, commit in enumerate([True, False, True]):
        for index in (0, 1):
            batch = transactional_batch(producer_id, epoch, 0, b"%d" % round_)
            assert talker.produce("torn", "torn", batch, index=index) == 0
        _, producer_id, epoch = talker.end("torn", producer_id, epoch, commit=commit)
        assert values(talker, "torn", index=0) == values(talker, "torn", index=1)
    assert values(talker, "torn") == [b"0", b"2"]


def test_no_duplicates_when_a_batch_is_sent_again(talker: Talker) -> None:
    producer_id, epoch = begin(talker, "again")
    batch = transactional_batch(producer_id, epoch, 0, b"once")
    assert [talker.produce("again", "again", batch) for _ in range(3)] == [0, 0, 0]
    _, producer_id, epoch = talker.end("again", producer_id, epoch, commit=True)
    assert values(talker, "again") == [b"once"]
    assert talker.produce("again", "again", batch) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert talker.end_offset("again") == 2


def test_offsets_of_an_aborted_transaction_are_never_seen(talker: Talker) -> None:
    producer_id, epoch = begin(talker, "offsets")
    talker.coordinate("offsets-group", 0)
    for offset, commit in ((5, True), (9, False), (7, True)):
        before = talker.fetch_offset("offsets-group", "offsets")
        assert talker.commit_offsets("offsets", producer_id, epoch, "offsets-group", "offsets", offset) == 0
        assert talker.fetch_offset("offsets-group", "offsets") == before
        unstable = talker.fetch_offset("offsets-group", "offsets", stable=True)
        assert unstable == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        _, producer_id, epoch = talker.end("offsets", producer_id, epoch, commit=commit)
        after = (0, offset) if commit else before
        assert talker.fetch_offset("offsets-group", "offsets", stable=True) == after


def test_no_spurious_zero_offsets(talker: Talker) -> None:
    producer_id, epoch = begin(talker, "zero")
    talker.coordinate("zero-group", 0)
    assert talker.fetch_offset("zero-group", "zero") == (0, -1)  # nothing is committed: that is not 0
    assert talker.commit_offsets("zero", producer_id, epoch, "zero-group", "zero", 3) == 0
    assert talker.fetch_offset("zero-group", "zero") == (0, -1)
    _, producer_id, epoch = talker.end("zero", producer_id, epoch, commit=False)
    assert talker.fetch_offset("zero-group", "zero", stable=True) == (0, -1)


def test_a_late_message_of_an_old_attempt_does_not_enter_the_next_transaction(talker: Talker) -> None:
    producer_id, old = begin(talker, "late")
    assert talker.produce("late", "late", transactional_batch(producer_id, old, 0, b"old")) == 0
    _, producer_id, new = talker.end("late", producer_id, old, commit=False)
    assert talker.produce("late", "late", transactional_batch(producer_id, new, 0, b"new")) == 0
    late = transactional_batch(producer_id, old, 1, b"late")
    for version in (11, 12):
        assert talker.produce("late", "late", late, version=version) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert talker.add("late", producer_id, old, ("late", 1)) == [ErrorCode.PRODUCER_FENCED]
    assert talker.commit_offsets("late", producer_id, old, "late", "late", 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert talker.end("late", producer_id, old, commit=True)[0] == ErrorCode.PRODUCER_FENCED
    talker.end("late", producer_id, new, commit=True)
    assert values(talker, "late") == [b"new"]


def test_nothing_is_written_that_no_coordinator_knows_of(talker: Talker) -> None:
    producer_id, epoch = begin(talker, "hanging")
    batch = transactional_batch(producer_id, epoch, 0, b"unknown")
    codes = [talker.produce("hanging", "hanging", batch, version=version) for version in (9, 10, 11)]
    assert codes == [ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE]
    unnamed = talker.produce(None, "hanging", batch)
    assert unnamed == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert talker.end_offset("hanging", isolation=UNCOMMITTED) == 0


def test_a_producer_that_takes_too_long_is_aborted_and_fenced(talker: Talker) -> None:
    producer_id, epoch = begin(talker, "slow", timeout_ms=50)
    assert talker.produce("slow", "slow", transactional_batch(producer_id, epoch, 0, b"slow")) == 0
    until(lambda: talker.end_offset("slow") == 2)
    assert values(talker, "slow") == []
    assert talker.end("slow", producer_id, epoch, commit=True)[0] == ErrorCode.INVALID_TXN_STATE
    late = transactional_batch(producer_id, epoch, 1, b"late")
    assert talker.produce("slow", "slow", late) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_last_stable_offset_waits_for_the_oldest_open_transaction(talker: Talker) -> None:
    first = begin(talker, "stable")
    talker.coordinate("stable-other")
    second = talker.init("stable-other")[1:]
    assert talker.produce("stable", "stable", transactional_batch(*first, 0, b"a")) == 0
    assert talker.produce("stable-other", "stable", transactional_batch(*second, 0, b"b")) == 0
    talker.end("stable-other", *second, commit=True)
    assert (talker.end_offset("stable"), talker.end_offset("stable", isolation=UNCOMMITTED)) == (0, 3)
    fetched = talker.fetch("stable")
    assert (fetched.last_stable_offset, fetched.high_watermark) == (0, 3)
    talker.end("stable", *first, commit=False)
    assert talker.end_offset("stable") == 4
    aborted = [(each.producer_id, each.first_offset) for each in talker.fetch("stable").aborted_transactions]
    assert aborted == [(first[0], 0)]
    assert values(talker, "stable") == [b"b"]


def test_transactions_of_the_first_protocol_end_without_a_bump(talker: Talker) -> None:
    producer_id, epoch = begin(talker, "first")
    for round_, commit in enumerate([True, False, True]):
        assert talker.add("first", producer_id, epoch, ("first", 0)) == [0]
        batch = transactional_batch(producer_id, epoch, round_, b"%d" % round_)
        assert talker.produce("first", "first", batch, version=11) == 0
        assert talker.end("first", producer_id, epoch, commit=commit, version=4)[0] == 0
    assert values(talker, "first") == [b"0", b"2"]
