"""Replicas move between the log directories of a broker, while they are written to, and wherever it is killed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode, TopicPartition
from ottla.broker import Node
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.metadata import ResourceType
from ottla.wire import Codec, iter_records
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.broker.follower import configure, everything
from tests.broker.hooked_disk import HookedDisk
from tests.broker.node_client import NodeClient, batch, delete_topic, parts, run, start_node
from tests.waiting import until_async


def dirs(tmp_path: Path) -> str:
    return f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}"


async def started(tmp_path: Path, *settings: str) -> Node:
    return await start_node(tmp_path / "a", dirs(tmp_path), *settings)


def held(node: Node, topic: str = "t") -> LocalPartition:
    found = parts(node).partitions.get(topic, 0)
    assert found is not None
    return found


def other(node: Node, tmp_path: Path) -> str:
    """Return the directory that the partition does not lie in."""
    paths = {str(tmp_path / "a"), str(tmp_path / "b")}
    (path,) = paths - {held(node).log_dir.path}
    return path


async def move(client: NodeClient, path: str, topic: str = "t", index: int = 0) -> int:
    answer = await client.ask(
        AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])])]
        )
    )
    code: int = answer.results[0].partitions[0].error_code
    return code


async def described(client: NodeClient) -> list[tuple[str, bool, int]]:
    """Return (path, is it on its way, lag) for each place of the partition."""
    answer = await client.ask(DescribeLogDirsRequest(topics=None))
    return [
        (each.log_dir, partition.is_future_key, partition.offset_lag)
        for each in answer.results
        for topic in each.topics
        for partition in topic.partitions
    ]


def recorded(node: Node) -> Any:
    return node.quorum.image.topics["t"].partitions[0].directory_of(node.config.node_id)


async def values(client: NodeClient) -> list[bytes | None]:
    found: list[bytes | None] = []
    end = held(client.node).log.log_end_offset
    while len(found) < end:
        answer = await client.fetch("t", len(found), max_bytes=1 << 25, partition_max_bytes=1 << 25)
        found += [each.value for each in iter_records(answer.records)]
    return found


def test_a_replica_moves_while_it_is_written_to(tmp_path: Path) -> None:
    async def test() -> None:
        node = await started(tmp_path)
        client, writer = await NodeClient.connect(node), await NodeClient.connect(node)
        await client.create("t", segment_bytes="1048576")
        for at in range(40):
            await client.produce("t", batch(b"%d" % at, b"x" * 100_000, codec=Codec.LZ4 if at % 2 else Codec.NONE))
        path, count = other(node, tmp_path), 40

        async def write() -> None:
            nonlocal count
            while held(node).log_dir.path != path or count < 60:
                answer = await writer.produce(
                    "t", batch(b"%d" % count, b"y", producer_id=5, producer_epoch=0, base_sequence=2 * (count - 40))
                )
                assert answer.error_code == 0
                count += 1

        writing = asyncio.ensure_future(write())
        assert await move(client, path) == 0
        await writing
        assert held(node).log.folder == f"{path}/t-0"
        assert [each for each in await values(client) if each is not None and each.isdigit()] == [
            b"%d" % at for at in range(count)
        ]
        assert await described(client) == [(path, False, 0)]
        assert recorded(node) == held(node).log_dir.meta.directory_id  # type: ignore[union-attr]
        assert held(node).log.producers.entries[5].last_sequence == 2 * (count - 40) - 1
        await node.stop()
        node = await started(tmp_path)
        client = await NodeClient.connect(node)
        assert held(node).log.folder == f"{path}/t-0" and held(node).log.log_end_offset == 2 * count
        assert held(node).log.recovery is None
        await node.stop()

    run(test)


async def slowed(client: NodeClient, path: str) -> None:
    """Begin a move that stays where it is after its first slices."""
    node = client.node
    await configure(node, ResourceType.BROKER, "", "replica.alter.log.dirs.io.max.bytes.per.second", "1")
    assert await move(client, path) == 0
    await until_async(lambda: parts(node).throttles.log_dirs.wait_s() > 0)


async def hurried(node: Node) -> None:
    await configure(node, ResourceType.BROKER, "", "replica.alter.log.dirs.io.max.bytes.per.second", str(1 << 40))


async def filled(node: Node) -> NodeClient:
    client = await NodeClient.connect(node)
    await client.create("t")
    for _ in range(5):
        await client.produce("t", batch(b"x" * 900_000))
    return client


def test_a_move_is_throttled_and_seen(tmp_path: Path) -> None:
    async def test() -> None:
        node = await started(tmp_path)
        client = await filled(node)
        path, before = other(node, tmp_path), held(node).log_dir.path
        await slowed(client, path)
        found = await described(client)
        assert [(each[0], each[1]) for each in sorted(found, key=lambda each: each[1])] == [
            (before, False),
            (path, True),
        ]
        assert 0 < max(each[2] for each in found) < 5
        await hurried(node)
        await until_async(lambda: held(node).log_dir.path == path)
        await node.stop()

    run(test)


@pytest.mark.parametrize("cleanly", [True, False])
def test_a_move_goes_on_after_a_restart(tmp_path: Path, cleanly: bool) -> None:
    async def test() -> None:
        node = await started(tmp_path)
        client = await filled(node)
        path = other(node, tmp_path)
        content = everything(held(node).log)
        await slowed(client, path)
        if cleanly:
            await node.stop()
        else:
            await parts(node).moves.close()
            await node._listeners.close()
            await node.quorum.stop()
            parts(node).storage.release()
        node = await started(tmp_path)
        assert parts(node).moves.get(TopicPartition("t", 0)) is not None or held(node).log_dir.path == path
        await hurried(node)
        await until_async(lambda: held(node).log_dir.path == path)
        assert everything(held(node).log) == content
        await node.stop()

    run(test)


def test_of_two_places_a_start_keeps_the_one_with_more(tmp_path: Path) -> None:
    async def test() -> None:
        node = await started(tmp_path)
        client = await filled(node)
        path, before = other(node, tmp_path), held(node).log_dir.path
        content = everything(held(node).log)
        await slowed(client, path)
        log_dir = parts(node).storage.directory_at(path)
        assert log_dir is not None
        await parts(node).moves.close()
        log_dir.name_future(TopicPartition("t", 0))  # as if it were killed between the two names
        await node._listeners.close()
        await node.quorum.stop()
        parts(node).storage.release()
        node = await started(tmp_path)
        assert held(node).log_dir.path == before and everything(held(node).log) == content
        await node.stop()

    run(test)


def test_a_move_is_given_up_for_another_and_with_its_topic(tmp_path: Path) -> None:
    async def test() -> None:
        node = await started(tmp_path)
        client = await filled(node)
        path, before = other(node, tmp_path), held(node).log_dir.path
        await slowed(client, path)
        assert await move(client, before) == 0  # back to where it is
        assert len(parts(node).moves) == 0
        assert not [each for each in Path(path).iterdir() if each.name.endswith("-future")]
        await node.stop()

    run(test)


def test_what_cannot_be_moved_is_answered_as_kafka_does(tmp_path: Path) -> None:
    async def test() -> None:
        node = await started(tmp_path)
        client = await NodeClient.connect(node)
        await client.create("t")
        assert await move(client, "/nowhere") == ErrorCode.LOG_DIR_NOT_FOUND
        path = str(tmp_path / "b")
        assert await move(client, path, "later") == ErrorCode.REPLICA_NOT_AVAILABLE
        await client.create("later")
        assert held(node, "later").log_dir.path == path
        assert await move(client, held(node).log_dir.path) == 0 and len(parts(node).moves) == 0
        await node.stop()

    run(test)


def test_a_move_of_a_topic_that_is_made_again_meanwhile_leaves_the_new_log_alone(tmp_path: Path) -> None:
    """The copy has the log's name already and not its place, when the topic goes: the new one's log lies there."""

    async def test() -> None:
        disk = HookedDisk()
        node = await start_node(tmp_path / "a", dirs(tmp_path), disk=disk)
        client = await NodeClient.connect(node)
        await client.create("t")
        await client.produce("t", batch(b"old"))
        path = other(node, tmp_path)
        named, goes_on = threading.Event(), threading.Event()

        def wait(call: str, at: str) -> None:
            if (call, at) == ("fsync_dir", path) and not named.is_set():
                named.set()
                assert goes_on.wait(60)

        disk.hook = wait
        try:
            assert await move(client, path) == 0
            await until_async(named.is_set, "the copy's name")
            await delete_topic(client)
            await client.create("t")
            assert (await client.produce("t", batch(b"new"))).error_code == ErrorCode.NONE
        finally:
            goes_on.set()
        await until_async(lambda: not len(parts(node).moves), "the end of the move")
        assert Path(held(node).log.folder).is_dir()
        assert await values(client) == [b"new"]
        client.close()
        await node.stop()
        node = await start_node(tmp_path / "a", dirs(tmp_path), disk=disk)
        client = await NodeClient.connect(node)
        assert await values(client) == [b"new"]
        client.close()
        await node.stop()

    run(test)
