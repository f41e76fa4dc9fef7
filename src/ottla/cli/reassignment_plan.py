"""Plans of `ottla reassign-partitions`: the JSON that names each partition's replicas, and where on their disks they lie."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla.admin import duplicates, invalid_request
from ottla.base import TopicPartition
from ottla.cli.json_files import entries, parsed, topic_partition, value
from ottla.cli.json_files import field as field_of

if TYPE_CHECKING:
    from ottla.client import Node

__all__ = ["Plan", "Replica", "parse_plan", "parse_topics", "plan_json", "proposed"]

ANY_LOG_DIR = "any"
VERSION = 1


class Replica(NamedTuple):
    """One copy of a partition; sorted by broker, as Kafka's tool lists them."""

    broker: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


@dataclass(frozen=True)
class Plan:
    """What a file asks for; partitions as often as it names them."""

    targets: Sequence[tuple[TopicPartition, list[int]]]
    log_dirs: Mapping[Replica, str] = field(default_factory=dict)

    @property
    def replicas(self) -> dict[TopicPartition, list[int]]:
        """Each partition's replicas."""
        return dict(self.targets)

    def check(self) -> None:
        """Raise KafkaError for what cannot be carried out."""
        if not self.targets:
            raise invalid_request("Partition reassignment list cannot be empty")
        if not all(replicas for _, replicas in self.targets):
            raise invalid_request("Partition replica list cannot be empty")
        if twice := duplicates([partition for partition, _ in self.targets]):
            listed = ",".join(map(str, twice))
            raise invalid_request(f"Partition reassignment contains duplicate topic partitions: {listed}")
        wrong = [
            f"{partition} contains multiple entries for {','.join(map(str, twice))}"
            for partition, replicas in self.targets
            if (twice := duplicates(replicas))
        ]
        if wrong:
            raise invalid_request(f"Partition replica lists may not contain duplicate entries: {'. '.join(wrong)}")


def parse_plan(text: str | bytes) -> Plan:
    """Read a plan; raises KafkaError for what is missing in it, or of a wrong kind."""
    document = parsed(text)
    check_version(document)
    targets = []
    log_dirs = {}
    for each in entries(document, "partitions"):
        partition = topic_partition(each)
        replicas = [value(broker, int) for broker in field_of(each, "replicas", list)]
        wanted = [value(path, str) for path in entries(each, "log_dirs")] if "log_dirs" in each else None
        if wanted is not None and len(wanted) != len(replicas):
            raise invalid_request(
                f"Size of replicas list {_listed(replicas)} is different from size of log dirs list {_listed(wanted)} "
                f"for partition {partition}"
            )
        targets.append((partition, replicas))
        for broker, path in zip(replicas, wanted or [], strict=False):
            if path != ANY_LOG_DIR:
                log_dirs[Replica(broker, *partition)] = path
    return Plan(targets, log_dirs)


def parse_topics(text: str | bytes) -> list[str]:
    """Read which topics shall move; raises KafkaError for a file that does not say so."""
    document = parsed(text)
    check_version(document)
    found = [str(field_of(each, "topic", str)) for each in entries(document, "topics")]
    if twice := duplicates(found):
        raise invalid_request(f"List of topics to reassign contains duplicate entries: {_listed(twice)}")
    return found


def check_version(document: Mapping[str, object]) -> None:
    """Raise KafkaError for a file of a version that is not known."""
    version = value(document.get("version", VERSION), int)
    if version != VERSION:
        raise invalid_request(f"Not supported version field value {version}")


def _listed(values: Sequence[object]) -> str:
    return f"[{', '.join(map(str, values))}]"


def plan_json(assignment: Mapping[TopicPartition, Sequence[int]], log_dirs: Mapping[Replica, str]) -> str:
    """Return a plan as one line of JSON."""
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": [log_dirs.get(Replica(broker, *partition), ANY_LOG_DIR) for broker in replicas],
        }
        for partition, replicas in sorted(assignment.items())
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"), ensure_ascii=False)


def proposed(
    current: Mapping[TopicPartition, Sequence[int]], brokers: Collection[Node], *, rack_aware: bool
) -> dict[TopicPartition, list[int]]:
    """Spread partitions anew over brokers, each topic with as many copies as it has; raises KafkaError where that fails."""
    import random

    from ottla.base import NodeId, Uuid
    from ottla.metadata import Broker, decide

    without = [each for each in brokers if each.rack is None]
    if rack_aware and without and len(without) < len(brokers):
        raise invalid_request(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment "
            "without rack information."
        )
    alive = [
        Broker(NodeId(each.node_id), 0, Uuid(bytes(16)), rack=each.rack if rack_aware else None, fenced=False)
        for each in brokers
    ]
    found: dict[TopicPartition, list[int]] = {}
    for topic in sorted({partition.topic for partition in current}):
        partitions = sorted(partition for partition in current if partition.topic == topic)
        copies = len(current[partitions[0]])
        placed = decide.place(alive, partitions=len(partitions), replication_factor=copies, rng=random.SystemRandom())
        found |= {partition: list(map(int, replicas)) for partition, replicas in zip(partitions, placed, strict=True)}
    return found
