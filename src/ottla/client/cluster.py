"""What a Metadata response says, as an immutable view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ottla.base import ZERO_UUID, ErrorCode, LeaderEpoch, NodeId, TopicPartition, Uuid
from ottla.client.addresses import Address
from ottla.wire.messages.describe_cluster import DescribeClusterResponse
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

__all__ = ["CONTROLLERS", "Cluster", "Node", "Partition", "Topic", "read_controllers", "read_metadata"]

CONTROLLERS = 2
"""The kind of endpoint that a controller's listener is (KIP-919)."""

NO_NODE = NodeId(-1)
"""In the place of a leader or controller that there is not."""


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as the cluster advertises it."""

    node_id: NodeId
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition's leader (-1 where there is none) and replicas."""

    index: int
    leader: NodeId
    leader_epoch: LeaderEpoch
    replicas: tuple[NodeId, ...]
    in_sync: tuple[NodeId, ...]
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: its id (zero where the broker does not say), and its partitions by index."""

    name: str
    topic_id: Uuid
    partitions: Mapping[int, Partition]
    is_internal: bool = False
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster as one answer, or several merged ones, described it."""

    nodes: Mapping[NodeId, Node] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    cluster_id: str | None = None
    controller_id: NodeId = NO_NODE

    def leader_of(self, partition: TopicPartition) -> NodeId | None:
        """Return the leader of a partition, or None where it, or its leader, is not known."""
        topic = self.topics.get(partition.topic)
        found = topic.partitions.get(partition.partition) if topic is not None else None
        return found.leader if found is not None and found.leader in self.nodes else None

    def topic_id(self, name: str) -> Uuid:
        """Return a topic's id; zero where the broker does not say, as before Metadata version 10."""
        topic = self.topics.get(name)
        return topic.topic_id if topic is not None else ZERO_UUID

    def partitions_of(self, name: str) -> tuple[TopicPartition, ...]:
        """Return a topic's partitions in order; none where the topic is not known."""
        topic = self.topics.get(name)
        return tuple(TopicPartition(name, index) for index in sorted(topic.partitions)) if topic else ()

    def merged(self, newer: Cluster) -> Cluster:
        """Return the newer view with the topics that only this one knows."""
        return replace(newer, topics={**self.topics, **newer.topics})

    def without(self, topics: Iterable[str]) -> Cluster:
        """Return this view with some topics forgotten, so that they are asked for again."""
        gone = set(topics)
        return replace(self, topics={name: topic for name, topic in self.topics.items() if name not in gone})


def read_metadata(response: MetadataResponse) -> Cluster:
    """Turn a response of any version into a view."""
    nodes = {
        NodeId(broker.node_id): Node(NodeId(broker.node_id), Address(broker.host, broker.port), broker.rack)
        for broker in response.brokers
    }
    topics = {topic.name: _topic(topic.name, topic) for topic in response.topics if topic.name is not None}
    return Cluster(nodes, topics, response.cluster_id, NodeId(response.controller_id))


def read_controllers(response: DescribeClusterResponse) -> Cluster:
    """Turn a controller's description of the cluster into a view whose nodes are the controllers (KIP-919)."""
    nodes = {
        NodeId(each.broker_id): Node(NodeId(each.broker_id), Address(each.host, each.port), each.rack)
        for each in response.brokers
    }
    return Cluster(nodes, {}, response.cluster_id, NodeId(response.controller_id))


def _topic(name: str, topic: MetadataResponseTopic) -> Topic:
    partitions = {
        found.partition_index: Partition(
            found.partition_index,
            NodeId(found.leader_id),
            LeaderEpoch(found.leader_epoch),
            tuple(NodeId(node) for node in found.replica_nodes),
            tuple(NodeId(node) for node in found.isr_nodes),
            ErrorCode(found.error_code),
        )
        for found in topic.partitions
    }
    return Topic(name, Uuid(topic.topic_id), partitions, topic.is_internal, ErrorCode(topic.error_code))
