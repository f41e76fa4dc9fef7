"""Leaders and copies that move, and nothing is broken: of what clients write to, and of what their coordinators keep."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from ottla.admin import alter_reassignments
from ottla.base import TopicPartition
from ottla.client import BlockingClient
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

__all__ = ["COORDINATORS", "move_leaders"]

COORDINATORS = ("__consumer_offsets", "__transaction_state")
FEWEST = 2
"""Copies, as many as have to be in sync."""
TIMEOUT_MS = 30_000
PREFERRED = 0


def move_leaders(
    bootstrap: str, topics: Sequence[str], nodes: Sequence[int], rng: random.Random, seconds: float
) -> int:
    """Give partitions other copies, in another order, and have the first of them lead; return how many were moved.

    Every time one topic, and about half of its partitions. At the end each of them has a copy on every node again.
    """
    moved = 0
    with BlockingClient(bootstrap) as client:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            partitions = [each for each in _partitions(client, rng.choice(topics)) if rng.random() < 0.5]
            _move(client, {each: rng.sample(nodes, rng.choice((FEWEST, len(nodes)))) for each in partitions})
            moved += len(partitions)
            time.sleep(rng.uniform(0, 0.4))  # the fault itself
        for topic in topics:
            _move(client, {each: rng.sample(nodes, len(nodes)) for each in _partitions(client, topic)})
    return moved


def _partitions(client: BlockingClient, topic: str) -> list[TopicPartition]:
    return list(client.metadata((topic,)).partitions_of(topic))


def _move(client: BlockingClient, replicas: dict[TopicPartition, list[int]]) -> None:
    if not replicas:
        return
    alter_reassignments(client, replicas)
    topics: dict[str, list[int]] = {}
    for each in replicas:
        topics.setdefault(each.topic, []).append(each.partition)
    wanted = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics.items()]
    # who is not in sync yet cannot lead: that is one of the answers, and no error of the round
    client.request(
        ElectLeadersRequest(election_type=PREFERRED, topic_partitions=wanted, timeout_ms=TIMEOUT_MS), controller=True
    )
