"""Where brokers keep their replicas (KIP-858): a broker tells it, and what lies in a failed directory cannot lead."""

from __future__ import annotations

from ottla.base import ErrorCode, NodeId, Uuid
from ottla.config import BrokerConfig
from ottla.metadata.apply import Record
from ottla.metadata.decide.alter_partition import check_broker_epoch
from ottla.metadata.decide.decision import Decision
from ottla.metadata.decide.partition_change import (
    Able,
    Election,
    Wanted,
    able_to_lead,
    change_partition,
    unclean_allowed,
)
from ottla.metadata.image import DIRECTORY_LOST, Broker, Image, Partition, Topic
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)

__all__ = ["assign_replicas_to_dirs"]


def assign_replicas_to_dirs(
    image: Image, request: AssignReplicasToDirsRequest, *, config: BrokerConfig | None = None
) -> Decision[AssignReplicasToDirsResponse]:
    """Choose the records that note where a broker keeps its replicas; each succeeds or fails by itself."""
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    broker = image.brokers[NodeId(request.broker_id)]
    records: list[Record] = []
    directories = []
    for directory in request.directories:
        directory_id = Uuid(bytes(directory.id))
        topics = []
        for asked in directory.topics:
            topic = image.topic_by_id(Uuid(bytes(asked.topic_id)))
            answers = []
            for each in asked.partitions:
                code = _refusal(topic, each.partition_index, broker)
                if code is ErrorCode.NONE:
                    assert topic is not None
                    records += _assigned(image, topic, each.partition_index, broker, directory_id, config)
                answers.append(ResponsePartitionData(partition_index=each.partition_index, error_code=int(code)))
            topics.append(ResponseTopicData(topic_id=asked.topic_id, partitions=answers))
        directories.append(ResponseDirectoryData(id=directory.id, topics=topics))
    return Decision(tuple(records), AssignReplicasToDirsResponse(directories=directories))


def _refusal(topic: Topic | None, index: int, broker: Broker) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if broker.id in partition.replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _assigned(
    image: Image, topic: Topic, index: int, broker: Broker, directory_id: Uuid, config: BrokerConfig | None
) -> list[Record]:
    partition = topic.partitions[index]
    is_lost = directory_id == DIRECTORY_LOST
    is_online = not is_lost and (not broker.log_dirs or directory_id in broker.log_dirs)
    isr = partition.isr if is_online else tuple(each for each in partition.isr if each != broker.id)
    election = Election.UNCLEAN if not is_online and unclean_allowed(image, topic, config) else Election.ONLINE
    wanted = Wanted(
        isr=isr,
        election=election,
        lost=(broker.id,) if is_lost else (),  # what could not be read is not known to have everything any more
        directories={broker.id: directory_id},
    )
    able = _able_from(image, partition, broker, is_online=is_online)
    record = change_partition(image, topic, index, wanted, able=able, config=config)
    return [] if record is None else [record]


def _able_from(image: Image, partition: Partition, broker: Broker, *, is_online: bool) -> Able:
    """Return who may lead once the broker's replica lies where it says, which the image does not show yet."""
    able = able_to_lead(image, partition)
    return lambda broker_id: (broker.active and is_online) if broker_id == broker.id else able(broker_id)
