"""Replays: each record once in the target, whatever is killed in the middle; pause, go on, cancel, and who may."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.base import KafkaError
from ottla.client import LATEST, Client
from ottla.console.own_topic import OwnTopic
from ottla.console.records.replay_jobs import ReplayJobs
from ottla.console.records.replays import FROM_HEADER, Replay, Replaying, counted
from ottla.wire import Record
from tests.console.running import RunningConsole, running_console
from tests.ports import free_port
from tests.server import Server, running_server
from tests.waiting import until, until_async

RECORDS = 6000
PARTITIONS = 3
FAILED_EACH = 10
SLOWER = 1.04
"""How much more time each turn has than the one before: a machine that is busy comes to the end, too."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    overrides = ["offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1"]
    with running_server(tmp_path_factory.mktemp("broker"), overrides=overrides) as found:
        make(found, "orders", PARTITIONS)
        producer = Producer({"bootstrap.servers": found.bootstrap, "linger.ms": 5, "batch.num.messages": 100})
        for index in range(RECORDS):
            value = {"id": index, "status": "FAILED" if index % FAILED_EACH == 0 else "OK"}
            producer.produce("orders", json.dumps(value), key=f"c-{index % 50}", headers={"n": str(index)})
        producer.flush()
        yield found


def make(server: Server, topic: str, partitions: int = 2) -> str:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result()
    return topic


def found_in(server: Server, topic: str) -> list[Any]:
    """Return the committed records of a topic, as librdkafka reads them."""
    settings = {"bootstrap.servers": server.bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    count = len(consumer.list_topics(topic).topics[topic].partitions)
    consumer.assign([Place(topic, index, 0) for index in range(count)])
    records, ended = [], 0
    while ended < count:
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            ended += 1
        else:
            records.append(message)
    consumer.close()
    return records


def whence(records: Sequence[Any]) -> Counter[str]:
    return Counter(dict(each.headers())[FROM_HEADER].decode() for each in records)


def check(server: Server, target: str, expected: int, each: int = 1) -> None:
    """Assert that every record is there once, with its own key, value, headers and time, and says whence it came."""
    records = found_in(server, target)
    originals = {f"orders-{one.partition()}@{one.offset()}": one for one in found_in(server, "orders")}
    times = whence(records)
    assert len(records) == expected and set(times.values()) == {1}
    for one in records:
        was = originals[dict(one.headers())[FROM_HEADER].decode()]
        assert (one.key(), one.value(), one.timestamp()) == (was.key(), was.value(), was.timestamp())
        assert one.headers()[:-1] == was.headers()
        assert json.loads(one.value())["id"] % each == 0


def replay(target: str, **more: Any) -> Replay:
    bounds = dict.fromkeys(range(PARTITIONS), RECORDS)  # beyond the ends; narrowed by `bounded`
    return Replay(f"{abs(hash(target)) % 16**12:012x}", "orders", target, dict.fromkeys(bounds, 0), bounds, **more)


async def bounded(client: Client, found: Replay) -> Replay:
    await client.metadata([found.source])
    places = client.cluster.partitions_of(found.source)
    ends = await client.list_offsets(dict.fromkeys(places, LATEST))
    return replace(found, ends={each.partition: int(one.offset) for each, one in ends.items()})


async def everything(index: int, records: Sequence[Record]) -> list[bool]:
    return [True] * len(records)


async def failed(index: int, records: Sequence[Record]) -> list[bool]:
    return [b'"FAILED"' in (each.value or b"") for each in records]


@pytest.mark.parametrize("seed", range(3))
def test_a_replay_that_is_ended_anywhere_writes_each_record_once(server: Server, seed: int) -> None:
    target, random = make(server, f"ended-{seed}"), Random(seed)

    async def test() -> None:
        client = Client(server.bootstrap)
        wanted = await bounded(client, replay(target))
        for turn in range(200):
            other = Client(server.bootstrap)
            replaying = Replaying(other, wanted, everything)
            task = asyncio.create_task(replaying.run())
            done, _ = await asyncio.wait([task], timeout=random.uniform(0.005, 0.12) * SLOWER**turn)
            if done:
                task.result()
                assert replaying.written == RECORDS and replaying.share == 1.0
                await other.close()
                break
            if random.random() < 0.5:
                await other.close()  # as a process that is killed: nothing is ended
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await other.close()
        else:
            pytest.fail("it has not come to its end")
        await client.close()

    asyncio.run(test())
    check(server, target, RECORDS)


class Own:
    """A user's place with nothing hidden, and its cluster, for whom the console reads and writes."""

    who = "own"

    def __init__(self, server: Server) -> None:
        self.cluster: Any = self
        self.server = server

    def reader(self) -> Client:
        return Client(self.server.bootstrap)

    def values(self, topic: str) -> None: ...

    def hidden(self, topic: str) -> None: ...


def test_a_replay_that_is_ended_as_it_is_begun_neither_runs_on_nor_passes_for_running(server: Server) -> None:
    async def story() -> None:
        place, target = Own(server), make(server, "begun")
        async with Client(server.bootstrap) as client:
            jobs = ReplayJobs(OwnTopic(client, "begun_jobs", {}), home="home", now_ms=lambda: 1)
            found = await bounded(client, replay(target, rate=1))
            await jobs.begin(place, found)
            await jobs.pause(found.id)  # before its first step: it has not begun to run
            begun, ended = await asyncio.gather(
                jobs.resume(place, found.id), jobs.cancel(found.id), return_exceptions=True
            )
            assert begun is None and "ask again" in str(ended)
            assert jobs.rows()[0]["state"] == "running"
            await jobs.cancel(found.id)
            assert (jobs.rows()[0]["state"], jobs.rows()[0]["share"]) == ("cancelled", None)
            await jobs.stop()

    asyncio.run(story())


def test_of_two_that_replay_the_same_one_is_fenced_and_nothing_is_doubled(server: Server) -> None:
    target = make(server, "fenced")

    async def test() -> None:
        clients = [Client(server.bootstrap) for _ in range(2)]
        wanted = await bounded(clients[0], replay(target))
        slow = replace(wanted, rate=500)
        first, second = Replaying(clients[0], slow, everything), Replaying(clients[1], wanted, everything)
        running = asyncio.create_task(first.run())
        await until_async(lambda: first.written or running.done(), every=0.001)
        await second.run()
        with pytest.raises(KafkaError):
            await running
        assert second.written == RECORDS
        for each in clients:
            await each.close()

    asyncio.run(test())
    check(server, target, RECORDS)


def test_only_what_is_wanted_is_counted_and_written(server: Server) -> None:
    target = make(server, "wanted")

    async def test() -> None:
        client = Client(server.bootstrap)
        wanted = await bounded(client, replay(target, rate=100_000))
        found = await counted(client, wanted, failed)
        assert (found.looked, found.hits, found.is_whole) == (RECORDS, RECORDS // FAILED_EACH, True)
        await Replaying(client, wanted, failed).run()
        again = Replaying(client, wanted, failed)
        await again.run()
        assert again.written == RECORDS // FAILED_EACH, "it has come to its end before"
        await client.close()

    asyncio.run(test())
    check(server, target, RECORDS // FAILED_EACH, FAILED_EACH)


@pytest.fixture(scope="module")
def console(server: Server) -> Iterator[RunningConsole]:
    masks = json.dumps([{"topics": "secret", "path": "value.card", "how": "hide"}])
    with running_console(server.bootstrap, "--override", f"ottla.console.masks={masks}") as found:
        yield found


def job(console: RunningConsole, target: str) -> Any:
    return next(each for each in console.get("/replays")["items"] if each["target"] == target)


def test_a_replay_is_planned_paused_gone_on_with_and_done(server: Server, console: RunningConsole) -> None:
    target = make(server, "planned")
    asked = {"source": "orders", "target": target, "where": "value.status = 'FAILED'", "rate": 150}
    plan = console.post("/plans", {"action": "replay", "arguments": asked}).body
    assert [(each["path"], each["after"]) for each in plan["diff"]] == [
        ("topic planned/records from orders", RECORDS // FAILED_EACH)
    ]
    assert f"{RECORDS // FAILED_EACH} of {RECORDS:,} records" in plan["effects"][0] and "4 s" in plan["effects"][-1]
    done = console.post(f"/plans/{plan['id']}/run", {"hash": plan["hash"]}).body
    assert done["outcome"] == "done", done
    name = job(console, target)["id"]
    until(lambda: job(console, target)["written"] > 0)
    assert console.post(f"/replays/{name}/pause", {}).status == 200
    assert job(console, target)["state"] == "paused"
    seen = job(console, target)["written"]
    assert 0 < seen < RECORDS // FAILED_EACH
    assert "is paused" in console.post(f"/replays/{name}/pause", {}).body["message"]
    assert console.post(f"/replays/{name}/resume", {}).status == 200
    until(lambda: job(console, target)["state"] == "done")
    assert job(console, target)["written"] == RECORDS // FAILED_EACH
    assert "is done" in console.post(f"/replays/{name}/cancel", {}).body["message"]
    check(server, target, RECORDS // FAILED_EACH, FAILED_EACH)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"target": "orders"}, "to itself"),
        ({"target": "nothing"}, "There is no topic nothing"),
        ({"source": "nothing"}, "There is no topic nothing"),
        ({"rate": 0}, "rate is records a second"),
        ({"rate": "1"}, "rate is a whole number"),
        ({"where": "value.status ="}, "line 1"),
        ({"where": "value.status = 'NONE'"}, "nothing to replay"),
        ({"from": "newest"}, "from is one of oldest"),
        ({"from": "offset"}, "from offset needs at"),
        ({"source": "secret"}, "masked"),
        ({"counted": {}, "positions": {}}, "No such replay was planned"),
        (
            {"id": "../x", "positions": {}, "ends": {}, "counted": {"looked": 1, "hits": 1, "is_whole": True}},
            "No such replay was planned",
        ),
    ],
)
def test_what_cannot_be_replayed_says_why(
    server: Server, console: RunningConsole, asked: dict[str, Any], words: str
) -> None:
    for name in ("asked", "secret"):
        if name not in AdminClient({"bootstrap.servers": server.bootstrap}).list_topics().topics:
            make(server, name)
    arguments = {"source": "orders", "target": "asked", **asked}
    answer = console.post("/plans", {"action": "replay", "arguments": arguments})
    assert 400 <= answer.status < 500 and words in answer.body["message"], answer


def test_a_target_that_goes_away_fails_the_replay_and_one_that_is_cancelled_stays_so(
    server: Server, console: RunningConsole
) -> None:
    target = make(server, "goes")
    assert console.run("replay", source="orders", target=target, rate=50).body["outcome"] == "done"
    name = job(console, target)["id"]
    until(lambda: job(console, target)["written"] > 0)
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.delete_topics([target])[target].result()
    until(lambda: job(console, target)["state"] == "failed" or job(console, target)["trouble"])
    assert console.post(f"/replays/{name}/cancel", {}).status == 200
    assert job(console, target)["state"] == "cancelled"
    assert console.post(f"/replays/{name}/resume", {}).status == 400
    assert console.post("/replays/none/resume", {}).status == 404


def test_a_console_that_is_killed_goes_on_with_its_replay_when_it_starts_again(server: Server) -> None:
    target, place = make(server, "killed"), f"127.0.0.1:{free_port()}"
    options = ("--override", f"ottla.console.listeners={place}")
    with running_console(server.bootstrap, *options) as first:
        assert first.run("replay", source="orders", target=target, rate=3000).body["outcome"] == "done"
        until(lambda: job(first, target)["written"] > RECORDS // 5)
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
    with running_console(server.bootstrap, *options) as second:
        until(lambda: second.get("/replays")["items"])
        until(lambda: job(second, target)["state"] == "done")
        assert job(second, target)["written"] == RECORDS
    check(server, target, RECORDS)
