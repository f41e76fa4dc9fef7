"""WriteTxnMarkers: a transaction's coordinator, or an admin, has its end written into partitions that are led here.

Version 2 says by which protocol the transaction ends (KIP-1228).
"""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError, ProducerEpoch, ProducerId, TopicPartition
from ottla.broker.coordinators.transaction_markers import Marker
from ottla.broker.parts import TransactionParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

__all__ = ["HANDLER"]

ABSENT = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})


async def write_txn_markers(
    context: RequestContext[TransactionParts], request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Answer when every marker is on all in-sync replicas, or has failed."""
    if not (
        context.allows(Operation.ALTER, Resource.CLUSTER) or context.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER)
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return WriteTxnMarkersResponse(markers=[await _write(context, each) for each in request.markers])


async def _write(context: RequestContext[TransactionParts], asked: WritableTxnMarker) -> WritableTxnMarkerResult:
    marker = Marker(
        ProducerId(asked.producer_id),
        ProducerEpoch(asked.producer_epoch),
        asked.coordinator_epoch,
        asked.transaction_result,
        asked.transaction_version,
    )
    partitions = [TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partition_indexes]
    codes = await context.services.transactions.markers.write_all(marker, dict.fromkeys(partitions))
    hosted = context.services.partitions
    for each, code in codes.items():
        if code in ABSENT and hosted.get(*each) is None:
            codes[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return WritableTxnMarkerResult(
        producer_id=asked.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=int(codes[TopicPartition(topic.name, index)])
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ],
    )


def refuse(request: WriteTxnMarkersRequest, error: KafkaError) -> WriteTxnMarkersResponse:
    """Say of every partition that the request failed."""
    code = int(error.code)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


HANDLER = Handler(
    WriteTxnMarkersRequest,
    versions=(1, 2),
    needs=Needs(Operation.ALTER, Resource.TRANSACTIONAL_ID),
    handle=write_txn_markers,
    error_response=refuse,
)
