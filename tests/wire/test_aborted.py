"""Readers of committed records pass over what was aborted, from a transaction's first offset to its marker."""

from __future__ import annotations

from ottla.base import Millis, Offset, ProducerEpoch, ProducerId
from ottla.wire import (
    AbortedTransactions,
    BatchHeader,
    Record,
    build_batch,
    end_transaction_marker,
    read_batch_header,
)

ONE, OTHER = ProducerId(1), ProducerId(2)


def data(offset: int, producer_id: ProducerId, *, transactional: bool = True) -> BatchHeader:
    batch = build_batch(
        [Record(timestamp=Millis(0), value=b"v")] * 2,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )
    return read_batch_header(batch, 0)


def marker(offset: int, producer_id: ProducerId) -> BatchHeader:
    batch = end_transaction_marker(
        commit=False,
        producer_id=producer_id,
        producer_epoch=ProducerEpoch(0),
        coordinator_epoch=0,
        timestamp=Millis(0),
        base_offset=offset,
    )
    return read_batch_header(batch, 0)


def test_a_producers_batches_are_hidden_from_the_first_of_the_transaction_to_its_marker() -> None:
    aborted = AbortedTransactions([(ONE, Offset(11)), (ONE, Offset(2))])
    answer = [data(0, ONE), data(2, ONE), data(4, OTHER), marker(6, ONE), data(7, ONE), marker(9, ONE), data(11, ONE)]
    assert [aborted.hides(each) for each in answer] == [False, True, False, True, False, True, True]


def test_an_answer_may_begin_within_the_transaction() -> None:
    aborted = AbortedTransactions([(ONE, Offset(2))])
    assert [aborted.hides(each) for each in (data(8, ONE), marker(10, ONE), data(11, ONE))] == [True, True, False]


def test_what_is_in_no_transaction_is_seen_and_markers_never_are() -> None:
    aborted = AbortedTransactions([(ONE, Offset(0))])
    assert not aborted.hides(data(0, ONE, transactional=False))
    assert AbortedTransactions([]).hides(marker(0, OTHER))
