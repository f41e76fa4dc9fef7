"""Applications in continuous mode against a broker: results, restarts, kills, failures, and what a mode refuses."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from ottla.base import ConfigError, KafkaError
from ottla.spark import State
from ottla.spark.continuous.jobs import ThreadHostJobs
from ottla.streams import StreamsBuilder
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


def test_a_column_expression_is_refused_by_its_steps_name(world: World) -> None:
    builder = StreamsBuilder()
    builder.stream(world.name, key_serde="string", value_serde="string").map_values(
        "upper(value)", value_serde="string"
    ).to(world.out)
    with pytest.raises(ConfigError, match=r"KSTREAM-MAPVALUES-\d+ is the column expression"):
        world.application(builder.build(), ThreadHostJobs()).start()
