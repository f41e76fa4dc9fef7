"""Memory for answers that nobody has read yet: bounded per connection and per node; beyond it, in files or in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.broker import Node
from ottla.broker.requests.answer_memory import (
    PART_BYTES,
    SHARE_BYTES_MAX,
    SMALL_ANSWER_BYTES,
    STALLED_S_MAX,
    AnswerMemory,
)
from ottla.broker.requests.handler import RequestContext
from ottla.wire import Message
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.group_script import fetch_request
from tests.broker.node_client import NodeClient, batch, logs_made, parts, run, running_node
from tests.broker.test_connection import METADATA, Asked, World, handler, turns
from tests.broker.test_fetch import several
from tests.broker.test_groups import ready
from tests.waiting import until_async

MANY = SMALL_ANSWER_BYTES // PART_BYTES + 1
"""Partitions of a fetch whose answer is not small."""


class HandLoop:
    """The part of an event loop that is used, with a clock that a test turns."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._soon: list[Callable[[], None]] = []
        self._later: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now_s

    def call_soon(self, call: Callable[[], None]) -> None:
        self._soon.append(call)

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self._later.append((self.now_s + seconds, call))

    def turn(self, seconds: float = 0.0) -> None:
        self.now_s += seconds
        due = [each for each in self._later if each[0] <= self.now_s]
        self._later = [each for each in self._later if each[0] > self.now_s]
        self._soon += [call for _, call in due]
        while self._soon:
            self._soon.pop(0)()


class Client:
    """A connection that holds what it is told to hold."""

    def __init__(self, memory: AnswerMemory) -> None:
        self.memory, self.size, self.unseen, self.is_cut_off = memory, 0, 0, False

    def hold(self, size: int) -> None:
        change, self.size = size - self.size, size
        self.memory.holds(self, size, change)

    def recount(self) -> None:
        if self.unseen:
            taken, self.unseen = self.unseen, 0
            self.hold(self.size - taken)

    def cut_off(self) -> None:
        self.is_cut_off = True
        self.hold(0)


def made(bytes_max: int) -> tuple[HandLoop, AnswerMemory]:
    loop = HandLoop()
    return loop, AnswerMemory(cast(asyncio.AbstractEventLoop, loop), bytes_max)


def test_nobody_waits_while_there_is_room() -> None:
    _, memory = made(4000)
    Client(memory).hold(2999)
    assert not memory.is_full
    assert not memory.must_wait(1 << 30, is_follower=False)


def test_small_answers_wait_for_nobody() -> None:
    _, memory = made(4000)
    Client(memory).hold(1 << 30)
    assert memory.is_full
    assert not memory.must_wait(SMALL_ANSWER_BYTES, is_follower=False)
    assert memory.must_wait(SMALL_ANSWER_BYTES + 1, is_follower=False)


def test_who_waits_goes_in_order_and_only_as_long_as_there_is_room() -> None:
    loop, memory = made(4000)
    holder = Client(memory)
    holder.hold(3000)
    gone: list[int] = []

    def take(number: int) -> None:
        gone.append(number)
        Client(memory).hold(1600)

    for number in range(4):
        memory.wait(lambda number=number: take(number))  # type: ignore[misc]
    loop.turn()
    assert gone == []
    assert memory.waiting == 4
    holder.hold(0)
    loop.turn()
    assert gone == [0, 1]  # the second goes beyond the bound, and nobody after it
    assert memory.must_wait(SMALL_ANSWER_BYTES + 1, is_follower=False)


def test_an_answer_larger_than_the_bound_goes_when_there_is_any_room() -> None:
    loop, memory = made(4000)
    holder, giant = Client(memory), Client(memory)
    holder.hold(3000)
    memory.wait(lambda: giant.hold(1 << 40))
    holder.hold(2999)
    loop.turn()
    assert giant.size == 1 << 40


def test_a_newcomer_does_not_pass_those_who_wait() -> None:
    loop, memory = made(4000)
    holder = Client(memory)
    holder.hold(3000)
    went: list[bool] = []
    memory.wait(lambda: went.append(True))
    holder.hold(0)
    assert memory.is_full  # there is room, and somebody has it already
    loop.turn()
    assert went
    assert not memory.is_full


def test_who_gives_up_is_passed_over_and_costs_nothing() -> None:
    loop, memory = made(4000)
    holder = Client(memory)
    holder.hold(3000)
    went: list[str] = []
    first = memory.wait(lambda: went.append("first"))
    memory.wait(lambda: went.append("second"))
    memory.give_up(first)
    assert memory.waiting == 1
    holder.hold(0)
    loop.turn()
    memory.give_up(first)
    assert went == ["second"]


def test_the_last_quarter_is_for_followers_and_they_go_first() -> None:
    loop, memory = made(4000)
    holder = Client(memory)
    holder.hold(3999)
    assert memory.must_wait(SMALL_ANSWER_BYTES + 1, is_follower=False)
    assert not memory.must_wait(SMALL_ANSWER_BYTES + 1, is_follower=True)
    holder.hold(4000)
    assert memory.must_wait(SMALL_ANSWER_BYTES + 1, is_follower=True)
    went: list[str] = []
    memory.wait(lambda: went.append("client"))
    memory.wait(lambda: went.append("follower"), is_follower=True)
    holder.hold(3500)
    loop.turn()
    assert went == ["follower"]
    holder.hold(0)
    loop.turn()
    assert went == ["follower", "client"]


def test_an_answer_reads_less_into_memory_where_there_is_less() -> None:
    _, memory = made(4 * SHARE_BYTES_MAX)
    holder = Client(memory)
    assert memory.share() == SHARE_BYTES_MAX
    holder.hold(3 * SHARE_BYTES_MAX - 7)
    assert memory.share() == 7
    holder.hold(4 * SHARE_BYTES_MAX)
    assert memory.share() == 0


def test_who_takes_nothing_while_others_wait_is_cut_off_and_who_takes_a_little_is_not() -> None:
    loop, memory = made(4000)
    dead, slow = Client(memory), Client(memory)
    dead.hold(3000)
    slow.hold(3000)
    loop.turn(10 * STALLED_S_MAX)
    assert not dead.is_cut_off  # nobody waits
    slow.unseen = 1
    went: list[str] = []
    memory.wait(lambda: went.append("next"))
    loop.turn(STALLED_S_MAX)
    assert dead.is_cut_off
    assert not slow.is_cut_off
    assert memory.cut_off == 1
    assert went == ["next"]


# -- in a node


def full(client: NodeClient) -> Callable[[], None]:
    """Have others hold all the memory; what is returned ends that."""
    memory = parts(client.node).answer_memory
    memory.reserve(1 << 30)
    return lambda: memory.reserve(-(1 << 30))


async def filled(client: NodeClient, topic: str, partitions: int, size: int) -> list[bytes]:
    await client.create(topic, partitions=partitions)
    stored = [batch(bytes([index % 251]) * size) for index in range(partitions)]
    for index, records in enumerate(stored):
        assert (await client.produce(topic, records, index=index)).error_code == 0
    return stored


def records_of(answer: Any) -> list[int]:
    """Return the sizes of an answer's records."""
    return [len(each.records or b"") for topic in answer.responses for each in topic.partitions]


def deaf(client: NodeClient) -> None:
    cast(asyncio.ReadTransport, client.writer.transport).pause_reading()


def hearing(client: NodeClient) -> None:
    cast(asyncio.ReadTransport, client.writer.transport).resume_reading()


def all_of(client: NodeClient, topic: str, partitions: int) -> FetchRequest:
    return several(client, topic, dict.fromkeys(range(partitions), 0), max_bytes=1 << 30)


def test_a_connection_that_does_not_read_holds_little_whatever_it_asks_for(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            stored = await filled(client, "t", 400, 60_000)
            request = all_of(client, "t", 400)
            deaf(client)
            for _ in range(5):  # the first alone is more than the kernels' buffers hold
                client.send(request, 18)
            memory = parts(client.node).answer_memory
            await until_async(lambda: memory.held > 0)
            await turns()
            assert memory.held < 3 * SHARE_BYTES_MAX // 2
            hearing(client)
            for _ in range(5):
                answer = await client.receive(request, 18)
                assert records_of(answer) == list(map(len, stored))
                assert [bytes(each.records[-10:]) for each in answer.responses[0].partitions] == [
                    each[-10:] for each in stored
                ]
            assert memory.held == 0

    run(test)


def test_a_fetch_of_many_partitions_waits_for_room_while_produces_and_heartbeats_go_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            stored = await filled(client, "t", MANY, 100)
            await client.create("small")
            other = await NodeClient.connect(client.node)
            ends = full(client)
            request = all_of(client, "t", MANY)
            client.send(request, 18)
            await until_async(lambda: parts(client.node).answer_memory.waiting == 1)
            assert await other.topic_id("small")  # metadata of few partitions is small
            assert (await other.produce("small", batch(b"more"))).error_code == 0
            beat = await other.ask(HeartbeatRequest(group_id="none", member_id="none"))
            assert beat.error_code != 0
            assert not client.reader._buffer  # type: ignore[attr-defined]
            ends()
            assert records_of(await client.receive(request, 18)) == list(map(len, stored))
            other.close()

    run(test)


def test_a_fetch_of_few_partitions_is_answered_from_files_where_memory_is_full(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            stored = await filled(client, "t", 3, 10_000)
            ends = full(client)
            assert records_of(await client.ask(all_of(client, "t", 3))) == list(map(len, stored))
            ends()

    run(test)


def test_a_fetch_that_waited_for_records_waits_for_room_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", partitions=MANY)
            await logs_made(client.node)
            other = await NodeClient.connect(client.node)
            other.topic_ids = client.topic_ids
            request = all_of(client, "t", MANY)
            request.max_wait_ms = 60_000
            client.send(request, 18)
            await until_async(lambda: len(parts(client.node).purgatory) == 1)
            ends = full(client)
            assert (await other.produce("t", batch(b"news"), index=5)).error_code == 0
            await until_async(lambda: parts(client.node).answer_memory.waiting == 1)
            ends()
            assert sum(records_of(await client.receive(request, 18))) > 0
            other.close()

    run(test)


def test_metadata_waits_for_room_and_what_follows_it_keeps_its_order(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", partitions=400)
            await logs_made(client.node)
            ends = full(client)
            for _ in range(3):
                client.send(MetadataRequest(topics=None), 13)
                client.send(client.produce_request("t", batch(b"x")), 13)
            await until_async(lambda: parts(client.node).answer_memory.waiting == 1)
            ends()
            for offset in range(3):
                metadata = await client.receive(MetadataRequest(), 13)
                assert [each.name for each in metadata.topics] == ["t"]
                produced = await client.receive(client.produce_request("t", b""), 13)
                assert produced.responses[0].partition_responses[0].base_offset == offset

    run(test)


@pytest.mark.parametrize("waits_for", ["room, a fetch", "room, metadata", "records"])
def test_a_connection_that_dies_while_it_waits_leaves_nothing_behind(tmp_path: Path, waits_for: str) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", partitions=400)
            await logs_made(client.node)
            await client.produce("t", batch(b"x"))
            node: Node = client.node
            dying = await NodeClient.connect(node)
            dying.topic_ids = client.topic_ids
            request = all_of(dying, "t", MANY)
            ends = full(client)
            if waits_for == "room, a fetch":
                dying.send(request, 18)
            elif waits_for == "room, metadata":
                dying.send(MetadataRequest(topics=None), 13)
            else:
                request.max_wait_ms, request.min_bytes = 2**31 - 1, 1 << 20
                dying.send(request, 18)
            await until_async(lambda: parts(node).answer_memory.waiting + len(parts(node).purgatory) == 1)
            dying.close()
            await until_async(lambda: parts(node).answer_memory.waiting + len(parts(node).purgatory) == 0)
            ends()

    run(test)


async def committed(client: NodeClient, group: str, partitions: int) -> None:
    """Commit an offset of every partition of a topic."""
    await ready(client, group, "g")
    await client.create("t", partitions=partitions)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=index)
                    for index in range(partitions)
                ],
            )
        ],
    )
    answer = await client.ask(request, 8)
    assert {each.error_code for each in answer.topics[0].partitions} == {0}


@pytest.mark.parametrize("version", [7, 9])
def test_all_offsets_of_a_large_group_wait_for_room_and_a_few_do_not(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            count = SMALL_ANSWER_BYTES // 32 + 1
            await committed(client, "g", count)
            everything, few = fetch_request(version, "g", topics=None), fetch_request(version, "g")
            ends = full(client)
            await client.ask(few, version)
            client.send(everything, version)
            await until_async(lambda: parts(client.node).answer_memory.waiting == 1)
            ends()
            answer = await client.receive(everything, version)
            topics = answer.topics if version < 8 else answer.groups[0].topics
            assert [each.committed_offset for each in topics[0].partitions] == list(range(count))

    run(test)


def test_an_answer_that_comes_later_and_is_large_waits_and_is_encoded_when_it_leaves(tmp_path: Path) -> None:
    """The leader of a group is told everybody's metadata, when everybody has joined."""

    async def test() -> None:
        async with running_node(tmp_path, "group.initial.rebalance.delay.ms=200") as client:
            await committed(client, "other", 1)  # a coordinator is in office
            protocol = JoinGroupRequestProtocol(name="range", metadata=b"m" * 3 * SMALL_ANSWER_BYTES)
            request = JoinGroupRequest(
                group_id="g",
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                protocol_type="consumer",
                protocols=[protocol],
            )
            request = request.replace(member_id=(await client.ask(request, 9)).member_id)
            client.send(request, 9)
            ends = full(client)
            await until_async(lambda: parts(client.node).answer_memory.waiting == 1)
            held = parts(client.node).answer_memory.held
            other = await NodeClient.connect(client.node)
            assert (await other.produce("t", batch(b"more"), version=12)).error_code == 0
            assert parts(client.node).answer_memory.held == held
            ends()
            answer = await client.receive(request, 9)
            assert len(answer.members[0].metadata) == 3 * SMALL_ANSWER_BYTES
            other.close()

    run(test)


def test_who_leaves_while_its_late_answer_waits_leaves_nothing_behind(tmp_path: Path) -> None:
    async def test() -> None:
        async with World([handler(METADATA, _late)]).listening() as world:
            world.memory.reserve(1 << 40)
            client = await world.open()
            client.ask(METADATA, 1)
            await until_async(lambda: world.memory.waiting == 1)
            client.writer.close()
            await until_async(lambda: world.memory.waiting == 0)

    run(test)


async def _late(context: RequestContext[Any], asked: Asked) -> Message:
    await asyncio.sleep(0)
    return MetadataResponse(topics=[MetadataResponseTopic(name="t" * 1000)] * 100)
