"""A mirror's task whose requests fail, one by one and by chance: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ottla.base import TopicPartition
from ottla.client import BlockingClient
from ottla.mirror import source_task
from ottla.mirror.offsets import read_topic_id, source_offset
from ottla.mirror.source_task import PARTITIONS, MirrorSourceTask
from tests.mirror.machine.__main__ import swept
from tests.mirror.machine.client import Faults, MirrorClient, waiting
from tests.mirror.machine.mutations import MUTATIONS, Mutation
from tests.mirror.machine.run import Case, checked
from tests.mirror.machine.source import SourceCluster

SEEDS = 100
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Few:
    """Two topics and a task, without chance."""

    def __init__(self, *, number: int = -1, fault: str = "refused") -> None:
        self.source = SourceCluster(random.Random(1), committed=False)
        self.faults = Faults(self.source.rng, at=(number, fault))
        for name in "ab":
            self.write(name, self.source.make(name, 1).number, 3)
        self.stored: dict[TopicPartition, Mapping[str, Any]] = {}
        self.told: dict[str, list[str]] = {"a": [], "b": []}

    def write(self, name: str, life: int, batches: int) -> None:
        """Append batches."""
        assert self.source.topics[name].number == life
        for _ in range(batches):
            self.source.write(self.source.topics[name].logs[0])

    def remake(self, name: str, batches: int) -> None:
        """Delete a topic, and make it again."""
        del self.source.topics[name]
        self.write(name, self.source.make(name, 1).number, batches)

    def start(self, *places: TopicPartition) -> MirrorSourceTask:
        """Start a task."""
        clusters = {f"{each}.cluster.bootstrap.servers": "model:1" for each in ("source", "target")}
        props = {**clusters, "source.cluster.alias": "east", "target.cluster.alias": "west"}
        props |= {"consumer.poll.timeout.ms": "0", PARTITIONS: ",".join(map(str, places))}
        task = MirrorSourceTask(self._connect)
        task.context = self  # type: ignore[assignment]
        task.start(props)
        return task

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `SourceTaskContext`."""
        return self.stored.get(TopicPartition(partition["topic"], partition["partition"]), {})

    def _connect(self, _props: Mapping[str, str], _cluster: str, _kind: str, _role: str) -> BlockingClient:
        return waiting(MirrorClient(self.source, self.faults, []))

    def poll(self, task: MirrorSourceTask, times: int = 20) -> None:
        """Have the task poll, and note what it told."""
        for _ in range(times):
            for each in task.poll() or ():
                for record in each.records() if hasattr(each, "records") else [each]:
                    place = TopicPartition(record.source_partition["topic"], record.source_partition["partition"])
                    life, offset = bytes(record.value).split(b":")[:2]
                    self.told[place.topic].append(f"{int(life)}:{int(offset)}")
                    self.stored[place] = record.source_offset

    def written(self, name: str) -> list[str]:
        """Return what a topic has now."""
        life = self.source.topics[name]
        return [f"{life.number}:{offset}" for offset in life.logs[0].records]


@pytest.fixture(autouse=True)
def without_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(source_task, "RETRY_SECONDS", 0)
    monkeypatch.setattr(source_task, "LOOK_SECONDS", 0)
    yield


def test_what_other_partitions_brought_is_told_where_one_cannot_be_begun_anew() -> None:
    few = Few()
    task = few.start(A, B)
    few.poll(task)
    few.source.topics["b"].logs[0].start = few.source.topics["b"].logs[0].end = 1000  # B is out of range
    few.write("a", 0, 2)
    for ahead in range(30):  # each request that follows, that for B's beginning among them
        few.faults.at = (len(few.faults.asked) + ahead % 3, "forbidden")
        few.poll(task, 1)
    assert few.told["a"] == few.written("a")


def test_a_topic_made_again_with_more_records_is_told_from_its_beginning() -> None:
    few = Few()
    task = few.start(A, B)
    few.poll(task)
    before, others = few.written("a"), few.written("b")
    few.remake("a", 9)
    few.poll(task)
    assert few.told["a"] == before + few.written("a")
    assert few.told["b"] == others


def test_a_topic_made_again_while_no_task_runs_is_told_from_its_beginning() -> None:
    few = Few()
    task = few.start(A, B)
    few.poll(task)
    task.stop()
    before = few.written("a")
    few.remake("a", 9)
    few.poll(few.start(A, B))
    assert few.told["a"] == before + few.written("a")


@pytest.mark.parametrize("number", range(6))
def test_a_topic_made_again_between_the_first_requests_is_told_from_its_beginning(number: int) -> None:
    few = Few()
    few.source.topics["a"].logs[0].start = 2  # where the old one begins is not where the new one does

    def remake() -> None:
        if len(few.faults.asked) == number + 1:
            few.told["a"].clear()
            few.remake("a", 9)

    few.faults.meanwhile = remake
    few.poll(few.start(A, B))
    assert few.told["a"][-len(few.written("a")) :] == few.written("a")


def test_an_offset_without_an_id_goes_on_in_the_topic_that_is_there() -> None:
    few = Few()
    few.stored[A] = {"offset": 0}  # as Kafka's connector stores it
    few.poll(few.start(A))
    assert few.told["a"] == few.written("a")[1:]


@pytest.mark.parametrize("what", ["is gone", "has no leader"])
def test_a_topic_that_nobody_has_keeps_no_other_waiting(what: str) -> None:
    few = Few()
    if what == "is gone":
        del few.source.topics["b"]
    else:
        few.source.topics["b"].logs[0].is_led = False
    task = few.start(A, B)
    few.poll(task)
    assert few.told["a"] == few.written("a") and not few.told["b"]
    if what == "is gone":
        few.write("b", few.source.make("b", 1).number, 3)
    few.source.topics["b"].logs[0].is_led = True
    few.poll(task)
    assert few.told["b"] == few.written("b")


@pytest.mark.parametrize("stored", [{}, {"topicId": None}, {"topicId": "x"}, {"topicId": 7}, {"topicId": "-" * 40}])
def test_an_id_that_cannot_be_read_is_none(stored: Mapping[str, Any]) -> None:
    assert read_topic_id(stored) == bytes(16)
    assert read_topic_id(source_offset(3, few_id := Few().source.topics["a"].topic_id)) == few_id


def test_schedules_by_chance_hold() -> None:
    said = {str(case): found for case in map(Case, range(SEEDS)) if (found := checked(case)[0]) is not None}
    assert not said


def test_each_request_may_fail_in_each_way() -> None:
    said = {str(case): found for case in swept(4) if (found := checked(case)[0]) is not None}
    assert not said


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_a_fault_that_is_put_back_is_found(mutation: Mutation) -> None:
    with mutation.made():
        try:
            said, _ = checked(Case(mutation.seed))
        except Exception as error:  # a task that fails altogether is found, too
            said = repr(error)
    assert said is not None, "look for another schedule: python -m tests.mirror.machine --mutations"
