"""A sink task's loop against a broker: what is put, which offsets are committed, rebalances, errors and dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from ottla.base import TopicPartition
from ottla.client import BlockingClient
from ottla.connect import SinkConnector, SinkRecord, SinkTask
from ottla.connect.storage import State
from tests.spark.conftest import create_topic
from tests.spark.running import Port, await_true, running, spec_of


class KeepingTask(SinkTask):
    """Keeps what it is given, under its connector's name; a test may make it fail."""

    kept: ClassVar[dict[str, list[SinkRecord]]] = {}
    calls: ClassVar[dict[str, list[Any]]] = {}
    live: ClassVar[dict[str, KeepingTask]] = {}
    troubles: ClassVar[dict[str, Any]] = {}

    def start(self, props: Mapping[str, str]) -> None:
        self.props, self.name = dict(props), props["name"]
        KeepingTask.live[self.name] = self
        self.records = KeepingTask.kept.setdefault(self.name, [])
        self.log = KeepingTask.calls.setdefault(self.name, [])
        self.log.append("start")

    def open(self, partitions: Any) -> None:
        self.log.append(("open", sorted(partitions)))

    def put(self, records: Any) -> None:
        trouble = KeepingTask.troubles.get(self.name)
        if trouble is not None and records:
            trouble(self, records)
        self.records += records

    def close(self, partitions: Any) -> None:
        self.log.append(("close", sorted(partitions)))

    def stop(self) -> None:
        self.log.append("stop")


class Keeping(SinkConnector):
    task_class = KeepingTask


def config(name: str, topics: str, **more: str) -> dict[str, str]:
    own = {key.replace("_", "."): value for key, value in more.items()}
    return {"name": name, "connector.class": "Keeping", "topics": topics, **own}


def produce(broker: str, topic: str, values: Any, **more: Any) -> None:
    producer = Producer({"bootstrap.servers": broker})
    for value in values:
        producer.produce(topic, value=value, **more)
    assert producer.flush(30) == 0


def committed(broker: str, group: str, topic: str, partitions: int = 1) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker, "group.id": group})
    found = consumer.committed([Place(topic, each) for each in range(partitions)], timeout=10)
    consumer.close()
    return [each.offset for each in found]


def test_records_are_put_and_committed_behind_the_task(broker: str, client: BlockingClient) -> None:
    topic = create_topic(client, "sunk", 1)
    produce(broker, topic, (b"%d" % n for n in range(1200)), key="7", headers=[("h", b"1")])
    port = Port()
    with running(spec_of(broker, config("sunk", topic)), Keeping, port=port) as task:
        await_true(lambda: len(KeepingTask.kept.get("sunk", ())) == 1200, "all records are put")
        await_true(lambda: committed(broker, "connect-sunk", topic) == [1200], "the offset is committed")
        assert port.state is State.RUNNING
        assert task.stop() is State.UNASSIGNED
    records = KeepingTask.kept["sunk"]
    assert [each.value for each in records] == list(range(1200))
    assert [each.offset for each in records] == list(range(1200))
    assert {(each.key, each.headers[0].key, each.headers[0].value) for each in records} == {(7, "h", 1)}
    only = [TopicPartition(topic, 0)]
    assert KeepingTask.calls["sunk"] == ["start", ("open", only), ("close", only), "stop"]
    assert port.topics == {topic}
    assert port.metrics["sink-record-send-total"] == 1200
