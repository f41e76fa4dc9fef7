"""`ottla topics --describe`: topics with their configuration, partitions with their copies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.admin import PartitionDescription, TopicDescription, describe_topics, topic_with_id
from ottla.base import ErrorCode, KafkaError, parse_uuid, uuid_text
from ottla.cli.output import Answer, print_answer
from ottla.cli.topic_names import existing

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import BlockingClient

__all__ = ["print_topics"]


def print_topics(client: BlockingClient, args: Namespace) -> None:
    """Print the topics that were asked for, whole or only the partitions that a `--…-partitions` flag selects."""
    found = describe_topics(client, _names(client, args), partitions_per_answer=args.partition_size_limit_per_response)
    topics = [_narrowed(topic, client, args) for topic in found]
    filtered = _filters(args)
    shown = [topic for topic in topics if topic.partitions or not filtered]
    if args.topics_with_overrides:
        shown = [topic for topic in shown if topic.configs]
    if args.output != "text":
        print_answer(args.output, _answer(shown))
        return
    for topic in shown:
        if not filtered:
            print(topic_text(topic))
        if not args.topics_with_overrides:
            for partition in topic.partitions:
                print(partition_text(partition))


def _json(topic: TopicDescription) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topicId": uuid_text(topic.topic_id),
        "partitionCount": len(topic.partitions),
        "replicationFactor": topic.replication_factor,
        "configs": topic.configs,
        "partitions": [partition_json(partition) for partition in topic.partitions],
    }


def _answer(topics: list[TopicDescription]) -> Answer:
    """Return one row per partition, and one document per topic."""
    rows = [
        {**partition_json(each), "topic": topic.name, "leader": "none" if each.leader < 0 else each.leader}
        | {"configs": topic.configs, "topicId": uuid_text(topic.topic_id)}
        for topic in topics
        for each in topic.partitions
    ]
    columns = {key.upper(): key for key in ("topic", "partition", "leader", "replicas", "isr", "configs")}
    wide = {"ELR": "elr", "LAST-KNOWN-ELR": "lastKnownElr", "TOPIC-ID": "topicId"}
    documents = [_json(topic) for topic in topics]
    return Answer(rows, columns, wide, document=documents, items=documents)


def _names(client: BlockingClient, args: Namespace) -> list[str]:
    if args.topic_id is None:
        return existing(client, args)
    try:
        wanted = parse_uuid(args.topic_id)
    except ValueError as error:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, str(error)) from None
    name = topic_with_id(client, wanted)
    if name is None and not args.if_exists:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"TopicId '{args.topic_id}' does not exist as expected")
    return [] if name is None else [name]


def _filters(args: Namespace) -> bool:
    return bool(
        args.under_replicated_partitions
        or args.unavailable_partitions
        or args.under_min_isr_partitions
        or args.at_min_isr_partitions
    )


def _narrowed(topic: TopicDescription, client: BlockingClient, args: Namespace) -> TopicDescription:
    if not _filters(args):
        return topic
    alive = client.client.cluster.nodes

    def selected(each: PartitionDescription) -> bool:
        return (
            (args.under_replicated_partitions and len(each.isr) < each.replication_factor)
            or (args.unavailable_partitions and each.leader not in alive)
            or (args.under_min_isr_partitions and len(each.isr) < topic.min_isr)
            or (args.at_min_isr_partitions and len(each.isr) == topic.min_isr)
        )

    return replace(topic, partitions=[*filter(selected, topic.partitions)])


def topic_text(topic: TopicDescription) -> str:
    """Return Kafka's line."""
    configs = ",".join(f"{name}={value}" for name, value in topic.configs.items())
    return (
        f"Topic: {topic.name}\tTopicId: {uuid_text(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}\t"
        f"ReplicationFactor: {topic.replication_factor}\tConfigs: {configs}"
    )


def partition_text(partition: PartitionDescription) -> str:
    """Return Kafka's line."""
    fields = [
        f"Topic: {partition.topic}",
        f"Partition: {partition.index}",
        f"Leader: {'none' if partition.leader < 0 else partition.leader}",
        f"Replicas: {_listed(partition.replicas)}",
        f"Isr: {_listed(partition.isr)}",
    ]
    if partition.adding or partition.removing:
        fields += [f"Adding Replicas: {_listed(partition.adding)}", f"Removing Replicas: {_listed(partition.removing)}"]
    fields += [f"Elr: {_listed(partition.elr)}", f"LastKnownElr: {_listed(partition.last_known_elr)}"]
    return "".join(f"\t{each}" for each in fields)


def partition_json(partition: PartitionDescription) -> dict[str, Any]:
    """Return the JSON object."""
    moving = {"addingReplicas": partition.adding, "removingReplicas": partition.removing}
    return {
        "partition": partition.index,
        "leader": None if partition.leader < 0 else partition.leader,
        "replicas": partition.replicas,
        "isr": partition.isr,
        "elr": partition.elr,
        "lastKnownElr": partition.last_known_elr,
    } | (moving if partition.adding or partition.removing else {})


def _listed(nodes: list[int] | None) -> str:
    return "N/A" if nodes is None else ",".join(map(str, nodes))
