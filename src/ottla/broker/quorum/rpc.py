"""Between the quorum's messages and Kafka's requests: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot.

What this node asks becomes a request (`request_of`), and the answer to it a message of the core again (`reply_of`). The
handlers in `broker/api` do the same for what others ask.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ottla.base import ZERO_UUID, ErrorCode, LeaderEpoch, NodeId, Offset
from ottla.broker.quorum.log import METADATA_PARTITION, METADATA_TOPIC_ID
from ottla.metadata import Endpoint
from ottla.raft import (
    BeginEpoch,
    EndEpoch,
    EpochEnd,
    EpochRefused,
    Fetch,
    FetchReply,
    FetchSnapshot,
    Message,
    SnapshotChunk,
    SnapshotId,
    Vote,
    VoteReply,
    VoterSet,
)
from ottla.wire import ApiKey
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ottla.wire.messages.begin_quorum_epoch import LeaderEndpoint as BeginLeaderEndpoint
from ottla.wire.messages.begin_quorum_epoch import RequestPartitionData as BeginPartition
from ottla.wire.messages.begin_quorum_epoch import RequestTopicData as BeginTopic
from ottla.wire.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ReplicaInfo,
)
from ottla.wire.messages.end_quorum_epoch import LeaderEndpoint as EndLeaderEndpoint
from ottla.wire.messages.end_quorum_epoch import RequestPartitionData as EndPartition
from ottla.wire.messages.end_quorum_epoch import RequestTopicData as EndTopic
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from ottla.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RequestPartitionSnapshot,
    RequestTopicSnapshot,
)
from ottla.wire.messages.fetch_snapshot import SnapshotId as WireSnapshotId
from ottla.wire.messages.vote import RequestPartitionData, RequestTopicData, VoteRequest, VoteResponse

__all__ = ["Asked", "Refused", "RpcLimits", "api_of", "lowest_version", "reply_of", "request_of"]

TOPIC = METADATA_PARTITION.topic
PRE_VOTES_FROM = 2
REPLICA_STATE_FROM = 15
FETCH_FROM = 12
"""Fetch 12 brought epochs and the cluster's id, without which the quorum's log cannot be fetched."""

STALE = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""Errors that come with the answering node's own epoch and leader."""

LOST_SNAPSHOT = frozenset({ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE})


class Refused(Exception):
    """An answer from which the quorum learns nothing: another cluster's node, one that is stopping, or a mistake."""

    def __init__(self, code: int) -> None:
        super().__init__(ErrorCode(code).name if code in set(ErrorCode) else str(code))
        self.code = code


@dataclass(frozen=True, slots=True)
class RpcLimits:
    """How much one answer may carry (`controller.quorum.fetch.max.bytes`, `….fetch.snapshot.max.bytes`)."""

    fetch_bytes: int = 1 << 20
    snapshot_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks: what every request of a node says of it."""

    node_id: NodeId
    cluster_id: str
    endpoints: tuple[Endpoint, ...]
    voters: VoterSet
    limits: RpcLimits
    directory_id: bytes = ZERO_UUID


def lowest_version(message: Message) -> int:
    """Return the oldest version of its API that can carry a message."""
    match message:
        case Vote(pre_vote=True):
            return PRE_VOTES_FROM
        case Fetch():
            return FETCH_FROM
    return 0


def api_of(message: Message) -> ApiKey:
    """Return by which API a message is sent."""
    match message:
        case Vote():
            return ApiKey.VOTE
        case BeginEpoch():
            return ApiKey.BEGIN_QUORUM_EPOCH
        case EndEpoch():
            return ApiKey.END_QUORUM_EPOCH
        case Fetch():
            return ApiKey.FETCH
        case FetchSnapshot():
            return ApiKey.FETCH_SNAPSHOT
    raise AssertionError(f"{message} is an answer")


def request_of(message: Message, version: int, to: NodeId, asked: Asked) -> Any:
    """Return the request that stands for a message, in a version of its API."""
    match message:
        case Vote():
            return _vote(message, to, asked)
        case BeginEpoch():
            partition = BeginPartition(
                voter_directory_id=_directory_of(to, asked), leader_id=asked.node_id, leader_epoch=message.epoch
            )
            return BeginQuorumEpochRequest(
                cluster_id=asked.cluster_id,
                voter_id=to,
                topics=[BeginTopic(topic_name=TOPIC, partitions=[partition])],
                leader_endpoints=[
                    BeginLeaderEndpoint(name=each.name, host=each.host, port=each.port) for each in asked.endpoints
                ],
            )
        case EndEpoch():
            return _end(message, version, asked)
        case Fetch():
            return _fetch(message, version, asked)
        case FetchSnapshot():
            return _fetch_snapshot(message, asked)
    raise AssertionError(f"{message} is an answer")


def _directory_of(node_id: NodeId, asked: Asked) -> bytes:
    voter = asked.voters.get(node_id)
    return ZERO_UUID if voter is None else voter.key.directory_id


def _vote(vote: Vote, to: NodeId, asked: Asked) -> VoteRequest:
    partition = RequestPartitionData(
        replica_epoch=vote.epoch,
        replica_id=vote.candidate.id,
        replica_directory_id=vote.candidate.directory_id,
        voter_directory_id=_directory_of(to, asked),
        last_offset_epoch=vote.last_epoch,
        last_offset=vote.end_offset,
        pre_vote=vote.pre_vote,
    )
    return VoteRequest(
        cluster_id=asked.cluster_id,
        voter_id=to,
        topics=[RequestTopicData(topic_name=TOPIC, partitions=[partition])],
    )


def _end(message: EndEpoch, version: int, asked: Asked) -> EndQuorumEpochRequest:
    partition = EndPartition(
        leader_id=asked.node_id,
        leader_epoch=message.epoch,
        preferred_successors=list(message.successors) if version == 0 else (),
        preferred_candidates=[
            ReplicaInfo(candidate_id=each, candidate_directory_id=_directory_of(each, asked))
            for each in message.successors
            if version >= 1
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=asked.cluster_id,
        topics=[EndTopic(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            EndLeaderEndpoint(name=each.name, host=each.host, port=each.port) for each in asked.endpoints
        ],
    )


def _fetch(fetch: Fetch, version: int, asked: Asked) -> FetchRequest:
    partition = FetchPartition(
        current_leader_epoch=fetch.epoch,
        fetch_offset=fetch.offset,
        last_fetched_epoch=fetch.last_epoch,
        replica_directory_id=fetch.replica.directory_id,
        high_watermark=fetch.high_watermark,
    )
    return FetchRequest(
        cluster_id=asked.cluster_id,
        replica_id=fetch.replica.id if version < REPLICA_STATE_FROM else -1,
        replica_state=ReplicaState(replica_id=fetch.replica.id if version >= REPLICA_STATE_FROM else -1),
        max_wait_ms=fetch.max_wait_ms,
        max_bytes=asked.limits.fetch_bytes,
        topics=[FetchTopic(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def _fetch_snapshot(message: FetchSnapshot, asked: Asked) -> FetchSnapshotRequest:
    partition = RequestPartitionSnapshot(
        current_leader_epoch=message.epoch,
        snapshot_id=WireSnapshotId(end_offset=message.snapshot.end_offset, epoch=message.snapshot.epoch),
        position=message.position,
        replica_directory_id=asked.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=asked.cluster_id,
        replica_id=asked.node_id,
        max_bytes=asked.limits.snapshot_bytes,
        topics=[RequestTopicSnapshot(name=TOPIC, partitions=[partition])],
    )


# Answers


def reply_of(message: Message, response: Any) -> Message | None:
    """Return what an answer says to the core; None where there is nothing to say. Raises Refused."""
    if response.error_code:
        raise Refused(response.error_code)
    match message:
        case Vote():
            return _vote_reply(message, response)
        case Fetch():
            return _fetch_reply(message, response)
        case FetchSnapshot():
            return _chunk(message, response)
        case _:
            return _acknowledged(response)


def _only(partitions: Iterable[Any]) -> Any:
    found = list(partitions)
    if len(found) != 1:
        raise Refused(ErrorCode.INVALID_REQUEST)
    return found[0]


def _leader(leader_id: int) -> NodeId | None:
    return NodeId(leader_id) if leader_id >= 0 else None


def _vote_reply(vote: Vote, response: VoteResponse) -> Message:
    found = _only(each for topic in response.topics for each in topic.partitions)
    if found.error_code and found.error_code not in STALE:
        raise Refused(found.error_code)
    granted = found.vote_granted and not found.error_code
    return VoteReply(LeaderEpoch(found.leader_epoch), _leader(found.leader_id), granted, vote.pre_vote)


def _acknowledged(response: BeginQuorumEpochResponse | EndQuorumEpochResponse) -> Message | None:
    """A voter that knows a newer epoch says so; others agree."""
    found = _only(each for topic in response.topics for each in topic.partitions)
    if not found.error_code:
        return None
    if found.error_code not in STALE:
        raise Refused(found.error_code)
    return EpochRefused(LeaderEpoch(found.leader_epoch), _leader(found.leader_id))


def _fetch_reply(fetch: Fetch, response: FetchResponse) -> Message:
    found = _only(each for topic in response.responses for each in topic.partitions)
    leader = found.current_leader
    if found.error_code in STALE:
        return EpochRefused(LeaderEpoch(leader.leader_epoch), _leader(leader.leader_id))
    if found.error_code:
        raise Refused(found.error_code)
    diverging, snapshot = found.diverging_epoch, found.snapshot_id
    return FetchReply(
        epoch=LeaderEpoch(leader.leader_epoch),
        offset=fetch.offset,
        last_epoch=fetch.last_epoch,
        high_watermark=Offset(found.high_watermark),
        records=found.records or b"",
        diverging=EpochEnd(LeaderEpoch(diverging.epoch), Offset(diverging.end_offset))
        if diverging.epoch >= 0
        else None,
        snapshot=SnapshotId(Offset(snapshot.end_offset), LeaderEpoch(snapshot.epoch)) if snapshot.epoch >= 0 else None,
    )


def _chunk(message: FetchSnapshot, response: FetchSnapshotResponse) -> Message:
    found = _only(each for topic in response.topics for each in topic.partitions)
    leader = found.current_leader
    if found.error_code in STALE or found.error_code in LOST_SNAPSHOT:
        return EpochRefused(LeaderEpoch(leader.leader_epoch), _leader(leader.leader_id))
    if found.error_code:
        raise Refused(found.error_code)
    return SnapshotChunk(
        epoch=LeaderEpoch(leader.leader_epoch),
        snapshot=SnapshotId(Offset(found.snapshot_id.end_offset), LeaderEpoch(found.snapshot_id.epoch)),
        position=found.position,
        data=found.unaligned_records,
        size=found.size,
    )
