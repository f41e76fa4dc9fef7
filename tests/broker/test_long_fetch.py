"""Fetches of very many partitions: in slices, with the same answers, sessions and waits as any other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.api import fetch as fetch_api
from ottla.broker.replicas import fetch_answer
from ottla.broker.requests.slices import Pauses
from tests.broker import test_fetch
from tests.broker.node_client import NodeClient, batch, parts, run, running_node
from tests.broker.test_fetch import several, values
from tests.waiting import until_async

STORIES = [
    test_fetch.test_a_session_sends_only_what_is_new,
    test_fetch.test_a_waiting_session_is_answered_with_the_partition_that_has_news,
    test_fetch.test_a_waiting_fetch_is_answered_when_records_come,
    test_fetch.test_a_fetch_waits_for_as_many_bytes_as_it_asks,
    test_fetch.test_a_waiting_fetch_ends_after_its_time,
    test_fetch.test_a_waiting_fetch_hears_that_its_topic_is_gone,
    test_fetch.test_the_limit_of_a_request_is_shared_by_its_partitions,
    test_fetch.test_large_records_come_whole_from_the_file,
    test_fetch.test_a_log_that_went_another_way_is_told_where_to_cut,
]


@pytest.fixture
def all_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request is one of very many partitions, and each slice has one."""
    monkeypatch.setattr(fetch_api, "AT_ONCE_MAX", 0)
    monkeypatch.setattr(fetch_api, "TOGETHER_MAX", 1)
    monkeypatch.setattr(fetch_answer, "WRITTEN_TOGETHER_MAX", 1)


@pytest.mark.usefixtures("all_are_long")
@pytest.mark.parametrize("story", STORIES, ids=lambda each: each.__name__)
def test_a_long_fetch_is_answered_as_any_other(tmp_path: Path, story: Callable[[Path], None]) -> None:
    story(tmp_path)


@pytest.mark.usefixtures("all_are_long")
@pytest.mark.parametrize("version", [4, 7, 12, 13, 18])
def test_every_version_writes_a_long_answer_as_any_other(tmp_path: Path, version: int) -> None:
    test_fetch.test_every_version_hands_out_what_is_stored(tmp_path, version)


def test_a_long_fetch_lets_others_have_their_turn_after_each_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, step = list[int](), Pauses.step

    async def turn(pauses: Pauses, count: int = 1) -> None:
        turns.append(count)
        await step(pauses, count)

    many = fetch_api.AT_ONCE_MAX + 100

    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await client.produce("t", batch(b"x"))
            await client.topic_id("t")
            request = several(client, "t", {0: 1}, session_epoch=-1, max_wait_ms=1)
            (topic,) = request.topics
            request = request.replace(topics=[topic.replace(partitions=topic.partitions * many)])
            monkeypatch.setattr(Pauses, "step", turn)
            answer = await client.ask(request)
            assert [each.error_code for each in answer.responses[0].partitions] == [0] * many

    run(test)
    assert sum(turns) >= many and max(turns) <= max(fetch_api.TOGETHER_MAX, fetch_answer.WRITTEN_TOGETHER_MAX)


@pytest.mark.usefixtures("all_are_long")
@pytest.mark.parametrize("index", [0, 1])
def test_what_comes_while_a_long_fetch_looks_ends_its_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: int
) -> None:
    step = Pauses.step

    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", 2)
            producer = await NodeClient.connect(client.node)
            await client.topic_id("t")
            request = several(client, "t", {0: 0, 1: 0}, session_epoch=-1, max_wait_ms=3_600_000)
            producer.topic_ids = client.topic_ids
            looked = 0

            async def turn(pauses: Pauses, count: int = 1) -> None:
                nonlocal looked
                looked += 1
                if looked == 5:  # two partitions were asked for, and two counted: this is behind the first look
                    await producer.produce("t", batch(b"meanwhile"), index=index)
                await step(pauses, count)

            monkeypatch.setattr(Pauses, "step", turn)
            answer = await client.ask(request)
            found = {each.partition_index: values(each.records) for each in answer.responses[0].partitions}
            assert found == {index: [b"meanwhile"], 1 - index: []}
            assert looked >= 5
            producer.close()

    run(test)


@pytest.mark.usefixtures("all_are_long")
def test_a_client_that_goes_leaves_no_wait_of_its_long_fetch(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", 2)
            consumer = await NodeClient.connect(client.node)
            purgatory = parts(client.node).purgatory
            await client.topic_id("t")
            consumer.topic_ids = client.topic_ids
            before = len(purgatory)
            consumer.send(several(consumer, "t", {0: 0, 1: 0}, session_epoch=-1, max_wait_ms=3_600_000), 18)
            await until_async(lambda: len(purgatory) > before)
            consumer.close()
            await until_async(lambda: len(purgatory) == before)

    run(test)
