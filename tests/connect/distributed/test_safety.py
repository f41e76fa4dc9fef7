"""Who may write what: session keys, fenced leaders, fenced tasks; and what becomes of workers that are cut off."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ConfigError, KafkaError, TopicPartition
from ottla.client import LATEST, Client
from ottla.connect.assignment import GroupProtocol
from ottla.connect.decisions import sign
from ottla.connect.distributed import DistributedSettings, StorageTopic
from ottla.connect.distributed.config_store import ConfigStore, FencedError
from ottla.connect.distributed.topics import prepare_topic
from ottla.connect.rest import forward_by_http
from ottla.connect.storage import LoggerLevel, TaskId
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from tests.broker.node_client import run, start_node
from tests.connect.distributed.test_group import SECRETIVE, cluster, tasks
from tests.connect.distributed.workers import BROKER, SETTINGS, Worker, cluster_at
from tests.waiting import until_async

TWO = {"connector.class": "tests.Secretive", "tasks.max": "2", "tasks": "2"}


@pytest.mark.parametrize("words", ["eager", "compatible"])
def test_older_protocols_share_the_work_too(tmp_path: Path, words: str) -> None:
    async def test() -> None:
        async with cluster(tmp_path, protocols=tuple(GroupProtocol.offered(words))) as group:
            await group.grown(2)
            await group.follower.ask("POST", "/connectors", {"name": "a", "config": SECRETIVE})
            await until_async(lambda: group.running() == tasks("a", 4) and group.hosting() == ["a"])
            assert group.leader.herder.group.session_key is None
            await group.kill(group.follower)
            await until_async(lambda: group.running() == tasks("a", 4))

    run(test, 60)


def test_what_is_not_signed_with_the_session_key_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            await group.grown(2)
            await group.leader.ask("POST", "/connectors", {"name": "a", "config": TWO})
            await until_async(lambda: group.running() == tasks("a", 2))
            await group.together()
            key = group.leader.herder.group.session_key
            assert key is not None and len(key.key) == 32 and group.follower.herder.group.session_key == key
            assert (await group.leader.ask("POST", "/connectors/a/tasks", []))[0] == 400
            url = f"http://127.0.0.1:{group.leader.port}/connectors/a/tasks"
            headers = {"X-Connect-Request-Signature-Algorithm": "HmacSHA256", "Content-Type": "application/json"}
            body = json.dumps([{"n": "1"}]).encode()
            wrong = {**headers, "X-Connect-Authorization": "AAAA"}
            assert (await forward_by_http("POST", url, body, wrong)).status == 403
            right = {**headers, "X-Connect-Authorization": base64.b64encode(sign(body, key).mac).decode()}
            assert (await forward_by_http("POST", url, body, right)).status == 204

    run(test, 60)


def test_session_keys_are_replaced_when_they_are_old(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path, key_ttl_ms=300) as group:
            [worker] = await group.grown(1)
            first = worker.herder.group.session_key
            await until_async(lambda: worker.herder.group.session_key not in (None, first))

    run(test, 30)


def test_exactly_once_tasks_start_behind_a_fence_and_older_leaders_write_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path, exactly_once="enabled") as group:
            await group.grown(2)
            await group.leader.ask("POST", "/connectors", {"name": "a", "config": TWO})
            await until_async(lambda: group.running() == tasks("a", 2))
            await group.together()
            state = group.leader.herder.group.configs
            assert state.state.task_count_records["a"] == 2 and not state.state.pending_fencing
            [start] = [each for worker in group.workers for each in worker.runner.tasks.values() if each.task.task == 1]
            assert (start.transactional_id, start.offsets_topic) == ("connect-cluster-a-1", "connect-offset")
            await group.follower.ask("PUT", "/connectors/a/config", {**TWO, "tasks": "1"})
            await until_async(lambda: group.running() == tasks("a", 1) and state.state.task_count_records["a"] == 1)
            # Another worker takes the leader's place as far as transactions go: what the leader writes is refused once.
            await group.together()
            other = group.follower.herder.group.configs
            await other.claim()
            status, body = await group.leader.ask("DELETE", "/connectors/a")
            assert status == 500 and "can be safely retried" in body["message"]
            await until_async(lambda: group.leader.settled and not group.leader.herder.group.is_fenced)
            assert (await group.leader.ask("DELETE", "/connectors/a"))[0] == 204

    run(test, 60)


def test_a_task_that_was_configured_anew_may_not_begin_to_write(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            [worker] = await group.grown(1)
            await worker.ask("POST", "/connectors", {"name": "a", "config": TWO})
            await until_async(lambda: group.running() == tasks("a", 2))
            await worker.herder.confirm(TaskId("a", 1))
            worker.herder.work.tasks[TaskId("a", 1)] -= 1
            with pytest.raises(Exception, match="already generated a new set"):
                await worker.herder.confirm(TaskId("a", 1))
            with pytest.raises(Exception, match="already been revoked"):
                await worker.herder.confirm(TaskId("b", 0))

    run(test, 60)


def test_a_worker_that_no_broker_answers_stops_its_work(tmp_path: Path) -> None:
    async def test() -> None:
        node = await start_node(tmp_path, *BROKER)
        async with cluster_at(f"127.0.0.1:{node.listeners[0].port}") as group:
            [worker] = await group.grown(1)
            await worker.ask("POST", "/connectors", {"name": "a", "config": TWO})
            await until_async(lambda: group.running() == tasks("a", 2))
            await node.stop()
            await until_async(lambda: not group.running() and not group.hosting())
            await group.kill(worker)

    run(test, 60)


def test_a_connector_whose_group_is_the_workers_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        sink = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "topics": "t",
            "name": "cluster",
        }
        source = {**TWO, "name": "s", "exactly.once.support": "required"}
        async with cluster(tmp_path) as group:
            [worker] = await group.grown(1)
            cases: list[tuple[dict[str, str], str]] = [
                (sink, "conflicts with Connect worker group connect-cluster"),
                (
                    {**sink, "name": "x", "consumer.override.group.id": "connect-cluster"},
                    "conflicts with Connect worker",
                ),
                (source, "does not have exactly-once source support enabled"),
            ]
            for config, words in cases:
                status, body = await worker.ask("POST", "/connectors", {"name": config["name"], "config": config})
                assert status == 400 and words in body["message"]

    run(test, 60)


async def _made(client: Client, name: str, partitions: int, config: Mapping[str, str]) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
    )
    answer = await client.request(CreateTopicsRequest(topics=[topic]), controller=True)
    assert answer.topics[0].error_code == 0


def test_topics_are_made_compacted_and_others_are_refused(tmp_path: Path) -> None:
    async def test() -> None:
        node = await start_node(tmp_path, *BROKER)
        async with Client(f"127.0.0.1:{node.listeners[0].port}") as client:
            config = SETTINGS.config_topic
            assert await prepare_topic(client, config) == 1 and await prepare_topic(client, config) == 1
            await _made(client, "deleted", 1, {"cleanup.policy": "delete"})
            await _made(client, "many", 3, {"cleanup.policy": "compact"})
            with pytest.raises(ConfigError, match=r"but found the topic currently has 'cleanup\.policy=delete'"):
                await prepare_topic(client, StorageTopic("deleted", 1, 1, setting="offset.storage.topic"))
            with pytest.raises(ConfigError, match="required to have a single partition"):
                await prepare_topic(client, StorageTopic("many", 1, 1, setting="config.storage.topic"))
            with pytest.raises(ConfigError, match=r"config\.storage\.replication\.factor=3"):
                await prepare_topic(client, StorageTopic("none", 1, 3, setting="config.storage.topic"))
        await node.stop()

    run(test)


def test_the_group_is_one_of_connects_for_those_who_look(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            await group.grown(2)
            async with Client(group.bootstrap) as client:
                [found] = (await client.request(DescribeGroupsRequest(groups=["connect-cluster"]))).groups
            assert (found.protocol_type, found.protocol_data, found.group_state) == ("connect", "sessioned", "Stable")

    run(test, 60)


def test_a_worker_is_refused_by_a_group_of_another_kind(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            await group.grown(1)
            stranger = await group.add(protocols=(GroupProtocol.EAGER,))
            await group.together()
            assert stranger.herder.group.protocol is GroupProtocol.EAGER  # the group speaks what all of it can
            lost = await group.add(session_timeout_ms=1)
            with pytest.raises(Exception, match=r"group\.min\.session\.timeout\.ms"):
                await asyncio.wait_for(lost.herder.ended, 10)

    run(test, 60)


_VALUES: dict[str, Any] = {
    "exactly.once.source.support": "disabled",
    "inter.worker.key.generation.algorithm": "HmacSHA512",
    "inter.worker.key.size": None,
    "inter.worker.key.ttl.ms": 1,
    "inter.worker.signature.algorithm": "HmacSHA256",
    "inter.worker.verification.algorithms": ["HmacSHA256"],
    "connect.protocol": "compatible",
    "session.timeout.ms": 1,
    "heartbeat.interval.ms": 1,
    "rebalance.timeout.ms": 1,
    "worker.sync.timeout.ms": 1,
    "worker.unsync.backoff.ms": 1,
    "offset.storage.partitions": 25,
    "status.storage.partitions": 5,
    **{f"{kind}.storage.replication.factor": 3 for kind in ("config", "offset", "status")},
}
_PROPERTIES = {
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "config.storage.cleanup.policy": "delete",
    "config.storage.min.insync.replicas": "2",
}


def test_settings_are_kafkas_and_name_the_key_where_they_are_wrong() -> None:
    found = DistributedSettings.of(_PROPERTIES, _VALUES)
    assert (found.key_bits, found.config_topic.partitions, found.offset_topic.partitions) == (512, 1, 25)
    assert found.config_topic.config == {"min.insync.replicas": "2"} and found.rebalance_delay_ms == 3000
    for name, value in (("signature.algorithm", "HmacSHA1"), ("key.generation.algorithm", "Rot13")):
        with pytest.raises(ConfigError, match=name):
            DistributedSettings.of(_PROPERTIES, {**_VALUES, f"inter.worker.{name}": value})
    with pytest.raises(ConfigError, match="status"):
        DistributedSettings.of({key: value for key, value in _PROPERTIES.items() if "status" not in key}, _VALUES)


def test_without_a_broker_the_start_fails_with_its_address(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster_at("127.0.0.1:1") as group:
            with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"):
                await group.add()

    run(test, 30)


async def held_back(worker: Worker) -> tuple[asyncio.Event, asyncio.Event]:
    """Make a worker's next stops of tasks wait; returns what says that one has begun, and what lets them go on.

    As where tasks end on executors, a stop ends those that ran when it was asked, not what was started since.
    """
    begun, may_end, stop = asyncio.Event(), asyncio.Event(), worker.runner.stop

    async def slowly(tasks: Collection[TaskId]) -> None:
        running = worker.runner.tasks
        found = {task: running[task] for task in tasks if task in running}
        begun.set()
        await may_end.wait()
        await stop([task for task, started in found.items() if running.get(task) is started])

    worker.runner.stop = slowly  # type: ignore[method-assign]
    return begun, may_end


def test_a_task_that_two_stop_at_once_is_stopped_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            [worker] = await group.grown(1)
            await worker.ask("POST", "/connectors", {"name": "a", "config": TWO})
            await until_async(lambda: group.running() == tasks("a", 2))
            begun, may_end = await held_back(worker)
            work, mine = worker.herder.work, [TaskId("a", 0), TaskId("a", 1)]
            reconfigured = asyncio.create_task(work.stop_tasks(mine))
            await begun.wait()
            revoked = asyncio.create_task(work.stop([], mine, 1))
            await asyncio.sleep(0)
            may_end.set()
            assert await reconfigured == mine
            await revoked
            assert not work.tasks and not worker.runner.tasks

    run(test, 30)


def test_a_task_that_is_revoked_while_it_restarts_does_not_run_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            [worker] = await group.grown(1)
            await worker.ask("POST", "/connectors", {"name": "a", "config": TWO})
            await until_async(lambda: group.running() == tasks("a", 2))
            begun, may_end = await held_back(worker)
            work, task = worker.herder.work, TaskId("a", 0)
            restarted = asyncio.create_task(worker.herder.restart_task(task))
            await begun.wait()
            revoked = asyncio.create_task(work.stop([], [task], 1))
            await asyncio.sleep(0)
            may_end.set()
            await restarted
            await revoked
            assert {*work.tasks} == {*worker.runner.tasks} == {TaskId("a", 1)}

    run(test, 30)


def test_patches_of_a_connector_that_come_at_once_are_all_kept(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            [worker] = await group.grown(1)
            await worker.ask("POST", "/connectors", {"name": "a", "config": TWO})
            await until_async(lambda: group.running() == tasks("a", 2))
            patches = [{f"note.{at}": "kept"} for at in range(4)]
            answers = await asyncio.gather(*(worker.ask("PATCH", "/connectors/a/config", each) for each in patches))
            assert [status for status, _ in answers] == [200] * 4
            _, config = await worker.ask("GET", "/connectors/a/config")
            assert [config.get(key) for each in patches for key in each] == ["kept"] * 4

    run(test, 30)


class SlowToEnd(Client):
    """A client whose transactions do not end before they may."""

    may_end = asyncio.Event()

    async def request(self, message: Any, *args: Any, **more: Any) -> Any:
        if isinstance(message, EndTxnRequest):
            await self.may_end.wait()
        return await super().request(message, *args, **more)


def test_a_leader_whose_write_was_cut_off_does_not_pass_another_off_as_written(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as group:
            SlowToEnd.may_end = asyncio.Event()
            settings = replace(SETTINGS, exactly_once="enabled")
            told: list[Any] = []
            configs = ConfigStore(settings, lambda _: SlowToEnd(group.bootstrap), told.append, lambda error: None)
            await configs.start()
            await configs.claim()
            async with Client(group.bootstrap) as client:
                place = TopicPartition("connect-config", 0)
                await client.metadata([place.topic])
                cut = asyncio.create_task(configs.write_as_leader([LoggerLevel("cut", "INFO")]))
                while not (await client.list_offsets({place: LATEST}))[place].check().offset:
                    assert not cut.done()
                cut.cancel()
                await asyncio.wait([cut])
            SlowToEnd.may_end.set()
            with pytest.raises(FencedError):  # what became of the first is known once the id is claimed again
                await configs.write_as_leader([LoggerLevel("lost", "INFO")])
            await configs.claim()
            await configs.write_as_leader([LoggerLevel("kept", "INFO")])
            await configs.close()
            assert told == [LoggerLevel("kept", "INFO")]

    run(test, 60)
