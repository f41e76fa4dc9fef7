"""Dead letters: grouped by their causes, sent back to where they came from, each once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.admin import is_dead_letter_topic
from ottla.admin.dead_letters import FROM
from ottla.base import Millis, Offset
from ottla.base import TopicPartition as Partition
from ottla.client import Client
from ottla.console.records.redrives import ToOrigins
from ottla.console.records.replays import Replay
from ottla.wire import Record
from tests.console.running import RunningConsole, running_console
from tests.server import Server, running_server
from tests.waiting import until

CONNECT, STREAMS, SPRING = "__connect.errors.", "__streams.errors.", "kafka_dlt-"


def said_by(family: str, number: int) -> list[tuple[str, bytes]]:
    text = str(number).encode()
    if family == CONNECT:
        said = {"topic": b"orders", "partition": b"1", "offset": text, "exception.class.name": b"a.b.DataException"}
        said |= {"exception.message": b"row %d is bad" % number, "exception.stacktrace": b"at x"}
    elif family == STREAMS:
        said = {"topic": b"orders", "partition": b"0", "offset": text, "exception": b"c.SerializationException"}
    else:
        said = {"original-topic": b"orders", "original-partition": (2).to_bytes(4, "big")}
        said |= {"original-offset": number.to_bytes(8, "big"), "exception-fqcn": b"d.TimeoutException"}
        said |= {"exception-message": b"after %d ms at 0xff" % number}
    return [("own", b"kept"), *((family + name, value) for name, value in said.items())]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(
        tmp_path_factory.mktemp("broker"), overrides=["transaction.state.log.num.partitions=1"]
    ) as found:
        asking = AdminClient({"bootstrap.servers": found.bootstrap})
        for each in asking.create_topics([NewTopic("orders", 3), NewTopic("orders.dlq", 2)]).values():
            each.result()
        producer = Producer({"bootstrap.servers": found.bootstrap})
        for number in range(300):
            family = (CONNECT, STREAMS, SPRING)[number % 3]
            producer.produce("orders.dlq", json.dumps({"n": number}), key=f"k{number}", headers=said_by(family, number))
        producer.produce("orders.dlq", "stray", key="stray")
        producer.flush()
        yield found


@pytest.fixture(scope="module")
def console(server: Server) -> Iterator[RunningConsole]:
    with running_console(server.bootstrap) as found:
        yield found


def orders(server: Server) -> list[Any]:
    """What a consumer of committed records sees in the topic that letters came from."""
    return committed(server, "orders", 3)


def committed(server: Server, topic: str, partitions: int) -> list[Any]:
    """What a consumer of committed records sees in a topic."""
    reader = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "check", "isolation.level": "read_committed"})
    reader.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
    ends = sum(reader.get_watermark_offsets(TopicPartition(topic, each), timeout=20)[1] for each in range(partitions))
    found: list[Any] = []
    while ends and (record := reader.poll(2.0)) is not None:
        found.append(record)
    reader.close()
    return found


def test_letters_are_grouped_and_each_is_sent_back_once(server: Server, console: RunningConsole) -> None:
    assert [each["name"] for each in console.get("/dlq")["items"]] == ["orders.dlq"]
    groups = console.get("/dlq/orders.dlq")["groups"]
    assert {each["cause"]: (each["count"], each["family"]) for each in groups} == {
        "DataException: row N is bad": (100, "Connect"),
        "SerializationException": (100, "Streams"),
        "TimeoutException: after N ms at N": (100, "Spring"),
        "no reason given": (1, "unknown"),
    }
    one = {"topic": "orders.dlq", "cause": "DataException: row N is bad"}
    first = console.run("redrive", **one)
    assert first.body["outcome"] == "done", first
    again = console.post("/plans", {"action": "redrive", "arguments": one})
    assert again.status == 400 and "all of them have been sent back" in again.body["message"], again
    sent = orders(server)
    assert {each.partition() for each in sent} == {1} and len(sent) == 100
    assert dict(sent[0].headers()).keys() == {"own", "ottla.redriven.from"}
    plans = [console.post("/plans", {"action": "redrive", "arguments": {"topic": "orders.dlq"}}).body for _ in range(3)]
    assert plans[0]["diff"] == [{"path": "topic orders/records sent back from orders.dlq", "before": 0, "after": 200}]
    with ThreadPoolExecutor(3) as together:  # three people at once: two of them send nothing twice
        list(together.map(lambda plan: console.post(f"/plans/{plan['id']}/run", {"hash": plan["hash"]}), plans))
    sent = orders(server)
    assert sorted(json.loads(each.value())["n"] for each in sent) == list(range(300))
    assert {json.loads(each.value())["n"] % 3: each.partition() for each in sent} == {0: 1, 1: 0, 2: 2}
    assert {each["cause"]: each["done"] for each in console.get("/dlq/orders.dlq")["groups"]}[
        "SerializationException"
    ] == 100


def test_letters_are_mended_by_sql_before_they_are_sent_back(server: Server, console: RunningConsole) -> None:
    asking = AdminClient({"bootstrap.servers": server.bootstrap})
    for each in asking.create_topics([NewTopic("mended", 1), NewTopic("mended.dlq", 1)]).values():
        each.result()
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for number in range(20):
        value = json.dumps({"n": number}) if number else "broken"
        producer.produce("mended.dlq", value, key="k", headers=said_by(CONNECT, number))
    producer.flush()
    asked = {"topic": "mended.dlq", "to": "mended", "fix": "value.n = value.n * 2, headers['by'] = 'hand'"}
    plan = console.post("/plans", {"action": "redrive", "arguments": asked}).body
    assert plan["diff"][:3] == [
        {"path": "topic mended/records sent back from mended.dlq", "before": 0, "after": 19},
        {"path": "mended.dlq-0@1/value.n", "before": 1, "after": 2},
        {"path": "mended.dlq-0@1/headers.by", "before": None, "after": "hand"},
    ]
    assert len(plan["diff"]) == 1 + 2 * 10, "ten are tried"
    assert any("does not fit 1 letters" in each and "mended.dlq-0@0" in each for each in plan["warnings"])
    done = console.post(f"/plans/{plan['id']}/run", {"hash": plan["hash"]}).body
    assert done["outcome"] == "done", done
    found = console.scan(topic="mended", **{"from": "oldest"})
    sent = [row for frame in found if frame["type"] == "rows" for row in frame["rows"]]
    assert [json.loads(each["value"]["text"])["n"] for each in sent] == [2 * number for number in range(1, 20)]
    assert {header["name"] for header in sent[0]["headers"]} == {"own", "by", "ottla.redriven.from"}
    wrong = console.post("/plans", {"action": "redrive", "arguments": {**asked, "fix": "value.n >"}})
    assert wrong.status == 400 and "line 1" in wrong.body["message"]
    none = console.post("/plans", {"action": "redrive", "arguments": {**asked, "fix": "value.x.y = 1"}})
    assert none.status == 400 and "fits none" in none.body["message"]


def test_letters_are_sent_back_at_a_rate_paused_and_gone_on_with_each_once(
    server: Server, console: RunningConsole
) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    for each in admin.create_topics([NewTopic("slow.dlq", 2), NewTopic("slow", 1)]).values():
        each.result()
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for number in range(200):
        said = {"topic": b"slow", "exception.class.name": b"a.b.DataException" if number % 2 else b"a.b.Other"}
        headers = [(CONNECT + name, value) for name, value in said.items()]
        producer.produce("slow.dlq", json.dumps({"n": number}), key=f"k{number}", headers=headers)
    producer.flush()
    asked = {"topic": "slow.dlq", "cause": "DataException", "fix": "value.mended = true", "rate": 40}
    plan = console.post("/plans", {"action": "redrive", "arguments": asked}).body
    assert any("it takes 2 s" in each for each in plan["effects"]), plan
    assert "rate=40" in plan["cli"]
    done = console.post(f"/plans/{plan['id']}/run", {"hash": plan["hash"]})
    assert done.body["outcome"] == "done", done

    def job() -> Any:
        return next(each for each in console.get("/replays")["items"] if each["source"] == "slow.dlq")

    name = job()["id"]
    until(lambda: job()["written"] >= 10)
    assert console.post(f"/replays/{name}/pause", {}).status == 200
    assert job()["state"] == "paused" and job()["written"] < 100
    assert console.post(f"/replays/{name}/resume", {}).status == 200
    until(lambda: job()["state"] == "done")
    assert job()["written"] == 100 and job()["target"] == "" and job()["letters"]["cause"] == "DataException"
    values = [json.loads(each.value()) for each in committed(server, "slow", 1)]
    assert sorted(each["n"] for each in values) == list(range(1, 200, 2))
    assert all(each["mended"] is True for each in values)
    again = console.post("/plans", {"action": "redrive", "arguments": asked})
    assert again.status == 400 and "all of them have been sent back" in again.body["message"], again


class Headers(tuple[tuple[str, bytes], ...]):
    """Headers that count how often they are gone through."""

    times = 0

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        self.times += 1
        return super().__iter__()


def test_a_letter_that_is_sent_at_a_rate_is_parsed_once(server: Server) -> None:
    headers = Headers([(f"{CONNECT}topic", b"orders"), (f"{CONNECT}partition", b"1"), ("own", b"x")])
    record = Record(offset=Offset(0), timestamp=Millis(1), key=b"k", value=b"v", headers=headers)

    async def sent() -> list[tuple[Partition, Record]]:
        client = Client(server.bootstrap)
        try:
            letters = ToOrigins(Replay("r", "orders.dlq", "", {0: 0}, {0: 1}, letters={}))
            await letters.begin(client)
            assert await letters.matching(0, [record]) == [True]
            return letters.written(0, record)
        finally:
            await client.close()

    again, remembered = asyncio.run(sent())
    assert again[0] == Partition("orders", 1) and [name for name, _ in again[1].headers] == ["own", FROM]
    assert remembered[1].value == b"orders"
    assert headers.times == 2, "once to know what it says, once to keep its own"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "topic is needed"),
        ({"topic": "nothing"}, "no topic nothing"),
        ({"topic": "orders.dlq", "cause": "no reason given"}, "where it came from"),
        ({"topic": "orders.dlq", "cause": "no reason given", "to": "orders.dlq"}, "to itself"),
        ({"topic": "orders.dlq", "cause": "no reason given", "to": "nowhere"}, "no topic nowhere"),
        ({"topic": "orders.dlq", "cause": 1}, "are texts"),
    ],
)
def test_what_cannot_be_sent_back_says_why(console: RunningConsole, arguments: dict[str, Any], words: str) -> None:
    answer = console.post("/plans", {"action": "redrive", "arguments": arguments})
    assert answer.status in (400, 404) and words in answer.body["message"], answer


def test_names_that_say_dead_letters() -> None:
    names = ("orders.dlq", "dlq-orders", "a_DLT", "x.dead-letters", "dead_letter.y", "deadletters")
    assert all(is_dead_letter_topic(each) for each in names)
    assert not any(is_dead_letter_topic(each) for each in ("orders", "dlqueue2", "undead"))
