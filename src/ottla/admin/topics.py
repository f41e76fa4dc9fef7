"""Topics: described with their partitions and configuration, created, given more partitions, and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.base import ErrorCode, KafkaError, TopicPartition, Uuid

if TYPE_CHECKING:
    from ottla.admin.reassignments import OngoingReassignment
    from ottla.client import BlockingClient

__all__ = [
    "PartitionDescription",
    "TopicDescription",
    "TopicToCreate",
    "add_partitions",
    "create_topic",
    "delete_topics",
    "describe_topics",
    "topic_with_id",
]

DESCRIBE_TOPIC_PARTITIONS = 75
LIST_PARTITION_REASSIGNMENTS = 46
PARTITIONS_PER_ANSWER = 2000
REQUEST_TIMEOUT_MS = 30_000


@dataclass(frozen=True)
class PartitionDescription:
    """One partition; `leader` is -1 for none, `elr` None where the broker does not know eligible leaders (KIP-966)."""

    topic: str
    index: int
    leader: int
    replicas: list[int]
    isr: list[int]
    elr: list[int] | None = None
    last_known_elr: list[int] | None = None
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)

    @property
    def replication_factor(self) -> int:
        """Copies that the partition shall have; those being added do not count yet."""
        return len(set(self.replicas) - set(self.adding))


@dataclass(frozen=True)
class TopicDescription:
    """One topic; `configs` holds what is not a default."""

    name: str
    topic_id: Uuid
    partitions: list[PartitionDescription]
    configs: dict[str, str]
    min_isr: int

    @property
    def replication_factor(self) -> int:
        """Copies of the first partition, as Kafka's tool counts."""
        return self.partitions[0].replication_factor if self.partitions else 0


@dataclass(frozen=True)
class TopicToCreate:
    """A topic that shall be; None leaves a number to the brokers, as does an empty `assignment` the places.

    `assignment` has the brokers of partition 0, then of 1, …, and then there are no numbers.
    """

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignment: Sequence[Sequence[int]] = ()
    configs: Mapping[str, str] = field(default_factory=dict)


def describe_topics(
    client: BlockingClient, names: Sequence[str], *, partitions_per_answer: int | None = None
) -> list[TopicDescription]:
    """Return topics as the brokers know them, in the order of the names; of a topic that is gone meanwhile, nothing.

    `partitions_per_answer` bounds each answer (KIP-966; 2000 where nothing is said). Raises the first topic's KafkaError.
    """
    from ottla.admin.configs import ConfigEntity, describe_configs

    if not names:
        return []
    offered = client.run(client.client.versions())
    moving = _moving(client, names) if LIST_PARTITION_REASSIGNMENTS in offered else {}
    if DESCRIBE_TOPIC_PARTITIONS in offered:
        partitions = _partitions(client, names, partitions_per_answer, moving)
    else:
        partitions = _partitions_of_metadata(client, names, moving)
    configs = describe_configs(client, [ConfigEntity("topics", name) for name in names], synonyms=False)
    found = []
    for name in names:
        if name in partitions:
            values = configs[ConfigEntity("topics", name)]
            own = {each.name: each.value or "" for each in values if not each.is_default}
            min_isr = next((each.value for each in values if each.name == "min.insync.replicas"), None)
            found.append(TopicDescription(name, *partitions[name], own, int(min_isr or 1)))
    return found


def topic_with_id(client: BlockingClient, topic_id: Uuid) -> str | None:
    """Return the name of the topic that has an id (KIP-516); None where none has."""
    return next((name for name, topic in client.metadata().topics.items() if topic.topic_id == topic_id), None)


Partitions = dict[str, tuple[Uuid, list[PartitionDescription]]]
"""By topic: its id, and its partitions."""
Moving = Mapping[TopicPartition, "OngoingReassignment"]


def _partitions(client: BlockingClient, names: Sequence[str], limit: int | None, moving: Moving) -> Partitions:
    """Ask page by page (KIP-966)."""
    from ottla.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest

    found: Partitions = {}
    cursor: Cursor | None = None
    while True:
        wanted = [name for name in names if cursor is None or name >= cursor.topic_name]
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in wanted],
            response_partition_limit=limit or PARTITIONS_PER_ANSWER,
            cursor=cursor,
        )
        response = client.request(request)
        for topic in response.topics:
            if topic.error_code:
                raise KafkaError(ErrorCode(topic.error_code), f"{topic.name}: {ErrorCode(topic.error_code).name}")
            _, views = found.setdefault(topic.name, (Uuid(bytes(topic.topic_id)), []))
            for each in topic.partitions:
                views.append(_view(topic.name, each, moving, each.eligible_leader_replicas, each.last_known_elr))
        if response.next_cursor is None:
            return found
        cursor = response.next_cursor


def _view(
    topic: str, each: Any, moving: Moving, elr: list[int] | None, last_known_elr: list[int] | None
) -> PartitionDescription:
    moves = moving.get(TopicPartition(topic, each.partition_index))
    return PartitionDescription(
        topic=topic,
        index=each.partition_index,
        leader=each.leader_id,
        replicas=list(each.replica_nodes),
        isr=list(each.isr_nodes),
        elr=list(elr or []),
        last_known_elr=list(last_known_elr or []),
        adding=list(moves.adding) if moves else [],
        removing=list(moves.removing) if moves else [],
    )


def _partitions_of_metadata(client: BlockingClient, names: Sequence[str], moving: Moving) -> Partitions:
    """Fall back to Metadata, as with brokers before 3.7."""
    cluster = client.metadata(names)
    return {
        name: (
            cluster.topics[name].topic_id,
            [
                PartitionDescription(
                    topic=name,
                    index=index,
                    leader=each.leader,
                    replicas=[*each.replicas],
                    isr=[*each.in_sync],
                    adding=list(moves.adding) if (moves := moving.get(TopicPartition(name, index))) else [],
                    removing=list(moves.removing) if moves else [],
                )
                for index, each in sorted(cluster.topics[name].partitions.items())
            ],
        )
        for name in names
        if not cluster.topics[name].error
    }


def _moving(client: BlockingClient, names: Sequence[str]) -> Moving:
    """Return what moves of some topics; all is asked for, since a topic that is gone would be an error.

    Who may not see reassignments sees the rest, as in Kafka's tool.
    """
    from ottla.admin.reassignments import list_reassignments

    try:
        found = list_reassignments(client)
    except KafkaError as error:
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return {}
        raise
    return {partition: moves for partition, moves in found.items() if partition.topic in names}


def create_topic(client: BlockingClient, topic: TopicToCreate, *, validate_only: bool = False) -> None:
    """Create a topic, or have it checked; raises KafkaError in the controller's words, TOPIC_ALREADY_EXISTS among them."""
    from ottla.client import NewTopic, create_topics

    wanted = NewTopic(
        topic.name,
        -1 if topic.partitions is None else topic.partitions,
        -1 if topic.replication_factor is None else topic.replication_factor,
        topic.configs,
        topic.assignment,
    )
    made = create_topics(client.client, [wanted], timeout_ms=REQUEST_TIMEOUT_MS, validate_only=validate_only)
    for error in client.run(made).values():
        raise error


def add_partitions(
    client: BlockingClient, names: Iterable[str], *, count: int, assignment: Sequence[Sequence[int]] = ()
) -> None:
    """Have topics have so many partitions altogether (KIP-195); raises the first topic's KafkaError.

    `assignment` has the brokers of all partitions, those that are there too.
    """
    from ottla.wire.messages.create_partitions import (
        CreatePartitionsAssignment,
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )

    cluster = client.metadata(names := list(names))
    topics = []
    for name in names:
        new = assignment[len(cluster.partitions_of(name)) :]
        added = [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in new]
        topics.append(CreatePartitionsTopic(name=name, count=count, assignments=added if assignment else None))
    message = CreatePartitionsRequest(topics=topics, timeout_ms=REQUEST_TIMEOUT_MS, validate_only=False)
    for result in client.request(message, controller=True).results:
        _raise_for(result)


def delete_topics(client: BlockingClient, names: Iterable[str]) -> dict[str, KafkaError | None]:
    """Delete topics with all their records; returns what became of each: None, or why it is still there."""
    from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    names = list(names)
    if not names:
        return {}
    message = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names], topic_names=names, timeout_ms=REQUEST_TIMEOUT_MS
    )
    responses = client.request(message, controller=True, lowest=1).responses
    return {str(each.name): _error_of(each) for each in responses}


def _error_of(result: Any) -> KafkaError | None:
    return KafkaError(ErrorCode(result.error_code), result.error_message or "") if result.error_code else None


def _raise_for(result: Any) -> None:
    """Raise the error of one topic's result, with the broker's own words."""
    if (error := _error_of(result)) is not None:
        raise error
