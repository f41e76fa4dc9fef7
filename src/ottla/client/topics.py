"""Topics made, and records at their beginnings deleted (CreateTopics, DeleteRecords)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.base import ErrorCode, KafkaError, NodeId, Offset, TopicPartition
from ottla.client.client import Client
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

__all__ = ["DeletedRecords", "NewTopic", "create_topics", "delete_records"]

REQUEST_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made; -1 leaves a number to the brokers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] = ()
    """Each partition's brokers; both numbers are left to it."""

    def __str__(self) -> str:
        configs = dict(self.configs)
        return f"{self.name} (partitions={self.partitions}, replication factor={self.replication_factor}, {configs=})"


async def create_topics(
    client: Client, topics: Iterable[NewTopic], *, timeout_ms: int = REQUEST_TIMEOUT_MS, validate_only: bool = False
) -> dict[str, KafkaError]:
    """Create topics, or have them checked; returns why not, in the controller's words, for each that was refused.

    TOPIC_ALREADY_EXISTS is among the reasons. Raises KafkaError where no controller answers.
    """
    wanted = [
        CreatableTopic(
            name=each.name,
            num_partitions=-1 if each.assignment else each.partitions,
            replication_factor=-1 if each.assignment else each.replication_factor,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
                for index, brokers in enumerate(each.assignment)
            ],
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in each.configs.items()],
        )
        for each in topics
    ]
    message = CreateTopicsRequest(topics=wanted, timeout_ms=timeout_ms, validate_only=validate_only)
    answer = await client.request(message, controller=True)
    return {
        each.name: KafkaError(ErrorCode(each.error_code), each.error_message or "")
        for each in answer.topics
        if each.error_code
    }


class DeletedRecords(NamedTuple):
    """What became of one partition: where its log begins now, or why its leader did nothing."""

    low_watermark: int
    error: ErrorCode


async def delete_records(
    client: Client, offsets: Mapping[TopicPartition, Offset], *, timeout_ms: int = REQUEST_TIMEOUT_MS
) -> dict[TopicPartition, DeletedRecords]:
    """Delete the records before these offsets, at each partition's leader; what nobody leads fails alone.

    Raises KafkaError where a leader does not answer.
    """
    cluster = await client.metadata({each.topic for each in offsets})
    found: dict[TopicPartition, DeletedRecords] = {}
    by_leader: dict[NodeId, list[TopicPartition]] = {}
    for partition in offsets:
        leader = cluster.leader_of(partition)
        if leader is not None:
            by_leader.setdefault(leader, []).append(partition)
            continue
        known = partition in cluster.partitions_of(partition.topic)
        code = ErrorCode.LEADER_NOT_AVAILABLE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        found[partition] = DeletedRecords(-1, code)
    for leader, partitions in by_leader.items():
        by_topic: dict[str, list[DeleteRecordsPartition]] = {}
        for each in partitions:
            asked = DeleteRecordsPartition(partition_index=each.partition, offset=offsets[each])
            by_topic.setdefault(each.topic, []).append(asked)
        topics = [DeleteRecordsTopic(name=name, partitions=parts) for name, parts in by_topic.items()]
        answer = await client.request(DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms), node=leader)
        found |= {
            TopicPartition(topic.name, each.partition_index): DeletedRecords(
                each.low_watermark, ErrorCode(each.error_code)
            )
            for topic in answer.topics
            for each in topic.partitions
        }
    return {each: found[each] for each in offsets}
