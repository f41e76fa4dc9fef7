"""The look into a cluster's nodes: what it must see, and what it must not take for a fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.base import LeaderEpoch, NodeId, Offset, TopicPartition, Uuid
from ottla.metadata import EMPTY_IMAGE, Delta, Image
from ottla.replica import Replica
from tests.log.records import batch
from tests.sim.cluster.inspection import AHEAD_S, STEP_S, Inspection
from tests.sim.ledger import Violation

KEY, TOPIC_ID = TopicPartition("looked-at", 0), Uuid(b"a topic looked at")
LEADER, FOLLOWER = 1, 2


@dataclass
class _Log:
    log_end_offset: int
    folder: str = "/data2/looked-at-0"
    log_start_offset: int = 0


@dataclass(eq=False)
class _Held:
    """What an inspection reads of a partition."""

    replica: Replica
    log: _Log
    key: TopicPartition = KEY
    topic_id: Uuid = TOPIC_ID
    is_offline: bool = False


class _Quorum:
    """Who hears of new images."""

    def __init__(self) -> None:
        self.subscribers: list[Callable[[Image, Image, Delta], None]] = []

    def subscribe(self, changed: Callable[[Image, Image, Delta], None]) -> None:
        self.subscribers.append(changed)

    is_leader = False


@dataclass
class _Node:
    _partitions: list[_Held]
    quorum: _Quorum = field(default_factory=_Quorum)


@dataclass
class _Host:
    """What an inspection reads of a host."""

    node_id: int
    node: _Node
    is_alive: bool = True
    incarnation: int = 1
    name: str = field(init=False)
    is_running: bool = True
    data_dirs: tuple[str, ...] = ("/data", "/data2")
    folders: dict[str, bytearray] = field(default_factory=dict)
    """By path, the one segment in it."""

    @property
    def storage(self) -> _Host:
        return self

    def exists(self, path: str) -> bool:
        return path in self.folders

    def directory(self, path: str) -> Any:
        return SimpleNamespace(entries={"0.log": SimpleNamespace(data=self.folders[path])})

    def __post_init__(self) -> None:
        self.name = f"n{self.node_id}"

    def take_ran(self) -> bool:
        return True


class _Pair:
    """A leader and a follower of one partition, and the one who looks at them."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.held = {node: _held(node) for node in (LEADER, FOLLOWER)}
        self.hosts = {node: _Host(node, _Node([held])) for node, held in self.held.items()}
        hosts: Any = list(self.hosts.values())
        self.inspection = Inspection(hosts, lambda: self.now_s, lambda text: None)
        for host in hosts:
            self.inspection.watch(host, host.node)
        self.inspection.look()

    def commit(self, offset: int) -> None:
        self.held[LEADER].replica.fetched_by(
            NodeId(FOLLOWER), fetch_offset=Offset(offset), log_start_offset=Offset(0), now_s=self.now_s
        )

    def follow(self, offset: int) -> None:
        self.held[FOLLOWER].replica.followed(Offset(10), offset)

    def die(self) -> None:
        """End the leader's process."""
        host: Any = self.hosts[LEADER]
        host.is_alive = False
        self.inspection.died(host)

    def drop(self) -> None:
        """Give the leader an image by which it holds the partition no more."""
        node = self.hosts[LEADER].node
        node._partitions.clear()
        for changed in node.quorum.subscribers:
            changed(EMPTY_IMAGE, EMPTY_IMAGE, Delta())

    def look_on(self) -> None:
        """Look for longer than a follower may seem to be ahead."""
        for _ in range(2 + int(AHEAD_S / STEP_S)):
            self.now_s += STEP_S
            self.inspection.step()
        self.inspection.check()


def _held(node: int) -> _Held:
    replica = Replica(NodeId(node), high_watermark=Offset(0), log_end_offset=Offset(10))
    both = (NodeId(LEADER), NodeId(FOLLOWER))
    replica.become(leader=both[0], leader_epoch=LeaderEpoch(0), partition_epoch=0, replicas=both, isr=both)
    return _Held(replica, _Log(10))


def test_a_follower_with_the_watermark_that_a_leader_reached_before_its_disk_failed_is_right() -> None:
    pair = _Pair()
    pair.commit(7)
    pair.held[LEADER].is_offline = True
    pair.follow(7)
    pair.look_on()


def test_a_follower_with_the_watermark_that_a_leader_reached_before_it_died_is_right() -> None:
    pair = _Pair()
    pair.commit(7)
    pair.die()
    pair.follow(7)
    pair.look_on()


def test_a_follower_with_the_watermark_that_a_leader_reached_before_it_dropped_the_partition_is_right() -> None:
    pair = _Pair()
    pair.commit(7)
    pair.drop()
    pair.follow(7)
    pair.look_on()


@pytest.mark.parametrize("leader_is", ["serving", "offline", "dead", "dropped"])
def test_a_follower_with_a_watermark_that_no_leader_reached_is_found(leader_is: str) -> None:
    pair = _Pair()
    pair.commit(7)
    pair.held[LEADER].is_offline = leader_is == "offline"
    if leader_is == "dead":
        pair.die()
    elif leader_is == "dropped":
        pair.drop()
    pair.follow(8)
    with pytest.raises(Violation, match="n2 follows looked-at-0 to 8; leaders had committed 7"):
        pair.look_on()


def test_a_log_of_a_former_life_in_another_directory_is_not_compared() -> None:
    pair = _Pair()
    pair.commit(7)
    pair.follow(7)
    pair.look_on()
    for host in pair.hosts.values():
        host.folders["/data2/looked-at-0"] = batch([b"new"] * 3)
    pair.hosts[FOLLOWER].folders["/data/looked-at-0"] = batch([b"old"] * 2)
    assert pair.inspection.compare_logs() == 2


def test_logs_that_differ_below_the_watermark_are_found() -> None:
    pair = _Pair()
    pair.commit(7)
    pair.follow(7)
    pair.look_on()
    for host, value in zip(pair.hosts.values(), (b"one", b"two"), strict=True):
        host.folders["/data2/looked-at-0"] = batch([value] * 3)
    with pytest.raises(Violation, match="elsewhere there was"):
        pair.inspection.compare_logs()
