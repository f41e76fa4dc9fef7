"""What clients are told of a partition whose brokers or log directories are not all there."""

from __future__ import annotations

from dataclasses import replace

from immutables import Map

from ottla.base import ErrorCode, LeaderEpoch, NodeId, Uuid
from ottla.broker.topic_view import partition_view
from ottla.metadata import (
    DIRECTORY_LOST,
    DIRECTORY_UNASSIGNED,
    EMPTY_IMAGE,
    NO_LEADER,
    Broker,
    Endpoint,
    Image,
    Partition,
)

DIRECTORIES = tuple(Uuid(bytes([each]) * 16) for each in (1, 2, 3))
PARTITION = Partition(
    replicas=(NodeId(1), NodeId(2), NodeId(3)),
    isr=(NodeId(1), NodeId(2)),
    leader=NodeId(1),
    leader_epoch=LeaderEpoch(4),
    partition_epoch=7,
    directories=DIRECTORIES,
)


def image(*, fenced: tuple[int, ...] = (), listeners: tuple[str, ...] = ("PLAINTEXT",)) -> Image:
    """Return a cluster of brokers 1, 2 and 3; only the first has more than the first listener."""
    brokers = {}
    for index, directory in enumerate(DIRECTORIES):
        names = listeners if index == 0 else listeners[:1]
        endpoints = tuple(Endpoint(name, f"host{index + 1}", 9092) for name in names)
        brokers[index + 1] = Broker(
            NodeId(index + 1), 1, directory, endpoints, fenced=index + 1 in fenced, log_dirs=(directory,)
        )
    return replace(EMPTY_IMAGE, brokers=Map(brokers))


def offline(partition: Partition, cluster: Image, listener: str = "PLAINTEXT") -> tuple[int, ...]:
    return partition_view(cluster, partition, listener).offline


def test_replicas_on_fenced_and_on_unknown_brokers_are_offline() -> None:
    assert offline(PARTITION, image()) == ()
    assert offline(PARTITION, image(fenced=(3,))) == (3,)
    assert offline(replace(PARTITION, replicas=(NodeId(1), NodeId(9))), image()) == (9,)


def test_a_replica_is_offline_by_a_listener_that_its_broker_has_not() -> None:
    cluster = image(listeners=("PLAINTEXT", "OUTSIDE"))
    assert offline(PARTITION, cluster, "OUTSIDE") == (2, 3)


def test_a_replica_is_offline_with_its_log_directory() -> None:
    lost = replace(PARTITION, directories=(DIRECTORIES[0], DIRECTORY_LOST, DIRECTORY_UNASSIGNED))
    assert offline(lost, image()) == (2,)
    gone = replace(PARTITION, directories=(DIRECTORIES[0], DIRECTORIES[1], DIRECTORIES[0]))
    assert offline(gone, image()) == (3,)


def test_a_partition_without_a_leader_says_so_and_keeps_its_epoch() -> None:
    view = partition_view(image(), replace(PARTITION, leader=NO_LEADER), "PLAINTEXT")
    assert (view.error, view.leader_id, view.leader_epoch) == (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, 4)
    elsewhere = partition_view(image(), replace(PARTITION, leader=NodeId(2)), "OUTSIDE")
    assert (elsewhere.error, elsewhere.leader_id) == (ErrorCode.LISTENER_NOT_FOUND, NO_LEADER)
