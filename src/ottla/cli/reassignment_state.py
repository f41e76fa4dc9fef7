"""Where partitions lie and where they are moving, as `ottla reassign-partitions` asks for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.admin import by_topic, raise_code
from ottla.base import ErrorCode, KafkaError, NodeId, TopicPartition
from ottla.cli.reassignment_plan import Replica

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = ["Moving", "Ongoing", "PartitionState", "assignments", "log_dirs_of", "ongoing", "partition_states"]


@dataclass(frozen=True)
class Ongoing:
    """A reassignment under way; `replicas` holds those being added, and those being removed, too."""

    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]

    def text(self, partition: TopicPartition) -> str:
        """Return Kafka's line."""
        words = [f"{partition}: replicas: {_listed(self.replicas)}."]
        words += [f"adding: {_listed(self.adding)}."] if self.adding else []
        words += [f"removing: {_listed(self.removing)}."] if self.removing else []
        return " ".join(words)


@dataclass(frozen=True)
class PartitionState:
    """What became of one partition of a plan."""

    current: Sequence[int]
    target: Sequence[int]
    done: bool

    @property
    def word(self) -> str:
        """The state for programs."""
        if not self.done:
            return "in progress"
        return "completed" if list(self.current) == list(self.target) else "different"

    def text(self, partition: TopicPartition) -> str:
        """Return Kafka's line."""
        if not self.done:
            return f"Reassignment of partition {partition} is still in progress."
        if self.word == "completed":
            return f"Reassignment of partition {partition} is completed."
        return (
            f"There is no active reassignment of partition {partition}, but replica set is {_listed(self.current)} "
            f"rather than {_listed(self.target)}."
        )


@dataclass(frozen=True)
class Moving:
    """Where a replica lies on its broker, and where it is being moved there; None where it is not."""

    current: str | None
    future: str | None

    def text(self, replica: Replica, target: str) -> str:
        """Return Kafka's line."""
        name, broker = f"Partition {replica.topic}-{replica.partition}", replica.broker
        if self.current is None:
            return (
                f"{name} is not found in any live log dir on broker {broker}. "
                "There is likely an offline log directory on the broker."
            )
        if self.future is None and self.current == target:
            return f"Reassignment of replica {replica} completed successfully."
        if self.future is None:
            return f"{name} on broker {broker} is not being moved from log dir {self.current} to {target}."
        if self.future == target:
            return f"Reassignment of replica {replica} is still in progress."
        return f"{name} on broker {broker} is being moved to log dir {self.future} instead of {target}."


def _listed(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))


def ongoing(
    client: BlockingClient, partitions: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, Ongoing]:
    """Return the reassignments under way, in order: all, or those of some partitions."""
    from ottla.wire.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsTopics,
    )

    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=[each.partition for each in found])
            for name, found in by_topic(partitions).items()
        ]
    response = client.request(ListPartitionReassignmentsRequest(topics=topics))
    raise_code(response.error_code, response.error_message)
    return dict(
        sorted(
            (
                TopicPartition(topic.name, each.partition_index),
                Ongoing([*each.replicas], [*each.adding_replicas], [*each.removing_replicas]),
            )
            for topic in response.topics
            for each in topic.partitions
        )
    )


def assignments(client: BlockingClient, topics: Iterable[str]) -> dict[TopicPartition, list[int]]:
    """Return where the topics' partitions lie; raises KafkaError for a topic that is not there."""
    names = sorted(set(topics))
    if not names:
        return {}
    cluster = client.metadata(names)
    for name in names:
        found = cluster.topics.get(name)
        if found is None or found.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name} not found.")
        raise_code(found.error)
    return {
        partition: [int(each) for each in cluster.topics[name].partitions[partition.partition].replicas]
        for name in names
        for partition in cluster.partitions_of(name)
    }


def partition_states(
    client: BlockingClient, targets: Mapping[TopicPartition, Sequence[int]], moving: Mapping[TopicPartition, Ongoing]
) -> dict[TopicPartition, PartitionState]:
    """Return what became of the partitions of a plan; a partition that is not there has no replicas."""
    still = {each.topic for each in targets if each not in moving}
    cluster = client.metadata(still) if still else None
    found = {}
    for partition, target in sorted(targets.items()):
        if partition in moving:
            found[partition] = PartitionState(moving[partition].replicas, target, False)
            continue
        topic = cluster.topics.get(partition.topic) if cluster is not None else None
        present = topic.partitions.get(partition.partition) if topic is not None else None
        found[partition] = PartitionState([int(each) for each in present.replicas] if present else [], target, True)
    return found


def log_dirs_of(client: BlockingClient, replicas: Iterable[Replica]) -> dict[Replica, Moving]:
    """Return where replicas lie on their brokers' disks; those of brokers that are away lie nowhere."""
    wanted = sorted(set(replicas))
    brokers = {replica.broker for replica in wanted}
    alive = client.metadata(()).nodes if brokers else {}
    found: dict[Replica, Moving] = {}
    for broker in sorted(brokers & {int(each) for each in alive}):
        found |= _on_broker(client, NodeId(broker), [each for each in wanted if each.broker == broker])
    return {replica: found.get(replica, Moving(None, None)) for replica in wanted}


def _on_broker(client: BlockingClient, broker: NodeId, replicas: Sequence[Replica]) -> dict[Replica, Moving]:
    from ottla.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

    partitions = by_topic(TopicPartition(each.topic, each.partition) for each in replicas)
    topics = [
        DescribableLogDirTopic(topic=name, partitions=[each.partition for each in found])
        for name, found in partitions.items()
    ]
    response: Any = client.request(DescribeLogDirsRequest(topics=topics), node=broker)
    raise_code(response.error_code)
    current: dict[Replica, str] = {}
    future: dict[Replica, str] = {}
    for result in response.results:
        for topic in result.topics:
            for each in topic.partitions:
                replica = Replica(int(broker), topic.name, each.partition_index)
                (future if each.is_future_key else current)[replica] = result.log_dir
    return {each: Moving(current.get(each), future.get(each)) for each in replicas}
