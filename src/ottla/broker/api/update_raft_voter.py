"""UpdateRaftVoter (KIP-853): a voter tells the leader where it listens now and which `kraft.version` it understands."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError, NodeId, Uuid
from ottla.broker.parts import QuorumParts
from ottla.broker.quorum.service import check_cluster, epoch_error, leader_and_epoch, leader_endpoint
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.raft import ReplicaKey, Voter, VoterEndpoint
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.update_raft_voter import CurrentLeader, UpdateRaftVoterRequest, UpdateRaftVoterResponse

__all__ = ["HANDLER"]


async def update_raft_voter(
    context: RequestContext[QuorumParts], request: UpdateRaftVoterRequest
) -> UpdateRaftVoterResponse:
    """Take it over; the answer names the leader in any case."""
    check_cluster(context, request.cluster_id)
    quorum = context.services.quorum
    epoch = leader_and_epoch(context)[1]
    if not quorum.is_leader or request.current_leader_epoch != epoch:
        return _answer(context, epoch_error(request.current_leader_epoch, epoch))
    levels = request.k_raft_version_feature
    voter = Voter(
        ReplicaKey(NodeId(request.voter_id), Uuid(request.voter_directory_id)),
        tuple(VoterEndpoint(each.name, each.host, each.port) for each in request.listeners),
        levels.min_supported_version,
        levels.max_supported_version,
    )
    try:
        await quorum.membership.update(voter)
    except KafkaError as error:
        return _answer(context, error.code)
    return _answer(context, ErrorCode.NONE)


def _answer(context: RequestContext[QuorumParts], error: ErrorCode) -> UpdateRaftVoterResponse:
    leader_id, epoch = leader_and_epoch(context)
    found = leader_endpoint(context, leader_id)
    leader = CurrentLeader(
        leader_id=leader_id,
        leader_epoch=epoch,
        host="" if found is None else found.host,
        port=0 if found is None else found.port,
    )
    return UpdateRaftVoterResponse(error_code=int(error), current_leader=leader)


HANDLER = Handler(
    UpdateRaftVoterRequest,
    versions=(0, 0),
    needs=Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    handle=update_raft_voter,
)
