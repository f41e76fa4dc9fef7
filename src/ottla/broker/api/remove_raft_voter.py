"""RemoveRaftVoter (KIP-853): a voter of the metadata quorum votes no more."""

from __future__ import annotations

from ottla.base import ZERO_UUID, ErrorCode, KafkaError, NodeId, Uuid
from ottla.broker.parts import QuorumParts
from ottla.broker.quorum.service import check_cluster, check_leads
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.raft import ReplicaKey
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

__all__ = ["HANDLER"]


async def remove_raft_voter(
    context: RequestContext[QuorumParts], request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    """Change the voter set, and answer once that is committed."""
    check_cluster(context, request.cluster_id)
    check_leads(context)
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter")
    key = ReplicaKey(NodeId(request.voter_id), Uuid(request.voter_directory_id))
    timeout_ms = context.services.configuration.broker.settings.controller_quorum_request_timeout_ms
    await context.services.quorum.membership.remove(key, timeout_ms=timeout_ms)
    return RemoveRaftVoterResponse()


HANDLER = Handler(
    RemoveRaftVoterRequest,
    versions=(0, 0),
    needs=Needs(Operation.ALTER, Resource.CLUSTER),
    handle=remove_raft_voter,
    forwards=True,
)
