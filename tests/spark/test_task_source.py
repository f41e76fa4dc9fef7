"""A source task's loop against a broker: what arrives, which offsets are stored, what happens to records that fail."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from ottla.base import ConfigError
from ottla.client import BlockingClient
from ottla.connect import ConnectError, RetriableError, SourceColumns, SourceConnector, SourceRecord, SourceTask
from ottla.connect.data import STRING
from ottla.connect.storage import State, TargetState
from ottla.connect.tasks.creation import creation_groups
from ottla.connect.tasks.submitted import SubmittedRecords
from tests.server import running_server, start_server
from tests.spark.conftest import narrow_topic
from tests.spark.running import Port, await_true, committed_records, records_of, running, spec_of

PARTITION = {"range": "all"}


class CountingTask(SourceTask):
    """Counts to `end`, `batch` numbers a poll, from where its offset says."""

    live: ClassVar[dict[str, Any]] = {}

    def start(self, props: Any) -> None:
        self.props = dict(props)
        self.next = self.context.offset(PARTITION).get("n", 0)
        self.end, self.batch = int(props.get("end", "100")), int(props.get("batch", "10"))
        self.heard: list[tuple[int, int | None]] = []
        self.commits, self.stopped = 0, False
        CountingTask.live[props["name"]] = self

    def poll(self) -> Any:
        if self.next >= self.end:
            return None
        found = [self.record(n) for n in range(self.next, min(self.next + self.batch, self.end))]
        self.next += len(found)
        return found

    def record(self, n: int) -> SourceRecord:
        return SourceRecord(topic=self.props["topic"], value=n, source_partition=PARTITION, source_offset={"n": n + 1})

    def commit(self) -> None:
        self.commits += 1

    def stop(self) -> None:
        self.stopped = True


class Counting(SourceConnector):
    task_class = CountingTask


def config(name: str, **more: str) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": "Counting",
        "topic": name,
        **{k.replace("_", "."): v for k, v in more.items()},
    }


def values(broker: str, topic: str) -> list[int]:
    return sorted(int(each.value or b"") for each in records_of(broker, topic))


def test_records_arrive_once_and_their_offset_is_stored(broker: str) -> None:
    port = Port()
    with running(spec_of(broker, config("counted", end="1000", batch="7")), Counting, port=port) as task:
        await_true(lambda: port.stored.get('{"range": "all"}') == {"n": 1000}, "the offset is stored")
        assert port.state is State.RUNNING
        assert task.stop() is State.UNASSIGNED
    assert values(broker, "counted") == list(range(1000))
    assert port.topics == {"counted"}
    assert CountingTask.live["counted"].stopped and CountingTask.live["counted"].commits
    assert port.metrics["source-record-poll-total"] == port.metrics["source-record-write-total"] == 1000


def test_a_task_goes_on_where_it_stopped(broker: str) -> None:
    port = Port()
    with running(spec_of(broker, config("resumed", end="30")), Counting, port=port) as task:
        await_true(lambda: CountingTask.live.get("resumed") and CountingTask.live["resumed"].next == 30)
        task.stop()
    assert port.stored['{"range": "all"}'] == {"n": 30}, "the end stores what is acknowledged"
    port.want(TargetState.STARTED)
    with running(spec_of(broker, config("resumed", end="50")), Counting, port=port):
        await_true(lambda: port.stored['{"range": "all"}'] == {"n": 50})
    assert values(broker, "resumed") == list(range(50))


def test_offsets_that_cannot_be_stored_are_stored_later(broker: str) -> None:
    port = Port()
    port.refuses = ConnectError("the disk is full")
    with running(spec_of(broker, config("kept", end="20")), Counting, port=port):
        await_true(lambda: port.metrics.get("offset-commit-failure-percentage", 0) > 0, "a commit fails")
        assert port.state is State.RUNNING
        port.refuses = None
        await_true(lambda: port.stored.get('{"range": "all"}') == {"n": 20})


def test_a_paused_task_is_not_polled_and_stores_its_offsets(broker: str) -> None:
    port = Port(TargetState.PAUSED)
    with running(spec_of(broker, config("paused", end="20")), Counting, port=port):
        await_true(lambda: port.state is State.PAUSED)
        assert CountingTask.live["paused"].next == 0
        port.want(TargetState.STARTED)
        await_true(lambda: CountingTask.live["paused"].next == 20)
        port.want(TargetState.PAUSED)
        await_true(lambda: port.state is State.PAUSED)
        await_true(lambda: port.stored.get('{"range": "all"}') == {"n": 20})
    assert [state for state, _ in port.states] == [State.PAUSED, State.RUNNING, State.PAUSED, State.UNASSIGNED]


class TroubledTask(CountingTask):
    """Asks to be polled again at first; has a record that no converter takes, or one that no broker takes."""

    def start(self, props: Any) -> None:
        super().start(props)
        self.polls = 0

    def poll(self) -> Any:
        self.polls += 1
        if self.polls == 1:
            raise RetriableError("not yet")
        if self.props.get("trouble") == "poll":
            raise OSError("the source is gone")
        return super().poll()

    def record(self, n: int) -> SourceRecord:
        made = super().record(n)
        if n != 13 or self.props.get("trouble") is None:
            return made
        if self.props["trouble"] == "large":
            return made.replace(value="x" * (2 << 20))  # type: ignore[no-any-return]
        if self.props["trouble"] == "partition":
            return made.replace(partition=99)  # type: ignore[no-any-return]
        return made.replace(value=object())  # type: ignore[no-any-return]

    def commit_record(self, record: SourceRecord, offset: int | None) -> None:
        self.heard.append((record.source_offset["n"] - 1, offset))


class Troubled(Counting):
    task_class = TroubledTask


def troubled(name: str, **more: str) -> dict[str, str]:
    return {**config(name, **more), "connector.class": "Troubled", "end": "20", "batch": "5"}


def test_a_task_hears_where_each_record_went(broker: str) -> None:
    with running(spec_of(broker, troubled("heard")), Troubled):
        await_true(lambda: CountingTask.live.get("heard") and len(CountingTask.live["heard"].heard) == 20)
    assert CountingTask.live["heard"].heard == [(n, n) for n in range(20)]


def test_what_poll_raises_ends_the_task_with_its_trace(broker: str) -> None:
    port = Port()
    with running(spec_of(broker, troubled("gone", trouble="poll")), Troubled, port=port) as task:
        assert task.ended() is State.FAILED
    assert "OSError: the source is gone" in port.trace
    assert CountingTask.live["gone"].stopped


@pytest.mark.parametrize("trouble", ["value", "large", "partition"])
def test_a_record_that_cannot_be_sent_ends_the_task_behind_those_before_it(broker: str, trouble: str) -> None:
    name, port = f"ends-{trouble}", Port()
    with running(spec_of(broker, troubled(name, trouble=trouble)), Troubled, port=port) as task:
        assert task.ended() is State.FAILED
    expected = {"value": "Tolerance exceeded in error handler", "large": "max.request.size", "partition": "[0...1)"}
    assert expected[trouble] in port.trace
    found = values(broker, name)
    assert found[:13] == list(range(13))
    assert port.stored['{"range": "all"}'] == {"n": 13}, "a restart begins with the record that failed"


@pytest.mark.parametrize("trouble", ["value", "large"])
def test_tolerated_records_are_left_out_and_the_rest_arrives(broker: str, trouble: str) -> None:
    name, port = f"tolerated-{trouble}", Port()
    settings = troubled(name, trouble=trouble, errors_tolerance="all")
    with running(spec_of(broker, settings), Troubled, port=port):
        await_true(lambda: port.stored.get('{"range": "all"}') == {"n": 20})
    assert values(broker, name) == [n for n in range(20) if n != 13]
    assert (13, None) in CountingTask.live[name].heard
    assert port.metrics["total-record-errors"] == 1


@pytest.mark.parametrize("exactly_once", [False, True])
def test_dead_letters_of_a_source_say_where_they_come_from(broker: str, exactly_once: bool) -> None:
    name, port = f"letters-{exactly_once}".lower(), Port()
    queue = f"{name}-dead"
    settings = {
        **troubled(name, trouble="value", errors_tolerance="all"),
        "errors.deadletterqueue.topic.name": queue,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    with running(spec_of(broker, settings, exactly_once=exactly_once), Troubled, port=port):
        await_true(lambda: len(committed_records(broker, queue)) == 1)
        await_true(lambda: len(committed_records(broker, name)) == 19)
    [dead_letter] = [each for each in records_of(broker, queue) if each.value and each.headers]
    headers = dict(dead_letter.headers)
    assert dead_letter.value is not None and b"object object" in dead_letter.value
    assert headers["__connect.errors.source.offset"] == b'{"n": 14}'
    assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert headers["__connect.errors.connector.name"] == name.encode()
    assert headers["__connect.errors.class.name"] == b"org.apache.kafka.connect.json.JsonConverter"


@pytest.mark.parametrize("exactly_once", [False, True])
def test_no_offset_is_stored_behind_a_record_whose_dead_letter_is_refused(
    broker: str, client: BlockingClient, exactly_once: bool
) -> None:
    name, port = f"unsent-letters-{exactly_once}".lower(), Port()
    narrow_topic(client, f"{name}-dead")
    settings = {
        **troubled(name, trouble="value", errors_tolerance="all"),
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    with running(spec_of(broker, settings, exactly_once=exactly_once), Troubled, port=port) as task:
        assert task.ended() is State.FAILED
    assert f"{name}-dead" in port.trace
    if exactly_once:
        assert sorted(int(value or b"") for _, value in committed_records(broker, name)) == list(range(10))
    else:
        assert port.stored['{"range": "all"}'] == {"n": 13}


def test_topics_are_made_as_their_group_has_them(broker: str, client: BlockingClient) -> None:
    settings = {
        **config("made-orders", end="10"),
        "topic.creation.groups": "orders",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.orders.include": "made-.*",
        "topic.creation.orders.exclude": ".*-not",
        "topic.creation.orders.partitions": "4",
        "topic.creation.orders.retention.ms": "1234567",
    }
    with running(spec_of(broker, settings), Counting):
        await_true(lambda: len(records_of(broker, "made-orders")) == 10)
    assert len(client.metadata(["made-orders"]).partitions_of("made-orders")) == 4
    groups = creation_groups(settings)
    assert [next(each.name for each in groups if each.matches(topic)) for topic in ("made-x", "made-not", "o")] == [
        "orders",
        "default",
        "default",
    ]
    with pytest.raises(ConfigError, match=r"topic\.creation\.default\.partitions"):
        creation_groups({"topic.creation.default.replication.factor": "1"})


@pytest.mark.parametrize(
    ("key", "value"),
    [("security.protocol", "TLS"), ("transactional.id", "mine"), ("acks", "2"), ("compression.type", "rar")],
)
def test_client_properties_that_cannot_be_honoured_are_named(broker: str, key: str, value: str) -> None:
    port = Port()
    with running(spec_of(broker, config("refused"), producer={key: value}), Counting, port=port) as task:
        assert task.ended() is State.FAILED
    assert f"for configuration {key}" in port.trace


class PatientTask(SourceTask):
    """Waits for what never comes, until it is stopped."""

    def start(self, props: Any) -> None:
        self.told = threading.Event()
        CountingTask.live[props["name"]] = self

    def poll(self) -> Any:
        self.told.wait()
        raise OSError("interrupted")

    def stop(self) -> None:
        self.told.set()


class Patient(SourceConnector):
    task_class = PatientTask


def test_a_task_that_waits_in_poll_is_stopped_there(broker: str) -> None:
    with running(spec_of(broker, {**config("patient"), "connector.class": "Patient"}), Patient) as task:
        await_true(lambda: task.port.state is State.RUNNING)
        assert task.stop() is State.UNASSIGNED, "that it was interrupted is no failure"


def test_a_topic_that_nobody_makes_ends_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.connect.tasks.producer.UNKNOWN_SECONDS_MAX", 0.5)
    with running_server(tmp_path, overrides=["auto.create.topics.enable=false"]) as server:
        port = Port()
        with running(spec_of(server.bootstrap, config("nowhere", end="10")), Counting, port=port) as task:
            await_true(lambda: port.state is State.FAILED)
            assert task.ended() is State.FAILED
    assert "topic nowhere" in port.trace
    assert "UNKNOWN_TOPIC_OR_PARTITION" in port.trace


class LinesTask(SourceTask):
    """Lines in columns, one poll's worth."""

    lines: ClassVar[list[str]] = []

    def start(self, props: Any) -> None:
        self.props, self.done = dict(props), False

    def poll(self) -> Any:
        if self.done:
            return None
        self.done = True
        return SourceColumns(
            topic=self.props["topic"],
            values=pa.array(LinesTask.lines),
            schema=STRING,
            source_partition=PARTITION,
            source_offset={"n": len(LinesTask.lines)},
        )


class Lines(SourceConnector):
    task_class = LinesTask


class CommittingLinesTask(LinesTask):
    """Hears of each record, and so is served record by record."""

    def commit_record(self, record: SourceRecord, offset: int | None) -> None: ...


class CommittingLines(SourceConnector):
    task_class = CommittingLinesTask


@pytest.mark.parametrize("exactly_once", [False, True])
def test_columns_and_records_make_the_same_topic(broker: str, exactly_once: bool) -> None:
    LinesTask.lines = [f'line {n} "quoted" \\ ä' for n in range(3000)]
    found = []
    for kind in ("Lines", "CommittingLines"):
        name, port = f"{kind}-{exactly_once}".lower(), Port()
        settings = {**config(name), "connector.class": kind}
        worker = {"value.converter.schemas.enable": "true"}
        made = spec_of(broker, settings, worker=worker, exactly_once=exactly_once)
        with running(made, Lines, CommittingLines, port=port):
            await_true(lambda name=name: len(committed_records(broker, name)) == 3000)
            if not exactly_once:
                await_true(lambda port=port: port.stored.get('{"range": "all"}') == {"n": 3000})
        found.append(committed_records(broker, name))
    assert found[0] == found[1]


def test_an_offset_waits_for_the_records_before_it() -> None:
    records = SubmittedRecords()
    first, second, third = (records.submit(None, {"file": "a"}, {"at": n}) for n in (1, 2, 3))
    other = records.submit(None, {"file": "b"}, {"at": 9}, count=2)
    second.left = third.left = 0
    other.left -= 1
    assert records.committable() == {}
    first.left = 0
    other.left -= 1
    assert list(records.committable().values()) == [({"file": "a"}, {"at": 3}), ({"file": "b"}, {"at": 9})]
    assert records.committable() == {}


def test_records_outlive_a_broker_that_is_started_again(tmp_path: Path) -> None:
    first = start_server(tmp_path)
    port = Port()
    settings = spec_of(first.bootstrap, config("outlived", end="30000", batch="20"))
    with running(settings, Counting, port=port):
        await_true(lambda: CountingTask.live.get("outlived") and CountingTask.live["outlived"].next > 1000)
        first.kill()
        second = start_server(tmp_path, port=first.port)
        try:
            await_true(lambda: port.stored.get('{"range": "all"}') == {"n": 30000}, seconds=60)
            assert [int(each.value or b"") for each in records_of(second.bootstrap, "outlived")] == list(range(30000))
        finally:
            second.kill()
