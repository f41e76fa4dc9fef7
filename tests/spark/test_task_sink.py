"""A sink task's loop against a broker: what is put, which offsets are committed, rebalances, errors and dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from ottla.base import TopicPartition
from ottla.client import BlockingClient
from ottla.connect import ConnectError, RetriableError, SinkColumns, SinkConnector, SinkRecord, SinkTask
from ottla.connect.storage import State, TargetState, TaskId
from tests.server import running_server, start_server
from tests.spark.conftest import create_topic, make_again, narrow_topic
from tests.spark.running import Port, await_true, records_of, running, spec_of


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that does not wait for further members of a new group."""
    folder = tmp_path_factory.mktemp("ottla")
    with running_server(folder, overrides=["group.initial.rebalance.delay.ms=0"]) as server:
        yield server.bootstrap


@pytest.fixture(scope="module")
def client(broker: str) -> Iterator[BlockingClient]:
    with BlockingClient(broker) as opened:
        yield opened


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


def test_a_retriable_error_brings_the_same_records_again_and_nothing_else(broker: str, client: BlockingClient) -> None:
    topic, tries = create_topic(client, "retried", 2), []

    def trouble(task: KeepingTask, records: list[SinkRecord]) -> None:
        tries.append([each.value for each in records])
        if len(tries) < 4:
            task.context.timeout(20)
            raise RetriableError("not now")

    KeepingTask.troubles["retried"] = trouble
    for partition in (0, 1):
        produce(broker, topic, (b"%d" % n for n in range(10 * partition, 10 * partition + 10)), partition=partition)
    port = Port()
    with running(spec_of(broker, config("retried", topic)), Keeping, port=port):
        await_true(lambda: len(KeepingTask.kept.get("retried", ())) == 20)
        assert tries[0] == tries[1] == tries[2] == tries[3]
        assert sorted(each.value for each in KeepingTask.kept["retried"]) == list(range(20))
        assert port.state is State.RUNNING


def test_what_put_raises_ends_the_task_and_its_records_come_again(broker: str, client: BlockingClient) -> None:
    topic, port = create_topic(client, "failing", 1), Port()
    produce(broker, topic, (b"%d" % n for n in range(700)))

    def trouble(task: KeepingTask, records: list[SinkRecord]) -> None:
        if records[-1].value >= 600:
            raise OSError("the disk is gone")

    KeepingTask.troubles["failing"] = trouble
    with running(spec_of(broker, config("failing", topic)), Keeping, port=port) as task:
        assert task.ended() is State.FAILED
    assert "Exiting WorkerSinkTask due to unrecoverable exception." in port.trace
    assert "OSError: the disk is gone" in port.trace
    assert committed(broker, "connect-failing", topic) == [500]
    del KeepingTask.troubles["failing"]
    with running(spec_of(broker, config("failing", topic)), Keeping):
        await_true(lambda: len(KeepingTask.kept["failing"]) == 700)
    assert [each.value for each in KeepingTask.kept["failing"]] == list(range(700))


def test_two_tasks_share_the_partitions_and_one_takes_over(broker: str, client: BlockingClient) -> None:
    topic = create_topic(client, "shared", 4)
    settings = config("shared", topic)
    first, second = (spec_of(broker, settings, task=TaskId("shared", n)) for n in (0, 1))

    def opened() -> list[int]:
        calls = KeepingTask.calls.get("shared", [])
        return [len(each[1]) for each in calls if each[0] == "open"]

    with running(first, Keeping):
        await_true(lambda: opened() == [4])
        with running(second, Keeping) as task:
            await_true(lambda: sorted(opened()) == [2, 2, 4], "both have two")
            for partition in range(4):
                produce(broker, topic, [b"%d" % partition], partition=partition)
            await_true(lambda: len(KeepingTask.kept["shared"]) == 4)
            task.stop()
        await_true(lambda: sorted(opened()) == [2, 2, 4, 4], "one has all four again")
        produce(broker, topic, [b"4"], partition=3)
        await_true(lambda: len(KeepingTask.kept["shared"]) == 5)
    assert sorted(each.value for each in KeepingTask.kept["shared"]) == list(range(5)), "nothing came twice"


class AskingTask(KeepingTask):
    """Stores late, goes back, and lets partitions wait."""

    stored: ClassVar[int] = 0

    def pre_commit(self, offsets: Any) -> Any:
        return dict.fromkeys(offsets, AskingTask.stored)


class Asking(Keeping):
    task_class = AskingTask


def asking(name: str, topic: str) -> dict[str, str]:
    return {**config(name, topic), "connector.class": "Asking"}


def test_offsets_are_committed_as_far_as_the_task_has_stored(broker: str, client: BlockingClient) -> None:
    topic = create_topic(client, "stored", 1)
    produce(broker, topic, (b"%d" % n for n in range(10)))
    AskingTask.stored = 4
    settings = spec_of(broker, asking("stored", topic), worker={"offset.flush.interval.ms": "600000"})
    with running(settings, Asking):
        await_true(lambda: len(KeepingTask.kept.get("stored", ())) == 10)
        KeepingTask.live["stored"].context.request_commit()
        await_true(lambda: committed(broker, "connect-stored", topic) == [4])
        AskingTask.stored = 11
    assert committed(broker, "connect-stored", topic) == [4], "what it was not given yet is not committed"
    with running(settings, Asking):
        await_true(lambda: len(KeepingTask.kept["stored"]) == 16)
    assert [each.value for each in KeepingTask.kept["stored"]] == [*range(10), *range(4, 10)]


def test_a_task_goes_back_and_lets_partitions_wait(broker: str, client: BlockingClient) -> None:
    topic = create_topic(client, "asked", 1)
    place = TopicPartition(topic, 0)
    produce(broker, topic, (b"%d" % n for n in range(5)))
    with running(spec_of(broker, config("asked", topic)), Keeping):
        await_true(lambda: len(KeepingTask.kept.get("asked", ())) == 5)
        context = KeepingTask.live["asked"].context
        assert context.assignment == {place}
        context.seek({place: 3})
        await_true(lambda: [each.value for each in KeepingTask.kept["asked"]] == [0, 1, 2, 3, 4, 3, 4])
        context.pause([place])
        produce(broker, topic, [b"5"])
        await_true(lambda: len(records_of(broker, topic)) == 6)
        assert len(KeepingTask.kept["asked"]) == 7
        context.resume([place])
        await_true(lambda: len(KeepingTask.kept["asked"]) == 8)
        with pytest.raises(ConnectError, match="not currently assigned"):
            context.pause([TopicPartition("another", 0)])


def test_a_paused_connector_puts_nothing_and_stays_in_its_group(broker: str, client: BlockingClient) -> None:
    topic, port = create_topic(client, "halted", 1), Port()
    with running(spec_of(broker, config("halted", topic)), Keeping, port=port):
        await_true(lambda: ("open", [TopicPartition(topic, 0)]) in KeepingTask.calls.get("halted", ()))
        port.want(TargetState.PAUSED)
        await_true(lambda: port.state is State.PAUSED)
        produce(broker, topic, [b"1"])
        await_true(lambda: len(records_of(broker, topic)) == 1)
        assert not KeepingTask.kept["halted"]
        port.want(TargetState.STARTED)
        await_true(lambda: len(KeepingTask.kept["halted"]) == 1)
    assert not [each for each in KeepingTask.calls["halted"][2:] if each[0] == "open"], "it never left"


def dead(name: str, topic: str, **more: str) -> dict[str, str]:
    return {
        **config(name, topic, errors_tolerance="all", **more),
        "errors.deadletterqueue.topic.name": f"{topic}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }


def test_bytes_that_are_no_value_become_dead_letters(broker: str, client: BlockingClient) -> None:
    topic, port = create_topic(client, "broken", 1), Port()
    produce(broker, topic, [b"1", b"{", b"3"], key=b'"k"', headers=[("h", b"x")])
    with running(spec_of(broker, dead("broken", topic)), Keeping, port=port):
        await_true(lambda: len(KeepingTask.kept.get("broken", ())) == 2)
        await_true(lambda: committed(broker, "connect-broken", topic) == [3])
        [dead_letter] = records_of(broker, f"{topic}-dead")
    assert (dead_letter.key, dead_letter.value) == (b'"k"', b"{")
    headers = dict(dead_letter.headers)
    assert [name for name, _ in dead_letter.headers][:4] == [
        "h",
        *(f"__connect.errors.{n}" for n in ("topic", "partition", "offset")),
    ]
    assert headers["__connect.errors.topic"] == topic.encode()
    assert (headers["__connect.errors.partition"], headers["__connect.errors.offset"]) == (b"0", b"1")
    assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert headers["__connect.errors.exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    assert port.metrics["total-records-skipped"] == port.metrics["deadletterqueue-produce-requests"] == 1


def test_a_record_that_is_not_tolerated_is_a_dead_letter_too(broker: str, client: BlockingClient) -> None:
    topic, port = create_topic(client, "strict", 1), Port()
    produce(broker, topic, [b"1", b"{"])
    settings = {**dead("strict", topic), "errors.tolerance": "none"}
    with running(spec_of(broker, settings), Keeping, port=port) as task:
        assert task.ended() is State.FAILED
    assert "Tolerance exceeded in error handler" in port.trace
    assert [each.value for each in records_of(broker, f"{topic}-dead")] == [b"{"]


def test_a_task_reports_records_that_it_cannot_store(broker: str, client: BlockingClient) -> None:
    topic, early = create_topic(client, "errant", 1), []
    produce(broker, topic, (b"%d" % n for n in range(600)))

    def trouble(task: KeepingTask, records: list[SinkRecord]) -> None:
        reporter = task.context.errant_records
        assert reporter is not None
        early.append(records[0])
        for each in [*early[:1], *records] if len(early) == 2 else records:
            if each.value in (0, 7, 555):
                reporter.report(each, ValueError(f"no room for {each.value}"))

    KeepingTask.troubles["errant"] = trouble
    with running(spec_of(broker, dead("errant", topic)), Keeping):
        await_true(lambda: len(records_of(broker, f"{topic}-dead")) == 4)
    dead_letters = records_of(broker, f"{topic}-dead")
    assert [each.value for each in dead_letters] == [b"0", b"7", b"0", b"555"], "one of an earlier batch is read again"
    assert dict(dead_letters[3].headers)["__connect.errors.stage"] == b"TASK_PUT"
    assert dict(dead_letters[3].headers)["__connect.errors.exception.message"] == b"no room for 555"


@pytest.mark.parametrize("kind", ["reported", "unreadable"])
def test_nothing_is_committed_behind_a_record_whose_dead_letter_is_refused(
    broker: str, client: BlockingClient, kind: str
) -> None:
    topic, port = create_topic(client, f"refused-{kind}", 1), Port()
    narrow_topic(client, f"{topic}-dead")
    produce(broker, topic, [b"1", b"{" if kind == "unreadable" else b"2", b"3"])

    def trouble(task: KeepingTask, records: list[SinkRecord]) -> None:
        reporter = task.context.errant_records
        assert reporter is not None
        for each in records:
            if each.value == 2:
                reporter.report(each, ValueError("no room"))

    KeepingTask.troubles[f"refused-{kind}"] = trouble
    with running(spec_of(broker, dead(f"refused-{kind}", topic)), Keeping, port=port) as task:
        assert task.ended() is State.FAILED
    assert f"topic={topic}-dead" in port.trace
    assert committed(broker, f"connect-refused-{kind}", topic) == [-1001], "no offset"
    assert KeepingTask.calls[f"refused-{kind}"][-2:] == [("close", [TopicPartition(topic, 0)]), "stop"]


def test_a_record_that_is_put_again_is_reported_once(broker: str, client: BlockingClient) -> None:
    topic, tries = create_topic(client, "again-reported", 1), []
    produce(broker, topic, [b"1", b"2"])

    def trouble(task: KeepingTask, records: list[SinkRecord]) -> None:
        reporter = task.context.errant_records
        assert reporter is not None
        reporter.report(records[0], ValueError("no room"))
        tries.append(1)
        if len(tries) < 5:
            task.context.timeout(1)
            raise RetriableError("its neighbour waits for its parent")

    KeepingTask.troubles["again-reported"] = trouble
    with running(spec_of(broker, dead("again-reported", topic)), Keeping) as task:
        await_true(lambda: committed(broker, "connect-again-reported", topic) == [2])
        task.stop()
    assert [each.value for each in records_of(broker, f"{topic}-dead")] == [b"1"]


def test_topics_by_pattern_are_found_as_they_come(broker: str, client: BlockingClient) -> None:
    create_topic(client, "logs-a", 1)
    settings = {**config("patterned", ""), "topics.regex": r"logs-\p{Alpha}+"}
    made = spec_of(broker, settings, consumer={"metadata.max.age.ms": "200"})
    with running(made, Keeping):
        produce(broker, "logs-a", [b"1"])
        await_true(lambda: len(KeepingTask.kept.get("patterned", ())) == 1)
        create_topic(client, "logs-b", 1)
        create_topic(client, "logs-7", 1)
        produce(broker, "logs-7", [b"0"])
        produce(broker, "logs-b", [b"2"])
        await_true(lambda: len(KeepingTask.kept["patterned"]) == 2)
    assert [each.value for each in KeepingTask.kept["patterned"]] == [1, 2]


@pytest.mark.parametrize("count", [2, 8])
def test_a_topic_that_is_made_again_under_a_running_sink_is_read_from_its_beginning(
    broker: str, client: BlockingClient, count: int
) -> None:
    name = f"renewed-{count}"
    topic = create_topic(client, name, 1)
    produce(broker, topic, [b"%d" % n for n in range(5)])
    port = Port()
    with running(spec_of(broker, config(name, topic)), Keeping, port=port):
        await_true(lambda: len(KeepingTask.kept.get(name, ())) == 5)
        make_again(client, topic)
        produce(broker, topic, [b"%d" % (100 + n) for n in range(count)])
        await_true(lambda: len(KeepingTask.kept[name]) == 5 + count)
        await_true(lambda: committed(broker, f"connect-{name}", topic) == [count])
        assert port.states == [(State.RUNNING, None)]
    values = [each.value for each in KeepingTask.kept[name]]
    assert values == [*range(5), *range(100, 100 + count)]
    only = [TopicPartition(topic, 0)]
    assert KeepingTask.calls[name][:4] == ["start", ("open", only), ("close", only), ("open", only)]


def test_aborted_records_are_not_put(broker: str, client: BlockingClient) -> None:
    topic = create_topic(client, "aborted", 1)
    producer = Producer({"bootstrap.servers": broker, "transactional.id": "aborter"})
    producer.init_transactions(10)
    for value, commits in ((b"1", True), (b"2", False), (b"3", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(10)
        (producer.commit_transaction if commits else producer.abort_transaction)(10)
    with running(spec_of(broker, config("aborted", topic)), Keeping):
        await_true(lambda: len(KeepingTask.kept.get("aborted", ())) == 2)
        await_true(lambda: committed(broker, "connect-aborted", topic) == [6], "behind the last marker")
    assert [each.value for each in KeepingTask.kept["aborted"]] == [1, 3]


def test_a_sink_outlives_a_broker_that_is_started_again(tmp_path: Path) -> None:
    quick = ["group.initial.rebalance.delay.ms=0"]
    first = start_server(tmp_path, overrides=quick)
    port = Port()
    with BlockingClient(first.bootstrap) as client:
        topic = create_topic(client, "endured", 1)
    produce(first.bootstrap, topic, (b"%d" % n for n in range(100)))
    with running(spec_of(first.bootstrap, config("endured", topic)), Keeping, port=port):
        await_true(lambda: len(KeepingTask.kept.get("endured", ())) == 100)
        first.kill()
        second = start_server(tmp_path, port=first.port, overrides=quick)
        try:
            produce(second.bootstrap, topic, (b"%d" % n for n in range(100, 200)))
            await_true(lambda: {each.value for each in KeepingTask.kept["endured"]} == set(range(200)), seconds=60)
            await_true(lambda: committed(second.bootstrap, "connect-endured", topic) == [200])
            assert port.state is State.RUNNING
        finally:
            port.want(TargetState.STOPPED)
            await_true(lambda: port.state is State.UNASSIGNED)
            second.kill()


class BlockTask(KeepingTask):
    """Takes columns; `put` is for what does not go as columns."""

    blocks: ClassVar[list[SinkColumns]] = []

    def put_columns(self, columns: SinkColumns) -> None:
        BlockTask.blocks.append(columns)
        self.records += columns.records()


class Block(Keeping):
    task_class = BlockTask


@pytest.mark.parametrize(
    ("converter", "enveloped"),
    [
        ("org.apache.kafka.connect.json.JsonConverter", "true"),
        ("org.apache.kafka.connect.json.JsonConverter", "false"),
        ("org.apache.kafka.connect.storage.StringConverter", "false"),
        ("org.apache.kafka.connect.converters.ByteArrayConverter", "false"),
    ],
)
def test_columns_and_records_are_the_same_for_a_sink(
    broker: str, client: BlockingClient, converter: str, enveloped: str
) -> None:
    name = f"columns-{converter.rpartition('.')[2].lower()}-{enveloped}"
    topic = create_topic(client, name, 1)
    head = '{"schema":{"type":"string","optional":false},"payload":' if enveloped == "true" else ""
    lines = [f'{head}"line {n} ä"{"}" if head else ""}'.encode() for n in range(2000)]
    worker = {"value.converter": converter, "value.converter.schemas.enable": enveloped}
    BlockTask.blocks.clear()
    kept = KeepingTask.kept
    settings = {**config(f"{name}-Block", topic), "connector.class": "Block"}
    with running(spec_of(broker, settings, worker=worker), Block):
        produce(broker, topic, lines)
        await_true(lambda: len(kept.get(f"{name}-Block", ())) == 2000)
        produce(broker, topic, [lines[0].replace(b"0 ", b"\\n ")])
        produce(broker, topic, lines[:2], headers=[("h", b"1")])
        await_true(lambda: len(kept[f"{name}-Block"]) == 2003)
    with running(spec_of(broker, config(f"{name}-Keeping", topic), worker=worker), Keeping):
        await_true(lambda: len(kept.get(f"{name}-Keeping", ())) == 2003)
    assert KeepingTask.kept[f"{name}-Keeping"] == KeepingTask.kept[f"{name}-Block"]
    assert sum(len(each) for each in BlockTask.blocks) >= 1000, "most of them as columns"
