"""What the handlers of the quorum's requests share: checks, the leader's address, and which error a refusal is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ottla.base import ZERO_UUID, ErrorCode, KafkaError, LeaderEpoch, NodeId
from ottla.broker.parts import QuorumParts
from ottla.broker.quorum.log import METADATA_PARTITION, METADATA_TOPIC_ID
from ottla.broker.requests.handler import RequestContext
from ottla.broker.requests.line_rate import LineRate
from ottla.metadata import Endpoint

__all__ = [
    "asked_partition",
    "check_cluster",
    "check_leads",
    "epoch_error",
    "is_own_key",
    "leader_and_epoch",
    "leader_endpoint",
    "learn_leader",
    "node_endpoints",
]

log = logging.getLogger(__name__)
log.addFilter(LineRate(10))


def check_cluster(context: RequestContext[QuorumParts], cluster_id: str | None) -> None:
    """Raise INCONSISTENT_CLUSTER_ID where a request names another cluster; who asked is said in the log, at times."""
    own = context.services.cluster_id
    if cluster_id is not None and cluster_id != own:
        log.warning(
            "A node at %s is formatted with cluster.id %.60r; this one's is %s",
            context.connected.client_host,
            cluster_id,
            own,
        )
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            "The clusterId in the request does not match that found on the server",
        )


def asked_partition(topics: Sequence[Any], index: Callable[[Any], int]) -> Any:
    """Return what a request asks of the metadata log; raises INVALID_REQUEST where it asks for anything else."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    topic, partition = topics[0], topics[0].partitions[0]
    name = next((getattr(topic, each) for each in ("topic_name", "topic", "name") if getattr(topic, each, "")), "")
    by_id = getattr(topic, "topic_id", ZERO_UUID) == METADATA_TOPIC_ID
    if not (by_id or name == METADATA_PARTITION.topic) or index(partition) != METADATA_PARTITION.partition:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return partition


def is_own_key(context: RequestContext[QuorumParts], voter_id: int, directory_id: bytes) -> bool:
    """True where a request that names a voter means this replica (KIP-853); -1 and zeros name nobody."""
    key = context.services.quorum.key
    if voter_id >= 0 and voter_id != key.id:
        return False
    return directory_id == ZERO_UUID or key.directory_id == ZERO_UUID or directory_id == key.directory_id


def check_leads(context: RequestContext[QuorumParts]) -> None:
    """Raise NOT_LEADER_OR_FOLLOWER where this node does not lead the quorum."""
    if not context.services.quorum.is_leader:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def leader_and_epoch(context: RequestContext[QuorumParts]) -> tuple[int, LeaderEpoch]:
    """Return the quorum's leader, -1 where none is known, and the epoch."""
    leader_id, epoch = context.services.quorum.leader
    return -1 if leader_id is None else leader_id, epoch


def leader_endpoint(context: RequestContext[QuorumParts], leader_id: int) -> Endpoint | None:
    """Return where the leader's controller listener is."""
    return context.services.quorum.controller_endpoint(NodeId(leader_id)) if leader_id >= 0 else None


def node_endpoints(context: RequestContext[QuorumParts], leader_id: int, make: Callable[..., Any]) -> list[Any]:
    """Return the leader's address as answers carry it."""
    found = leader_endpoint(context, leader_id)
    return [] if found is None else [make(node_id=leader_id, host=found.host, port=found.port)]


def learn_leader(context: RequestContext[QuorumParts], leader_id: int, endpoints: Iterable[Any]) -> None:
    """Remember where a leader that announces itself listens: on the listener that this request came through."""
    known = list(endpoints)
    same = [each for each in known if each.name == context.connected.listener] or known
    if same:
        context.services.quorum.learn(NodeId(leader_id), same[0].host, same[0].port)


def epoch_error(asked: int, epoch: int) -> ErrorCode:
    """Return which error a request of an epoch meets at a node of this one that does not lead it."""
    if asked < epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH if asked > epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
