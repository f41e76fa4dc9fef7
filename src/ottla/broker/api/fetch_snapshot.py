"""FetchSnapshot (KIP-630): a replica that is too far behind the metadata log loads a snapshot of it, piece by piece."""

from __future__ import annotations

from ottla.base import ErrorCode, LeaderEpoch, NodeId, Offset
from ottla.broker.parts import QuorumParts
from ottla.broker.quorum.log import METADATA_PARTITION
from ottla.broker.quorum.service import asked_partition, check_cluster, epoch_error, leader_and_epoch, node_endpoints
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.raft import FetchSnapshot, Message, SnapshotChunk, SnapshotId
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    RequestPartitionSnapshot,
    ResponsePartitionSnapshot,
    ResponseTopicSnapshot,
)
from ottla.wire.messages.fetch_snapshot import SnapshotId as WireSnapshotId

__all__ = ["HANDLER"]


def fetch_snapshot(context: RequestContext[QuorumParts], request: FetchSnapshotRequest) -> Answer:
    """Send bytes from the position on, where this node leads and has the snapshot."""
    check_cluster(context, request.cluster_id)
    asked: RequestPartitionSnapshot = asked_partition(request.topics, lambda each: each.partition)
    quorum = context.services.quorum
    epoch = leader_and_epoch(context)[1]
    if not quorum.is_leader or asked.current_leader_epoch != epoch:
        return _answer(context, asked, epoch_error(asked.current_leader_epoch, epoch))
    snapshot = SnapshotId(Offset(asked.snapshot_id.end_offset), LeaderEpoch(asked.snapshot_id.epoch))
    size = quorum.snapshot_size(snapshot)
    if size is None:
        return _answer(context, asked, ErrorCode.SNAPSHOT_NOT_FOUND)
    if not 0 <= asked.position < size:
        return _answer(context, asked, ErrorCode.POSITION_OUT_OF_RANGE)

    def answered(reply: Message) -> FetchSnapshotResponse:
        if not isinstance(reply, SnapshotChunk):
            return _answer(context, asked, epoch_error(asked.current_leader_epoch, leader_and_epoch(context)[1]))
        return _answer(context, asked, ErrorCode.NONE, chunk=reply, max_bytes=request.max_bytes)

    message = FetchSnapshot(LeaderEpoch(asked.current_leader_epoch), snapshot, asked.position)
    return quorum.ask(NodeId(request.replica_id), message).then(answered)


def _answer(
    context: RequestContext[QuorumParts],
    asked: RequestPartitionSnapshot,
    error: ErrorCode,
    *,
    chunk: SnapshotChunk | None = None,
    max_bytes: int = 0,
) -> FetchSnapshotResponse:
    leader_id, epoch = leader_and_epoch(context)
    data = b""
    if chunk is not None:
        assert isinstance(chunk.data, bytes | memoryview), "the driver has read the bytes"
        data = bytes(chunk.data[: max(max_bytes, 1)])
    partition = ResponsePartitionSnapshot(
        index=METADATA_PARTITION.partition,
        error_code=int(error),
        snapshot_id=WireSnapshotId(end_offset=asked.snapshot_id.end_offset, epoch=asked.snapshot_id.epoch),
        current_leader=LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
        size=0 if chunk is None else chunk.size,
        position=asked.position,
        unaligned_records=data,
    )
    return FetchSnapshotResponse(
        topics=[ResponseTopicSnapshot(name=METADATA_PARTITION.topic, partitions=[partition])],
        node_endpoints=node_endpoints(context, leader_id, NodeEndpoint) if context.api_version >= 1 else (),
    )


HANDLER = Handler(
    FetchSnapshotRequest,
    versions=(0, 1),
    needs=Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    handle=fetch_snapshot,
)
