"""Decisions about TxnOffsetCommit: offsets that count when their transaction commits (KIP-98; members' checks KIP-447)."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError, ProducerEpoch, ProducerId
from ottla.groups.committing import utf16_length
from ottla.groups.decision import Cluster, Committed, Decision, DecisionContext, Group, Record, RequestOrigin
from ottla.groups.offsets import offset_record
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

__all__ = ["commit_in_transaction", "commit_in_transaction_refused"]

STALE = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
"""Codes that this API does not have: a member that is behind hears ILLEGAL_GENERATION."""


def commit_in_transaction(
    group: Group | None, request: TxnOffsetCommitRequest, origin: RequestOrigin, context: DecisionContext
) -> Decision:
    """Decide about a TxnOffsetCommit whose producer may write; a group that has no members need not exist."""
    try:
        _check(group, request, origin, context.cluster)
    except KafkaError as error:
        code = ErrorCode.ILLEGAL_GENERATION if error.code in STALE else error.code
        return Decision(response=commit_in_transaction_refused(request, code))
    records: list[Record] = []
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(
                    partition_index=each.partition_index,
                    error_code=int(_commit_one(request.group_id, topic.name, each, context, records)),
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    producer = ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)
    return Decision(tuple(records), TxnOffsetCommitResponse(topics=topics), producer=producer)


def _check(group: Group | None, request: TxnOffsetCommitRequest, origin: RequestOrigin, cluster: Cluster) -> None:
    """Raise the KafkaError for which the whole commit is refused."""
    if group is None:
        if request.generation_id >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return
    group.check_offset_commit(
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        api_version=origin.api_version,
        transactional=True,
    )
    for topic in request.topics:
        found = cluster.topic(topic.name)
        if found is None:
            continue
        for each in topic.partitions:
            group.check_commit_partition(request.member_id, request.generation_id, found.id, each.partition_index)


def _commit_one(
    group_id: str, topic: str, asked: TxnOffsetCommitRequestPartition, context: DecisionContext, records: list[Record]
) -> ErrorCode:
    metadata = asked.committed_metadata or ""
    if metadata and utf16_length(metadata) > context.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    committed = Committed(asked.committed_offset, asked.committed_leader_epoch, metadata, context.wall_ms)
    records.append(offset_record(group_id, topic, asked.partition_index, committed))
    return ErrorCode.NONE


def commit_in_transaction_refused(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    """Return the answer that refuses every partition."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=int(code))
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
