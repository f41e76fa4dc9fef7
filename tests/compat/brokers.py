"""Three brokers as processes, and which of them is what: for clients that are to live through a broker's death."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client import BlockingClient, Coordinated, CoordinatorKind
from tests.chaos.world import World, running_world
from tests.compat.conftest import GROUPS_IN_A_HURRY
from tests.ports import free_port

__all__ = ["coordinator", "create", "mend", "rack_of", "three_brokers"]

SECONDS_MAX = 60
COORDINATED = (
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "controlled.shutdown.enable=true",
)


def rack_of(node: int) -> str:
    """Return the rack that a node of `three_brokers` is in: each has its own."""
    return f"rack-{node}"


class _Racked(World):
    """Starts each node in a rack of its own."""

    def start(self, number: int) -> None:
        os.environ["KAFKA_BROKER_RACK"] = rack_of(number)
        try:
            super().start(number)
        finally:
            del os.environ["KAFKA_BROKER_RACK"]


@contextmanager
def three_brokers(folder: Path, *, overrides: Sequence[str] = ()) -> Iterator[World]:
    """Run three nodes that are brokers and controllers, each in its own rack, until the block ends."""
    settings = (*GROUPS_IN_A_HURRY, *COORDINATED, *overrides)
    with running_world(folder, free_port(), overrides=settings, kind=_Racked) as world:
        yield world


def create(world: World, topic: str, partitions: int = 1) -> None:
    """Create a topic of three copies, two of which must be in sync; returns when all of them are."""
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    made = NewTopic(topic, partitions, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([made], operation_timeout=30, request_timeout=SECONDS_MAX)[topic].result(SECONDS_MAX)
    world.await_full([topic])


def coordinator(world: World, key: str, kind: CoordinatorKind = CoordinatorKind.GROUP) -> int:
    """Return the node that coordinates a group or a transactional id."""
    with BlockingClient(world.bootstrap) as client:
        return int(client.coordinator(Coordinated(key, kind)))


def mend(world: World, *topics: str) -> None:
    """Bring back every node that is gone, and return when every copy of these topics is in sync."""
    world.revive()
    world.await_ready()
    world.await_full(topics)
