"""DescribeQuorum (KIP-595, KIP-836): the metadata quorum's leader and how far its replicas are.

Version 1 adds times, 2 directory ids, error texts and the voters' listeners (KIP-853). Only the leader answers.
"""

from __future__ import annotations

from ottla.base import METADATA_TOPIC, ZERO_UUID, ErrorCode
from ottla.broker.parts import ControllerParts
from ottla.broker.quorum.driver import QuorumStatus
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.raft import Progress, ReplicaKey
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)

__all__ = ["HANDLER"]

WITH_DIRECTORIES = 2


def describe_quorum(context: RequestContext[ControllerParts], request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Describe partition 0 of the metadata log, the only partition that a quorum of ours keeps."""
    asked = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    if asked != [(METADATA_TOPIC, [0])]:
        return DescribeQuorumResponse(topics=[_unknown(topic) for topic in request.topics])
    if not context.services.quorum.is_leader:
        refused = ResponsePartitionData(error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return DescribeQuorumResponse(topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[refused])])
    status = context.services.quorum.status
    return DescribeQuorumResponse(
        topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[_partition(context, status)])],
        nodes=_nodes(context, status) if context.api_version >= WITH_DIRECTORIES else [],
    )


def _unknown(topic: RequestTopicData) -> ResponseTopicData:
    code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return ResponseTopicData(
        topic_name=topic.topic_name,
        partitions=[
            ResponsePartitionData(
                partition_index=each.partition_index,
                error_code=code,
                error_message="This server does not host this topic-partition.",
            )
            for each in topic.partitions
        ],
    )


def _partition(context: RequestContext[ControllerParts], status: QuorumStatus) -> ResponsePartitionData:
    known = status.replicas
    voters = [(each.key, _progress_of(status, each.key)) for each in status.voters]
    observers = [(known[each].key, known[each]) for each in sorted(known) if not status.voters.has(known[each].key)]
    return ResponsePartitionData(
        partition_index=0,
        leader_id=status.leader_id,
        leader_epoch=status.leader_epoch,
        high_watermark=status.high_watermark,
        current_voters=[_replica(context, status, key, progress) for key, progress in voters],
        observers=[_replica(context, status, key, progress) for key, progress in observers],
    )


def _progress_of(status: QuorumStatus, key: ReplicaKey) -> Progress | None:
    """Return how far a replica is; what another directory of its node has says nothing of it."""
    found = status.replicas.get(key.id)
    return found if found is not None and found.key.same_replica(key) else None


def _replica(
    context: RequestContext[ControllerParts], status: QuorumStatus, key: ReplicaKey, progress: Progress | None
) -> ReplicaState:
    node_id, directory_id = key.id, key.directory_id
    if directory_id == ZERO_UUID and progress is not None:
        directory_id = progress.key.directory_id
    if status.kraft_version == 0 or context.api_version < WITH_DIRECTORIES:
        directory_id = ZERO_UUID
    if node_id == status.leader_id:
        now = context.now_ms()
        return ReplicaState(
            replica_id=node_id,
            replica_directory_id=directory_id,
            log_end_offset=status.log_end_offset,
            last_fetch_timestamp=now,
            last_caught_up_timestamp=now,
        )
    end_offset = progress.end_offset if progress is not None else None
    return ReplicaState(
        replica_id=node_id,
        replica_directory_id=directory_id,
        log_end_offset=-1 if end_offset is None else end_offset,
        last_fetch_timestamp=-1 if progress is None or progress.heard_at is None else progress.heard_at,
        last_caught_up_timestamp=-1 if progress is None or progress.caught_up_at is None else progress.caught_up_at,
    )


def _nodes(context: RequestContext[ControllerParts], status: QuorumStatus) -> list[Node]:
    controllers = context.services.image.controllers
    nodes = []
    for voter in status.voters:
        registered = controllers.get(voter.key.id)
        endpoints = voter.endpoints or (registered.endpoints if registered is not None else ())
        listeners = [Listener(name=each.name, host=each.host, port=each.port) for each in endpoints]
        nodes.append(Node(node_id=voter.key.id, listeners=listeners))
    return nodes


HANDLER = Handler(
    DescribeQuorumRequest,
    versions=(0, 2),
    needs=Needs(Operation.DESCRIBE, Resource.CLUSTER),
    handle=describe_quorum,
    forwards=True,
)
