"""A source task's loop against a broker: what arrives, which offsets are stored, what happens to records that fail."""

from __future__ import annotations

from typing import Any, ClassVar

from ottla.connect import (
    SourceConnector,
    SourceRecord,
    SourceTask,
)
from ottla.connect.storage import State
from tests.spark.running import Port, await_true, records_of, running, spec_of

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
