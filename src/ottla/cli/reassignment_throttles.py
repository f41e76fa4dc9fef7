"""Throttles of `ottla reassign-partitions`: whom they hold back, and how they are set and dropped (KIP-73)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.admin import raise_code
from ottla.base import NodeId, TopicPartition
from ottla.cli.config_resources import DELETE, RESOURCE_TYPES, SET
from ottla.cli.options import warn

if TYPE_CHECKING:
    from ottla.cli.reassignment_state import Ongoing
    from ottla.client import BlockingClient

__all__ = ["clear_brokers", "clear_topics", "limit_log_dirs", "limit_moves", "moves"]

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@dataclass(frozen=True)
class Move:
    """From which brokers one partition is copied, and to which."""

    sources: frozenset[int]
    destinations: frozenset[int]


def moves(
    under_way: Mapping[TopicPartition, Ongoing],
    wanted: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Move]:
    """Return every partition's move: of those under way, and of those that begin now."""
    found = {
        partition: Move(frozenset(each.replicas) - frozenset(each.adding), frozenset(each.adding))
        for partition, each in under_way.items()
    }
    for partition, replicas in wanted.items():
        sources = found[partition].sources if partition in found else frozenset(current[partition])
        found[partition] = Move(sources, frozenset(replicas) - sources)
    return found


def limit_moves(client: BlockingClient, moving: Mapping[TopicPartition, Move], bytes_per_s: int) -> None:
    """Name the replicas that are held back on their topics, and how fast they may be copied on their brokers."""
    for topic in sorted({partition.topic for partition in moving}):
        mine = {partition.partition: move for partition, move in moving.items() if partition.topic == topic}
        leaders = {f"{index}:{broker}" for index, move in mine.items() for broker in move.sources}
        followers = {f"{index}:{broker}" for index, move in mine.items() for broker in move.destinations}
        values = {LEADER_REPLICAS: ",".join(sorted(leaders)), FOLLOWER_REPLICAS: ",".join(sorted(followers))}
        alter(client, "topics", topic, values)
    brokers = {broker for move in moving.values() for broker in (*move.sources, *move.destinations)}
    for broker in living(client, brokers):
        alter(client, "brokers", str(broker), {LEADER_RATE: str(bytes_per_s), FOLLOWER_RATE: str(bytes_per_s)})


def limit_log_dirs(client: BlockingClient, brokers: Iterable[int], bytes_per_s: int) -> None:
    """Say how fast brokers may move replicas from disk to disk."""
    for broker in living(client, set(brokers)):
        alter(client, "brokers", str(broker), {LOG_DIRS_RATE: str(bytes_per_s)})


def clear_brokers(client: BlockingClient, brokers: Collection[int]) -> None:
    """Drop the rates on brokers."""
    for broker in living(client, brokers):
        alter(client, "brokers", str(broker), dict.fromkeys((LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)))


def clear_topics(client: BlockingClient, topics: Iterable[str]) -> None:
    """Drop the lists of replicas on topics."""
    for topic in sorted(set(topics)):
        alter(client, "topics", topic, dict.fromkeys((LEADER_REPLICAS, FOLLOWER_REPLICAS)))


def living(client: BlockingClient, brokers: Collection[int]) -> list[int]:
    """Return the brokers that are there, since only a broker itself takes its rates; say which are not.

    Kafka's tool waits a minute for a broker that is away, and gives up.
    """
    if client.client.of_controllers:
        return sorted(brokers)
    alive = client.metadata(()).nodes
    for broker in sorted(brokers):
        if broker not in alive:
            warn(f"Broker {broker} is away, and keeps the throttle that it has.")
    return sorted(each for each in brokers if each in alive)


def alter(client: BlockingClient, kind: str, name: str, values: Mapping[str, str | None]) -> None:
    """Set values of one topic or broker, and drop those that are None; a broker is asked itself, unless by controllers."""
    from ottla.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    configs = [
        AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=RESOURCE_TYPES[kind], resource_name=name, configs=configs)
    node = NodeId(int(name)) if kind == "brokers" and not client.client.of_controllers else None
    (result,) = client.request(IncrementalAlterConfigsRequest(resources=[resource]), node=node).responses
    raise_code(result.error_code, result.error_message)
