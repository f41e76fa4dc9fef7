"""Faults that Streams had, to be put back: each with the case that finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from ottla.base import ErrorCode
from ottla.client import producer
from ottla.connect.testing import Fault, Injected, world
from ottla.spark.source import reader as source
from ottla.spark.source.positions import offsets_to_json
from ottla.spark.streams import delivery, launch, preparation
from ottla.spark.streams.lowering import topics as lower_topics
from ottla.spark.streams.planned import Reading
from tests.streams.machine import sparks
from tests.streams.machine.cases import Again, Case, Kind, Topics

__all__ = ["MUTATIONS", "Mutation"]

Put = tuple[Any, str, Any]


@dataclass(frozen=True)
class Mutation:
    """A fault, as what stands in whose place, and the case that has to find it."""

    name: str
    puts: Callable[[], list[Put]]
    case: Case

    @contextmanager
    def made(self) -> Iterator[None]:
        """Have the fault until the block ends."""
        with ExitStack() as stack:
            for owner, name, new in self.puts():
                stack.enter_context(patch.object(owner, name, new))
            yield


def _case(kind: Kind, step: str, number: int, fault: Fault, again: Again = Again.CHECKPOINT, **more: Any) -> Case:
    return Case(kind, True, Injected(step, number, fault), again, **more)


def _without_members() -> list[Put]:
    before = launch.SparkLauncher.delivery

    def made(launcher: Any, stage: Any) -> Any:
        return replace(before(launcher, stage), member=None)

    return [(launch.SparkLauncher, "delivery", made), (preparation, "_take_over", lambda *given: None)]


def _without_reset() -> list[Put]:
    before = lower_topics.ClusterTopics.options

    def options(topics: Any, wanted: Any) -> dict[str, str]:
        return {key: value for key, value in before(topics, wanted).items() if key != "ottla.reset"}

    return [(lower_topics.ClusterTopics, "options", options)]


def _forgetting(owner: Any, name: str, found: Any) -> Callable[[], list[Put]]:
    return lambda: [(owner, name, lambda *given, **more: found)]


def _unfenced(before: Any) -> Any:
    return lambda link, given, options, record: before(link, replace(given, member=None), options, record)


def _without_ids(reader: Any, offsets: Any, ids: Any, begun: Any = None) -> dict[str, Any]:
    return dict(offsets_to_json(offsets))


def _doing_without(before: Any) -> Any:
    return lambda launcher, stage: replace(before(launcher, stage), gone=None)


MUTATIONS = (
    Mutation(
        "two drivers with folders of their own both deliver",
        _without_members,
        _case(Kind.DIRECT, "fetch input", 1, Fault.FENCED),
    ),
    Mutation(
        "a lost checkpoint is not noticed, and state begins empty",
        _forgetting(preparation, "_rebuilt", []),
        _case(Kind.STATE, "commit a transaction", 2, Fault.KILL_AFTER, Again.LOST),
    ),
    Mutation(
        "retention that has passed an application ends it",
        _without_reset,
        _case(Kind.DIRECT, "fetch input", 1, Fault.KILL_BEFORE, topics=Topics.CUT),
    ),
    Mutation(
        "a first batch that is done again begins elsewhere",
        _forgetting(preparation.Checkpoint, "has_begun", False),
        _case(Kind.DIRECT, "commit a transaction", 2, Fault.KILL_AFTER, first=True),
    ),
    Mutation(
        "a driver that another has followed says that it delivers",
        lambda: [(delivery, "_write_plan", _unfenced(delivery._write_plan))],
        _case(Kind.DIRECT, "plan", 1, Fault.FENCED, first=True),
    ),
    Mutation(
        "a batch that is too large for its topic is not split",
        lambda: [(producer, "AGAIN", producer.AGAIN - {ErrorCode.MESSAGE_TOO_LARGE})],
        _case(Kind.DIRECT, "produce results", 1, Fault.REFUSED),
    ),
    Mutation(
        "state from changelogs counts the last batch twice",
        _forgetting(sparks, "read_positions", {}),
        _case(Kind.STATE, "Spark's own commit", 1, Fault.KILL_BEFORE, Again.LOST),
    ),
    Mutation(
        "of a topic that two queries read, one repeats its last batch",
        _forgetting(preparation, "_noted", {}),
        _case(Kind.BOTH, "commit offsets", 1, Fault.KILL_BEFORE, Again.ELSEWHERE),
    ),
    Mutation(
        "a query through Spark repeats its last batch",
        lambda: [(sparks, "readings", lambda tasks: [Reading()] * len(tasks))],
        _case(Kind.FRAME, "commit offsets", 1, Fault.KILL_BEFORE, Again.ELSEWHERE),
    ),
    Mutation(
        "a branch of a plan is taken for the whole",
        lambda: [(sparks, "readings", lambda tasks: [Reading({each.partition: each.end}) for [each] in tasks])],
        _case(Kind.FORKED, "commit a transaction", 3, Fault.KILL_BEFORE, Again.LOST),
    ),
    Mutation(
        "positions in a topic that was made again count for the new one",
        lambda: [(preparation, "topic_ids", lambda *given: {})],
        _case(Kind.STATE, "plan", 1, Fault.KILL_BEFORE, Again.LOST, topics=Topics.AGAIN),
    ),
    Mutation(
        "a topic that was made again is waited for up to where a batch was planned",
        lambda: [
            (source.OttlaStreamReader, "_told", _without_ids),  # as in a checkpoint of before they were noted
            (source, "_has_shrunk", lambda *given: False),
            (world, "STEPS_MAX", 600),
        ],
        _case(Kind.DIRECT, "fetch input", 1, Fault.KILL_BEFORE, topics=Topics.AGAIN),
    ),
    Mutation(
        "what was delivered of a topic counts for the one that was made again under its name",
        lambda: [(source.OttlaStreamReader, "_told", _without_ids)],
        _case(Kind.FRAME, "Spark's own commit", 1, Fault.KILL_BEFORE, topics=Topics.REFILLED, first=True),
    ),
    Mutation(
        "a topic that was made again with as many records is read from where the old one was left",
        lambda: [(source.OttlaStreamReader, "_told", _without_ids)],
        _case(Kind.DIRECT, "commit offsets", 1, Fault.KILL_BEFORE, topics=Topics.REFILLED),
    ),
    Mutation(
        "a batch reads another topic than it was planned of",
        lambda: [(source, "_has_another_id", lambda *given: False)],
        Case(Kind.DIRECT, True, first=True, meanwhile=("fetch input", 1)),
    ),
    Mutation(
        "a batch that is begun again in the same process reads another topic than it was planned of",
        lambda: [(source, "_has_another_id", lambda *given: False)],
        _case(Kind.FORKED, "compute", 2, Fault.RETRIABLE, first=True, meanwhile=("compute", 2)),
    ),
    Mutation(
        "of branches over a topic that was made again some send what the others have not",
        lambda: [(source.OttlaStreamReader, "_told", _without_ids)],
        _case(Kind.FORKED, "commit a transaction", 3, Fault.KILL_BEFORE, topics=Topics.REFILLED),
    ),
    Mutation(
        "state lacks what was delivered of a topic that is gone",
        lambda: [
            (preparation, "_without_gone_records", lambda *given: {}),
            (launch.SparkLauncher, "topics", _doing_without(launch.SparkLauncher.topics)),
        ],
        _case(Kind.STATE, "Spark's own commit", 1, Fault.KILL_BEFORE, topics=Topics.REFILLED),
    ),
    Mutation(
        "state lacks what was delivered of records that retention has deleted",
        _forgetting(preparation, "_without_head", []),
        _case(Kind.STATE, "Spark's own commit", 1, Fault.KILL_BEFORE, topics=Topics.CUT),
    ),
    Mutation(
        "a batch with state is begun again without a topic of which it had delivered",
        lambda: [(launch.SparkLauncher, "topics", _doing_without(launch.SparkLauncher.topics))],
        _case(Kind.STATE, "Spark's own commit", 1, Fault.RETRIABLE, meanwhile=("Spark's own commit", 1)),
    ),
    Mutation(
        "a native aggregate goes on without what it had delivered of a topic that is gone",
        _forgetting(preparation, "has_delivered", False),
        _case(Kind.BOTH, "Spark's own commit", 1, Fault.KILL_BEFORE, topics=Topics.AGAIN),
    ),
)
