"""Joins by foreign key end with the join of what their tables hold, whatever the order of changes, questions and answers."""

from __future__ import annotations

import pytest

from ottla.streams import Serdes
from ottla.streams.engine.joins import foreign_key
from ottla.streams.errors import SerializationError
from ottla.streams.serdes.basic import Serde
from ottla.streams.serdes.internal import Response, ResponseSerde, SubscriptionSerde
from tests.streams.engine.foreign_keys import Machine

HASH = bytes(range(16))


@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize("first", range(100, 400, 50))
def test_the_joined_table_is_the_join_of_the_tables_whatever_the_order(kind: str, first: int) -> None:
    for seed in range(first, first + 50):
        machine = Machine(seed, kind)
        machine.run()
        assert machine.result() == machine.wanted(), f"seed {seed}"


@pytest.mark.parametrize("seed", [5307, 6790, 7208, 7959])
def test_an_answer_that_comes_later_than_that_of_a_newer_question_leaves_no_row(seed: int) -> None:
    machine = Machine(seed, "inner")
    machine.run()
    assert machine.result() == machine.wanted()


@pytest.mark.parametrize(
    ("kind", "seed"), [("inner", each) for each in (69, 192, 303, 1532)] + [("left", 126), ("left", 172)]
)
def test_a_task_that_died_between_its_changelog_and_its_questions_leaves_no_row(kind: str, seed: int) -> None:
    machine = Machine(seed, kind, replay=True)
    machine.run()
    assert machine.result() == machine.wanted()


@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize("first", range(30_000, 30_150, 50))
def test_records_that_are_processed_again_leave_the_join_of_the_tables(kind: str, first: int) -> None:
    for seed in range(first, first + 50):
        machine = Machine(seed, kind, replay=True)
        machine.run()
        assert machine.result() == machine.wanted(), f"seed {seed}"


def test_a_question_that_is_processed_again_is_told_that_its_row_is_gone() -> None:
    machine = Machine(50_024, "inner", replay=True, left=3, right=1)
    machine.run()
    assert machine.result() == machine.wanted()


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize(("left", "right"), [(1, 3), (3, 1)])
def test_tables_of_unlike_numbers_of_partitions_join_as_others_do(
    kind: str, left: int, right: int, *, replay: bool
) -> None:
    for seed in range(60_000, 60_030):
        machine = Machine(seed, kind, replay=replay, left=left, right=right)
        machine.run()
        assert machine.result() == machine.wanted(), f"seed {seed}"


@pytest.mark.parametrize("seed", [105, 157, 314, 361, 383, 491, 538, 596])
def test_more_rows_than_are_noted_lose_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_key, "TOLD_MAX", 0)
    machine = Machine(seed, "inner")
    machine.run()
    assert machine.result() == machine.wanted()


@pytest.mark.parametrize("serde", [SubscriptionSerde(Serdes.string()), ResponseSerde(Serdes.string())])
def test_questions_and_answers_of_a_later_version_are_refused_as_java_does(serde: Serde) -> None:
    with pytest.raises(SerializationError, match="version 2 is not known here"):
        serde.deserialize(b"\x02\x02" + HASH + b"l1" + bytes(4))


def test_what_an_earlier_version_wrote_as_a_reminder_is_an_answer_without_a_row() -> None:
    serde = ResponseSerde(Serdes.long())
    assert serde.deserialize(b"\x01" + HASH) == Response(HASH, None)
    assert serde.serialize(Response(HASH, None)) == b"\x00" + HASH
