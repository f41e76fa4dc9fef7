"""A leader's wish to change who is in sync (AlterPartition, KIP-497), and the end of a reassignment that follows from it."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.base import ErrorCode, KafkaError, NodeId, Uuid
from ottla.config import BrokerConfig
from ottla.metadata.apply import Record
from ottla.metadata.decide.decision import Decision
from ottla.metadata.decide.partition_change import (
    RECOVERED,
    RECOVERING,
    Election,
    Wanted,
    change_partition,
    unclean_allowed,
)
from ottla.metadata.image import Image, Partition, Topic
from ottla.metadata.partitions import LEADER_UNCHANGED, changed_partition
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

__all__ = ["alter_partition", "check_broker_epoch"]

BROKER_EPOCHS_FROM = 3
"""The first version in which the members of an ISR come with their broker epochs (KIP-903)."""


def check_broker_epoch(image: Image, broker_id: int, broker_epoch: int) -> None:
    """Raise STALE_BROKER_EPOCH where a request is not from the broker that is registered now."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        )


def alter_partition(
    image: Image, request: AlterPartitionRequest, *, version: int, config: BrokerConfig | None = None
) -> Decision[AlterPartitionResponse]:
    """Choose the records that change the ISRs which may be changed; each partition succeeds or fails by itself."""
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    records: list[Record] = []
    topics: list[ResponseTopicData] = []
    for asked in request.topics:
        topic = image.topic_by_id(Uuid(bytes(asked.topic_id)))
        answers: list[ResponsePartitionData] = []
        for each in asked.partitions:
            if topic is None:
                answers.append(_refused(each.partition_index, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            members = each.new_isr_with_epochs
            if version < BROKER_EPOCHS_FROM:
                members = [BrokerState(broker_id=broker_id) for broker_id in each.new_isr]
            answers.append(_alter(image, request.broker_id, topic, each, members, records, config))
        topics.append(ResponseTopicData(topic_id=asked.topic_id, partitions=answers))
    return Decision(tuple(records), AlterPartitionResponse(topics=topics))


def _alter(
    image: Image,
    leader: int,
    topic: Topic,
    asked: RequestPartitionData,
    members: Sequence[BrokerState],
    records: list[Record],
    config: BrokerConfig | None,
) -> ResponsePartitionData:
    index = asked.partition_index
    partition = topic.partitions.get(index)
    code = _refusal(image, leader, partition, asked, members)
    if code is not ErrorCode.NONE:
        return _refused(index, code)
    assert partition is not None
    wanted = Wanted(
        isr=tuple(NodeId(each.broker_id) for each in members),
        recovery=asked.leader_recovery_state,
        election=Election.UNCLEAN if unclean_allowed(image, topic, config) else Election.ONLINE,
    )
    record = change_partition(image, topic, index, wanted, config=config)
    if record is not None:
        records.append(record)
        partition = changed_partition(partition, record)
        if record.leader not in (leader, LEADER_UNCHANGED):
            # The change ended a reassignment in which the leader has no part any more: it has to wait for the metadata.
            return _refused(index, ErrorCode.NEW_LEADER_ELECTED)
    return ResponsePartitionData(
        partition_index=index,
        error_code=int(ErrorCode.NONE),
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _refused(index: int, code: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=index, error_code=int(code))


def _refusal(
    image: Image, leader: int, partition: Partition | None, asked: RequestPartitionData, members: Sequence[BrokerState]
) -> ErrorCode:
    """Return why a partition's ISR may not become this, in Kafka's order; NONE where it may."""
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # the leader knows more than this node, which then is hardly the controller
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    isr = [each.broker_id for each in members]
    if not isr or len(set(isr)) < len(isr) or any(each not in partition.replicas for each in isr):
        return ErrorCode.INVALID_REQUEST
    if partition.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    if asked.leader_recovery_state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if asked.leader_recovery_state == RECOVERING and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(image, each) for each in members):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_eligible(image: Image, member: BrokerState) -> bool:
    broker = image.brokers.get(member.broker_id)
    return broker is not None and broker.active and member.broker_epoch in (-1, broker.epoch)
