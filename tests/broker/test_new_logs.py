"""Logs of topics with many partitions are made beside the loop's work, and at once where somebody asks for one."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode, Uuid, uuid_text
from ottla.broker.replicas.partitions import ASKED_FOR_MAX, MADE_AT_ONCE_MAX, Partitions
from ottla.log import OsDisk
from ottla.log.checkpoints import read_deleted_topics, write_deleted_topics
from ottla.wire import Codec, iter_batches
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.hooked_disk import HookedDisk, full
from tests.broker.node_client import NodeClient, batch, delete_topic, parts, run, running_node
from tests.waiting import until_async

MANY = MADE_AT_ONCE_MAX + 100
OTHER = Uuid(b"another topic's.")


class HeldLoop(asyncio.AbstractEventLoop):
    """A loop that keeps what it is to call."""

    def __init__(self) -> None:
        self.kept: list[Callable[..., Any]] = []

    def time(self) -> float:
        return 0.0

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:
        self.kept.append(callback)
        return asyncio.Handle(callback, args, self)

    def get_debug(self) -> bool:
        return False


@asynccontextmanager
async def held(folder: Path, *settings: str, **ways: Any) -> AsyncIterator[tuple[NodeClient, Partitions, HeldLoop]]:
    """Start a node that makes no log later before it is asked to."""
    async with running_node(folder, *settings, **ways) as client:
        partitions, loop = parts(client.node).partitions, HeldLoop()
        partitions.make_later(loop)
        yield client, partitions, loop


def test_a_topic_of_many_partitions_is_answered_before_its_logs_are_made_and_they_are_soon(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            partitions = parts(client.node).partitions
            await client.create("t", MANY)
            await until_async(lambda: len(partitions) == MANY, "every log")
            assert partitions.unmade == 0
            assert all((tmp_path / f"t-{at}").is_dir() for at in range(MANY))

    run(test)


def test_few_new_partitions_have_their_logs_before_the_answer(tmp_path: Path) -> None:
    async def test() -> None:
        async with held(tmp_path) as (client, partitions, _):
            await client.create("t", MADE_AT_ONCE_MAX)
            assert (len(partitions), partitions.unmade) == (MADE_AT_ONCE_MAX, 0)

    run(test)


def test_a_log_is_made_when_somebody_asks_for_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with held(tmp_path) as (client, partitions, _):
            await client.create("t", MANY)
            assert (len(partitions), partitions.unmade) == (0, MANY)
            assert (await client.produce("t", batch(b"x"), index=7)).base_offset == 0
            assert (await client.fetch("t", 0, index=9)).error_code == 0
            asked = ListOffsetsPartition(partition_index=11, timestamp=-1)
            listed = await client.ask(ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])]))
            assert (listed.topics[0].partitions[0].error_code, listed.topics[0].partitions[0].offset) == (0, 0)
            assert sorted(each.key.partition for each in partitions) == [7, 9, 11]
            assert partitions.unmade == MANY - 3

    run(test)


@pytest.mark.parametrize("compression", ["producer", "gzip"])
def test_who_asks_for_very_many_at_once_is_told_to_try_again_and_nothing_is_stored_otherwise_than_it_should(
    tmp_path: Path, compression: str
) -> None:
    async def test() -> None:
        async with held(tmp_path) as (client, partitions, loop):
            await client.create("t", MANY, compression_type=compression)
            data = [PartitionProduceData(index=at, records=batch(b"x" * 50)) for at in range(MANY)]
            topic = TopicProduceData(name="t", topic_id=client.topic_ids["t"], partition_data=data)
            appended, turns = set[int](), 0
            while len(appended) < MANY and turns < MANY:
                topic.partition_data = [each for each in data if each.index not in appended]
                answer = await client.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic]))
                answers = answer.responses[0].partition_responses
                codes = {each.error_code for each in answers}
                assert codes <= {0, ErrorCode.NOT_LEADER_OR_FOLLOWER}
                good = {each.index for each in answers if not each.error_code}
                assert turns or len(good) == ASKED_FOR_MAX
                appended |= good
                loop.kept.pop(0)() if loop.kept else None
                turns += 1
            assert turns > MANY // (ASKED_FOR_MAX + 16)
            codec = Codec.GZIP if compression == "gzip" else Codec.NONE
            for each in partitions:
                [segment] = each.log.segments
                [(header, _)] = iter_batches(segment.file.pread(0, segment.size))
                assert header.codec is codec

    run(test)


def test_a_topic_that_is_deleted_meanwhile_has_none_of_its_logs_made(tmp_path: Path) -> None:
    async def test() -> None:
        async with held(tmp_path) as (client, partitions, loop):
            await client.create("t", MANY)
            await client.produce("t", batch(b"old"), index=3)
            await delete_topic(client)
            assert (len(partitions), partitions.unmade) == (0, 0)
            await client.create("t", MANY)
            assert (await client.produce("t", batch(b"new"), index=3)).base_offset == 0
            for _ in range(MANY):
                loop.kept.pop(0)()
                if not loop.kept:
                    break
            assert (len(partitions), partitions.unmade) == (MANY, 0)

    run(test)


def test_those_who_follow_partitions_hear_of_a_topic_when_all_its_logs_are_made(tmp_path: Path) -> None:
    async def test() -> None:
        async with held(tmp_path) as (client, partitions, loop):
            told: list[tuple[str, ...]] = []
            partitions.reopened = told.append
            await client.create("t", MANY)
            await client.create("u", MANY)
            await client.produce("u", batch(b"x"), index=MANY - 1)
            turns = 0
            while loop.kept and turns < MANY:
                loop.kept.pop(0)()
                turns += 1
            assert told == [("t",), ("u",)]
            assert turns > 2 * MANY // 16

    run(test)


def test_the_codec_of_a_topic_holds_for_a_log_that_is_made_when_it_is_written_to(tmp_path: Path) -> None:
    async def test() -> None:
        async with held(tmp_path) as (client, partitions, _):
            await client.create("t", MANY, compression_type="zstd")
            assert (await client.produce("t", batch(b"x" * 100), index=5)).error_code == 0
            found = partitions.get("t", 5)
            assert found is not None
            [segment] = found.log.segments
            [(header, _)] = iter_batches(segment.file.pread(0, segment.size))
            assert header.codec is Codec.ZSTD

    run(test)


def test_what_a_stop_leaves_unmade_is_made_by_the_next_start(tmp_path: Path) -> None:
    async def test() -> None:
        async with held(tmp_path) as (client, partitions, _):
            await client.create("t", MANY)
            await client.produce("t", batch(b"kept"), index=1)
        async with running_node(tmp_path) as client:
            partitions = parts(client.node).partitions
            assert (len(partitions), partitions.unmade) == (MANY, 0)
            answer = await client.fetch("t", 0, index=1)
            assert [header.base_offset for header, _ in iter_batches(answer.records)] == [0]

    run(test)


def test_a_full_disk_costs_the_logs_that_could_not_be_made_and_they_are_made_when_there_is_room(tmp_path: Path) -> None:
    async def test() -> None:
        disk = HookedDisk()
        async with held(tmp_path, disk=disk) as (client, partitions, loop):
            await client.create("t", MANY)

            def refuse(call: str, path: str) -> None:
                if "/t-" in path:
                    raise full(path)

            disk.hook = refuse
            assert (await client.produce("t", batch(b"x"), index=2)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            loop.kept.pop(0)()
            assert len(partitions.unopened) > 1
            disk.hook = lambda call, path: None
            partitions.try_again()
            assert (await client.produce("t", batch(b"x"), index=2)).base_offset == 0
            assert partitions.unmade == MANY - len(partitions)

    run(test)


def test_topics_made_and_deleted_in_quick_turn_leave_nothing_behind(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, "file.delete.delay.ms=0") as client:
            partitions = parts(client.node).partitions
            for _ in range(5):
                topic = CreatableTopic(name="t", num_partitions=MANY, replication_factor=1)
                client.send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
                client.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000), 6)
                assert (await client.receive(CreateTopicsRequest(), 7)).topics[0].error_code == 0
                assert (await client.receive(DeleteTopicsRequest(), 6)).responses[0].error_code == 0
            await until_async(lambda: not partitions.unmade and not list(tmp_path.glob("t-*")), "no folder")
            assert len(partitions) == 0

    run(test)


def folders(folder: Path) -> tuple[int, int]:
    """Return how many logs of topic t have their name, and how many are set aside."""
    names = [each.name for each in folder.iterdir() if each.name.startswith("t-")]
    aside = sum(each.endswith("-delete") for each in names)
    return len(names) - aside, aside


def test_the_logs_of_a_topic_of_many_partitions_are_set_aside_beside_the_loops_work(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            partitions = parts(client.node).partitions
            await client.create("t", MANY)
            await until_async(lambda: len(partitions) == MANY, "every log")
            loop = HeldLoop()
            partitions.make_later(loop)
            await delete_topic(client, "t")
            assert len(partitions) == 0
            assert folders(tmp_path) == (MANY, 0), "the topic is gone, and no folder was renamed for it yet"
            (some,) = loop.kept
            some()
            left, aside = folders(tmp_path)
            assert 0 < aside < 50 and left == MANY - aside
            await client.create("t", 2)
            assert await client.produce("t", batch(b"new")) is not None
            assert (await client.fetch("t", 0)).error_code == 0
            assert not partitions.unopened
            while loop.kept:
                loop.kept.pop()()
            assert folders(tmp_path) == (2, MANY)

    run(test)


def test_a_stop_sets_aside_what_is_left_of_a_deleted_topic(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            partitions = parts(client.node).partitions
            await client.create("t", MANY)
            await until_async(lambda: len(partitions) == MANY, "every log")
            partitions.make_later(HeldLoop())
            await delete_topic(client, "t")
            assert folders(tmp_path) == (MANY, 0)
        assert folders(tmp_path) == (0, MANY)

    run(test)


def test_a_start_removes_what_a_kill_left_of_a_deleted_topic_and_nothing_else(tmp_path: Path) -> None:
    live, killed, other = tmp_path / "live", tmp_path / "killed", tmp_path / "other"

    async def kill() -> None:
        async with running_node(live) as client:
            partitions = parts(client.node).partitions
            await client.create("t", MANY)
            await client.create("kept")
            await client.produce("kept", batch(b"x"))
            await until_async(lambda: len(partitions) == MANY + 1, "every log")
            shutil.copytree(live / "kept-0", live / "unknown-0")
            shutil.copytree(live / "t-0", live / "nameless-0")
            (live / "nameless-0" / "partition.metadata").unlink()
            (live / "unknown-0" / "partition.metadata").unlink()
            (live / "unknown-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(OTHER)}")
            shutil.copytree(live, other)  # before the deletion, of which that one's metadata never heard
            loop = HeldLoop()
            partitions.make_later(loop)
            await delete_topic(client, "t")
            loop.kept.pop()()
            assert 0 < folders(live)[1] < MANY
            shutil.copytree(live, killed)
            shutil.copy(live / "deleted-topics", other / "deleted-topics")

    async def start() -> None:
        async with running_node(killed) as client:
            assert folders(killed) == (0, MANY)
            assert (killed / "unknown-0").is_dir() and (killed / "nameless-0").is_dir()
            assert (await client.fetch("kept", 0)).high_watermark == 1
            assert not (killed / "deleted-topics").exists()

    async def start_of_the_other() -> None:
        async with running_node(other) as client:
            assert folders(other) == (MANY, 0), "the metadata has the topic"
            assert (await client.fetch("t", 0)).error_code == 0

    run(kill)
    run(start)
    run(start_of_the_other)


def test_folders_of_no_known_topic_are_kept_where_no_deletion_was_told_of(tmp_path: Path) -> None:
    disk = OsDisk()
    write_deleted_topics(disk, str(tmp_path), [OTHER])
    whole = (tmp_path / "deleted-topics").read_bytes()
    assert read_deleted_topics(disk, str(tmp_path)) == {OTHER}
    for cut in range(len(whole) - 1):
        (tmp_path / "deleted-topics").write_bytes(whole[:cut])
        assert read_deleted_topics(disk, str(tmp_path)) == frozenset()
