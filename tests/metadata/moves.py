"""Short words for the decisions about partitions, for tests that tell stories with them."""

from __future__ import annotations

from typing import Any

from ottla.base import NodeId
from ottla.config import BrokerConfig
from ottla.metadata import Image, Partition, decide
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.metadata.clusters import after

PREFERRED, UNCLEAN = 0, 1
TOPIC, BROKER = 2, 4


def part(image: Image, name: str = "a", index: int = 0) -> Partition:
    found = image.partition(name, index)
    assert found is not None
    return found


def without_elr(image: Image) -> Image:
    from ottla.metadata import apply

    return apply(image, FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0))


def alter(
    image: Image,
    *isr: int,
    name: str = "a",
    leader: int | None = None,
    leader_epoch: int | None = None,
    partition_epoch: int | None = None,
    recovery: int = 0,
    broker_epochs: dict[int, int] | None = None,
    broker_epoch: int | None = None,
    version: int = 3,
) -> decide.Decision[Any]:
    """The leader of partition 0 asks for an ISR; what is not given is right."""
    partition = part(image, name)
    sender = partition.leader if leader is None else leader
    epochs = broker_epochs or {}
    request = AlterPartitionRequest(
        broker_id=sender,
        broker_epoch=image.brokers[sender].epoch if broker_epoch is None else broker_epoch,
        topics=[
            RequestTopicData(
                topic_id=image.topics[name].id,
                partitions=[
                    RequestPartitionData(
                        partition_index=0,
                        leader_epoch=partition.leader_epoch if leader_epoch is None else leader_epoch,
                        new_isr=list(isr),
                        new_isr_with_epochs=[
                            BrokerState(broker_id=each, broker_epoch=epochs.get(each, -1)) for each in isr
                        ],
                        leader_recovery_state=recovery,
                        partition_epoch=partition.partition_epoch if partition_epoch is None else partition_epoch,
                    )
                ],
            )
        ],
    )
    return decide.alter_partition(image, request, version=version)


def altered(decision: decide.Decision[Any]) -> Any:
    """The answer about the one partition."""
    return decision.response.topics[0].partitions[0]


def elect(image: Image, kind: int = PREFERRED, partitions: dict[str, list[int]] | None = None) -> decide.Decision[Any]:
    asked = None
    if partitions is not None:
        asked = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in partitions.items()]
    return decide.elect_leaders(image, ElectLeadersRequest(election_type=kind, topic_partitions=asked))


def elected(decision: decide.Decision[Any]) -> dict[tuple[str, int], int]:
    return {
        (topic.topic, each.partition_id): each.error_code
        for topic in decision.response.replica_election_results
        for each in topic.partition_result
    }


def reassign(
    image: Image, replicas: list[int] | None, *, name: str = "a", index: int = 0, may_resize: bool = True
) -> decide.Decision[Any]:
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_resize,
        topics=[
            ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
        ],
    )
    return decide.alter_partition_reassignments(image, request)


def reassigned(decision: decide.Decision[Any]) -> tuple[int, str | None]:
    answer = decision.response.responses[0].partitions[0]
    return answer.error_code, answer.error_message


def moving(image: Image, topics: Any = None) -> dict[tuple[str, int], tuple[list[int], list[int], list[int]]]:
    response = decide.list_partition_reassignments(image, ListPartitionReassignmentsRequest(topics=topics))
    return {
        (topic.name, each.partition_index): (
            list(each.replicas),
            list(each.adding_replicas),
            list(each.removing_replicas),
        )
        for topic in response.topics
        for each in topic.partitions
    }


def fence(image: Image, *brokers: int) -> Image:
    for each in brokers:
        image = after(image, decide.fence_broker(image, NodeId(each)))
    return image


def unfence(image: Image, *brokers: int) -> Image:
    for each in brokers:
        beat = decide.heartbeat(
            image, NodeId(each), image.brokers[each].epoch, caught_up=True, want_fence=False, want_shut_down=False
        )
        image = after(image, beat)
    return image


def set_config(image: Image, kind: int, name: str, key: str, value: str) -> decide.Decision[Any]:
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, config_operation=0, value=value)],
            )
        ]
    )
    return decide.alter_configs(image, request, config=BrokerConfig.load(""))
