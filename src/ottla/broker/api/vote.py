"""Vote (KIP-595, KIP-853, KIP-996): a voter asks for this node's vote, or whether it would get it.

Version 1 adds directory ids and the leader's address, 2 pre-votes.
"""

from __future__ import annotations

from ottla.base import ErrorCode, LeaderEpoch, NodeId, Offset, Uuid
from ottla.broker.parts import QuorumParts
from ottla.broker.quorum.log import METADATA_PARTITION
from ottla.broker.quorum.service import asked_partition, check_cluster, is_own_key, leader_and_epoch, node_endpoints
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.raft import Message, ReplicaKey, Vote, VoteReply
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.vote import (
    NodeEndpoint,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
    VoteRequest,
    VoteResponse,
)

__all__ = ["HANDLER"]


def vote(context: RequestContext[QuorumParts], request: VoteRequest) -> Answer:
    """Ask the core."""
    check_cluster(context, request.cluster_id)
    asked: RequestPartitionData = asked_partition(request.topics, lambda each: each.partition_index)
    epochs = asked.last_offset_epoch - asked.replica_epoch
    if asked.replica_id < 0 or min(asked.last_offset_epoch, asked.last_offset) < 0 or epochs > 0 - (not asked.pre_vote):
        return _answer(context, ErrorCode.INVALID_REQUEST)
    if not is_own_key(context, request.voter_id, asked.voter_directory_id):
        return _answer(context, ErrorCode.INVALID_VOTER_KEY)
    candidate = ReplicaKey(NodeId(asked.replica_id), Uuid(asked.replica_directory_id))
    message = Vote(
        LeaderEpoch(asked.replica_epoch),
        candidate,
        LeaderEpoch(asked.last_offset_epoch),
        Offset(asked.last_offset),
        asked.pre_vote,
    )

    def answered(reply: Message) -> VoteResponse:
        assert not isinstance(reply, Vote)
        granted = isinstance(reply, VoteReply) and reply.granted
        stale = asked.replica_epoch < leader_and_epoch(context)[1]
        return _answer(context, ErrorCode.FENCED_LEADER_EPOCH if stale else ErrorCode.NONE, granted=granted)

    return context.services.quorum.ask(candidate.id, message).then(answered)


def _answer(context: RequestContext[QuorumParts], error: ErrorCode, *, granted: bool = False) -> VoteResponse:
    leader_id, epoch = leader_and_epoch(context)
    partition = ResponsePartitionData(
        error_code=int(error), leader_id=leader_id, leader_epoch=epoch, vote_granted=granted and not error
    )
    return VoteResponse(
        topics=[ResponseTopicData(topic_name=METADATA_PARTITION.topic, partitions=[partition])],
        node_endpoints=node_endpoints(context, leader_id, NodeEndpoint) if context.api_version >= 1 else (),
    )


HANDLER = Handler(VoteRequest, versions=(0, 2), needs=Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER), handle=vote)
