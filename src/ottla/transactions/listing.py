"""DescribeTransactions and ListTransactions (KIP-664; durations KIP-994, patterns KIP-1152)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.base import ErrorCode, KafkaError
from ottla.java import PatternError, Re2Pattern, compile_re2
from ottla.transactions.transaction import Status, Transaction
from ottla.wire.messages.describe_transactions import TopicData, TransactionState
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.list_transactions import TransactionState as ListedState

__all__ = ["describe", "list_transactions", "unknown_states"]

_BY_TITLE = {status.title: status for status in Status}


def describe(found: Transaction | None, transactional_id: str, may_describe: Callable[[str], bool]) -> TransactionState:
    """Return a transactional id's state, with those of its topics that the asker may know."""
    if not transactional_id:
        return TransactionState(transactional_id="", error_code=int(ErrorCode.INVALID_REQUEST))
    if found is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return TransactionState(transactional_id=transactional_id, error_code=int(code))
    topics: dict[str, list[int]] = {}
    for each in sorted(found.partitions):
        if may_describe(each.topic):
            topics.setdefault(each.topic, []).append(each.partition)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.status.title,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=[TopicData(topic=name, partitions=indexes) for name, indexes in topics.items()],
    )


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    """Return the states asked for that there are not."""
    return [each for each in request.state_filters if each not in _BY_TITLE]


def list_transactions(found: Iterable[Transaction], request: ListTransactionsRequest, now_ms: int) -> list[ListedState]:
    """Return what the filters let through; raises KafkaError INVALID_REGULAR_EXPRESSION for a pattern that is none."""
    states = set(request.state_filters)
    producer_ids = set(request.producer_id_filters)
    matches = _compiled(request.transactional_id_pattern).matches if request.transactional_id_pattern else None
    duration_ms = request.duration_filter
    return [
        ListedState(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            transaction_state=each.status.title,
        )
        for each in found
        if (not states or each.status.title in states)
        and (not producer_ids or each.producer_id in producer_ids)
        and (duration_ms < 0 or now_ms - each.started_ms > duration_ms)
        and (matches is None or matches(each.transactional_id))
    ]


def _compiled(pattern: str) -> Re2Pattern:
    try:
        return compile_re2(pattern)
    except PatternError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"TransactionalIdPattern {pattern[:200]!r} is not a regular expression of RE2: {error}",
        ) from error
