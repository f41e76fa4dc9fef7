"""An application goes from micro-batches to hosts and back, over its offsets and changelogs: nothing twice, nothing lost."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from ottla.base import ConfigError, KafkaError
from ottla.spark import StreamsApplication, promote
from ottla.spark.continuous.jobs import ThreadHostJobs
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
