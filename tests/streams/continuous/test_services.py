"""Many applications in one service: they come, pause, go on, fail and end while others run."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ConfigError, KafkaError, TopicPartition
from ottla.client import BlockingClient
from ottla.spark import State, StreamsService
from ottla.spark.continuous.jobs import ThreadHostJobs
from ottla.streams import StreamsBuilder, Topology
from tests.server import running_server
from tests.streams.continuous.hosts import ProcessHostJobs
from tests.streams.continuous.worlds import WAIT_SECONDS_MAX, World, counting, split_or_fail
from tests.waiting import until

pytestmark = pytest.mark.timeout(240)
BOTH = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])


def named(world: World, name: str, **more: Any) -> dict[str, Any]:
    """Make an application's topics, and return its settings."""
    world.topics(f"{world.name}-{name}", f"{world.name}-{name}-out")
    return world.settings(application_id=f"{name}-{world.name}", **more)


@BOTH
def test_applications_come_pause_go_on_and_end_while_others_run(world: World, guarantee: str) -> None:
    service = world.service(ThreadHostJobs(), hosts=2)
    one = service.add(counting(world.name), world.settings(processing_guarantee=guarantee))
    world.feed("a b")
    world.await_counts(a=1, b=1)
    topic = f"{world.name}-two"
    settings = named(world, "two", processing_guarantee=guarantee)
    two = service.add(counting(topic), settings)
    world.feed("x", topic=topic)
    world.await_counts(f"{topic}-out", x=1)
    service.pause(two.settings.application_id)
    assert two.is_paused and two.state is State.RUNNING and two.status()["paused"]
    world.feed("x", topic=topic)
    world.feed("a", partition=1)
    world.await_counts(a=2, b=1)
    assert world.counts(f"{topic}-out") == {"x": [1]}
    service.resume(two.settings.application_id)
    world.await_counts(f"{topic}-out", x=2)
    assert service.end(two.settings.application_id) and two.state is State.NOT_RUNNING
    assert list(service.applications) == [one.settings.application_id]
    world.feed("b")
    world.await_counts(a=2, b=2)
    again = service.add(counting(topic), settings)
    world.feed("x", topic=topic)
    world.await_counts(f"{topic}-out", x=3)
    assert service.close() and again.state is State.NOT_RUNNING and one.state is State.NOT_RUNNING


@BOTH
def test_a_poisoned_application_ends_in_error_and_its_neighbours_lose_nothing(world: World, guarantee: str) -> None:
    service = world.service(ThreadHostJobs())
    service.add(counting(world.name), world.settings(processing_guarantee=guarantee))
    topic = f"{world.name}-bad"
    settings = named(world, "bad", processing_guarantee=guarantee)
    bad = service.add(counting(topic, split_or_fail), settings)
    for number in range(20):
        world.feed("a", partition=number % 2)
        if number == 10:
            world.feed("x", "poison", topic=topic)
    with pytest.raises(KafkaError, match="nobody can read this"):
        bad.wait(WAIT_SECONDS_MAX)
    world.await_counts(a=20)
    assert all(before < after for before, after in pairwise(world.counts()["a"]))
    [shown] = [each for each in service.status()["applications"] if each["state"] == "ERROR"]
    assert shown["application_id"] == bad.settings.application_id and "nobody can read this" in shown["error"]
    with pytest.raises(KafkaError, match="is in state ERROR"):
        service.resume(bad.settings.application_id)
    mended = service.add(counting(topic), settings)
    world.await_counts(f"{topic}-out", x=1, poison=1)
    assert service.application(bad.settings.application_id) is mended


class Unreadable:
    """A function that cannot be unpickled."""

    def __call__(self, line: str) -> list[str]:
        return [line]

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (b"no pickle",)


def test_a_plan_that_a_host_cannot_read_fails_alone(world: World) -> None:
    service = world.service(ThreadHostJobs())
    service.add(counting(world.name), world.settings())
    topic = f"{world.name}-unread"
    unread = service.add(counting(topic, Unreadable()), named(world, "unread", restart_attempts_max=1))
    assert not unread.wait_running(WAIT_SECONDS_MAX)
    assert unread.error is not None and "UnpicklingError" in unread.error.reason
    world.feed("a")
    world.await_counts(a=1)
    assert service.status()["hosts"][0]["restarts"] == 0


def test_a_service_closes_more_applications_than_it_has_threads(world: World) -> None:
    service = world.service(ThreadHostJobs())
    found = [
        service.add(numbered(world.name, number), world.settings(application_id=f"{number}-{world.name}"))
        for number in range(12)
    ]
    assert all(each.wait_running(WAIT_SECONDS_MAX) for each in found)
    assert service.close() and {each.state for each in found} == {State.NOT_RUNNING}


def test_a_name_runs_once_and_micro_batches_are_refused(world: World) -> None:
    service = world.service(ThreadHostJobs())
    service.add(counting(world.name), world.settings(execution="auto"))
    with pytest.raises(KafkaError, match=r"runs in service .* already"):
        service.add(counting(world.name), world.settings())
    with pytest.raises(ConfigError, match="continuous mode alone"):
        service.add(counting(world.name), world.settings(application_id="other", execution="micro-batch"))
    with pytest.raises(KafkaError, match="is already run by"):
        world.application(counting(world.name), ThreadHostJobs(), session_timeout_ms=1000).start()
    with pytest.raises(KeyError):
        service.pause("nobody")


def test_a_start_that_is_refused_leaves_the_name_free(world: World) -> None:
    service = world.service(ThreadHostJobs())
    builder = StreamsBuilder()
    builder.stream("a-topic-that-is-not-there", key_serde="string", value_serde="string").to(world.out)
    with pytest.raises(KafkaError):
        service.add(builder.build(), world.settings())
    assert not service.applications
    service.add(counting(world.name), world.settings())
    world.feed("a")
    world.await_counts(a=1)


def numbered(topic: str, number: int) -> Topology:
    """A plan with a closure, as a program makes them."""
    builder = StreamsBuilder()
    lines = builder.stream(topic, key_serde="string", value_serde="string")
    lines.map_values(lambda line: f"{number}:{line}", value_serde="string").to(f"{topic}-out")
    return builder.build()


@BOTH
def test_a_killed_host_takes_up_all_its_applications_and_those_that_are_paused_stay_so(
    world: World, guarantee: str
) -> None:
    jobs = ProcessHostJobs()
    service = world.service(jobs)
    found = [
        service.add(
            numbered(world.name, number),
            world.settings(application_id=f"{number}-{world.name}", processing_guarantee=guarantee),
        )
        for number in range(3)
    ]
    world.feed("a")
    until(lambda: len(world.read(world.out)) == 3, lambda: world.read(world.out))
    found[0].pause()
    assert jobs.kill() == 1
    world.feed("b")
    until(lambda: len(world.read(world.out)) >= 5, lambda: world.read(world.out))
    assert all(each.wait_running(WAIT_SECONDS_MAX) for each in found)
    assert b"0:b" not in {each.value for each in world.read(world.out)}
    found[0].resume()
    until(lambda: b"0:b" in {each.value for each in world.read(world.out)}, lambda: world.read(world.out))
    if guarantee == "exactly_once_v2":
        assert len(world.read(world.out)) == 6


@pytest.fixture
def waiting_broker(tmp_path: Path) -> Iterator[BlockingClient]:
    """A broker that has a new group wait for more members, as every broker does unless told otherwise."""
    wait = ("group.initial.rebalance.delay.ms=2000", "group.min.session.timeout.ms=1000")
    with running_server(tmp_path, overrides=wait) as server, BlockingClient(server.bootstrap) as opened:
        yield opened


def test_results_leave_at_once_while_a_new_group_waits_for_members_and_commits_follow(
    waiting_broker: BlockingClient, tmp_path: Path
) -> None:
    world = World("waits", waiting_broker, tmp_path / "state")
    try:
        service = world.service(ThreadHostJobs())
        application = service.add(counting(world.name), world.settings())
        world.feed("a")
        world.await_counts(a=1)
        committed = partial(waiting_broker.committed_offsets, application.settings.application_id)
        place = TopicPartition(world.name, 0)
        until(lambda: committed()[place].offset == 1, lambda: committed(), past=(KeyError,))
        assert service.end(application.settings.application_id)
        again = service.add(counting(world.name), world.settings())
        assert service.end(again.settings.application_id) and again.state is State.NOT_RUNNING
    finally:
        world.close()


def for_ever(line: str) -> list[str]:
    """Split a line; one of them never comes to an end."""
    while line == "loop":
        pass
    return line.split()


@pytest.mark.slow  # a host is not given up before it has been silent for a while: 15 s
def test_a_function_that_never_returns_costs_its_own_application_and_its_neighbours_a_restart(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.spark.continuous.service.SILENT_SECONDS", 12.0)
    service = world.service(ProcessHostJobs())
    service.add(counting(world.name), world.settings(processing_guarantee="exactly_once_v2"))
    topic = f"{world.name}-loop"
    stuck = service.add(counting(topic, for_ever), named(world, "loop"))
    world.feed("a")
    world.await_counts(a=1)
    world.feed("loop", topic=topic)
    until(lambda: stuck.state is State.ERROR, lambda: service.status())
    assert stuck.error is not None and "has not returned for" in stuck.error.reason
    world.feed("a")
    world.await_counts(a=2)
    assert service.status()["hosts"][0]["restarts"] == 1


def committed(application: Any) -> bool:
    """Whether an application has joined its group: the driver's member is known to it."""
    return bool(application.status()["member_id"])


def test_of_two_services_that_begin_an_application_at_once_one_is_refused(
    waiting_broker: BlockingClient, tmp_path: Path
) -> None:
    world = World("twice", waiting_broker, tmp_path / "state")
    world.services = [StreamsService(f"service-{number}", jobs=ThreadHostJobs()) for number in range(2)]
    try:
        settings = world.settings(session_timeout_ms=1000)
        for each in world.services:
            each.start()

        def outcome(service: StreamsService) -> str:
            try:
                application = service.add(counting(world.name), settings)
                until(lambda: application.state is State.ERROR or committed(application), "how it ends")
            except KafkaError as error:
                return str(error)
            return str(application.error.reason if application.error is not None else application.state)

        with ThreadPoolExecutor(2) as both:
            found = sorted(both.map(outcome, world.services), key=lambda each: each != "RUNNING")
        said = ("is already run by", "has members: another application or consumer")  # by when the second one comes
        assert found[0] == "RUNNING" and any(each in found[1] for each in said), found
        world.feed("a")
        world.await_counts(a=1)
    finally:
        world.close()
