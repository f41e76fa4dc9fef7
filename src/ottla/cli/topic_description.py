"""`ottla topics --describe`: topics with their configuration, partitions with their copies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.base import ErrorCode, KafkaError, Uuid, parse_uuid, uuid_text
from ottla.cli.output import Answer, print_answer
from ottla.cli.topic_names import existing

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import BlockingClient

__all__ = ["describe_topics"]

DESCRIBE_TOPIC_PARTITIONS = 75
LIST_PARTITION_REASSIGNMENTS = 46
TOPIC_RESOURCE = 2
DEFAULT_CONFIG = 5
PARTITIONS_PER_ANSWER = 2000


@dataclass(frozen=True)
class PartitionView:
    """One partition as `--describe` shows it; `elr` is None where the broker does not know the word (KIP-966)."""

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

    def text(self) -> str:
        """Return Kafka's line."""
        fields = [
            f"Topic: {self.topic}",
            f"Partition: {self.index}",
            f"Leader: {'none' if self.leader < 0 else self.leader}",
            f"Replicas: {_listed(self.replicas)}",
            f"Isr: {_listed(self.isr)}",
        ]
        if self.adding or self.removing:
            fields += [f"Adding Replicas: {_listed(self.adding)}", f"Removing Replicas: {_listed(self.removing)}"]
        fields += [f"Elr: {_listed(self.elr)}", f"LastKnownElr: {_listed(self.last_known_elr)}"]
        return "".join(f"\t{each}" for each in fields)

    def json(self) -> dict[str, Any]:
        """Return the JSON object."""
        moving = {"addingReplicas": self.adding, "removingReplicas": self.removing}
        return {
            "partition": self.index,
            "leader": None if self.leader < 0 else self.leader,
            "replicas": self.replicas,
            "isr": self.isr,
            "elr": self.elr,
            "lastKnownElr": self.last_known_elr,
        } | (moving if self.adding or self.removing else {})


@dataclass(frozen=True)
class TopicView:
    """One topic as `--describe` shows it; `configs` holds what is not a default."""

    name: str
    topic_id: Uuid
    partitions: list[PartitionView]
    configs: dict[str, str]
    min_isr: int

    @property
    def replication_factor(self) -> int:
        """Copies of the first partition, as Kafka's tool counts."""
        return self.partitions[0].replication_factor if self.partitions else 0

    def text(self) -> str:
        """Return Kafka's line."""
        configs = ",".join(f"{name}={value}" for name, value in self.configs.items())
        return (
            f"Topic: {self.name}\tTopicId: {uuid_text(self.topic_id)}\tPartitionCount: {len(self.partitions)}\t"
            f"ReplicationFactor: {self.replication_factor}\tConfigs: {configs}"
        )


def _listed(nodes: list[int] | None) -> str:
    return "N/A" if nodes is None else ",".join(map(str, nodes))


def describe_topics(client: BlockingClient, args: Namespace) -> None:
    """Print the topics that were asked for, whole or only the partitions that a `--…-partitions` flag selects."""
    topics = [_narrowed(topic, client, args) for topic in _views(client, _names(client, args), args)]
    filtered = _filters(args)
    shown = [topic for topic in topics if topic.partitions or not filtered]
    if args.topics_with_overrides:
        shown = [topic for topic in shown if topic.configs]
    if args.output != "text":
        print_answer(args.output, _answer(shown))
        return
    for topic in shown:
        if not filtered:
            print(topic.text())
        if not args.topics_with_overrides:
            for partition in topic.partitions:
                print(partition.text())


def _json(topic: TopicView) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topicId": uuid_text(topic.topic_id),
        "partitionCount": len(topic.partitions),
        "replicationFactor": topic.replication_factor,
        "configs": topic.configs,
        "partitions": [partition.json() for partition in topic.partitions],
    }


def _answer(topics: list[TopicView]) -> Answer:
    """Return one row per partition, and one document per topic."""
    rows = [
        {**each.json(), "topic": topic.name, "leader": "none" if each.leader < 0 else each.leader}
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
    names = [name for name, topic in client.metadata().topics.items() if topic.topic_id == wanted]
    if not names and not args.if_exists:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"TopicId '{args.topic_id}' does not exist as expected")
    return names


def _filters(args: Namespace) -> bool:
    return bool(
        args.under_replicated_partitions
        or args.unavailable_partitions
        or args.under_min_isr_partitions
        or args.at_min_isr_partitions
    )


def _narrowed(topic: TopicView, client: BlockingClient, args: Namespace) -> TopicView:
    if not _filters(args):
        return topic
    alive = client.client.cluster.nodes

    def selected(each: PartitionView) -> bool:
        return (
            (args.under_replicated_partitions and len(each.isr) < each.replication_factor)
            or (args.unavailable_partitions and each.leader not in alive)
            or (args.under_min_isr_partitions and len(each.isr) < topic.min_isr)
            or (args.at_min_isr_partitions and len(each.isr) == topic.min_isr)
        )

    return TopicView(topic.name, topic.topic_id, [*filter(selected, topic.partitions)], topic.configs, topic.min_isr)


def _views(client: BlockingClient, names: list[str], args: Namespace) -> list[TopicView]:
    if not names:
        return []
    offered = client.run(client.client.versions())
    moving = _reassignments(client, names) if LIST_PARTITION_REASSIGNMENTS in offered else {}
    if DESCRIBE_TOPIC_PARTITIONS in offered:
        partitions = _partitions(client, names, args.partition_size_limit_per_response, moving)
    else:
        partitions = _partitions_of_metadata(client, names, moving)
    configs = _configs(client, names)
    return [TopicView(name, *partitions[name], *configs[name]) for name in names if name in partitions]


Partitions = dict[str, tuple[Uuid, list[PartitionView]]]
"""By topic: its id, and its partitions."""
Moving = dict[tuple[str, int], tuple[list[int], list[int]]]


def _partitions(client: BlockingClient, names: list[str], limit: int | None, moving: Moving) -> Partitions:
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
) -> PartitionView:
    adding, removing = moving.get((topic, each.partition_index), ([], []))
    return PartitionView(
        topic=topic,
        index=each.partition_index,
        leader=each.leader_id,
        replicas=list(each.replica_nodes),
        isr=list(each.isr_nodes),
        elr=list(elr or []),
        last_known_elr=list(last_known_elr or []),
        adding=adding,
        removing=removing,
    )


def _partitions_of_metadata(client: BlockingClient, names: list[str], moving: Moving) -> Partitions:
    """Fall back to Metadata, as with brokers before 3.7."""
    cluster = client.metadata(names)
    return {
        name: (
            cluster.topics[name].topic_id,
            [
                PartitionView(
                    name,
                    index,
                    each.leader,
                    [*each.replicas],
                    [*each.in_sync],
                    None,
                    None,
                    *moving.get((name, index), ([], [])),
                )
                for index, each in sorted(cluster.topics[name].partitions.items())
            ],
        )
        for name in names
        if not cluster.topics[name].error
    }


def _reassignments(client: BlockingClient, names: list[str]) -> Moving:
    from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

    response = client.request(ListPartitionReassignmentsRequest(topics=None), controller=True)
    return {
        (topic.name, each.partition_index): (list(each.adding_replicas), list(each.removing_replicas))
        for topic in response.topics
        if topic.name in names
        for each in topic.partitions
    }


def _configs(client: BlockingClient, names: list[str]) -> dict[str, tuple[dict[str, str], int]]:
    """Return each topic's non-default configuration, in the broker's order, and its min.insync.replicas."""
    from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name) for name in names]
    )
    found = {}
    for result in client.request(request, lowest=1).results:
        if result.error_code:
            code = ErrorCode(result.error_code)
            raise KafkaError(code, result.error_message or f"{result.resource_name}: {code.name}")
        values = {each.name: each.value or "" for each in result.configs}
        own = {each.name: each.value or "" for each in result.configs if each.config_source != DEFAULT_CONFIG}
        found[result.resource_name] = (own, int(values.get("min.insync.replicas") or 1))
    return found
