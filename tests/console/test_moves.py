"""Partitions moved between two brokers as a plan says, with a throttle, and what a plan of a moved world does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.admin import AdminError
from ottla.admin.actions import Reach, plan_action
from ottla.client import BlockingClient
from tests.cluster.nodes import LoopbackCluster
from tests.waiting import until


def placed(bootstrap: str) -> dict[int, list[int]]:
    """Where librdkafka sees the topic's partitions."""
    asking = AdminClient({"bootstrap.servers": bootstrap})
    found = asking.list_topics("orders", timeout=30).topics["orders"].partitions
    return {index: list(each.replicas) for index, each in found.items()}


def has_no_throttle(reach: Reach) -> bool:
    try:
        plan_action(reach, "remove-throttle", {"topics": ["orders"]})
    except AdminError:
        return True
    return False


def moved(bootstrap: str) -> None:
    asking = AdminClient({"bootstrap.servers": bootstrap})
    asking.create_topics([NewTopic("orders", 4, replica_assignment=[[2]] * 4)])["orders"].result(60)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(400):
        producer.produce("orders", b"x" * 1000, partition=number % 4)
    producer.flush(30)
    with BlockingClient(bootstrap) as client:
        reach = Reach(client)
        plan = plan_action(reach, "reassign", {"topics": ["orders"], "brokers": [2, 3], "throttle": 50_000_000})
        assert len(plan.differences) == 2 and "2 copies of 2 partitions" in plan.effects[0], (
            plan
        )  # half stays where it is
        assert "less than a minute" in plan.effects[1] and plan.undo is not None and "moves.json" in plan.cli
        assert plan.pinned is not None and plan_action(reach, "reassign", plan.pinned).hash == plan.hash
        plan.run(reach)
        until(lambda: sorted(each for copies in placed(bootstrap).values() for each in copies) == [2, 2, 3, 3])
        throttle = plan_action(reach, "remove-throttle", {"topics": ["orders"]})
        assert {each.path.rpartition("/")[2] for each in throttle.differences} == {
            *("leader.replication.throttled.rate", "follower.replication.throttled.rate"),
            *("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"),
        }
        throttle.run(reach)
        until(lambda: has_no_throttle(reach))  # brokers hear of it one after the other
        with pytest.raises(AdminError, match="no throttle"):
            plan_action(reach, "remove-throttle", {"topics": ["orders"]})
        plan_action(reach, plan.undo.action, plan.undo.arguments).run(reach)
        until(lambda: set(map(tuple, placed(bootstrap).values())) == {(2,)})
        two = plan_action(reach, "reassign", {"replicas": {"orders-0": [3, 2]}})
        two.run(reach)
        until(lambda: placed(bootstrap)[0] == [3, 2])
        led = until(  # the broker that is asked may hear of the move after the other
            lambda: plan_action(reach, "elect-preferred", {"topics": ["orders"]}), past=(AdminError,)
        )
        assert [(each.path, each.before, each.after) for each in led.differences] == [("orders-0/leader", 2, 3)]
        led.run(reach)
        until(
            lambda: (
                AdminClient({"bootstrap.servers": bootstrap})
                .list_topics("orders", timeout=30)
                .topics["orders"]
                .partitions[0]
                .leader
                == 3
            )
        )
        for arguments, words in (
            ({"replicas": {"orders": [2]}}, "TOPIC-NUMBER"),
            ({"replicas": {"orders-0": "2"}}, "list of numbers"),
            ({"topics": ["orders"], "throttle": -1}, "above 0"),
        ):
            with pytest.raises(AdminError, match=words):
                plan_action(reach, "reassign", arguments)


@pytest.mark.slow  # three brokers; make test-console
def test_partitions_are_moved_throttled_led_and_moved_back(tmp_path: Path) -> None:
    cluster = LoopbackCluster(tmp_path, ())

    async def test(cluster: LoopbackCluster) -> None:
        quorum = cluster.static_voters([1])
        cluster.add(1, roles="controller", quorum=quorum)
        for each in (2, 3):
            cluster.add(each, roles="broker", quorum=quorum)
        await cluster.start(1, 2, 3)
        await asyncio.to_thread(moved, f"{cluster.client_address(2)},{cluster.client_address(3)}")

    cluster.run(test)
