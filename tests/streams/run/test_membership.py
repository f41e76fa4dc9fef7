"""One driver for each application: who is refused, who comes after whom, and what the one before can still commit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.base import ErrorCode, KafkaError, Millis, Offset, TopicPartition
from ottla.client import (
    BlockingClient,
    Client,
    CommittedOffset,
    ConsumerGroupMetadata,
    Coordinated,
    FetchPosition,
    GroupMember,
    Isolation,
    TransactionalProducer,
)
from ottla.spark.streams.membership import Membership
from ottla.wire import ColumnDecoder, Record, build_batch
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from tests import peer
from tests.ports import free_port
from tests.server import running_server
from tests.waiting import until

SESSION_MS = 1_000
OVERRIDES = ("group.initial.rebalance.delay.ms=0", f"group.min.session.timeout.ms={SESSION_MS}")
KAFKA = [pytest.mark.peer, pytest.mark.slow]
"""With `make compat`: Kafka's coordinator fences as it did, and ours is asked in every run."""
NOW_MS = Millis(time.time_ns() // 1_000_000)


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=KAFKA)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    if request.param == "kafka":
        port = free_port()
        with peer.running_broker(folder, port, heap="512m", overrides=OVERRIDES):
            yield f"127.0.0.1:{port}"
    else:
        with running_server(folder, overrides=OVERRIDES) as server:
            yield server.bootstrap


@pytest.fixture
def client(bootstrap: str) -> Iterator[BlockingClient]:
    with BlockingClient(bootstrap) as opened:
        yield opened


@pytest.fixture
def topic(client: BlockingClient, request: pytest.FixtureRequest) -> str:
    name = "t-" + "".join(each if each.isalnum() else "-" for each in request.node.name)[-60:]
    made = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    answer = client.request(CreateTopicsRequest(topics=[made], timeout_ms=10_000), controller=True)
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message
    return name


def driver(bootstrap: str, application: str, name: str, loop: asyncio.AbstractEventLoop | None = None) -> Membership:
    return Membership(bootstrap, application, topics=["in"], session_ms=SESSION_MS, client_id=name, loop=loop)


@pytest.fixture
def sleeping() -> Iterator[asyncio.AbstractEventLoop]:
    """The loop of drivers that are to sleep, and wake in the end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


@contextmanager
def asleep(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Hold a loop up, and so the signs of life of its drivers, as a kill or a long pause does."""
    wake = threading.Event()
    loop.call_soon_threadsafe(wake.wait)
    try:
        yield
    finally:
        wake.set()


def test_a_second_driver_is_refused_by_name_while_the_first_lives(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.spark.streams.membership.SLACK_SECONDS", 0.5)
    first, second = driver(bootstrap, "named", "one"), driver(bootstrap, "named", "two")
    first.join()
    try:
        with pytest.raises(KafkaError, match=r"application named is already run by one at .*member one-"):
            second.join()
        assert first.lost is None
    finally:
        first.leave()
    second.join()
    second.leave()


def test_a_driver_takes_over_from_one_that_was_killed_within_its_session(
    bootstrap: str, sleeping: asyncio.AbstractEventLoop
) -> None:
    first, second = driver(bootstrap, "killed", "one", sleeping), driver(bootstrap, "killed", "two")
    old = first.join()
    with asleep(sleeping):
        new = second.join()
    assert new.generation > old.generation and new.member_id != old.member_id
    second.leave()
    first.leave()


def test_what_a_zombie_still_has_under_way_fails_at_its_commit(
    bootstrap: str, client: BlockingClient, topic: str, sleeping: asyncio.AbstractEventLoop
) -> None:
    first, second = driver(bootstrap, f"app-{topic}", "one", sleeping), driver(bootstrap, f"app-{topic}", "two")
    zombie = first.join()
    by = TransactionalProducer(client.client, f"id-{topic}", timeout_ms=60_000)
    client.run(by.begin())
    batch = build_batch(
        [Record(timestamp=NOW_MS, value=b"zombie's")],
        producer_id=by.producer_id,
        producer_epoch=by.epoch,
        base_sequence=0,
        transactional=True,
    )
    place = TopicPartition(topic, 0)
    client.run(by.produce({place: batch}))
    with asleep(sleeping):
        member = second.join()
    with pytest.raises(KafkaError) as refused:
        client.run(by.commit_offsets({place: Offset(1)}, zombie))
    assert refused.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
    client.run(by.end(commit=False))
    with pytest.raises(KafkaError):
        client.commit_offsets(f"app-{topic}", {place: Offset(7)}, member=zombie)
    client.run(by.begin())
    client.run(by.commit_offsets({place: Offset(3)}, member))
    client.run(by.end(commit=True))
    committed = client.committed_offsets(f"app-{topic}", [place], require_stable=True)  # waits for the marker
    assert committed == {place: CommittedOffset(Offset(3))}
    [found] = client.fetch([FetchPosition(place, Offset(0))], max_wait_ms=0, isolation=Isolation.READ_COMMITTED)
    decoded = ColumnDecoder().decode(found.check().records, start=Offset(0), aborted=found.aborted)
    assert not sum(len(columns) for columns in decoded.columns)
    second.leave()
    first.leave()


def test_a_driver_that_slept_hears_that_another_has_taken_over(
    bootstrap: str, sleeping: asyncio.AbstractEventLoop
) -> None:
    first, second = driver(bootstrap, "slept", "one", sleeping), driver(bootstrap, "slept", "two")
    first.join()
    with asleep(sleeping):
        second.join()
    until(lambda: first.lost is not None, "that the first hears of it")
    assert "was taken over by two at" in str(first.lost)
    with pytest.raises(KafkaError, match="taken over"):
        _ = first.member
    second.leave()
    first.leave()


def test_a_driver_that_slept_joins_again_where_nobody_came(bootstrap: str, sleeping: asyncio.AbstractEventLoop) -> None:
    first = driver(bootstrap, "alone", "one", sleeping)
    old = first.join()
    with asleep(sleeping):
        other = driver(bootstrap, "alone", "two")
        other.join()
        other.leave()
    until(lambda: first.member.generation > old.generation, "that the first joins again")
    assert first.lost is None
    first.leave()


def test_who_commits_as_the_generation_before_moves_no_offset_back(
    bootstrap: str, client: BlockingClient, topic: str
) -> None:
    first, place, group = driver(bootstrap, f"app-{topic}", "one"), TopicPartition(topic, 0), f"app-{topic}"
    before = first.join()
    now = asyncio.run(first.renew())
    assert now is not None and now.member_id == before.member_id and now.generation > before.generation
    assert first.member == now
    client.commit_offsets(group, {place: Offset(7)}, member=now)
    with pytest.raises(KafkaError) as refused:
        client.commit_offsets(group, {place: Offset(3)}, member=before)
    assert refused.value.code is ErrorCode.ILLEGAL_GENERATION
    assert client.committed_offsets(group, [place])[place].offset == 7
    first.leave()


def test_many_drivers_live_on_one_loop_and_beat_through_one_client(
    bootstrap: str, client: BlockingClient, sleeping: asyncio.AbstractEventLoop
) -> None:
    shared, told = Client(bootstrap), list[ConsumerGroupMetadata]()
    found = [
        Membership(
            *(bootstrap, f"shared-{number}"), session_ms=SESSION_MS, loop=sleeping, shared=shared, rejoined=told.append
        )
        for number in range(3)
    ]
    before = [each.join() for each in found]
    with asleep(sleeping):
        until(lambda: not any(members(client, each.group) for each in before), "that all sessions are over")
    until(lambda: {each.group for each in told} == {each.group for each in before}, "that all join again")
    for each in found:
        each.leave()
    assert not any(members(client, each.group) for each in before)
    asyncio.run_coroutine_threadsafe(shared.close(), sleeping).result()


def members(client: BlockingClient, group: str) -> int:
    answer = client.request(DescribeGroupsRequest(groups=[group]), coordinator_of=Coordinated(group))
    return len(answer.groups[0].members)


def test_a_driver_goes_on_saying_that_it_lives_after_any_error(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    beat, beats = GroupMember.heartbeat, [0]

    async def failing(self: GroupMember) -> None:
        beats[0] += 1
        if beats[0] == 1:
            raise RuntimeError("a mistake of our own")
        await beat(self)

    monkeypatch.setattr(GroupMember, "heartbeat", failing)
    one = driver(bootstrap, "erring", "one")
    one.join()
    try:
        until(lambda: beats[0] >= 3, lambda: f"{beats[0]} heartbeats")
        assert one.lost is None
    finally:
        one.leave()


def test_a_driver_that_cannot_even_begin_to_join_is_lost_and_not_waited_for(
    bootstrap: str, sleeping: asyncio.AbstractEventLoop
) -> None:
    def unknown() -> None:
        raise ValueError("no such file")

    one = Membership(bootstrap, "unable", session_ms=SESSION_MS, loop=sleeping, network=unknown)
    one.begin()
    until(lambda: one.lost is not None, lambda: "nothing is said")
    assert "no such file" in str(one.lost)
