"""Electing leaders: by request, back to the preferred ones, and where none is left but one that may lack records."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base import ErrorCode, KafkaError
from ottla.config import BrokerConfig
from ottla.metadata.apply import Record, apply
from ottla.metadata.decide.decision import Decision
from ottla.metadata.decide.partition_change import Election, Wanted, change_partition, unclean_allowed
from ottla.metadata.image import NO_LEADER, Image, Partition, Topic
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

__all__ = ["ELECTIONS_MAX", "balance_leaders", "elect_leaders", "elect_unclean_leaders", "is_imbalanced"]

PREFERRED, UNCLEAN = 0, 1
ELECTIONS_MAX = 1000
"""Elections in one decision of the controller's own, as Kafka's: so that others get their turn between them."""


def elect_leaders(
    image: Image, request: ElectLeadersRequest, *, config: BrokerConfig | None = None
) -> Decision[ElectLeadersResponse]:
    """Choose the records that elect leaders where it was asked; each partition succeeds or fails by itself.

    Where every partition is meant, those that need no election are not in the response. Raises INVALID_REQUEST for an
    unknown kind of election.
    """
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    wants_all = request.topic_partitions is None
    asked = (
        [(name, sorted(image.topics[name].partitions)) for name in sorted(image.topics)]
        if request.topic_partitions is None
        else [(each.topic, list(each.partitions)) for each in request.topic_partitions]
    )
    records: list[Record] = []
    results: list[ReplicaElectionResult] = []
    for name, indexes in asked:
        answers: list[PartitionResult] = []
        for index in indexes:
            try:
                record = _elect(image, name, index, unclean=request.election_type == UNCLEAN, config=config)
            except KafkaError as error:
                if not (wants_all and error.code is ErrorCode.ELECTION_NOT_NEEDED):
                    answers.append(
                        PartitionResult(partition_id=index, error_code=int(error.code), error_message=error.message)
                    )
                continue
            records.append(record)
            image = apply(image, record)
            answers.append(PartitionResult(partition_id=index, error_code=int(ErrorCode.NONE), error_message=None))
        results.append(ReplicaElectionResult(topic=name, partition_result=answers))
    return Decision(tuple(records), ElectLeadersResponse(replica_election_results=results))


def _elect(image: Image, name: str, index: int, *, unclean: bool, config: BrokerConfig | None) -> Record:
    """Return the record that elects a partition's leader; raises KafkaError where there is none to elect."""
    topic = image.topic(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    if partition.leader != NO_LEADER if unclean else not is_imbalanced(partition):
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    wanted = Wanted(election=Election.UNCLEAN if unclean else Election.PREFERRED)
    record = change_partition(image, topic, index, wanted, config=config)
    if record is None:
        if unclean:
            text = "Eligible topic partition leaders are not available."
            raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, text)
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    return record


def is_imbalanced(partition: Partition) -> bool:
    """Return whether another than the preferred replica leads, or none."""
    return partition.leader != partition.replicas[0]


def balance_leaders(
    image: Image, *, elections_max: int = ELECTIONS_MAX, config: BrokerConfig | None = None
) -> Decision[bool]:
    """Choose the records that give leaderships back to the preferred replicas; True where there may be more to do."""
    records: list[Record] = []
    for topic, index, partition in _partitions(image):
        if len(records) >= elections_max:
            break
        if is_imbalanced(partition):
            record = change_partition(image, topic, index, Wanted(election=Election.PREFERRED), config=config)
            if record is not None:
                records.append(record)
    return Decision(tuple(records), len(records) >= elections_max)


def elect_unclean_leaders(
    image: Image, *, elections_max: int = ELECTIONS_MAX, config: BrokerConfig | None = None
) -> Decision[bool]:
    """Choose the records that give a leader to partitions that have none, where their topic would rather lose records.

    The response is True where there may be more to do.
    """
    records: list[Record] = []
    for topic, index, partition in _partitions(image):
        if len(records) >= elections_max:
            break
        if partition.leader == NO_LEADER and unclean_allowed(image, topic, config):
            record = change_partition(image, topic, index, Wanted(election=Election.UNCLEAN), config=config)
            if record is not None:
                records.append(record)
    return Decision(tuple(records), len(records) >= elections_max)


def _partitions(image: Image) -> Iterator[tuple[Topic, int, Partition]]:
    for name in sorted(image.topics):
        topic = image.topics[name]
        for index, partition in topic.in_order():
            yield topic, index, partition
