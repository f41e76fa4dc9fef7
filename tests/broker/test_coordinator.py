"""A coordinator whose partition has another copy: answers wait for the high watermark, and reads see what is committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode, NodeId, Offset
from ottla.metadata import Delta
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tests.broker.group_script import (
    Teller,
    commit_request,
    fetch_request,
    heartbeat_request,
    join_request,
    sync_request,
)
from tests.broker.node_client import NodeClient, delete_topic, parts, run, running_node
from tests.waiting import until_async

OTHER = NodeId(9)
TOPIC = "__consumer_offsets"
SETTINGS = ("offsets.topic.num.partitions=1", "group.initial.rebalance.delay.ms=0")


class Copied:
    """The offsets topic's one partition, with a second copy that fetches when the test says so."""

    def __init__(self, client: NodeClient) -> None:
        self.node: Any = client.node
        self.held = parts(self.node).partitions.get(TOPIC, 0)
        self._become(self.held.replica.leader_epoch, self.node.config.node_id)

    def _become(self, epoch: int, leader: int, in_sync: int = 2) -> None:
        copies = (NodeId(self.node.config.node_id), OTHER)
        replica = self.held.replica
        replica.become(
            leader=NodeId(leader),
            leader_epoch=epoch,
            partition_epoch=replica.partition_epoch + 1,
            replicas=copies,
            isr=copies[:in_sync],
        )

    def shrink(self) -> None:
        """Let the other copy fall behind."""
        self._become(self.held.replica.leader_epoch, self.node.config.node_id, in_sync=1)

    def grow(self) -> None:
        """Let the other copy come back into sync."""
        self._become(self.held.replica.leader_epoch, self.node.config.node_id)

    def fetch(self, end: int | None = None) -> None:
        """Let the other copy have everything, or everything before an offset."""
        replica = self.held.replica
        end = self.held.log.log_end_offset if end is None else end
        if replica.fetched_by(OTHER, fetch_offset=Offset(end), log_start_offset=Offset(0), now_s=0.0):
            parts(self.node).purgatory.advanced(self.held.key, replica.high_watermark, 0)

    def follow(self) -> None:
        """Let the other copy be the leader."""
        self._become(self.held.replica.leader_epoch + 1, OTHER)
        parts(self.node).purgatory.interrupt(self.held.key)
        self._tell()

    def lead(self) -> None:
        """Let this broker lead again."""
        self._become(self.held.replica.leader_epoch + 1, self.node.config.node_id)
        self._tell()

    def _tell(self) -> None:
        image = self.node.quorum.image
        parts(self.node).groups.image_changed(image, image, Delta(topics_changed=(TOPIC,)))


async def copied(client: NodeClient) -> Copied:
    await client.create("t")
    await Teller(client, lambda: NodeClient.connect(client.node)).ready("g")
    return Copied(client)


async def read(client: NodeClient) -> int:
    """Return what is committed for `t`-0, as another connection sees it."""
    other = await NodeClient.connect(client.node)
    answer = await other.ask(fetch_request(9, "g", partitions=(0,)), 9)
    other.close()
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset


def code(answer: OffsetCommitResponse) -> ErrorCode:
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def appended_commit(client: NodeClient, partition: Copied) -> OffsetCommitRequest:
    """Send a commit and return it when it is appended; no copy has it yet, so it waits for its answer."""
    request = commit_request(5, group_id="g")
    client.send(request, 9)
    while not partition.held.log.log_end_offset:
        await read(client)
    return request


def test_a_commit_is_answered_and_read_when_every_copy_in_sync_has_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            partition = await copied(client)
            request = commit_request(5, group_id="g")
            client.send(request, 9)
            while not partition.held.log.log_end_offset:
                assert await read(client) == -1
            assert await read(client) == -1
            partition.fetch()
            assert code(await client.receive(request, 9)) is ErrorCode.NONE
            assert await read(client) == 5

    run(test)


def test_what_a_decision_saw_has_to_be_committed_before_its_answer(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            partition = await copied(client)
            requests = [commit_request(5, group_id="g"), commit_request(6, group_id="g", metadata="x" * 5000)]
            for each in requests:
                client.send(each, 9)
            while not partition.held.log.log_end_offset:
                await read(client)
            partition.fetch()
            codes = [code(await client.receive(each, 9)) for each in requests]
            assert codes == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]

    run(test)


def test_a_generation_begins_when_its_record_is_committed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            required = await client.ask(join_request("g"), 9)
            while required.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                await Teller(client, lambda: NodeClient.connect(client.node)).ready("g")
                required = await client.ask(join_request("g"), 9)
            joined = await client.ask(join_request("g", required.member_id), 9)
            partition = Copied(client)
            before = partition.held.log.log_end_offset
            request = sync_request(joined.member_id, 1, joined.member_id)
            client.send(request, 5)
            while partition.held.log.log_end_offset == before:
                await read(client)
            partition.fetch()
            assert (await client.receive(request, 5)).assignment == b"\x01\x02"

    run(test)


def test_a_commit_that_is_not_replicated_in_time_is_not_acknowledged(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS, "offsets.commit.timeout.ms=50") as client:
            partition = await copied(client)
            assert code(await client.ask(commit_request(5, group_id="g"), 9)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await read(client) == -1
            partition.fetch()
            assert await read(client) == 5  # it was appended, and nobody said that it was not

    run(test)


def test_who_waits_hears_that_the_coordinator_is_elsewhere_when_leadership_ends(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            partition = await copied(client)
            request = await appended_commit(client, partition)
            partition.follow()
            assert code(await client.receive(request, 9)) is ErrorCode.NOT_COORDINATOR
            assert (await client.ask(heartbeat_request("m", 1))).error_code == ErrorCode.NOT_COORDINATOR

    run(test)


def test_who_was_told_to_ask_elsewhere_is_not_answered_again_when_the_copies_come(tmp_path: Path) -> None:
    """A leader of a new epoch loads anew; what waited under the old one still hears of the high watermark."""

    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            partition = await copied(client)
            request = await appended_commit(client, partition)
            partition.lead()
            assert code(await client.receive(request, 9)) is ErrorCode.NOT_COORDINATOR
            partition.fetch()

    run(test)


def test_a_coordinator_takes_office_when_all_that_the_one_before_may_have_answered_for_is_committed(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            partition = await copied(client)
            client.send(commit_request(5, group_id="g"), 9)
            while not partition.held.log.log_end_offset:
                await read(client)
            partition.follow()
            assert code(await client.receive(commit_request(5, group_id="g"), 9)) is ErrorCode.NOT_COORDINATOR
            partition.lead()
            other = await NodeClient.connect(client.node)
            for _ in range(3):
                answer = await other.ask(fetch_request(9, "g", partitions=(0,)), 9)
                assert answer.groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            other.close()
            partition.fetch()
            while (answer := await client.ask(fetch_request(9, "g", partitions=(0,)), 9)).groups[0].error_code:
                assert answer.groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert answer.groups[0].topics[0].partitions[0].committed_offset == 5

    run(test)


def test_what_a_coordinator_writes_needs_as_many_copies_in_sync_as_its_topic_asks_for(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            partition = await copied(client)
            partition.held.min_insync_replicas = 2
            partition.shrink()
            assert code(await client.ask(commit_request(5, group_id="g"), 9)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert not partition.held.log.log_end_offset

    run(test)


def test_a_session_that_ends_while_nothing_can_be_appended_ends_when_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS, "group.min.session.timeout.ms=1") as client:
            await Teller(client, lambda: NodeClient.connect(client.node)).ready("g")
            required = await client.ask(join_request("g"), 9)
            request = join_request("g", required.member_id).replace(session_timeout_ms=300)
            joined = await client.ask(request, 9)
            assert joined.error_code == 0
            assert not (await client.ask(sync_request(joined.member_id, 1, joined.member_id), 5)).error_code
            coordinator: Any = client.node
            shard = coordinator._groups._shards[0].shard
            partition = Copied(client)
            partition.held.min_insync_replicas = 2
            partition.shrink()
            while "has no effect yet" not in caplog.text:
                await read(client)
            assert shard.groups["g"].members
            partition.held.min_insync_replicas = 1
            while shard.groups["g"].members:
                await read(client)

    run(test)


@pytest.mark.parametrize("then", ["writes again", "is loaded again"])
def test_what_was_committed_for_a_deleted_topic_goes_when_that_can_be_written_down(tmp_path: Path, then: str) -> None:
    """Who reads a topic of the same name later must not begin where the first one was left."""

    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS, "min.insync.replicas=2") as client:
            partition = await copied(client)
            request = await appended_commit(client, partition)
            partition.fetch()
            assert code(await client.receive(request, 9)) is ErrorCode.NONE
            partition.shrink()
            partition.held.replica.min_insync_replicas = 2
            await delete_topic(client, "t")
            assert await read(client) == 5
            end = partition.held.log.log_end_offset
            if then == "writes again":
                partition.grow()
            else:
                partition.lead()
            await client.create("t")
            await until_async(lambda: partition.held.log.log_end_offset > end)
            partition.fetch()
            assert await read(client) == -1

    run(test)
