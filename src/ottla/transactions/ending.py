"""How transactions end: EndTxn in both protocols, fencing, timeouts, and what follows once every marker is written.

An end is decided when its Prepare record is committed. The second protocol (KIP-890) bumps the epoch at each end, so that
whatever is still on its way from the old transaction can never enter the next one; a client that did not hear the answer
asks again with the epoch that it had.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ottla.base import ErrorCode, KafkaError, ProducerEpoch, ProducerId
from ottla.transactions.decision import Decision, DecisionContext, Outcome
from ottla.transactions.transaction import EPOCH_MAX, NO_EPOCH, NO_PRODUCER, Status, Transaction

__all__ = ["SECOND_PROTOCOL", "complete", "end_transaction", "expired", "fence"]

SECOND_PROTOCOL = 2
"""The `transaction.version` that bumps the epoch at each end."""


def end_transaction(
    found: Transaction | None,
    producer_id: ProducerId,
    epoch: ProducerEpoch,
    context: DecisionContext,
    *,
    commit: bool,
    client_version: int,
) -> Decision:
    """Decide about an EndTxn; raises KafkaError where it is refused."""
    if found is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if client_version >= SECOND_PROTOCOL:
        return _end_second(found, producer_id, epoch, context, commit=commit)
    if found.producer_id != producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if found.epoch != epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if found.status is Status.ONGOING:
        return _prepare(found, context, commit=commit, client_version=0)
    return Decision(_as_before(found, commit=commit))


def _end_second(
    found: Transaction, producer_id: ProducerId, epoch: ProducerEpoch, context: DecisionContext, *, commit: bool
) -> Decision:
    bumped = found.epoch == epoch + 1
    rotated = found.previous_producer_id == producer_id and epoch == EPOCH_MAX - 1 and found.epoch == 0
    if found.producer_id != producer_id and not rotated:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    asks_again = bumped or rotated
    if found.status.is_ending:
        is_valid = bumped
    elif found.status in (Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT):
        is_valid = asks_again or epoch == found.epoch
    else:
        is_valid = epoch == found.epoch
    if not is_valid:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if found.status.is_at_rest and found.epoch >= EPOCH_MAX:
        _as_before(found, commit=commit)
        return _rotated(found, context)
    if found.status.is_ending or (asks_again and found.status is not Status.ONGOING):
        return Decision(_as_before(found, commit=commit)._replace(producer_id=found.producer_id, epoch=found.epoch))
    if found.status is Status.ONGOING or not commit:  # an abort may come before anything was added
        return _prepare(found, context, commit=commit, client_version=SECOND_PROTOCOL)
    raise KafkaError(ErrorCode.INVALID_TXN_STATE)


def _rotated(found: Transaction, context: DecisionContext) -> Decision:
    """Give the producer of an ended transaction a new id: no client may have the last epoch, after which none comes."""
    producer_id = context.take_producer_id()
    rotated = replace(
        found,
        producer_id=producer_id,
        previous_producer_id=found.producer_id,
        epoch=ProducerEpoch(0),
        last_epoch=NO_EPOCH,
        updated_ms=context.now_ms,
    )
    return Decision(Outcome(ErrorCode.NONE, producer_id, ProducerEpoch(0)), (rotated,))


def _as_before(found: Transaction, *, commit: bool) -> Outcome:
    """Return the answer to the same end asked for again; raises KafkaError where the end was, or is to be, another."""
    if found.status is Status.EMPTY or found.is_commit != commit:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    if found.status.is_ending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return Outcome()


def _prepare(found: Transaction, context: DecisionContext, *, commit: bool, client_version: int) -> Decision:
    """Decide the end; the answer says with which epoch the producer goes on."""
    epoch, last_epoch, next_producer_id = found.epoch, found.last_epoch, NO_PRODUCER
    if client_version >= SECOND_PROTOCOL:
        if found.is_epoch_exhausted:
            next_producer_id = context.take_producer_id()
        epoch, last_epoch = ProducerEpoch(min(found.epoch + 1, EPOCH_MAX)), found.epoch
    is_bumped = client_version >= SECOND_PROTOCOL and epoch > found.epoch
    ending = _ending(
        replace(found, epoch=epoch, last_epoch=last_epoch, next_producer_id=next_producer_id),
        context,
        commit=commit,
        client_version=client_version if is_bumped else 0,
    )
    if client_version < SECOND_PROTOCOL:
        return Decision(Outcome(), (ending,))
    if next_producer_id != NO_PRODUCER:
        return Decision(Outcome(ErrorCode.NONE, next_producer_id, ProducerEpoch(0)), (ending,))
    return Decision(Outcome(ErrorCode.NONE, found.producer_id, epoch), (ending,))


def _ending(found: Transaction, context: DecisionContext, *, commit: bool, client_version: int) -> Transaction:
    is_open = found.status is Status.ONGOING
    return replace(
        found,
        status=Status.PREPARE_COMMIT if commit else Status.PREPARE_ABORT,
        previous_producer_id=found.producer_id,
        started_ms=found.started_ms if is_open else context.now_ms,
        updated_ms=context.now_ms,
        client_version=client_version,
    )


def fence(found: Transaction, context: DecisionContext) -> Transaction:
    """Return an open transaction as it is aborted against its producer's will: with an epoch that nobody has.

    Earlier versions let a producer go on with the last epoch. Its transaction ends with that epoch, by a marker of the first
    protocol, which may have the epoch of the records.
    """
    assert found.status is Status.ONGOING
    is_second = context.version >= SECOND_PROTOCOL and found.epoch < EPOCH_MAX
    fenced = replace(
        found,
        epoch=ProducerEpoch(min(found.epoch + 1, EPOCH_MAX)),
        last_epoch=found.epoch if is_second else NO_EPOCH,
    )
    return _ending(fenced, context, commit=False, client_version=SECOND_PROTOCOL if is_second else 0)


def complete(
    found: Transaction | None, producer_id: ProducerId, epoch: ProducerEpoch, context: DecisionContext
) -> Decision:
    """Decide that a transaction has ended, now that its markers are written; nothing where that is known already."""
    if found is None or not found.status.is_ending or (found.producer_id, found.epoch) != (producer_id, epoch):
        return Decision(Outcome())
    rotates = found.next_producer_id != NO_PRODUCER
    ended = replace(
        found,
        status=Status.COMPLETE_COMMIT if found.status is Status.PREPARE_COMMIT else Status.COMPLETE_ABORT,
        producer_id=found.next_producer_id if rotates else found.producer_id,
        previous_producer_id=found.producer_id,
        next_producer_id=NO_PRODUCER,
        epoch=ProducerEpoch(0) if rotates else found.epoch,
        partitions=frozenset(),
        updated_ms=context.now_ms,
    )
    return Decision(Outcome(), (ended,))


def expired(found: Iterable[Transaction], context: DecisionContext) -> list[str]:
    """Return the transactional ids that nobody has used for `transactional.id.expiration.ms`."""
    before_ms = context.now_ms - context.settings.transactional_id_expiration_ms
    return [each.transactional_id for each in found if each.status.is_at_rest and each.updated_ms <= before_ms]
