"""An application lives on Spark: it starts, restarts, fails, stops, goes on, is asked, rebuilt, refused and reset."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.base import ErrorCode, KafkaError, TopicPartition
from ottla.client import EARLIEST, LATEST, BlockingClient, FetchPosition, Isolation
from ottla.spark import State, StreamsApplication
from ottla.spark.streams.commits import commits_topic
from ottla.streams import StreamsBuilder, Topology, TopologyError, UpgradeError
from ottla.wire import ColumnDecoder, Record, build_batch
from tests.spark.conftest import create_topic
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
WAIT_SECONDS_MAX = 240.0
"""A Python worker may take long to start on a machine that has other work."""
LOOK_SECONDS = 0.05
"""How often it is looked: who looks all the time takes one of two cores from what he waits for."""
NOW_MS = int(time.time() * 1000)
"""Records of another year would be past the topic's retention."""


def counting(topic: str, store: str = "counts", split: Callable[[str], list[str]] = str.split) -> Topology:
    """Lines → words → counts, by Spark's own aggregate."""
    builder = StreamsBuilder()
    words = builder.stream(topic, key_serde="string", value_serde="string").flat_map_values(split, value_serde="string")
    counts = words.group_by(lambda key, word: word, key_serde="string", value_serde="string").count(materialized=store)
    counts.to_stream().to(f"{topic}-out", key_serde="string", value_serde="long")
    return builder.build()


def joining(topic: str) -> Topology:
    """Words by key, put one behind the other, by Python with state."""
    builder = StreamsBuilder()
    words = builder.stream(topic, key_serde="string", value_serde="string")
    lines = words.group_by_key().reduce(lambda one, other: f"{one} {other}", materialized="lines")
    lines.to_stream().to(f"{topic}-out", key_serde="string", value_serde="string")
    return builder.build()


class World:
    """A topic with what comes of it, and applications that are closed in the end."""

    def __init__(self, name: str, client: BlockingClient, spark: SparkSession, folder: Path) -> None:
        self.name, self.client, self.spark, self._folder = name, client, spark, folder
        self.open: list[StreamsApplication] = []
        create_topic(client, name, 2)
        create_topic(client, f"{name}-out", 2)

    def application(self, topology: Topology, **settings: Any) -> StreamsApplication:
        given = {
            "application.id": f"app-{self.name}",
            "bootstrap.servers": ",".join(map(str, self.client.client.bootstrap)),
            "state.dir": str(self._folder),
            "restart.backoff.ms": 1,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self.open.append(StreamsApplication(topology, given, spark=self.spark))
        return self.open[-1]

    def feed(self, *values: str, key: str | None = None, partition: int = 0) -> None:
        data = None if key is None else key.encode()
        records = [Record(0, NOW_MS + index, data, value.encode(), ()) for index, value in enumerate(values)]
        self.client.produce({TopicPartition(self.name, partition): bytes(build_batch(records))})

    def outputs(self) -> list[tuple[str, bytes]]:
        """Return what was committed to the output topic so far."""
        found = []
        partitions = [TopicPartition(f"{self.name}-out", index) for index in (0, 1)]
        begin = self.client.list_offsets(dict.fromkeys(partitions, EARLIEST))
        positions = [FetchPosition(each, begin[each].offset, 1 << 20) for each in partitions]
        for fetched in self.client.fetch(positions, max_wait_ms=0, isolation=Isolation.READ_COMMITTED):
            decoded = ColumnDecoder().decode(fetched.check().records, start=fetched.offset, aborted=fetched.aborted)
            for columns in decoded.columns:
                keys, values = columns.key_bounds.tolist(), columns.value_bounds.tolist()
                for row in range(len(columns)):
                    at = 2 * row
                    key = bytes(columns.data[keys[at] : keys[at + 1]]).decode()
                    found.append((key, bytes(columns.data[values[at] : values[at + 1]])))
        return found

    def until(self, application: StreamsApplication, store: str, expected: dict[str, Any]) -> None:
        """Wait until a store holds what is expected."""
        view = application.store(store)
        until(
            lambda: application.state.is_final or dict(view.all()) == expected,
            lambda: (view.all(), application.status()),
            seconds=WAIT_SECONDS_MAX,
            past=(KafkaError,),  # of a changelog that is still read
        )
        assert not application.state.is_final, (view.all(), application.status())


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_it_runs_commits_is_asked_stops_and_goes_on(world: World, guarantee: str) -> None:
    world.feed("a b a", "c")
    world.feed("b", partition=1)
    states: list[State] = []
    first = world.application(counting(world.name), processing_guarantee=guarantee)
    first.on_state_change(lambda new, old: states.append(new))
    with first:
        assert first.wait_running(WAIT_SECONDS_MAX)
        world.until(first, "counts", {"a": 2, "b": 2, "c": 1})
        assert first.prepared is not None and first.prepared.created == (f"app-{world.name}-counts-changelog",)
    assert states == [State.REBALANCING, State.RUNNING, State.PENDING_SHUTDOWN, State.NOT_RUNNING]
    assert first.status()["rows"] == 3
    committed = {each: one.offset for each, one in world.client.committed_offsets(f"app-{world.name}").items()}
    (stage,) = first.stages.stages
    looked = committed.pop(commits_topic(f"app-{world.name}", stage.name), None)
    assert (looked is not None) == (guarantee == "exactly_once_v2")  # tasks commit as the driver's member
    assert committed == {TopicPartition(world.name, 0): 2, TopicPartition(world.name, 1): 1}
    with pytest.raises(KafkaError, match="either already started or already stopped"):
        first.start()
    world.feed("a c")
    with world.application(counting(world.name), processing_guarantee=guarantee) as second:
        world.until(second, "counts", {"a": 3, "b": 2, "c": 2})
    assert dict(world.outputs())["a"] == (3).to_bytes(8, "big")


def test_a_query_that_ended_starts_again_and_says_why(world: World, spark: SparkSession) -> None:
    world.feed("a b")
    with world.application(counting(world.name)) as application:
        world.until(application, "counts", {"a": 1, "b": 1})
        for query in spark.streams.active:
            if query.name is not None and query.name.startswith(f"app-{world.name}/"):
                query.processAllAvailable()  # a batch that is stopped on its way ends the query with another reason
                query.stop()
        until(lambda: application.status()["queries"][0]["restarts"], "a restart")
        (facts,) = application.status()["queries"]
        assert facts["restarts"] == 1 and facts["last_error"] == "the query was stopped from outside"
        world.feed("a")
        world.until(application, "counts", {"a": 2, "b": 1})


def test_poison_fails_the_application_and_names_the_record(world: World) -> None:
    builder = StreamsBuilder()
    numbers = builder.stream(world.name, key_serde="string", value_serde="long")
    numbers.map_values(lambda value: value + 1, value_serde="long").to(f"{world.name}-out")
    application = world.application(builder.build())
    world.feed("not eight bytes!")
    with pytest.raises(KafkaError, match=f"app-{world.name} failed"):
        application.start().wait(WAIT_SECONDS_MAX)
    assert application.state is State.ERROR
    assert application.error is not None and application.error.fatal and world.name in application.error.reason


def test_a_lost_checkpoint_is_rebuilt_from_the_changelog(world: World) -> None:
    world.feed("one", "two", key="k")
    with world.application(joining(world.name), processing_guarantee="exactly_once") as first:
        world.until(first, "lines", {"k": "one two"})
    world.feed("three", key="k")
    second = world.application(joining(world.name), processing_guarantee="exactly_once")
    second.clean_up()
    with second:
        world.until(second, "lines", {"k": "one two three"})
        assert second.status()["rebuilt"] == [stage.name for stage in second.stages.stages]
    assert world.outputs()[-1] == ("k", b"one two three")


def test_state_rebuilt_exactly_once_passes_over_what_it_contains_where_the_groups_offsets_lag(world: World) -> None:
    world.feed("one", "two", key="k")
    with world.application(joining(world.name), processing_guarantee="exactly_once") as first:
        world.until(first, "lines", {"k": "one two"})
    place = TopicPartition(world.name, 0)
    world.client.commit_offsets(f"app-{world.name}", {place: 0})  # as a kill before the commit leaves them
    world.feed("three", key="k")
    second = world.application(joining(world.name), processing_guarantee="exactly_once")
    second.clean_up()
    with second:
        world.until(second, "lines", {"k": "one two three"})
    assert [value for _, value in world.outputs()][-1] == b"one two three"


def test_an_upgrade_that_would_lose_state_is_refused_before_anything_runs(world: World) -> None:
    world.feed("a")
    with world.application(counting(world.name)) as first:
        world.until(first, "counts", {"a": 1})
    renamed = world.application(counting(world.name, store="words"))
    with pytest.raises(UpgradeError, match=r"store counts .* is not in the plan any more"):
        renamed.start()
    assert renamed.state is State.ERROR
    with world.application(counting(world.name, store="words"), upgrade_drop_stores=True) as dropped:
        assert dropped.state.is_running_or_rebalancing


def test_what_stands_against_a_start_is_raised_by_it(world: World) -> None:
    with pytest.raises(KafkaError, match="Missing source topics: nowhere") as missing:
        world.application(counting("nowhere")).start()
    assert missing.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create_topic(world.client, f"{world.name}-wide", 3)
    builder = StreamsBuilder()
    left, right = (
        builder.table(name, key_serde="string", value_serde="string") for name in (world.name, f"{world.name}-wide")
    )
    left.join(right, lambda one, other: one + other, value_serde="string").to_stream().to(f"{world.name}-out")
    with pytest.raises(TopologyError, match="Topics not co-partitioned"):
        world.application(builder.build()).start()


def test_the_ends_of_topics_are_where_latest_begins(world: World) -> None:
    world.feed("old", "older")
    application = world.application(counting(world.name), auto_offset_reset="latest")
    with application:
        assert application.prepared is not None
        (starting,) = application.prepared.starting.values()
        ends = world.client.list_offsets(dict.fromkeys(starting, LATEST))
        assert starting == {each: found.offset for each, found in ends.items()}
