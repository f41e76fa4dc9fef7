"""Joins by foreign key end with the join of what their tables hold, whatever the order of changes, questions and answers."""

from __future__ import annotations

import pytest

from ottla.streams import Serdes
from ottla.streams.engine.joins import foreign_key
from ottla.streams.serdes.internal import Response, ResponseSerde
from tests.streams.engine.foreign_keys import Machine

HASH = bytes(range(16))


@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize("first", range(100, 400, 50))
def test_the_joined_table_is_the_join_of_the_tables_whatever_the_order(kind: str, first: int) -> None:
    for seed in range(first, first + 50):
        machine = Machine(seed, kind)
        machine.run()
        assert machine.result() == machine.wanted(), f"seed {seed}"


@pytest.mark.parametrize("seed", [105, 157, 314, 361, 383, 491, 538, 596])
def test_more_rows_that_wait_for_a_reminder_than_are_noted_one_by_one_lose_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_key, "MISSED_MAX", 0)
    machine = Machine(seed, "inner")
    machine.run()
    assert machine.result() == machine.wanted()


def test_a_reminder_is_an_answer_without_a_row_to_who_knows_none() -> None:
    serde = ResponseSerde(Serdes.long())
    data = serde.serialize(Response.reminder(HASH, 3))
    assert data == b"\x01" + HASH  # who looks at no version finds a hash and nothing behind it
    found = serde.deserialize(data)
    assert found is not None and found.is_reminder and found.hash == HASH and found.value is None
    assert not Response(HASH, None).is_reminder and not Response(HASH, 4).is_reminder
