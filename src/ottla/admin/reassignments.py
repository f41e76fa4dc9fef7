"""Reassignments (KIP-455): where partitions lie and where they move, between brokers and between a broker's disks."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.admin.errors import invalid_request, raise_code, words
from ottla.admin.lists import by_topic, duplicates
from ottla.base import ErrorCode, KafkaError, NodeId, OttlaError, TopicPartition

if TYPE_CHECKING:
    from ottla.client import BlockingClient, Node

__all__ = [
    "LogDirMoveError",
    "LogDirTimeoutError",
    "OngoingReassignment",
    "PlannedReassignment",
    "ReassignmentInProgressError",
    "ReassignmentPlan",
    "ReassignmentRefusedError",
    "ReassignmentState",
    "ReplicaLogDir",
    "TopicPartitionReplica",
    "alter_reassignments",
    "list_reassignments",
    "move_log_dirs",
    "plan_reassignment",
    "propose_reassignment",
    "reassignment_states",
    "replica_assignments",
    "replica_log_dirs",
]

REQUEST_TIMEOUT_MS = 60_000
RETRY_SECONDS = 0.1
"""How long after a broker does not have a replica yet it is asked again to move it."""


class ReassignmentInProgressError(OttlaError):
    """Reassignments are under way, and nobody asked for further ones in addition."""


class ReassignmentRefusedError(OttlaError):
    """Partitions whose reassignment the controller refused, each with its words; others were accepted."""

    def __init__(self, refused: Mapping[TopicPartition, str]) -> None:
        super().__init__(", ".join(f"{partition}: {reason}" for partition, reason in refused.items()))
        self.refused = refused


class LogDirMoveError(OttlaError):
    """A replica that a broker does not move to another disk; `code` is the broker's."""

    def __init__(self, replica: TopicPartitionReplica, code: ErrorCode) -> None:
        super().__init__(f"Failed to alter dir for {replica}")
        self.code = code


class LogDirTimeoutError(OttlaError):
    """Replicas that were not on their brokers in time, so that their moves to another disk could not begin."""

    def __init__(self, replicas: Iterable[TopicPartitionReplica]) -> None:
        self.replicas = tuple(sorted(replicas))
        plural = "" if len(self.replicas) == 1 else "s"
        listed = ",".join(map(str, self.replicas))
        super().__init__(f"Timed out before log directory move{plural} could be started for: {listed}")


class TopicPartitionReplica(NamedTuple):
    """One copy of a partition; sorted by broker, as Kafka's tool lists them."""

    broker: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


@dataclass(frozen=True)
class ReassignmentPlan:
    """What a file asks for; partitions as often as it names them."""

    targets: Sequence[tuple[TopicPartition, list[int]]]
    log_dirs: Mapping[TopicPartitionReplica, str] = field(default_factory=dict)

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


@dataclass(frozen=True)
class OngoingReassignment:
    """A reassignment under way; `replicas` holds those being added, and those being removed, too."""

    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


@dataclass(frozen=True)
class ReassignmentState:
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


@dataclass(frozen=True)
class ReplicaLogDir:
    """Where a replica lies on its broker, and where it is being moved there; None where it is not."""

    current: str | None
    future: str | None


@dataclass(frozen=True)
class PlannedReassignment:
    """A plan that can be carried out: what is asked for, where those partitions lie now, and what moves already."""

    plan: ReassignmentPlan
    current: Mapping[TopicPartition, Sequence[int]]
    under_way: Mapping[TopicPartition, OngoingReassignment]


def list_reassignments(
    client: BlockingClient, partitions: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, OngoingReassignment]:
    """Return the reassignments under way, in order: all, or those of some partitions. Raises the controller's KafkaError."""
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
                OngoingReassignment([*each.replicas], [*each.adding_replicas], [*each.removing_replicas]),
            )
            for topic in response.topics
            for each in topic.partitions
        )
    )


def replica_assignments(client: BlockingClient, topics: Iterable[str]) -> dict[TopicPartition, list[int]]:
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


def propose_reassignment(
    current: Mapping[TopicPartition, Sequence[int]], brokers: Collection[Node], *, rack_aware: bool
) -> dict[TopicPartition, list[int]]:
    """Spread partitions anew over brokers, each topic with as many copies as it has; raises KafkaError where that fails."""
    import random

    from ottla.base import Uuid
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


def plan_reassignment(
    client: BlockingClient, plan: ReassignmentPlan, *, additional: bool = False
) -> PlannedReassignment:
    """Look whether a plan can be carried out; nothing is changed before `alter_reassignments` and `move_log_dirs`.

    Raises ReassignmentInProgressError where others are under way and these are not `additional`, INVALID_REQUEST for
    brokers that are not there, UNKNOWN_TOPIC_OR_PARTITION for partitions.
    """
    plan.check()
    under_way = list_reassignments(client)
    if under_way and not additional:
        raise ReassignmentInProgressError("reassignments are under way")
    nodes = client.metadata(()).nodes
    for broker in sorted({each for replicas in plan.replicas.values() for each in replicas}):
        if broker not in nodes:
            raise invalid_request(f"Unknown broker id {broker}")
    found = replica_assignments(client, {partition.topic for partition in plan.replicas})
    if missing := sorted(plan.replicas.keys() - found.keys()):
        listed = ", ".join(map(str, missing))
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition: {listed}")
    return PlannedReassignment(plan, {partition: found[partition] for partition in plan.replicas}, under_way)


def alter_reassignments(
    client: BlockingClient,
    replicas: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_factor_change: bool = True,
) -> None:
    """Ask the controller for new replicas of partitions, None for those from before what is under way.

    Without `allow_factor_change` it refuses more or fewer copies than there are (KIP-860). Raises
    ReassignmentRefusedError with every partition that was refused, KafkaError where all are.
    """
    from ottla.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )

    topics = [
        ReassignableTopic(
            name=name,
            partitions=[ReassignablePartition(partition_index=p.partition, replicas=replicas[p]) for p in partitions],
        )
        for name, partitions in by_topic(sorted(replicas)).items()
    ]
    message = AlterPartitionReassignmentsRequest(
        timeout_ms=REQUEST_TIMEOUT_MS, allow_replication_factor_change=allow_factor_change, topics=topics
    )
    response = client.request(message, lowest=0 if allow_factor_change else 1)
    raise_code(response.error_code, response.error_message)
    refused = {
        TopicPartition(topic.name, each.partition_index): words(ErrorCode(each.error_code), each.error_message)
        for topic in response.responses
        for each in topic.partitions
        if each.error_code
    }
    if refused:
        raise ReassignmentRefusedError(refused)


def reassignment_states(
    client: BlockingClient,
    targets: Mapping[TopicPartition, Sequence[int]],
    moving: Mapping[TopicPartition, OngoingReassignment],
) -> dict[TopicPartition, ReassignmentState]:
    """Return what became of the partitions of a plan; a partition that is not there has no replicas."""
    still = {each.topic for each in targets if each not in moving}
    cluster = client.metadata(still) if still else None
    found = {}
    for partition, target in sorted(targets.items()):
        if partition in moving:
            found[partition] = ReassignmentState(moving[partition].replicas, target, False)
            continue
        topic = cluster.topics.get(partition.topic) if cluster is not None else None
        present = topic.partitions.get(partition.partition) if topic is not None else None
        found[partition] = ReassignmentState([int(each) for each in present.replicas] if present else [], target, True)
    return found


def replica_log_dirs(
    client: BlockingClient, replicas: Iterable[TopicPartitionReplica]
) -> dict[TopicPartitionReplica, ReplicaLogDir]:
    """Return where replicas lie on their brokers' disks; those of brokers that are away lie nowhere."""
    wanted = sorted(set(replicas))
    brokers = {replica.broker for replica in wanted}
    alive = client.metadata(()).nodes if brokers else {}
    found: dict[TopicPartitionReplica, ReplicaLogDir] = {}
    for broker in sorted(brokers & {int(each) for each in alive}):
        found |= _on_broker(client, NodeId(broker), [each for each in wanted if each.broker == broker])
    return {replica: found.get(replica, ReplicaLogDir(None, None)) for replica in wanted}


def _on_broker(
    client: BlockingClient, broker: NodeId, replicas: Sequence[TopicPartitionReplica]
) -> dict[TopicPartitionReplica, ReplicaLogDir]:
    from ottla.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

    partitions = by_topic(TopicPartition(each.topic, each.partition) for each in replicas)
    topics = [
        DescribableLogDirTopic(topic=name, partitions=[each.partition for each in found])
        for name, found in partitions.items()
    ]
    response: Any = client.request(DescribeLogDirsRequest(topics=topics), node=broker)
    raise_code(response.error_code)
    current: dict[TopicPartitionReplica, str] = {}
    future: dict[TopicPartitionReplica, str] = {}
    for result in response.results:
        for topic in result.topics:
            for each in topic.partitions:
                replica = TopicPartitionReplica(int(broker), topic.name, each.partition_index)
                (future if each.is_future_key else current)[replica] = result.log_dir
    return {each: ReplicaLogDir(current.get(each), future.get(each)) for each in replicas}


def move_log_dirs(
    client: BlockingClient, targets: Mapping[TopicPartitionReplica, str], *, timeout_s: float
) -> Iterator[TopicPartitionReplica]:
    """Have replicas moved to folders of their brokers (KIP-113); yields each when its move has begun.

    A replica may come to its broker only now, so a broker without it is asked again until `timeout_s` is over, which
    raises LogDirTimeoutError. Raises LogDirMoveError for the first that is refused.
    """
    deadline = time.monotonic() + timeout_s
    pending = dict(targets)
    while True:
        for replica in sorted(_begun(client, pending)):
            del pending[replica]
            yield replica
        if not pending:
            return
        if time.monotonic() >= deadline:
            raise LogDirTimeoutError(pending)
        time.sleep(RETRY_SECONDS)


def _begun(client: BlockingClient, targets: Mapping[TopicPartitionReplica, str]) -> list[TopicPartitionReplica]:
    """Ask the brokers to move replicas; return those that will, raise LogDirMoveError for one that is refused."""
    from ottla.wire.messages.alter_replica_log_dirs import (
        AlterReplicaLogDir,
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirTopic,
    )

    found = []
    for broker in sorted({replica.broker for replica in targets}):
        mine = {each: path for each, path in targets.items() if each.broker == broker}
        dirs = [
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(
                        name=topic, partitions=[e.partition for e in mine if (e.topic, mine[e]) == (topic, path)]
                    )
                    for topic in sorted({each.topic for each in mine if mine[each] == path})
                ],
            )
            for path in sorted(set(mine.values()))
        ]
        response = client.request(AlterReplicaLogDirsRequest(dirs=dirs), node=NodeId(broker))
        for result in response.results:
            for each in result.partitions:
                replica, code = (
                    TopicPartitionReplica(broker, result.topic_name, each.partition_index),
                    ErrorCode(each.error_code),
                )
                if not code:
                    found.append(replica)
                elif code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                    raise LogDirMoveError(replica, code)
    return found
