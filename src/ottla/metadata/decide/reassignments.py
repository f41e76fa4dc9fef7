"""Moving replicas to other brokers (KIP-455): new ones are added, and when they are in sync the old ones go."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError, NodeId
from ottla.config import BrokerConfig
from ottla.metadata.apply import Record, apply
from ottla.metadata.decide.assignments import validate_assignment
from ottla.metadata.decide.decision import Decision
from ottla.metadata.decide.partition_change import Election, Wanted, change_partition, elr_enabled, unclean_allowed
from ottla.metadata.image import Image, Partition, Topic
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

__all__ = ["alter_partition_reassignments", "is_reassigning", "list_partition_reassignments"]


def is_reassigning(partition: Partition) -> bool:
    """Return whether replicas of a partition are on their way."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def alter_partition_reassignments(
    image: Image, request: AlterPartitionReassignmentsRequest, *, config: BrokerConfig | None = None
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Choose the records that begin or cancel reassignments; each partition succeeds or fails by itself."""
    records: list[Record] = []
    responses: list[ReassignableTopicResponse] = []
    may_resize = request.allow_replication_factor_change
    for asked in request.topics:
        answers: list[ReassignablePartitionResponse] = []
        for each in asked.partitions:
            code, message = ErrorCode.NONE, None
            try:
                topic, partition = _found(image, asked.name, each.partition_index)
                if each.replicas is None:
                    record = _cancel(image, topic, each.partition_index, partition, config)
                else:
                    replicas = validate_assignment(image, each.replicas, None)
                    if not may_resize:
                        _check_size(partition, replicas)
                    record = _begin(image, topic, each.partition_index, partition, replicas, config)
                if record is not None:
                    records.append(record)
                    image = apply(image, record)
            except KafkaError as error:
                code, message = error.code, error.message
            answers.append(
                ReassignablePartitionResponse(
                    partition_index=each.partition_index, error_code=int(code), error_message=message
                )
            )
        responses.append(ReassignableTopicResponse(name=asked.name, partitions=answers))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_resize, error_message=None, responses=responses
    )
    return Decision(tuple(records), response)


def _found(image: Image, name: str, index: int) -> tuple[Topic, Partition]:
    topic = image.topic(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    return topic, partition


def _check_size(partition: Partition, replicas: tuple[NodeId, ...]) -> None:
    """Raise INVALID_REPLICATION_FACTOR where the target has another number of copies than the partition is meant to have."""
    meant = len({*partition.replicas, *partition.adding_replicas} - {*partition.removing_replicas})
    if meant != len(replicas):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {meant} to {len(replicas)}",
        )


def _begin(
    image: Image,
    topic: Topic,
    index: int,
    partition: Partition,
    target: tuple[NodeId, ...],
    config: BrokerConfig | None,
) -> Record | None:
    """Return the record that adds the new replicas beside the old; where nothing has to be copied, it is the last one.

    A target that replaces another keeps what of it is wanted still, and leaves nobody to be both added and removed.
    """
    removing = tuple(sorted(set(partition.replicas) - set(target)))
    adding = tuple(sorted(set(target) - (set(partition.replicas) - set(partition.adding_replicas))))
    wanted = Wanted(replicas=(*target, *removing), removing=removing, adding=adding)
    return change_partition(image, topic, index, wanted, config=config)


def _cancel(image: Image, topic: Topic, index: int, partition: Partition, config: BrokerConfig | None) -> Record | None:
    """Return the record that goes back to the replicas of before; raises NO_REASSIGNMENT_IN_PROGRESS."""
    if not is_reassigning(partition):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    replicas = tuple(each for each in partition.replicas if each not in partition.adding_replicas)
    isr = tuple(each for each in partition.isr if each not in partition.adding_replicas)
    if not replicas:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Invalid replica assignment: addingReplicas contains all replicas."
        )
    unclean = unclean_allowed(image, topic, config)
    if partition.isr and not isr:  # only new replicas are in sync: an old one may lack what they have
        if not unclean:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{index} because it would require an unclean "
                "leader election.",
            )
        isr = () if elr_enabled(image) else replicas[:1]
    wanted = Wanted(
        isr=isr,
        replicas=replicas,
        removing=(),
        adding=(),
        election=Election.UNCLEAN if unclean else Election.ONLINE,
    )
    return change_partition(image, topic, index, wanted, config=config)


def list_partition_reassignments(
    image: Image, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the reassignments that are under way, of all topics or of those asked for."""
    if request.topics is None:
        asked = [(name, sorted(image.topics[name].partitions)) for name in sorted(image.topics)]
    else:
        asked = [(each.name, list(each.partition_indexes)) for each in request.topics if each.name in image.topics]
    topics: list[OngoingTopicReassignment] = []
    for name, indexes in asked:
        ongoing = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=partition.replicas,
                adding_replicas=partition.adding_replicas,
                removing_replicas=partition.removing_replicas,
            )
            for index in indexes
            if (partition := image.partition(name, index)) is not None and is_reassigning(partition)
        ]
        if ongoing:
            topics.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)
