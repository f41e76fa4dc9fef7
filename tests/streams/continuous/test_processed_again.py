"""At least once, a host may die between its changelog and all else that it made: the same records tell it again."""

from __future__ import annotations

import pytest

from ottla.base import TopicPartition
from ottla.spark import StreamsApplication
from ottla.spark.continuous.jobs import ThreadHostJobs
from ottla.streams import StreamsBuilder, Topology
from ottla.wire import Record, build_batch
from tests.streams.continuous.worlds import NOW_MS, WAIT_SECONDS_MAX, World
from tests.waiting import until

pytestmark = pytest.mark.timeout(240)


def joining(world: World, rows: str) -> Topology:
    """Lines of the world's topic, `key → name of a row`, with the rows."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    lines, others = builder.table(world.name, materialized="lines"), builder.table(rows, materialized="rows")
    joined = lines.join(others, lambda line, row: f"{line}: {row}", foreign_key=lambda line: line)
    joined.to_stream().to(world.out)
    return builder.build()


def running(world: World, rows: str) -> StreamsApplication:
    application = world.application(joining(world, rows), ThreadHostJobs(), processing_guarantee="at_least_once")
    application.start()
    assert application.wait_running(WAIT_SECONDS_MAX)
    return application


def append(world: World, topic: str, key: str, value: str | None) -> None:
    record = Record(0, NOW_MS, key.encode(), None if value is None else value.encode(), ())
    world.client.produce({TopicPartition(topic, 0): bytes(build_batch([record]))})


def await_last(world: World, wanted: bytes | None) -> None:
    until(
        lambda: [each.value for each in world.read(world.out)][-1:] == [wanted],
        seconds=WAIT_SECONDS_MAX,
        what=lambda: str(world.read(world.out)),
    )


def test_a_deletion_that_only_the_changelog_knows_is_told(world: World) -> None:
    rows = f"{world.name}-rows"
    world.topics(rows)
    append(world, rows, "x", "row")
    append(world, world.name, "a", "x")
    application = running(world, rows)
    await_last(world, b"x: row")
    application.close()
    # what a host leaves that died: the store's change is written, no question was sent, nothing is committed
    append(world, world.name, "a", None)
    append(world, f"app-{world.name}-lines-changelog", "a", None)
    running(world, rows)
    await_last(world, None)
