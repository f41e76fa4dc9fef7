"""`production.exception.handler` in continuous mode: what a serde cannot write, and what no broker takes."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base import ErrorCode, KafkaError, TopicPartition
from ottla.client import RecordTooLargeError, SettledBatch
from ottla.spark import State
from ottla.spark.continuous.jobs import ThreadHostJobs
from ottla.spark.continuous.refusals import Refusals, Sent
from ottla.streams import ExceptionPolicy, StreamsBuilder, Topology
from ottla.wire import Codec, Record
from tests.spark.conftest import narrow_topic
from tests.streams.continuous.worlds import WAIT_SECONDS_MAX, World
from tests.waiting import until

pytestmark = pytest.mark.timeout(240)
BOTH = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
PLACE = TopicPartition("out", 0)
TOO_LARGE = RecordTooLargeError(ErrorCode.MESSAGE_TOO_LARGE, "too large")


def passing_on(world: World, out: str, value_serde: str = "string", value: Any = str) -> Topology:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    builder.stream(world.name).map_values(value).to(out, value_serde=value_serde)
    return builder.build()


def grown(text: str) -> str:
    """Make a value as large as its text says: `5000` has 5000 letters."""
    return text * int(text) if text.isdigit() else text


def values(world: World, topic: str) -> list[str]:
    return sorted(each.value.decode()[:20] for each in world.read(topic))


@BOTH
def test_a_record_that_is_too_large_is_left_out_and_all_others_are_there_once(world: World, guarantee: str) -> None:
    small = f"{world.name}-small"
    narrow_topic(world.client, small, 2000, partitions=2)

    def decide(record: Any, error: Exception) -> str:
        is_known = record.topic == small and len(record.value) in (4000, 8000, 12000, 36000)
        return "continue" if is_known and isinstance(error, KafkaError) else "fail"

    application = world.application(
        passing_on(world, small, value=grown),
        ThreadHostJobs(),
        processing_guarantee=guarantee,
        production_exception_handler=decide,
    )
    application.start()
    world.feed("a", "1000", "b", "2000", "c")
    world.feed("d", "3000", partition=1)
    until(
        lambda: set(values(world, small)) >= set("abcd"),
        seconds=WAIT_SECONDS_MAX,
        what=lambda: str(values(world, small)),
    )
    world.feed("9000", "e")
    until(lambda: "e" in values(world, small), seconds=WAIT_SECONDS_MAX, what=lambda: str(values(world, small)))
    if guarantee == "exactly_once_v2":
        assert values(world, small) == ["a", "b", "c", "d", "e"]
    assert application.state is State.RUNNING


def test_without_a_handler_a_record_that_is_too_large_ends_its_application_and_says_why(world: World) -> None:
    small = f"{world.name}-small"
    narrow_topic(world.client, small, 2000, partitions=2)
    application = world.application(passing_on(world, small, value=grown), ThreadHostJobs(), restart_attempts_max=1)
    application.start()
    world.feed("a", "1000")
    with pytest.raises(KafkaError, match=r"topic .*-small takes 2000"):
        application.wait(WAIT_SECONDS_MAX)


@pytest.mark.parametrize("action", ["continue", "function"])
def test_what_a_sinks_serde_cannot_write_is_left_out_where_the_handler_says_so(world: World, action: str) -> None:
    def decide(record: Any, error: Exception) -> str:
        return "continue" if record.value == b"bad" else "fail"

    dead = f"{world.name}-dead"
    world.topics(dead)
    application = world.application(
        passing_on(world, world.out, "long", lambda text: text if text == "bad" else len(text)),
        ThreadHostJobs(),
        production_exception_handler=decide if action == "function" else action,
        errors_dead_letter_queue_topic_name=dead,
    )
    application.start()
    world.feed("one", "bad", "three")
    until(lambda: len(world.read(world.out)) == 2 and len(world.read(dead)) == 1, "both", seconds=WAIT_SECONDS_MAX)
    [letter] = world.read(dead)
    assert letter.value == b"bad" and dict(letter.headers)["__streams.errors.offset"] == b"1"
    until(lambda: application.status()["queries"][0]["skipped"] == 1, "the count of what was skipped")


def test_a_processing_handler_is_not_asked_about_what_cannot_be_written(world: World) -> None:
    application = world.application(
        passing_on(world, world.out, "long"), ThreadHostJobs(), processing_exception_handler="continue"
    )
    application.start()
    world.feed("text")
    with pytest.raises(KafkaError, match="cannot write a result"):
        application.wait(WAIT_SECONDS_MAX)


def settled(records: list[Record], error: KafkaError, policy: ExceptionPolicy, count: int = 1) -> SettledBatch:
    return SettledBatch(Sent("app", records, policy), PLACE, 0, count, -1, error)


def test_a_refused_batch_has_its_topic_go_one_by_one_and_a_refused_record_is_not_sent_again() -> None:
    refusals, policy = Refusals(Codec.NONE), ExceptionPolicy("continue")
    good, bad = Record(value=b"good"), Record(key=b"k", value=b"bad")
    invalid = KafkaError(ErrorCode.INVALID_RECORD, "no key")
    assert refusals.learn(settled([good, bad], invalid, policy, count=2)) is None and "out" in refusals.topics
    assert refusals.learn(settled([bad], invalid, policy)) is None
    assert list(refusals.allowed(PLACE, Sent("app", [good, bad, good], policy))) == [good, good]


def test_changelogs_and_faults_of_an_application_are_nobodys_to_leave_out() -> None:
    refusals = Refusals(Codec.NONE)
    record, skip = Record(value=b"v"), ExceptionPolicy("continue")
    assert refusals.learn(settled([record], TOO_LARGE, ExceptionPolicy("fail"))) == "app"
    denied = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")
    assert refusals.learn(settled([record], denied, skip)) == "app"
    assert refusals.learn(settled([record], KafkaError(ErrorCode.NETWORK_EXCEPTION, "away"), skip)) is None


def test_a_handler_that_fails_or_says_fail_ends_its_application() -> None:
    def broken(record: Any, error: Exception) -> str:
        raise ValueError("broken")

    for decide in (broken, lambda record, error: "fail"):
        refusals = Refusals(Codec.NONE)
        assert refusals.learn(settled([Record(value=b"v")], TOO_LARGE, ExceptionPolicy("fail", None, decide))) == "app"


def test_larger_records_than_one_that_was_refused_are_not_sent_to_be_refused() -> None:
    refusals, policy = Refusals(Codec.NONE), ExceptionPolicy("continue")
    refusals.learn(settled([Record(value=bytes(1000))], TOO_LARGE, policy))
    small, large = Record(value=bytes(900)), Record(value=bytes(1001))
    assert list(refusals.allowed(PLACE, Sent("app", [small, large], policy))) == [small]
    with pytest.raises(KafkaError, match="larger than others"):
        list(refusals.allowed(PLACE, Sent("app", [large], ExceptionPolicy("fail"))))
