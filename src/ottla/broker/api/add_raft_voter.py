"""AddRaftVoter (KIP-853): a controller that follows the metadata quorum becomes one of its voters.

Version 1 can be answered before the change is committed, for controllers that join by themselves (KIP-1186).
"""

from __future__ import annotations

from ottla.base import ZERO_UUID, ErrorCode, KafkaError, NodeId, Uuid
from ottla.broker.parts import QuorumParts
from ottla.broker.quorum.service import check_cluster, check_leads
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.raft import ReplicaKey, VoterEndpoint
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

__all__ = ["HANDLER"]


async def add_raft_voter(context: RequestContext[QuorumParts], request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    """Change the voter set, once the new one is reached and has caught up."""
    check_cluster(context, request.cluster_id)
    check_leads(context)
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter")
    endpoints = tuple(VoterEndpoint(each.name, each.host, each.port) for each in request.listeners)
    names = context.services.configuration.broker.controller_listener_names
    default = names[0] if names else ""
    if all(each.name != default for each in endpoints):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Add voter request didn't include the endpoint ({endpoints}) for the default listener {default}",
        )
    endpoints = tuple(sorted(endpoints, key=lambda each: each.name != default))
    await context.services.quorum.membership.add(
        ReplicaKey(NodeId(request.voter_id), Uuid(request.voter_directory_id)),
        endpoints,
        timeout_ms=request.timeout_ms,
        until_committed=request.ack_when_committed,
    )
    return AddRaftVoterResponse()


HANDLER = Handler(
    AddRaftVoterRequest,
    versions=(0, 1),
    needs=Needs(Operation.ALTER, Resource.CLUSTER),
    handle=add_raft_voter,
    forwards=True,
)
