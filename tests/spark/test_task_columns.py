"""Columns that are sent row by row: dead letters, dropped rows, retries and restarts lose no row and write none twice."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from ottla.base import Millis
from ottla.client import BlockingClient, TransactionalProducer
from ottla.connect import ConfigDef, DataError, RetriableError, SourceColumns, SourceConnector, SourceTask
from ottla.connect.data import STRING
from ottla.connect.storage import TargetState
from ottla.wire import Record, build_batch
from tests.spark.running import Port, await_true, committed_records, running, spec_of
from tests.spark.test_task_source import PARTITION, config

ROWS, POLLS = 10, 2


class PagesTask(SourceTask):
    """Two polls of ten numbers, each one column, from where its offset says."""

    ended: ClassVar[threading.Event] = threading.Event()
    """Set once every row that was to be read has been handed over."""

    def start(self, props: Any) -> None:
        self.props, self.page = dict(props), self.context.offset(PARTITION).get("page", 0)
        PagesTask.ended = threading.Event()

    def poll(self) -> Any:
        if self.page == POLLS:
            PagesTask.ended.set()
            return None
        first, self.page = self.page * ROWS, self.page + 1
        return SourceColumns(
            topic=self.props["topic"],
            values=pa.array([str(n) for n in range(first, first + ROWS)]),
            schema=STRING,
            source_partition=PARTITION,
            source_offset={"page": self.page},
        )


class Pages(SourceConnector):
    task_class = PagesTask


class Trouble:
    """Drops or refuses some numbers, and is not ready for others until it is told."""

    java_name = "tests.Trouble"
    version = "1"
    config_def: ClassVar[ConfigDef] = ConfigDef()
    drops: ClassVar[set[str]] = set()
    refuses: ClassVar[set[str]] = set()
    waits_for: ClassVar[set[str]] = set()
    waiting: ClassVar[threading.Event] = threading.Event()

    @classmethod
    def settle(cls, *, drops: set[str] = frozenset(), refuses: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        cls.drops, cls.refuses, cls.waits_for = set(drops), set(refuses), set()
        cls.waiting = threading.Event()

    def configure(self, props: Any) -> None: ...

    def apply(self, record: Any) -> Any:
        if record.value in Trouble.waits_for:
            Trouble.waiting.set()
            raise RetriableError("not yet")
        if record.value in Trouble.refuses:
            raise DataError(f"{record.value} is not wanted")
        return None if record.value in Trouble.drops else record


def settings(name: str) -> dict[str, str]:
    return {
        **config(name),
        "connector.class": "Pages",
        "transforms": "trouble",
        "transforms.trouble.type": "tests.Trouble",
        "errors.tolerance": "all",
        "errors.retry.timeout": "-1",
        "errors.retry.delay.max.ms": "10",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }


def numbers(broker: str, topic: str) -> list[str]:
    return [(value or b"").decode().strip('"') for _, value in committed_records(broker, topic)]


def run(broker: str, name: str, port: Port, *, exactly_once: bool) -> Any:
    port.want(TargetState.STARTED)
    return running(spec_of(broker, settings(name), exactly_once=exactly_once), Pages, Trouble, port=port)


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("bad", ["0", "4", "9"])
def test_a_dead_letter_and_a_stop_before_the_last_row_lose_no_row(broker: str, exactly_once: bool, bad: str) -> None:
    name, port = f"stopped-{bad}-{exactly_once}".lower(), Port()
    Trouble.settle(refuses={bad})
    Trouble.waits_for = {"9"} if bad != "9" else {"19"}
    with run(broker, name, port, exactly_once=exactly_once) as task:
        assert Trouble.waiting.wait(30)
        task.stop()
    Trouble.settle(refuses={bad})
    with run(broker, name, port, exactly_once=exactly_once):
        await_true(lambda: "19" in numbers(broker, name))
    wanted = {str(n) for n in range(ROWS * POLLS)} - {bad}
    found = numbers(broker, name)
    assert set(found) == wanted
    dead_letters = numbers(broker, f"{name}-dead")
    assert set(dead_letters) == {bad}
    if exactly_once:
        assert len(found) == len(wanted), "each row once"
        assert dead_letters == [bad], "and one dead letter"


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("dropped", [{"9", "19"}, {str(n) for n in range(ROWS, 2 * ROWS)}], ids=["last", "whole"])
def test_rows_before_a_dropped_last_row_are_not_sent_again_by_a_restart(
    broker: str, exactly_once: bool, dropped: set[str]
) -> None:
    name, port = f"filtered-{len(dropped)}-{exactly_once}".lower(), Port()
    Trouble.settle(drops=dropped)
    wanted = sorted({str(n) for n in range(ROWS * POLLS)} - dropped)
    for _ in range(2):
        PagesTask.ended.clear()
        with run(broker, name, port, exactly_once=exactly_once) as task:
            await_true(lambda: PagesTask.ended.is_set())
            task.stop()
        assert sorted(numbers(broker, name)) == wanted
        if not exactly_once:
            assert port.stored['{"range": "all"}'] == {"page": POLLS}


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_retry_in_the_middle_of_a_column_sends_no_row_twice(
    broker: str, exactly_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.connect.tasks.pipeline import SourcePipeline

    name, port = f"retried-{exactly_once}".lower(), Port()
    Trouble.settle()
    asked, row = {"15": 0}, SourcePipeline.row

    def not_ready_twice(self: SourcePipeline, record: Any) -> Any:
        if record.value in asked and asked[record.value] < 2:
            asked[record.value] += 1
            raise RetriableError("the schema registry is not there yet")
        return row(self, record)

    monkeypatch.setattr(SourcePipeline, "row", not_ready_twice)
    with run(broker, name, port, exactly_once=exactly_once):
        await_true(lambda: "19" in numbers(broker, name))
    assert numbers(broker, name) == [str(n) for n in range(ROWS * POLLS)]


def test_offsets_behind_a_neighbours_open_transaction_are_read_when_it_ends(
    broker: str, client: BlockingClient
) -> None:
    name, port, topic = "neighbours", Port(), "connect-offsets"
    Trouble.settle()
    Trouble.waits_for = {"10"}
    neighbour = TransactionalProducer(client.client, "a-neighbour", timeout_ms=60_000)
    with run(broker, name, port, exactly_once=True) as task:
        assert Trouble.waiting.wait(30)
        client.run(neighbour.begin())
        batch = build_batch(
            [Record(timestamp=Millis(1_700_000_000_000), key=b'["other",{}]', value=b"{}")],
            producer_id=neighbour.producer_id,
            producer_epoch=neighbour.epoch,
            base_sequence=0,
            transactional=True,
        )
        client.run(neighbour.produce(dict.fromkeys(client.metadata([topic]).partitions_of(topic), batch)))
        Trouble.settle()
        await_true(lambda: "19" in numbers(broker, name))
        task.stop()
    PagesTask.ended.clear()
    ends = threading.Timer(1.0, lambda: client.run(neighbour.end(commit=False)))
    ends.start()
    with run(broker, name, port, exactly_once=True) as task:
        await_true(lambda: PagesTask.ended.is_set())
        task.stop()
    ends.join()
    assert numbers(broker, name) == [str(n) for n in range(ROWS * POLLS)]
