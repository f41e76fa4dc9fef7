"""Checkpoints of hosts: a killed one reads what is behind its checkpoint; whatever is wrong with a file costs time only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.base import TopicPartition
from ottla.spark import StreamsApplication
from ottla.spark.continuous.jobs import ThreadHostJobs
from ottla.streams import StreamsBuilder, Topology, read_checkpoint
from ottla.wire import Record, build_batch
from tests.streams.continuous.hosts import ProcessHostJobs
from tests.streams.continuous.worlds import WAIT_SECONDS_MAX, World, counting
from tests.waiting import until

pytestmark = pytest.mark.timeout(240)
BOTH = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
WORDS = [f"w{number}" for number in range(500)]


def saved(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/state/1_*.checkpoint"))


def restored(application: StreamsApplication) -> int:
    """Return how many records of changelogs its works have read, once all have told it."""

    def works() -> list[dict[str, int]]:
        found = [work for query in application.status()["queries"] for work in query["works"]]
        return [each for each in found if str(each["task"]).startswith("1_")]

    until(lambda: all(each["processed"] for each in works()), "reports", seconds=WAIT_SECONDS_MAX)
    return sum(each["restored"] for each in works())


def holds(path: Path, offset: int) -> bool:
    """Whether a checkpoint holds its changelogs up to an offset at least."""
    return all(each.offset >= offset for each in read_checkpoint(path.read_bytes()).changelogs.values())


@BOTH
def test_a_killed_host_reads_only_what_is_behind_its_checkpoint(world: World, tmp_path: Path, guarantee: str) -> None:
    jobs = ProcessHostJobs()
    application = world.application(
        counting(world.name), jobs, processing_guarantee=guarantee, state_checkpoint_interval_ms=50
    )
    application.start()
    world.feed(" ".join(WORDS))
    world.await_counts(**dict.fromkeys(WORDS, 1))
    until(lambda: len(saved(tmp_path)) == 2, "checkpoints", seconds=WAIT_SECONDS_MAX)
    world.feed("more more", partition=1)
    world.await_counts(**dict.fromkeys(WORDS, 1), more=2)
    until(lambda: all(holds(each, 100) for each in saved(tmp_path)), "checkpoints of all", seconds=WAIT_SECONDS_MAX)
    until(lambda: jobs.kill() == 1, "a host to kill", seconds=WAIT_SECONDS_MAX)
    world.feed(" ".join(WORDS))
    if guarantee == "exactly_once_v2":
        world.await_counts(**dict.fromkeys(WORDS, 2), more=2)
    else:
        until(lambda: all(found[-1] >= 2 for found in world.counts().values()), seconds=WAIT_SECONDS_MAX)
    assert restored(application) < 100


@pytest.mark.parametrize("harm", ["damaged", "foreign", "vanished"])
def test_a_checkpoint_that_cannot_be_used_costs_time_alone(world: World, tmp_path: Path, harm: str) -> None:
    first = world.application(counting(world.name), ThreadHostJobs())
    first.start()
    world.feed(" ".join(WORDS), "a a a")
    world.await_counts(**dict.fromkeys(WORDS, 1), a=3)
    first.close()
    paths = saved(tmp_path)
    assert len(paths) == 2, "a host that stops saves what has moved"
    for path, other in zip(paths, reversed(paths), strict=True):
        if harm == "damaged":
            path.write_bytes(path.read_bytes()[:-20])
        elif harm == "foreign":
            path.replace(path.with_suffix(".other")) if path is paths[0] else other.write_bytes(path.read_bytes())
        else:
            path.unlink()
    second = world.application(counting(world.name), ThreadHostJobs())
    second.start()
    world.feed(" ".join(WORDS), "a", partition=1)
    world.await_counts(**dict.fromkeys(WORDS, 2), a=4)
    assert restored(second) > 0


def test_a_stopped_application_begins_with_what_it_has_saved(world: World) -> None:
    for turn in range(2):
        application = world.application(counting(world.name), ThreadHostJobs(), processing_guarantee="exactly_once_v2")
        application.start()
        world.feed(" ".join(WORDS))
        world.await_counts(**dict.fromkeys(WORDS, turn + 1))
        assert restored(application) == 0
        application.close()


def test_a_folder_that_cannot_be_written_is_told_and_nothing_else_happens(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    application = world.application(counting(world.name), ThreadHostJobs(), state_checkpoint_interval_ms=20)
    application.start()
    (tmp_path / application.settings.application_id / "state").write_text("no folder")
    world.feed("a")
    world.await_counts(a=1)
    until(lambda: "is not saved" in caplog.text, "the log's line", seconds=WAIT_SECONDS_MAX)
    world.feed("a")
    world.await_counts(a=2)


def test_no_checkpoints_are_made_where_none_are_asked_for(world: World, tmp_path: Path) -> None:
    application = world.application(counting(world.name), ThreadHostJobs(), state_checkpoint_interval_ms=0)
    application.start()
    world.feed("a")
    world.await_counts(a=1)
    application.close()
    assert saved(tmp_path) == []


def enriching(world: World, table: str) -> Topology:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    names = builder.global_table(table, materialized="names")
    stream = builder.stream(world.name)
    stream.join(names, lambda left, right: f"{left}={right}", key=lambda key, value: value).to(world.out)
    return builder.build()


def test_a_global_table_goes_on_from_its_checkpoint(world: World, tmp_path: Path) -> None:
    table = f"{world.name}-table"
    world.topics(table)

    def put(key: str, value: str) -> None:
        batch = bytes(build_batch([Record(key=key.encode(), value=value.encode())]))
        world.client.produce({TopicPartition(table, 0): batch})

    put("x", "1")
    for turn in ("1", "2"):
        application = world.application(enriching(world, table), ThreadHostJobs())
        application.start()
        assert application.wait_running(WAIT_SECONDS_MAX)
        world.feed("x")
        until(lambda turn=turn: f"x={turn}".encode() in {each.value for each in world.read(world.out)}, "a row")
        application.close()
        put("x", "2")
    assert os.listdir(tmp_path / application.settings.application_id / "state")
