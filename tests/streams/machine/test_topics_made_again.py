"""Topics that have another id than what was planned of them, against the model of the cluster: source and preparation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ConfigError, KafkaError, Offset, TopicPartition
from ottla.connect.testing import Life, World
from ottla.spark.source.columns import SCHEMA
from ottla.spark.source.options import read_options
from ottla.spark.source.reader import OttlaStreamReader
from ottla.spark.streams.commits import Commit, commits_topic
from ottla.spark.streams.preparation import Prepared, prepare
from ottla.spark.streams.state.positions import topic_ids
from ottla.streams import Materialized, StreamsBuilder, StreamsSettings, Topology, cut
from tests.streams.machine.cases import in_the_model, own_process
from tests.streams.machine.cluster import Broker, connected, process

Offsets = dict[str, Any]


@pytest.fixture
def broker() -> Iterator[Broker]:
    world = World(None)
    made = Broker(world)
    for topic in ("one", "two"):
        made.add_topic(topic, 2)
    process.broker, process.life = made, Life(world)
    with in_the_model(), own_process():
        yield made


def feed(broker: Broker, topic: str, *values: str, partition: int = 0) -> None:
    broker.add(topic, [(b"k", each.encode()) for each in values], partition)


def reader(reset: str = "earliest", **more: str) -> OttlaStreamReader:
    topics = {"subscribe": "one,two"} if "subscribePattern" not in more else {}
    given = {"kafka.bootstrap.servers": "model:1", "startingOffsets": "earliest", "ottla.reset": reset, **topics}
    return OttlaStreamReader(SCHEMA, read_options({**given, **more}, streaming=True))


def planned(source: OttlaStreamReader, start: Offsets) -> Offsets:
    return source.latestOffset(start, source.getDefaultReadLimit())


def values(source: OttlaStreamReader, start: Offsets, end: Offsets) -> list[str]:
    batches = [batch for each in source.partitions(start, end) for batch in source.read(each)]
    found = [each for batch in batches for each in batch.column("value").to_pylist()]
    return sorted(each.decode() for each in found)


@pytest.mark.parametrize("more", [{}, {"subscribePattern": "one|two"}], ids=["by-name", "by-pattern"])
def test_only_the_topic_that_was_made_again_is_begun_anew(broker: Broker, more: dict[str, str]) -> None:
    feed(broker, "one", "a", "b")
    feed(broker, "two", "c")
    source = reader(**more)
    first = planned(source, source.initialOffset())
    broker.make_again("one")
    feed(broker, "one", "d", "e", "f")
    feed(broker, "two", "g")
    assert values(source, {}, first) == ["c"]
    second = planned(source, first)
    assert values(source, first, second) == ["d", "e", "f", "g"]
    assert planned(source, second) == second and values(source, second, second) == []


def test_a_batch_has_the_same_tasks_whatever_becomes_of_its_topics(broker: Broker) -> None:
    feed(broker, "one", "a", "b")
    feed(broker, "one", "c", partition=1)
    feed(broker, "two", "d")
    source = reader()
    start = source.initialOffset()
    end = planned(source, start)
    before = [each.offsets for each in source.partitions(start, end)]  # type: ignore[attr-defined]
    broker.make_again("one")
    assert [each.offsets for each in source.partitions(start, end)] == before  # type: ignore[attr-defined]


@pytest.mark.parametrize(("reset", "expected"), [("earliest", ["c", "d", "e"]), ("latest", ["e"])])
def test_the_reset_policy_says_where_a_topic_that_was_made_again_begins(
    broker: Broker, reset: str, expected: list[str]
) -> None:
    feed(broker, "one", "a", "b")
    source = reader(reset)
    first = planned(source, source.initialOffset())
    broker.make_again("one")
    feed(broker, "one", "c", "d")
    second = planned(source, first)
    feed(broker, "one", "e")
    third = planned(source, second)
    assert values(source, first, second) + values(source, second, third) == expected


def test_a_topic_that_is_made_again_between_a_start_and_its_first_batch_is_begun_anew(broker: Broker) -> None:
    feed(broker, "one", "a", "b")
    begun = {"one": {"0": 2, "1": 0}, "two": {"0": 0, "1": 0}}
    with connected() as client:
        ids = topic_ids(client, ["one", "two"])
    source = reader(startingOffsets=json.dumps(begun), **{"ottla.ids": json.dumps(ids)})
    broker.make_again("one")
    feed(broker, "one", "c", "d", "e")
    start = source.initialOffset()
    assert values(source, start, planned(source, start)) == ["c", "d", "e"]


def test_without_a_reset_policy_a_topic_that_was_made_again_is_an_error(broker: Broker) -> None:
    feed(broker, "one", "a")
    source = reader("none")
    first = planned(source, source.initialOffset())
    broker.make_again("one")
    feed(broker, "one", "b")
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset.*one was made again"):
        planned(source, first)


def test_a_batch_that_cannot_do_without_its_topic_says_what_to_do(broker: Broker) -> None:
    feed(broker, "one", "a")
    end = planned(reader(), reader().initialOffset())
    broker.make_again("one")
    with pytest.raises(ConfigError, match=r"one was made again .* start the application again"):
        values(reader(**{"ottla.gone": ""}), {}, end)
    assert values(reader(**{"ottla.gone": end["@ids"]["one"]}), {}, end) == []


def test_offsets_without_ids_are_of_the_topic_that_has_the_name(broker: Broker) -> None:
    feed(broker, "one", "a", "b")
    source = reader()
    old = {"one": {"0": 1, "1": 0}, "two": {"0": 0, "1": 0}}
    end = planned(source, old)
    assert values(source, old, end) == ["b"]
    assert values(source, old, {"one": {"0": 1, "1": 0}, "two": {"0": 0, "1": 0}}) == []


def test_a_partition_that_comes_begins_where_it_was_planned_whatever_is_deleted_since(broker: Broker) -> None:
    source = reader()
    start = source.initialOffset()
    broker.grow("one")
    feed(broker, "one", "a", "b", partition=2)
    end = planned(source, start)
    before = [each.offsets for each in source.partitions(start, end)]  # type: ignore[attr-defined]
    broker.cut("one")
    assert [each.offsets for each in source.partitions(start, end)] == before  # type: ignore[attr-defined]


# -- preparation


def joined(*, globally: bool = False, logging: bool = True) -> Topology:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    records = builder.stream("one")
    if globally:
        table = builder.global_table("two")
        records = records.join(table, lambda value, other: f"{value} {other}", key=lambda key, value: key)
    else:
        records = records.merge(builder.stream("two"))
    kept = Materialized("words", logging=logging)
    records.group_by_key().reduce(lambda one, other: f"{one} {other}", materialized=kept).to_stream().to("out")
    return builder.build()


class Started:
    """An application with state, killed in its second batch, of which a part is delivered or nothing."""

    def __init__(self, broker: Broker, folder: Path, topology: Topology, *, is_delivered: bool) -> None:
        settings = {"application.id": "app", "bootstrap.servers": "model:1", "state.dir": str(folder)}
        self.settings = StreamsSettings.of(
            {**settings, "processing.guarantee": "exactly_once_v2", "auto.offset.reset": "latest"}
        )
        self.topology, self.stages = topology, cut(topology)
        broker.add_topic("out", 2)
        [stage] = self.stages.stages
        self.stage = stage.name
        self.place = folder / "app" / stage.name
        self.prepared = self.prepare()
        for kind in ("offsets", "commits"):
            (self.place / kind).mkdir(parents=True)
        (self.place / "metadata").write_text(json.dumps({"id": "query"}))
        self.plan(0, {"one": {"0": 1, "1": 0}, "two": {"0": 2, "1": 0}})
        (self.place / "commits" / "0").touch()
        self.plan(1, {"one": {"0": 3, "1": 0}, "two": {"0": 3, "1": 0}})
        broker.add_topic(commits_topic("app", stage.name).topic, 1)
        done = Commit("query", 1 if is_delivered else 0, 2)
        for task in (None, 0):
            name, record = commits_topic("app", stage.name).topic, done.record(task, 0)
            broker.add(name, [(record.key, record.value or b"")])
        if "app-words-changelog" in broker.topics:
            feed(broker, "app-words-changelog", "a")

    def prepare(self) -> Prepared:
        with connected() as client:
            return prepare(client, self.topology, self.stages, self.settings)

    def plan(self, batch: int, offsets: Offsets) -> None:
        text = json.dumps({**offsets, "@ids": self.prepared.topic_ids})
        (self.place / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{text}")


def fed(broker: Broker) -> None:
    for topic in ("one", "two"):
        feed(broker, topic, "a", "b", "c", "d")


def test_state_is_rebuilt_and_other_topics_go_on_where_the_batch_began(broker: Broker, tmp_path: Path) -> None:
    fed(broker)
    started = Started(broker, tmp_path, joined(), is_delivered=True)
    broker.make_again("one")
    feed(broker, "one", "e", "f")
    found = started.prepare()
    assert found.rebuilt == (started.stage,) and not started.place.exists()
    for _ in range(2):  # also of a further start, before the query has begun in its new checkpoint
        assert found.starting[started.stage][TopicPartition("two", 0)] == Offset(2)
        assert found.starting[started.stage][TopicPartition("one", 0)] == Offset(2)  # by auto.offset.reset: its end
        found = started.prepare()


def test_a_batch_of_which_nothing_was_delivered_is_done_without_the_topic_that_is_gone(
    broker: Broker, tmp_path: Path
) -> None:
    fed(broker)
    started = Started(broker, tmp_path, joined(), is_delivered=False)
    gone = started.prepared.topic_ids["one"]
    broker.make_again("one")
    found = started.prepare()
    assert found.rebuilt == () and started.place.exists()
    assert found.gone == {started.stage: frozenset({gone})}


def test_a_checkpoint_whose_topics_are_the_same_is_left_alone(broker: Broker, tmp_path: Path) -> None:
    fed(broker)
    started = Started(broker, tmp_path, joined(), is_delivered=True)
    found = started.prepare()
    assert found.rebuilt == () and found.gone == {} and started.place.exists()


def test_a_global_table_is_read_whole_where_state_is_rebuilt(broker: Broker, tmp_path: Path) -> None:
    fed(broker)
    started = Started(broker, tmp_path, joined(globally=True), is_delivered=True)
    broker.make_again("one")
    found = started.prepare()
    assert found.rebuilt == (started.stage,)
    assert found.starting[started.stage][TopicPartition("two", 0)] == Offset(0)


def test_a_store_without_a_changelog_is_not_lost_in_silence(broker: Broker, tmp_path: Path) -> None:
    fed(broker)
    started = Started(broker, tmp_path, joined(logging=False), is_delivered=True)
    broker.make_again("one")
    with pytest.raises(KafkaError, match=r"one was made again since batch 1 of .* `ottla streams reset` begins anew"):
        started.prepare()
    assert started.place.exists()
