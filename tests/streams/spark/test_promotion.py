"""An application goes from micro-batches to hosts and back, over its offsets and changelogs: nothing twice, nothing lost."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.spark import StreamsApplication, promote
from ottla.spark.continuous.jobs import ThreadHostJobs
from ottla.spark.continuous.promotion import Promoting
from ottla.streams import StreamsBuilder, StreamsSettings, Topology
from tests.streams.spark.test_application import WAIT_SECONDS_MAX, World
from tests.waiting import until

pytestmark = pytest.mark.spark


def lengthening(topic: str) -> Topology:
    """Lines → words → each word's first letter, as often as it has come: by Python, behind a repartition topic."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    words = builder.stream(topic).flat_map(lambda key, line: [(word, word[0]) for word in line.split()])
    words.group_by_key().reduce(lambda one, other: one + other, materialized="letters").to_stream().to(f"{topic}-out")
    return builder.build()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_an_application_goes_from_mode_to_mode_and_each_result_is_there(world: World, guarantee: str) -> None:
    topology, given = lengthening(world.name), Counter[str]()
    more: dict[str, Any] = {"processing_guarantee": guarantee, "stream_time": "partition"}

    def run(application: StreamsApplication, line: str) -> None:
        world.feed(line, partition=len(given) % 2)
        given.update(line.split())
        with application:
            until(
                lambda: application.state.is_final or {word: len(value) for word, value in world.outputs()} == given,
                lambda: (world.outputs(), application.status()),
                seconds=WAIT_SECONDS_MAX,
            )
            assert not application.state.is_final, application.status()

    def continuous() -> StreamsApplication:
        settings = world.application(topology, **more, execution="continuous").settings
        world.open.append(StreamsApplication(topology, settings, jobs=ThreadHostJobs()))
        return world.open[-1]

    batches = world.application(topology, **more, execution="micro-batch")
    settings = batches.settings
    with pytest.raises(KafkaError, match="has not begun"):
        promote(topology, settings, "continuous")
    run(batches, "ape bee ape")
    with pytest.raises(ConfigError, match="streams promote"):
        continuous().start()
    assert promote(topology, settings, "continuous", dry_run=True).before == "micro-batch"
    found = promote(topology, settings, "continuous")
    assert found.after == "continuous" and sum(found.offsets.values()) == 1
    run(continuous(), "ape cat")
    with pytest.raises(ConfigError, match="streams promote"):
        world.application(topology, **more, execution="micro-batch").start()
    promote(topology, settings, "micro-batch")
    run(world.application(topology, **more), "bee cat dog")
    promote(topology, settings, "continuous")
    run(continuous(), "dog ape")
    if guarantee == "exactly_once_v2":
        only_grow(world)


def only_grow(world: World) -> None:
    """Each result of a word is longer than the one before it: nothing was done twice."""
    lengths: dict[str, list[int]] = {}
    for word, value in world.outputs():
        lengths.setdefault(word, []).append(len(value))
    assert all(a < b for each in lengths.values() for a, b in pairwise(each)), lengths


def test_one_that_runs_is_not_promoted_by_somebody_else(world: World) -> None:
    topology = lengthening(world.name)
    with world.application(topology, execution="micro-batch", stream_time="partition") as application:
        assert application.wait_running(WAIT_SECONDS_MAX)
        settings = StreamsSettings.of({**application.settings.given, "consumer.session.timeout.ms": 1000})
        with pytest.raises(KafkaError, match="is already run by"):
            promote(topology, settings, "continuous")


@pytest.mark.parametrize(
    "guarantee",
    [
        pytest.param("at_least_once", marks=pytest.mark.slow),  # 13 s, most of them as exactly once
        "exactly_once_v2",
    ],
)
def test_one_that_runs_goes_to_the_other_mode_and_back_while_records_come(world: World, guarantee: str) -> None:
    settings = world.application(
        lengthening(world.name), execution="micro-batch", stream_time="partition", processing_guarantee=guarantee
    ).settings
    application = StreamsApplication(lengthening(world.name), settings, spark=world.spark, jobs=ThreadHostJobs())
    world.open.append(application)
    given, is_over = Counter[str](), threading.Event()

    def feed() -> None:
        for number in range(4000):
            if is_over.wait(0.01):
                return
            world.feed(f"{'abcdefg'[number % 7]}-word", partition=number % 2)
            given[f"{'abcdefg'[number % 7]}-word"] += 1

    def has_read(more: int) -> None:
        before = application.status()["rows"]
        until(
            lambda: application.state.is_final or application.status()["rows"] >= before + more,
            application.status,
            seconds=WAIT_SECONDS_MAX,
        )

    feeding = threading.Thread(target=feed)
    with application:
        assert application.wait_running(WAIT_SECONDS_MAX)
        feeding.start()
        try:
            has_read(20)
            assert application.promote("continuous", dry_run=True).after == "continuous"
            assert application.promote("continuous").before == "micro-batch"
            assert application.status()["execution"] == "continuous"
            has_read(20)
            assert application.promote("micro-batch").before == "continuous"
            assert application.status()["execution"] == "micro-batch"
            with pytest.raises(KafkaError, match="already"):
                application.promote("micro-batch")
            has_read(20)
        finally:
            is_over.set()
            feeding.join()
        until(
            lambda: application.state.is_final or {word: len(value) for word, value in world.outputs()} == given,
            lambda: (given, application.status()),
            seconds=WAIT_SECONDS_MAX,
        )
        assert not application.state.is_final, application.status()
    if guarantee == "exactly_once_v2":
        only_grow(world)


def test_one_that_is_refused_goes_on_as_it_was(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with world.application(lengthening(world.name), execution="micro-batch", stream_time="partition") as application:
        assert application.wait_running(WAIT_SECONDS_MAX)

        def refused(self: Promoting, *, dry_run: bool) -> None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a batch that is not finished")

        monkeypatch.setattr(Promoting, "run", refused)
        with pytest.raises(KafkaError, match="not finished"):
            application.promote("continuous")
        world.feed("ape ape")
        until(lambda: ("ape", b"aa") in world.outputs(), application.status, seconds=WAIT_SECONDS_MAX)
        assert application.status()["execution"] == "micro-batch"
    with pytest.raises(KafkaError, match="does not run"):
        application.promote("continuous")
