"""Throttles of reassignments (KIP-73): whom they hold back, planned as changes of configuration, and then made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.admin.configs import ConfigChange, ConfigEntity, alter_config
from ottla.base import TopicPartition

if TYPE_CHECKING:
    from ottla.admin.reassignments import OngoingReassignment
    from ottla.client import BlockingClient

__all__ = [
    "ReplicaMove",
    "ThrottleChange",
    "apply_throttles",
    "plan_broker_throttles",
    "plan_disk_throttles",
    "plan_throttle_removal",
    "replica_moves",
]

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@dataclass(frozen=True)
class ReplicaMove:
    """From which brokers one partition is copied, and to which."""

    sources: frozenset[int]
    destinations: frozenset[int]


@dataclass(frozen=True)
class ThrottleChange:
    """What `apply_throttles` changes, in order; brokers that are away keep the throttle that they have."""

    changes: tuple[ConfigChange, ...]
    away: tuple[int, ...] = ()


def replica_moves(
    under_way: Mapping[TopicPartition, OngoingReassignment],
    wanted: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, ReplicaMove]:
    """Return every partition's move: of those under way, and of those that begin now."""
    found = {
        partition: ReplicaMove(frozenset(each.replicas) - frozenset(each.adding), frozenset(each.adding))
        for partition, each in under_way.items()
    }
    for partition, replicas in wanted.items():
        sources = found[partition].sources if partition in found else frozenset(current[partition])
        found[partition] = ReplicaMove(sources, frozenset(replicas) - sources)
    return found


def plan_broker_throttles(
    client: BlockingClient, moves: Mapping[TopicPartition, ReplicaMove], *, bytes_per_s: int
) -> ThrottleChange:
    """Return how topics name the replicas that are held back, and brokers how fast those may be copied."""
    changes = []
    for topic in sorted({partition.topic for partition in moves}):
        mine = {partition.partition: move for partition, move in moves.items() if partition.topic == topic}
        leaders = {f"{index}:{broker}" for index, move in mine.items() for broker in move.sources}
        followers = {f"{index}:{broker}" for index, move in mine.items() for broker in move.destinations}
        values = {LEADER_REPLICAS: ",".join(sorted(leaders)), FOLLOWER_REPLICAS: ",".join(sorted(followers))}
        changes.append(ConfigChange(ConfigEntity("topics", topic), values))
    brokers = {broker for move in moves.values() for broker in (*move.sources, *move.destinations)}
    rates = {LEADER_RATE: str(bytes_per_s), FOLLOWER_RATE: str(bytes_per_s)}
    living, away = _living(client, brokers)
    return ThrottleChange((*changes, *(ConfigChange(_broker(each), rates) for each in living)), away)


def plan_disk_throttles(client: BlockingClient, brokers: Iterable[int], *, bytes_per_s: int) -> ThrottleChange:
    """Return how fast brokers may move replicas from disk to disk."""
    living, away = _living(client, set(brokers))
    return ThrottleChange(
        tuple(ConfigChange(_broker(each), {LOG_DIRS_RATE: str(bytes_per_s)}) for each in living), away
    )


def plan_throttle_removal(
    client: BlockingClient, *, brokers: Collection[int] = (), topics: Iterable[str] = ()
) -> ThrottleChange:
    """Return how rates are dropped on brokers, and the lists of replicas on topics."""
    living, away = _living(client, brokers) if brokers else ([], ())
    rates, replicas = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE), (LEADER_REPLICAS, FOLLOWER_REPLICAS)
    changes = [ConfigChange(_broker(each), deleted=rates) for each in living]
    changes += [ConfigChange(ConfigEntity("topics", each), deleted=replicas) for each in sorted(set(topics))]
    return ThrottleChange(tuple(changes), away)


def apply_throttles(client: BlockingClient, plan: ThrottleChange) -> None:
    """Make the changes one by one; raises the first KafkaError, and what was changed before it stays so."""
    for change in plan.changes:
        alter_config(client, change)


def _broker(node_id: int) -> ConfigEntity:
    return ConfigEntity("brokers", str(node_id))


def _living(client: BlockingClient, brokers: Collection[int]) -> tuple[list[int], tuple[int, ...]]:
    """Return the brokers that are there, since only a broker itself takes its rates, and those that are not.

    Kafka's tool waits a minute for a broker that is away, and gives up. A controller takes any broker's rates.
    """
    if client.client.of_controllers:
        return sorted(brokers), ()
    alive = client.metadata(()).nodes
    return sorted(each for each in brokers if each in alive), tuple(
        sorted(each for each in brokers if each not in alive)
    )
