"""Brokers' lives in a cluster of several nodes: joining, being fenced, leaving, returning; and asking through any."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode, NodeId, StorageError, Uuid
from ottla.broker.monitoring.health import Health, Stage
from ottla.broker.replicas.storage import Storage
from ottla.log import LogDir
from ottla.metadata import Partition, decide
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.broker.node_client import NodeClient, parts
from tests.cluster.nodes import Cluster, LoopbackCluster, SimCluster
from tests.metadata.clusters import registration


def active(cluster: Cluster, by: int) -> set[int]:
    """Return the brokers that serve, as a node knows."""
    return {each.id for each in cluster.quorum(by).image.brokers.values() if each.active}


def partition(cluster: Cluster, by: int, topic: str = "t", index: int = 0) -> Partition:
    found = cluster.quorum(by).image.partition(topic, index)
    assert found is not None
    return found


async def create(cluster: Cluster, through: int, name: str, *replicas: list[int]) -> Any:
    """Create a topic by asking one node as its own handlers do, through the controller's channel."""
    services = parts(cluster.node(through))
    request = CreateTopicsRequest(topics=[assigned(name, *replicas)], timeout_ms=10_000)
    answer = await services.controller.ask(request)
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message
    await cluster.until(lambda: all(cluster.quorum(each).image.topic(name) for each in cluster.running))
    return answer


def assigned(name: str, *replicas: list[int]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=each) for index, each in enumerate(replicas)
        ],
    )


def followers(cluster: Cluster, leader: int) -> list[int]:
    return [each for each in cluster.running if each != leader]


def test_brokers_of_a_cluster_register_with_its_controller_and_serve() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        await cluster.until(lambda: all(active(cluster, each) == {1, 2, 3} for each in cluster.running))
        assert all(cluster.node(each).stage is Stage.RUNNING for each in cluster.running)
        image = cluster.quorum(1).image
        await cluster.until(lambda: set(cluster.quorum(1).image.controllers) == {1, 2, 3})
        assert [image.brokers[each].endpoints[0].host for each in (1, 2, 3)] == ["n1", "n2", "n3"]

    SimCluster(1).run(test)


def test_a_request_through_any_node_reaches_the_controller(tmp_path: Path) -> None:
    async def test(cluster: LoopbackCluster) -> None:
        cluster.static(3)
        await cluster.start()
        leader = await cluster.led()
        for node_id in (1, 2, 3):
            client = await NodeClient.connect(cluster.node(node_id))
            request = CreateTopicsRequest(topics=[assigned(f"t{node_id}", [1, 2])], timeout_ms=10_000)
            answer = await client.ask(request)
            assert answer.topics[0].error_code == 0, (node_id, leader, answer)
            assert (await client.ask(request, 5)).topics[0].error_code == 36
            client.close()
        await cluster.until(lambda: all(len(cluster.quorum(each).image.topics) == 3 for each in cluster.running))

    LoopbackCluster(tmp_path).run(test)


@pytest.mark.parametrize("victim", ["leader of the quorum", "another"])
def test_partitions_of_a_killed_broker_have_other_leaders_long_before_its_session_ends(victim: str) -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        controller = await cluster.led()
        other, third = followers(cluster, controller)
        killed = controller if victim == "leader of the quorum" else other
        await create(cluster, third, "t", [killed, third], [third, killed])
        started = cluster.loop.time()
        cluster.kill(killed)
        await cluster.until(lambda: partition(cluster, third).leader == third)
        assert cluster.loop.time() - started < 2.0
        assert active(cluster, third) == {1, 2, 3} - {killed}
        await cluster.start(killed)
        await cluster.until(lambda: active(cluster, third) == {1, 2, 3})

    SimCluster(2).run(test)


def test_a_silent_broker_is_fenced_when_its_session_ends_and_no_sooner() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        controller = await cluster.led()
        silent, third = followers(cluster, controller)
        await create(cluster, third, "t", [silent, third])
        started = cluster.loop.time()
        cluster.isolate(silent)
        await cluster.until(lambda: partition(cluster, third).leader == third)
        assert 6.0 < cluster.loop.time() - started < 12.0
        cluster.heal(silent)
        await cluster.until(lambda: active(cluster, third) == {1, 2, 3})

    SimCluster(3).run(test)


def test_a_node_that_stops_hands_over_first_and_is_taken_back() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        controller = await cluster.led()
        for stopped in (followers(cluster, controller)[0], controller):
            await bounce(cluster, stopped)

    SimCluster(4).run(test)


async def bounce(cluster: SimCluster, stopped: int) -> None:
    """Stop a node and start it again: others lead meanwhile, and it is in sync again afterwards."""
    third, name = followers(cluster, stopped)[0], f"t{stopped}"
    await create(cluster, third, name, [stopped, third])
    started = cluster.loop.time()
    await cluster.stop(stopped)
    assert cluster.loop.time() - started < 5.0
    await cluster.until(lambda: partition(cluster, third, name).leader == third)
    await cluster.until(lambda: cluster.quorum(third).image.brokers[stopped].fenced)  # it was let go
    await cluster.start(stopped)
    await cluster.until(lambda: active(cluster, third) == {1, 2, 3})
    await cluster.until(lambda: set(partition(cluster, third, name).isr) == {stopped, third})


def test_a_stop_without_a_quorum_ends() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        await cluster.led()
        cluster.kill(1)
        cluster.kill(2)
        started = cluster.loop.time()
        await cluster.stop(3)
        assert cluster.loop.time() - started < 15.0

    SimCluster(5).run(test)


def test_a_broker_waits_for_a_quorum(tmp_path: Path) -> None:
    async def test(cluster: LoopbackCluster) -> None:
        cluster.static(3)
        await cluster.start(1, wait=False)
        await asyncio.sleep(0.5)
        assert cluster.node(1).stage is not Stage.RUNNING
        await cluster.start(2)
        await cluster.until(lambda: cluster.node(1).stage is Stage.RUNNING)

    LoopbackCluster(tmp_path).run(test)


def test_a_controller_that_is_no_broker_is_ready() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3, roles="controller")
        await cluster.start()
        await cluster.led()
        node = cluster.node(1)
        health = Health(
            NodeId(1), stage=lambda: node.stage, storage=lambda: parts(node).storage, services=lambda: parts(node)
        )
        assert not [each for each in (*health.ready(), *health.well()) if not each.is_ok]

    SimCluster(12).run(test)


def test_brokers_apart_from_controllers_live_the_same() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3, roles="controller")
        for node_id in (11, 12):
            cluster.add(node_id, roles="broker", quorum=cluster.static_voters(range(1, 4)))
        await cluster.start()
        await create(cluster, 11, "t", [11, 12])
        cluster.kill(11)
        await cluster.until(lambda: partition(cluster, 12).leader == 12)
        assert active(cluster, 12) == {12}
        await cluster.start(11)
        await cluster.until(lambda: set(partition(cluster, 12).isr) == {11, 12})
        await cluster.stop(12)
        assert partition(cluster, 11).leader == 11

    SimCluster(6).run(test)


def test_a_cluster_that_was_killed_as_a_whole_comes_back_without_waiting_for_sessions() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        await create(cluster, 1, "t", [1, 2, 3])
        for node_id in (1, 2, 3):
            cluster.kill(node_id)
        started = cluster.loop.time()
        await cluster.start()
        await cluster.until(lambda: all(active(cluster, each) == {1, 2, 3} for each in cluster.running))
        await cluster.until(lambda: set(partition(cluster, 1).isr) == {1, 2, 3})
        assert cluster.loop.time() - started < 8.0

    SimCluster(7).run(test)


def test_a_broker_that_is_restarted_before_anybody_noticed_takes_its_own_place() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        controller = await cluster.led()
        other = followers(cluster, controller)[0]
        epoch = cluster.quorum(controller).image.brokers[other].epoch
        cluster.kill(other)
        started = cluster.loop.time()
        await cluster.start(other)
        assert cluster.loop.time() - started < 2.0
        assert cluster.quorum(controller).image.brokers[other].epoch > epoch

    SimCluster(8).run(test)


def test_nobody_takes_the_place_of_a_broker_that_lives() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        controller = await cluster.led()
        other = followers(cluster, controller)[0]
        live = cluster.quorum(controller).image.brokers[other]
        services = parts(cluster.node(other))
        request = BrokerRegistrationRequest(
            broker_id=other,
            cluster_id=services.cluster_id,
            incarnation_id=Uuid(b"another of its id"[:16]),
            listeners=[Listener(name="PLAINTEXT", host="n9", port=9092, security_protocol=0)],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in live.features.items()
            ],
            log_dirs=[Uuid(b"another log dir ")],
        )
        answer = await services.controller.ask(request)
        assert answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        wrong = await services.controller.ask(request.replace(cluster_id="another"))
        assert wrong.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert cluster.quorum(controller).image.brokers[other] == live

    SimCluster(9).run(test)


def test_a_broker_whose_registration_is_gone_registers_anew() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        controller = await cluster.led()
        other, third = followers(cluster, controller)
        epoch = cluster.quorum(controller).image.brokers[other].epoch
        services = parts(cluster.node(third))
        answer = await services.controller.ask(UnregisterBrokerRequest(broker_id=other))
        assert answer.error_code == 0
        await cluster.until(
            lambda: other in active(cluster, third) and cluster.quorum(third).image.brokers[other].epoch > epoch
        )

    SimCluster(10).run(test)


def test_a_broker_that_lost_its_connections_and_whose_port_refuses_is_not_fenced_while_it_asks_for_metadata() -> None:
    """So it looks behind a firewall that answers for it, or an address translation that has forgotten it."""

    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        controller = await cluster.led()
        hidden, third = followers(cluster, controller)
        await create(cluster, third, "t", [hidden, third])
        leader: Any = cluster.node(controller)

        async def refuses(broker: Any) -> bool:
            return bool(broker.id == hidden)

        parts(leader).duties._refuses = refuses
        sessions, epoch = parts(leader).duties.sessions, cluster.quorum(controller).image.brokers[hidden].epoch
        for _ in range(5):
            await cluster.until(lambda: sessions.get(hidden, epoch).channel is not None)
            parts(leader).duties.disconnected(sessions.get(hidden, epoch).channel)
            await asyncio.sleep(2.5)
            assert active(cluster, third) == {1, 2, 3}
        assert partition(cluster, third).leader == hidden

    SimCluster(31).run(test)


def test_two_processes_of_one_id_do_not_take_it_from_each_other_in_turns() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        controller = await cluster.led()
        first, third = followers(cluster, controller)
        node: Any = cluster.node(first)
        ours = cluster.quorum(third).image.brokers[first]
        second = registration(first, incarnation=99)
        await cluster.on(
            controller,
            cluster.quorum(controller).submit(lambda image: decide.register_broker(image, second, supersede=True)),
        )
        await cluster.until(lambda: cluster.quorum(first).image.brokers[first].incarnation_id != ours.incarnation_id)
        node._life._wake.set()
        await cluster.until(lambda: node._life._usurped_s is not None)
        assert not parts(node).lease.lasts
        await asyncio.sleep(8.0)
        assert cluster.quorum(third).image.brokers[first].incarnation_id == second.incarnation_id
        await cluster.until(  # nothing is heard of the second, and it is fenced
            lambda: cluster.quorum(third).image.brokers[first].incarnation_id == ours.incarnation_id
        )
        await cluster.until(lambda: active(cluster, third) == {1, 2, 3})

    SimCluster(32).run(test)


def test_a_change_of_the_controller_fences_nobody_who_lives() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(5)
        await cluster.start()
        for _ in range(2):
            controller = await cluster.led()
            left = set(followers(cluster, controller))
            third = min(left)
            epochs = {each: cluster.quorum(third).image.brokers[each].epoch for each in left}
            fenced: list[int] = []
            cluster.quorum(third).subscribe(
                lambda old, new, delta, left=left, fenced=fenced: fenced.extend(
                    each for each in left if each in new.brokers and not new.brokers[each].active
                )
            )
            cluster.kill(controller)
            await cluster.led()
            await cluster.until(lambda third=third, left=left: active(cluster, third) == left)
            await asyncio.sleep(12)
            assert active(cluster, third) == left and not fenced
            assert epochs == {each: cluster.quorum(third).image.brokers[each].epoch for each in left}

    SimCluster(11).run(test)


def test_what_lies_in_a_directory_that_fails_is_led_by_others_while_its_broker_lives() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3, settings=("log.dirs=/data,/more", "metadata.log.dir=/data"))
        await cluster.start()
        controller = await cluster.led()
        broken, third = followers(cluster, controller)
        await create(cluster, third, "t", *([broken, third] for _ in range(4)))
        storage = parts(cluster.node(broken)).storage
        failed = next(each for each in storage.online if each.path == "/more")
        assert failed.meta is not None
        directory = failed.meta.directory_id

        def lie_there() -> set[int]:
            found = {index: partition(cluster, third, index=index) for index in range(4)}
            return {index for index, each in found.items() if each.directory_of(broken) == directory}

        def led_by(node_id: int) -> set[int]:
            return {index for index in range(4) if partition(cluster, third, index=index).leader == node_id}

        await cluster.until(lambda: len(lie_there()) == 2)
        lost = lie_there()
        await cluster.until(lambda: all(len(partition(cluster, third, index=each).isr) == 2 for each in range(4)))
        await cluster.on(broken, fail(storage, failed))
        await cluster.until(lambda: led_by(third) == lost)
        assert led_by(broken) == set(range(4)) - lost and broken in active(cluster, third)

    SimCluster(13).run(test)


async def fail(storage: Storage, log_dir: LogDir) -> None:
    storage.fail(log_dir, StorageError("the disk is gone"))
