"""EndQuorumEpoch (KIP-595): the leader of the metadata quorum resigns, and names who should be next."""

from __future__ import annotations

from ottla.base import ErrorCode, LeaderEpoch, NodeId
from ottla.broker.parts import QuorumParts
from ottla.broker.quorum.log import METADATA_PARTITION
from ottla.broker.quorum.service import asked_partition, check_cluster, leader_and_epoch, node_endpoints
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.raft import EndEpoch
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    NodeEndpoint,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

__all__ = ["HANDLER"]


def end_quorum_epoch(context: RequestContext[QuorumParts], request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    """Campaign, sooner or later by the rank that the leader gave this voter."""
    check_cluster(context, request.cluster_id)
    asked: RequestPartitionData = asked_partition(request.topics, lambda each: each.partition_index)
    if asked.leader_id < 0 or asked.leader_epoch < 0:
        return _answer(context, ErrorCode.INVALID_REQUEST)
    if asked.leader_epoch < leader_and_epoch(context)[1]:
        return _answer(context, ErrorCode.FENCED_LEADER_EPOCH)
    successors = [NodeId(each.candidate_id) for each in asked.preferred_candidates]
    successors = successors or [NodeId(each) for each in asked.preferred_successors]
    message = EndEpoch(LeaderEpoch(asked.leader_epoch), tuple(successors))
    context.services.quorum.tell(NodeId(asked.leader_id), message)
    return _answer(context, ErrorCode.NONE)


def _answer(context: RequestContext[QuorumParts], error: ErrorCode) -> EndQuorumEpochResponse:
    leader_id, epoch = leader_and_epoch(context)
    partition = ResponsePartitionData(error_code=int(error), leader_id=leader_id, leader_epoch=epoch)
    return EndQuorumEpochResponse(
        topics=[ResponseTopicData(topic_name=METADATA_PARTITION.topic, partitions=[partition])],
        node_endpoints=node_endpoints(context, leader_id, NodeEndpoint) if context.api_version >= 1 else (),
    )


HANDLER = Handler(
    EndQuorumEpochRequest,
    versions=(0, 1),
    needs=Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    handle=end_quorum_epoch,
)
