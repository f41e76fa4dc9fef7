"""Applications in continuous mode against a broker: results, restarts, kills, failures, and what a mode refuses."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ConfigError, KafkaError, TopicPartition
from ottla.client import BlockingClient, FetchPosition, Isolation
from ottla.spark import State, StreamsApplication
from ottla.spark.continuous.fetching import records_of
from ottla.spark.continuous.jobs import ThreadHostJobs
from ottla.streams import Record as EngineRecord
from ottla.streams import StreamsBuilder, Topology
from ottla.wire import ColumnDecoder, Record, build_batch
from tests.server import running_server
from tests.spark.conftest import create_topic
from tests.streams.continuous.hosts import ProcessHostJobs
from tests.waiting import until

pytestmark = pytest.mark.timeout(240)
WAIT_SECONDS_MAX = 100.0
NOW_MS = int(time.time() * 1000)
BOTH = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingClient]:
    quickly = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000")
    folder = tmp_path_factory.mktemp("ottla")
    with running_server(folder, overrides=quickly) as server, BlockingClient(server.bootstrap) as opened:
        yield opened


class World:
    """An input and an output topic of two partitions, and applications that are closed in the end."""

    def __init__(self, name: str, client: BlockingClient, folder: Path) -> None:
        self.name, self.out, self.client, self._folder = name, f"{name}-out", client, folder
        self.open: list[StreamsApplication] = []
        for topic in (name, self.out):
            create_topic(client, topic, 2)

    def application(self, topology: Topology, jobs: Any, **settings: Any) -> StreamsApplication:
        given = {
            "application.id": f"app-{self.name}",
            "bootstrap.servers": ",".join(map(str, self.client.client.bootstrap)),
            "state.dir": str(self._folder),
            "execution": "continuous",
            "restart.backoff.ms": 1,
            "commit.interval.ms": 20,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self.open.append(StreamsApplication(topology, given, jobs=jobs))
        return self.open[-1]

    def feed(self, *values: str, partition: int = 0) -> None:
        records = [Record(0, NOW_MS + index, None, value.encode(), ()) for index, value in enumerate(values)]
        self.client.produce({TopicPartition(self.name, partition): bytes(build_batch(records))})

    def read(self, topic: str) -> list[EngineRecord]:
        """Return what is committed of a topic."""
        found: list[EngineRecord] = []
        for partition in (0, 1):
            place, offset = TopicPartition(topic, partition), 0
            while True:
                position = FetchPosition(place, offset)
                [answer] = self.client.fetch([position], max_wait_ms=0, isolation=Isolation.READ_COMMITTED)
                decoded = ColumnDecoder(with_headers=True).decode(answer.records, start=offset, aborted=answer.aborted)
                if decoded.next_offset == offset:
                    break
                offset = decoded.next_offset
                found += [each for columns in decoded.columns for each in records_of(columns, *place)]
        return found

    def counts(self) -> dict[str, list[int]]:
        """Return every count that each word has had."""
        found: dict[str, list[int]] = {}
        for each in self.read(self.out):
            found.setdefault(each.key.decode(), []).append(int.from_bytes(each.value, "big"))
        return found

    def await_counts(self, **wanted: int) -> None:
        until(
            lambda: {word: found[-1] for word, found in self.counts().items()} == wanted,
            seconds=WAIT_SECONDS_MAX,
            what=lambda: str(self.counts()),
        )


@pytest.fixture
def world(request: pytest.FixtureRequest, client: BlockingClient, tmp_path: Path) -> Iterator[World]:
    name = "".join(each if each.isalnum() else "-" for each in request.node.name.removeprefix("test_"))[-60:]
    made = World(name, client, tmp_path)
    yield made
    for application in made.open:
        application.close()


def counting(topic: str, split: Any = str.split) -> Topology:
    """Lines → words → counts, by a repartition topic."""
    builder = StreamsBuilder()
    words = builder.stream(topic, key_serde="string", value_serde="string").flat_map_values(split, value_serde="string")
    counts = words.group_by(lambda key, word: word, key_serde="string", value_serde="string").count(
        materialized="counts"
    )
    counts.to_stream().to(f"{topic}-out", key_serde="string", value_serde="long")
    return builder.build()


def split_or_fail(line: str) -> list[str]:
    """Split a line; one that is poison fails."""
    if line == "poison":
        raise ValueError("nobody can read this")
    return line.split()


@BOTH
def test_results_leave_and_a_second_start_goes_on_from_state_and_offsets(world: World, guarantee: str) -> None:
    world.feed("a b", "a")
    first = world.application(counting(world.name), ThreadHostJobs(), processing_guarantee=guarantee)
    first.start()
    world.await_counts(a=2, b=1)
    assert first.wait_running(WAIT_SECONDS_MAX) and first.store("counts").get("a") == 2
    assert first.status()["execution"] == "continuous" and first.close() and first.state is State.NOT_RUNNING
    world.feed("a c", partition=1)
    second = world.application(counting(world.name), ThreadHostJobs(), processing_guarantee=guarantee)
    second.start()
    world.await_counts(a=3, b=1, c=1)


@BOTH
def test_a_killed_host_goes_on_and_each_result_is_there_once_where_that_is_asked(world: World, guarantee: str) -> None:
    jobs = ProcessHostJobs()
    application = world.application(counting(world.name), jobs, processing_guarantee=guarantee)
    application.start()
    given: Counter[str] = Counter()
    for kill in range(3):
        for number in range(20):
            words = [f"w{number % 5}", "every"]
            given.update(words)
            world.feed(" ".join(words), partition=number % 2)
            if number == 10 + kill:
                until(lambda: jobs.kill() == 1, "a host to kill", seconds=WAIT_SECONDS_MAX)
    until(
        lambda: all(world.counts().get(word, [0])[-1] >= count for word, count in given.items()),
        seconds=WAIT_SECONDS_MAX,
        what=lambda: str(world.counts()),
    )
    if guarantee == "exactly_once_v2":
        world.await_counts(**given)
        assert all(a < b for counts in world.counts().values() for a, b in pairwise(counts))
    assert application.status()["hosts"][0]["restarts"] >= 3


def test_a_poisoned_application_parks_after_its_limit_and_says_why(world: World) -> None:
    application = world.application(counting(world.name, split_or_fail), ThreadHostJobs())
    application.start()
    world.feed("a")
    world.await_counts(a=1)
    world.feed("poison")
    with pytest.raises(KafkaError, match="nobody can read this"):
        application.wait(WAIT_SECONDS_MAX)
    assert application.state is State.ERROR and application.error is not None and application.error.fatal


def test_an_application_stays_in_the_mode_that_it_has_begun_in(world: World) -> None:
    application = world.application(counting(world.name), ThreadHostJobs())
    application.start()
    application.close()
    again = world.application(counting(world.name), ThreadHostJobs(), execution="auto")
    again.start()
    assert again.mode is not None and again.mode.is_continuous
    again.close()
    with pytest.raises(ConfigError, match="has begun in mode continuous"):
        world.application(counting(world.name), ThreadHostJobs(), execution="micro-batch").start()


def test_a_column_expression_is_refused_by_its_steps_name(world: World) -> None:
    builder = StreamsBuilder()
    builder.stream(world.name, key_serde="string", value_serde="string").map_values(
        "upper(value)", value_serde="string"
    ).to(world.out)
    with pytest.raises(ConfigError, match=r"KSTREAM-MAPVALUES-\d+ is the column expression"):
        world.application(builder.build(), ThreadHostJobs()).start()
