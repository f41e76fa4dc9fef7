"""BeginQuorumEpoch (KIP-595): a new leader of the metadata quorum tells a voter to fetch from it."""

from __future__ import annotations

from ottla.base import ErrorCode, LeaderEpoch, NodeId
from ottla.broker.parts import QuorumParts
from ottla.broker.quorum.log import METADATA_PARTITION
from ottla.broker.quorum.service import (
    asked_partition,
    check_cluster,
    is_own_key,
    leader_and_epoch,
    learn_leader,
    node_endpoints,
)
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.raft import BeginEpoch
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    NodeEndpoint,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

__all__ = ["HANDLER"]


def begin_quorum_epoch(
    context: RequestContext[QuorumParts], request: BeginQuorumEpochRequest
) -> BeginQuorumEpochResponse:
    """Follow the leader, unless a newer epoch is known."""
    check_cluster(context, request.cluster_id)
    asked: RequestPartitionData = asked_partition(request.topics, lambda each: each.partition_index)
    known_leader, epoch = leader_and_epoch(context)
    if asked.leader_id < 0 or asked.leader_epoch < 0:
        return _answer(context, ErrorCode.INVALID_REQUEST)
    if asked.leader_epoch < epoch:
        return _answer(context, ErrorCode.FENCED_LEADER_EPOCH)
    if not is_own_key(context, request.voter_id, asked.voter_directory_id):
        return _answer(context, ErrorCode.INVALID_VOTER_KEY)
    if asked.leader_epoch == epoch and known_leader not in (-1, asked.leader_id):
        return _answer(context, ErrorCode.INVALID_REQUEST)
    learn_leader(context, asked.leader_id, request.leader_endpoints)
    context.services.quorum.tell(NodeId(asked.leader_id), BeginEpoch(LeaderEpoch(asked.leader_epoch)))
    return _answer(context, ErrorCode.NONE)


def _answer(context: RequestContext[QuorumParts], error: ErrorCode) -> BeginQuorumEpochResponse:
    leader_id, epoch = leader_and_epoch(context)
    partition = ResponsePartitionData(error_code=int(error), leader_id=leader_id, leader_epoch=epoch)
    return BeginQuorumEpochResponse(
        topics=[ResponseTopicData(topic_name=METADATA_PARTITION.topic, partitions=[partition])],
        node_endpoints=node_endpoints(context, leader_id, NodeEndpoint) if context.api_version >= 1 else (),
    )


HANDLER = Handler(
    BeginQuorumEpochRequest,
    versions=(0, 1),
    needs=Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    handle=begin_quorum_epoch,
)
