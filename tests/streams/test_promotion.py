"""Which plans may go on in the other mode of execution: those whose results are proven to be the same."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.streams import (
    KStream,
    StreamsBuilder,
    TimeWindows,
    UsePartitionTimeOnInvalidTimestamp,
    cut,
    why_not_promoted,
)


def reasons(build: Any, **extractors: object) -> list[str]:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    build(builder.stream("in"))
    topology = builder.build()
    return why_not_promoted(topology, cut(topology, stream_time="partition", every_update=False), extractors)


class Passing:
    def process(self, record: Any) -> None:
        """Do nothing."""


def test_stateless_steps_reductions_and_tables_may_be_promoted() -> None:
    def build(stream: KStream[Any, Any]) -> None:
        table = stream.group_by(lambda key, value: value).reduce(lambda one, other: one + other, materialized="sums")
        stream.join(table, lambda left, right: left + right).filter(lambda key, value: True).to("out")

    assert reasons(build) == []


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (
            lambda stream: stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace("1s")).reduce(max),
            "goes by stream time",
        ),
        (lambda stream: stream.process(Passing), "runs a processor"),
    ],
)
def test_what_one_mode_remembers_and_the_other_does_not_know_is_refused(build: Any, words: str) -> None:
    assert any(words in each for each in reasons(build))


def test_an_extractor_that_goes_by_the_partitions_time_is_refused() -> None:
    def build(stream: KStream[Any, Any]) -> None:
        stream.to("out")

    found = reasons(build, **{"KSTREAM-SOURCE-0000000000": UsePartitionTimeOnInvalidTimestamp()})
    assert len(found) == 1 and "partition's time" in found[0]
