"""Applications in continuous mode against a broker: results, restarts, kills, failures, and what a mode refuses."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from ottla.base import ConfigError, KafkaError
from ottla.client import BlockingClient
from ottla.spark import State, execution_mode
from ottla.spark.continuous.jobs import ThreadHostJobs
from ottla.spark.continuous.mode import slots_of, why_batches
from ottla.spark.streams.backlog import backlog
from ottla.streams import StreamsBuilder, StreamsSettings, TimeWindows, Topology
from tests.streams.continuous.hosts import ProcessHostJobs
from tests.streams.continuous.worlds import WAIT_SECONDS_MAX, World, counting, split_or_fail
from tests.waiting import until

pytestmark = pytest.mark.timeout(240)
BOTH = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])


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


def shouting(world: World, expression: str = "upper(value)") -> Topology:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    builder.stream(world.name).map_values(expression).to(world.out)
    return builder.build()


def test_column_expressions_run_without_spark(world: World) -> None:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    words = builder.stream(world.name).flat_map_values(r"split(lower(value), ' ')").filter("value <> ''")
    counts = words.group_by("value").count(materialized="counts").to_stream()
    counts.to(world.out, value_serde="long")
    world.application(builder.build(), ThreadHostJobs()).start()
    world.feed("All  streams", "all")
    world.await_counts(all=2, streams=1)


def test_an_expression_that_only_spark_knows_is_refused_by_its_steps_name(world: World) -> None:
    application = world.application(shouting(world, "soundex(value)"), ThreadHostJobs())
    with pytest.raises(ConfigError, match=r"KSTREAM-MAPVALUES-\d+: function soundex is not known here"):
        application.start()


def test_auto_begins_continuous_where_python_functions_see_records_and_nothing_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    application = world.application(counting(world.name), ThreadHostJobs(), execution="auto")
    application.start()
    assert application.mode is not None and application.mode.is_continuous
    world.feed("a")
    world.await_counts(a=1)
    monkeypatch.setattr("ottla.spark.continuous.mode.BACKLOG_RECORDS", 2)
    settings = application.settings
    with BlockingClient(settings.bootstrap_servers) as asking:
        assert backlog(asking, application.topology, settings) <= 1
        anew = StreamsSettings.of({**settings.given, "application.id": f"anew-{world.name}"})
        world.feed("b", "c", partition=1)
        assert backlog(asking, application.topology, anew) == 3
        stages = application.stages
        assert "3 records wait" in str(why_batches(stages, lambda: backlog(asking, application.topology, anew)))
        latest = StreamsSettings.of({**anew.given, "auto.offset.reset": "latest"})
        assert backlog(asking, application.topology, latest) == 0


def test_auto_says_why_it_begins_in_micro_batches(world: World) -> None:
    def why(topology: Topology, **more: object) -> str:
        mode = execution_mode(topology, StreamsSettings.of(world.settings(execution="auto", **more)))
        return f"{mode.name}: {mode.why}"

    assert why(counting(world.name)) == "continuous: execution=auto: results in milliseconds"
    assert why(shouting(world), spark_master="local[2]").startswith("micro-batch: every step is Spark's own")
    assert "soundex is not known here" in why(shouting(world, "soundex(value)"))
    assert why(counting(world.name), spark_master="sc://somewhere").startswith(
        "micro-batch: a session of Spark Connect"
    )


def test_auto_takes_hosts_where_they_carry_as_much_as_the_slots_of_micro_batches(world: World) -> None:
    def grouped(how: str) -> Topology:
        builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
        made = builder.stream("in").group_by_key()
        if how == "windows":
            windowed = made.windowed_by(TimeWindows.of_size(minutes=1, grace="5m"))
            windowed.count(materialized="c").to_stream().to("out", value_serde="long")
        else:
            made.reduce(lambda one, other: one + other, materialized="r").to_stream().to("out")
        return builder.build()

    def mode(topology: Topology, master: str, hosts: int, waiting: int = 5_000_000, **more: str) -> str:
        given = {**world.settings(execution="auto"), **more, "spark.master": master, "num.stream.threads": hosts}
        return execution_mode(topology, StreamsSettings.of(given), waiting).name

    windows, functions, shuffled = grouped("windows"), grouped("functions"), counting(world.name)
    assert mode(windows, "local[1]", 1) == mode(windows, "local", 1) == "continuous"
    assert mode(windows, "local[2]", 1) == mode(windows, "local[2]", 1, waiting=0) == "micro-batch"
    assert mode(windows, "local[2,4]", 2) == "continuous"
    assert mode(functions, "local[4]", 1) == "continuous"
    assert mode(functions, "local[5]", 1) == "micro-batch"
    assert mode(functions, "local[5]", 1, waiting=0) == "continuous"
    assert mode(shuffled, "local[1]", 1) == "micro-batch"
    assert mode(windows, "spark://somewhere:7077", 2) == "micro-batch"
    assert mode(windows, "spark://somewhere:7077", 2, **{"spark.cores.max": "2"}) == "continuous"
    assert mode(windows, "spark://somewhere:7077", 2, **{"spark.cores.max": "two"}) == "micro-batch"
    assert (slots_of(StreamsSettings.of(world.settings(spark_master="local[*]"))) or 0) >= 1


def test_exception_handlers_that_are_functions_decide_record_by_record(world: World) -> None:
    def decide(record: Any, error: Exception) -> str:
        assert isinstance(error, ValueError)
        return "continue" if record.value == b"poison" else "fail"

    application = world.application(
        counting(world.name, split_or_fail), ThreadHostJobs(), processing_exception_handler=decide
    )
    application.start()
    world.feed("a", "poison", "b")
    world.await_counts(a=1, b=1)
    until(lambda: application.status()["queries"][0]["skipped"] == 1, "the count of what was skipped")
