"""The console over Apache Kafka: what is shown, planned, run and taken back there is what Ottla's own brokers get."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.admin import alter_share_starts, describe_share_group, share_starts
from ottla.base import KafkaError, Offset, TopicPartition
from ottla.client import LATEST, BlockingClient
from tests import peer
from tests.console.running import RunningConsole, running_console
from tests.ports import free_port
from tests.waiting import until

pytestmark = [pytest.mark.peer, pytest.mark.slow]  # a JVM; make test-console and make compat

SETTINGS = (
    "offsets.topic.replication.factor=1",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    with peer.running_broker(tmp_path_factory.mktemp("kafka"), port, overrides=SETTINGS):
        found = f"127.0.0.1:{port}"
        asking = AdminClient({"bootstrap.servers": found})
        for each in asking.create_topics([NewTopic("orders", 3), NewTopic("orders.dlq", 1)]).values():
            each.result()
        producer = Producer({"bootstrap.servers": found, "partitioner": "murmur2_random"})
        for number in range(1000):
            producer.produce("orders", json.dumps({"id": number}), key=f"k{number % 7}")
        headers = {
            "__connect.errors.topic": "orders",
            "__connect.errors.partition": "1",
            "__connect.errors.exception.class.name": "a.B",
        }
        producer.produce("orders.dlq", "dead", headers=headers)
        producer.flush()
        yield found


@pytest.fixture(scope="module")
def console(bootstrap: str) -> Iterator[RunningConsole]:
    with running_console(bootstrap) as found:
        yield found


def test_topics_are_shown_and_searched(console: RunningConsole) -> None:
    assert console.get("/topics/orders")["records"] == 1000
    frames = console.scan(topic="orders", where="value.id = 777", **{"from": "oldest"})
    assert [
        json.loads(row["value"]["text"])["id"] for each in frames if each["type"] == "rows" for row in each["rows"]
    ] == [777]
    frames = console.scan(topic="orders", key="k3", **{"from": "oldest"}, hits=1000)
    assert sum(len(each["rows"]) for each in frames if each["type"] == "rows") == 143


def test_a_setting_a_quota_and_a_password_are_set_and_taken_back(console: RunningConsole) -> None:
    for action, arguments in (
        ("alter-config", {"type": "topics", "name": "orders", "set": {"retention.ms": "100000"}}),
        ("alter-quotas", {"entity": {"client-id": "c"}, "set": {"consumer_byte_rate": 1000}}),
    ):
        done = console.run(action, **arguments)
        assert done.body["outcome"] == "done", done
        plan = console.post(f"/audit/{done.body['id']}/undo", {}).body
        assert console.post(f"/plans/{plan['id']}/run", {"hash": plan["hash"]}).body["outcome"] == "done"
    assert console.get("/quotas")["items"] == []
    assert console.run("set-password", user="dora", password="secret").body["outcome"] == "done"
    assert [each["user"] for each in console.get("/users")["items"]] == ["dora"]
    assert console.get("/access") == {
        "operations": console.get("/access")["operations"],
        "secured": False,
        "items": [],
        "total": 0,
        "cursor": None,
    }


def test_the_quorum_producers_and_transactions_are_shown(console: RunningConsole, bootstrap: str) -> None:
    found = console.get("/quorum")
    assert [each["is_leader"] for each in found["voters"]] == [True] and found["features"]
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", "x", partition=0)
    producer.flush(30)
    (row,) = console.get("/transactions")["items"]
    assert (row["id"], row["state"], row["partitions"]) == ("writer", "Ongoing", ["orders-0"])
    done = console.run("terminate-transaction", typed="writer", transactional_id="writer")
    assert done.body["outcome"] == "done", done
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)


def test_a_dead_letter_is_sent_back_once(console: RunningConsole) -> None:
    (group,) = console.get("/dlq/orders.dlq")["groups"]
    assert (group["cause"], group["count"], group["done"]) == ("B", 1, 0)
    assert console.run("redrive", topic="orders.dlq").body["outcome"] == "done"
    frames = console.scan(topic="orders", where="dead")
    (row,) = [row for each in frames if each["type"] == "rows" for row in each["rows"]]
    assert (row["partition"], row["headers"][0]["name"]) == (1, "ottla.redriven.from")
    assert console.post("/plans", {"action": "redrive", "arguments": {"topic": "orders.dlq"}}).status == 400


def test_a_topic_is_made_emptied_and_deleted(console: RunningConsole) -> None:
    assert console.run("create-topic", topic="fresh", partitions=2).body["outcome"] == "done"
    assert console.post("/topics/fresh/records", {"value": "v"}).status == 201
    assert console.run("empty-topic", typed="fresh", topic="fresh").body["outcome"] == "done"
    assert console.run("delete-topic", typed="fresh", topic="fresh").body["outcome"] == "done"
    until(lambda: console.ask("GET", "/api/c/cluster/topics/fresh").status == 404, every=0.3)


def test_a_share_group_is_listed_with_its_lag_from_where_it_begins(console: RunningConsole, bootstrap: str) -> None:
    with BlockingClient(bootstrap) as client:
        alter_share_starts(client, "sharing", {TopicPartition("orders", 0): Offset(3)})
        end = client.list_offsets({TopicPartition("orders", 0): LATEST})[TopicPartition("orders", 0)].offset

    def row() -> dict[str, object] | None:
        rows = console.get("/groups")["items"]
        return next((each for each in rows if each["name"] == "sharing" and each["topics"]), None)

    found = until(row, seconds=60, every=0.5)
    assert (found["type"], found["topics"], found["lag"]) == ("share", ["orders"], end - 3)


def test_it_is_shown_how_often_a_share_groups_records_were_delivered(console: RunningConsole, bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("jobs", 1)])["jobs"].result()
    with BlockingClient(bootstrap) as client:
        crew = partial(alter_share_starts, client, "crew", {TopicPartition("jobs", 0): Offset(0)})
        # Kafka's coordinator may hear of a topic after its Metadata tells it
        until(lambda: crew() is None, every=0.2, past=(KafkaError,))
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        producer.produce("jobs", str(number))
    producer.flush()
    share = ("--bootstrap-server", bootstrap, "--topic", "jobs", "--group", "crew", "--timeout-ms", "8000")
    said = [peer.tool("share-consumer", *share, "--release", "--max-messages", "4")]
    said += [peer.tool("share-consumer", *share, "--reject", "--max-messages", "2")]

    def kept() -> dict[str, object] | None:
        answer = console.ask("GET", "/api/c/cluster/groups/crew/deliveries")
        items = answer.body["items"] if answer.status == 200 else []
        return items[0] if items and (items[0]["archived"] or items[0]["start"]) else None

    found = until(kept, lambda: said, seconds=60, every=0.5)
    assert sum(found["tried"].values()) + found["archived"] + found["start"] >= 4, found
    assert console.ask("GET", "/api/c/cluster/groups/nobody/deliveries").status == 404


def test_a_share_group_is_reset_taken_back_and_deleted(console: RunningConsole, bootstrap: str) -> None:
    with BlockingClient(bootstrap) as client:
        alter_share_starts(client, "pool", {TopicPartition("orders", each): Offset(5) for each in range(3)})
        page = until(lambda: console.ask("GET", "/api/c/cluster/groups/pool").body, seconds=60, every=0.5)
        assert (page["type"], page["state"], page["members"], page["members_error"]) == ("share", "Empty", [], "")
        done = console.run("reset-offsets", group="pool", topic="orders", to="earliest")
        assert done.body["outcome"] == "done", done
        assert set(share_starts(client, "pool").values()) == {0}
        plan = console.post(f"/audit/{done.body['id']}/undo", {}).body
        assert console.post(f"/plans/{plan['id']}/run", {"hash": plan["hash"]}).body["outcome"] == "done"
        assert set(share_starts(client, "pool").values()) == {5}
        forgotten = console.run("forget-topic", group="pool", topic="orders")
        assert forgotten.body["outcome"] == "done" and "kafka-share-groups.sh --delete-offsets" in json.dumps(
            forgotten.body
        )
        assert share_starts(client, "pool") == {}
        plan = console.post(f"/audit/{forgotten.body['id']}/undo", {}).body
        assert console.post(f"/plans/{plan['id']}/run", {"hash": plan["hash"]}).body["outcome"] == "done"
        assert set(share_starts(client, "pool").values()) == {5}
        shift = {"group": "pool", "topic": "orders", "to": "shift"}
        refused = console.post("/plans", {"action": "reset-offsets", "arguments": shift})
        assert 400 <= refused.status < 500, refused
        assert "A share group is reset to one of earliest, latest, time, offset" in json.dumps(refused.body)
        done = console.run("delete-group", typed="pool", group="pool")
        assert done.body["outcome"] == "done", done
        with pytest.raises(KafkaError, match="not found"):
            describe_share_group(client, "pool")
