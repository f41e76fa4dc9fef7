"""Fetch on a controller listener: the replicas of the metadata quorum's log, and nobody else, ask here (KIP-595).

The answer waits in the core until there are records, a newer high watermark, or the longest wait is over.
"""

from __future__ import annotations

from typing import Any

from ottla.base import ErrorCode, KafkaError, LeaderEpoch, NodeId, Offset, Uuid
from ottla.broker.parts import QuorumParts
from ottla.broker.quorum.log import METADATA_PARTITION, METADATA_TOPIC_ID
from ottla.broker.quorum.service import asked_partition, check_cluster, epoch_error, leader_and_epoch, leader_endpoint
from ottla.broker.requests.answers import Answer, Encoded
from ottla.broker.requests.handler import RequestContext
from ottla.raft import Fetch as FetchMessage
from ottla.raft import FetchReply, Message, ReplicaKey
from ottla.security import Operation, Resource
from ottla.wire import Fetch, FetchedPartition, FetchedTopic, NodeEndpoint, iter_batches, write_fetch_response

__all__ = ["fetch_metadata"]

UNKNOWN_WATERMARK = 2**63 - 1
"""What stands for the high watermark of a replica that does not tell it (KIP-1166)."""


def fetch_metadata(context: RequestContext[QuorumParts], request: Fetch) -> Answer:
    """Ask the core, which notes by the request how far the replica is."""
    if not context.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    check_cluster(context, request.cluster_id)
    asked = asked_partition(request.topics, lambda each: each.partition)
    epoch = asked.current_leader_epoch
    if min(asked.fetch_offset, asked.last_fetched_epoch, epoch, request.max_wait_ms, request.replica_id) < 0:
        return _answer(context, ErrorCode.INVALID_REQUEST)
    message = FetchMessage(
        LeaderEpoch(epoch),
        ReplicaKey(NodeId(request.replica_id), Uuid(asked.replica_directory_id)),
        Offset(asked.fetch_offset),
        LeaderEpoch(asked.last_fetched_epoch),
        Offset(asked.high_watermark),
        request.max_wait_ms,
    )
    if context.services.duties is not None:
        known = asked.high_watermark < UNKNOWN_WATERMARK  # a replica shows all that it knows to be committed
        shown = asked.high_watermark - 1 if known else -1
        context.services.duties.fetches(NodeId(request.replica_id), context.connected, shown)

    def answered(reply: Message) -> Encoded:
        if isinstance(reply, FetchReply):
            return _answer(context, ErrorCode.NONE, reply=reply, max_bytes=request.max_bytes)
        return _answer(context, epoch_error(epoch, leader_and_epoch(context)[1]))

    return context.services.quorum.ask(NodeId(request.replica_id), message).then(answered)


def _answer(
    context: RequestContext[QuorumParts], error: ErrorCode, *, reply: FetchReply | None = None, max_bytes: int = 0
) -> Encoded:
    leader_id, epoch = leader_and_epoch(context)
    partition = FetchedPartition(METADATA_PARTITION.partition, int(error))
    partition.leader_id, partition.leader_epoch = leader_id, epoch
    if reply is not None:
        records = _first_batches(reply.records, max_bytes)
        partition.records, partition.records_size = records, len(records)
        partition.high_watermark = partition.last_stable_offset = reply.high_watermark
        partition.log_start_offset = context.services.quorum.log_start_offset
        if reply.diverging is not None:
            partition.diverging_epoch, partition.diverging_end_offset = reply.diverging
        if reply.snapshot is not None:
            partition.snapshot_end_offset, partition.snapshot_epoch = reply.snapshot.end_offset, reply.snapshot.epoch
    topic = FetchedTopic(METADATA_PARTITION.topic, METADATA_TOPIC_ID, [partition])
    found = leader_endpoint(context, leader_id)
    endpoints = () if found is None else (NodeEndpoint(leader_id, found.host, found.port),)
    return Encoded(write_fetch_response(context.api_version, context.correlation_id, [topic], node_endpoints=endpoints))


def _first_batches(records: Any, max_bytes: int) -> bytes:
    """Return the whole batches at the beginning that fit into the limit, and at least one."""
    if len(records) <= max_bytes:
        return bytes(records)
    size = 0
    for header, _ in iter_batches(records):
        if size and size + header.size > max_bytes:
            break
        size += header.size
    return bytes(records[:size])
