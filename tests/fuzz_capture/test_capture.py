"""The quick form: a few histories of each server by seeds that are always the same, and the machine itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz_capture.driver import WORDS, tried
from tests.fuzz_capture.history import History, Step, shrunk
from tests.fuzz_capture.machine import Side
from tests.fuzz_capture.model import NOT_SENT, Table, Topic, differences
from tests.fuzz_capture.servers import running_side
from tools import mariadb, postgres

pytestmark = pytest.mark.timeout(120)
SEEDS = 3
HELD = {
    "mariadb": tuple(sorted(WORDS["mariadb"].THEMES)),
    "postgresql": tuple(WORDS["postgresql"].THEMES),
}
"""Themes whose histories hold: the others find what is not mended (docs/design/replayed-captures.md)."""
TABLE = Table(
    "t", ("id", "n_", "a"), {"id": "int", "n_": "bigint", "a": "text"}, ("id",), [{"id": "1", "n_": "4", "a": "x"}]
)
KEY = {"id": "1"}


@pytest.fixture(scope="module", params=sorted(WORDS))
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    reason = (mariadb if request.param == "mariadb" else postgres).missing()
    if reason is not None:
        pytest.skip(reason)
    with running_side(request.param) as found:
        yield found


def test_what_is_told_is_what_the_server_has(side: Side) -> None:
    for seed in range(SEEDS):
        found = tried(side, seed, themes=HELD[side.name])
        assert found is None, f"python -m tests.fuzz_capture --server {side.name} --seed {seed}\n{found}"


def topic(*changes: tuple[str, dict[str, str] | None, dict[str, str | None] | None]) -> Topic:
    found = Topic()
    for op, before, after in changes:
        found.take(KEY, op, before, after)
    return found


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (topic(("c", None, {"id": "1", "n_": "4", "a": "x"})), ""),
        (topic(("c", None, {"id": "1", "n_": "4", "a": None})), "told None"),
        (topic(("c", None, {"id": "1", "n_": "4"})), "columns"),
        (topic(("u", None, {"id": "1", "n_": "4", "a": NOT_SENT})), ""),
        (topic(), "is not told"),
        (topic(("c", None, {"id": "1", "n_": "4", "a": "x"}), ("d", None, None)), "is not told"),
        (topic(("c", None, {"id": "1", "n_": "1", "a": "x"}), ("u", None, {"id": "1", "n_": "4", "a": NOT_SENT})), ""),
    ],
)
def test_a_difference_is_said(told: Topic, said: str) -> None:
    found = differences(TABLE, told, 4)
    assert (said in found[0]) if said else not found, found


@pytest.mark.parametrize(("since", "said"), [(1, ["told 'y'"]), (2, [])])
def test_a_value_that_was_not_sent_again_is_compared_unless_a_tables_last_ddl_lies_between(
    since: int, said: list[str]
) -> None:
    told = topic(
        ("c", None, {"id": "1", "n_": "1", "a": "y"}),
        ("u", None, {"id": "1", "n_": "3", "a": NOT_SENT}),
        ("u", None, {"id": "1", "n_": "4", "a": NOT_SENT}),
    )
    found = differences(TABLE, told, since)
    assert [each.rsplit(", ", 1)[-1] for each in found] == said


def test_a_number_as_key_that_is_told_as_a_text_is_compared_by_its_value() -> None:
    table = Table("t", ("id", "n_"), {"id": "numeric(10,2)", "n_": "bigint"}, ("id",), [{"id": "28", "n_": "4"}])
    found = Topic()
    found.take({"id": "28.00"}, "c", None, {"id": "28.00", "n_": "4"})
    assert not differences(table, found, 4)


def test_rows_from_before_a_tables_last_ddl_are_not_compared() -> None:
    assert not differences(TABLE, topic(), 5)


def test_a_row_that_is_told_and_not_there_is_said() -> None:
    found = topic(("c", None, {"id": "1", "n_": "4", "a": "x"}))
    found.take({"id": "2"}, "c", None, {"id": "2", "n_": "5", "a": "y"})
    assert "the server has not" in differences(TABLE, found, 4)[0]


def test_shrinking_leaves_the_steps_that_fail_and_where_the_capture_begins() -> None:
    steps = tuple(Step("sql", str(each)) for each in range(40))

    def fails(each: History) -> bool:
        return {"3", "31"} <= {step.text for step in each.steps} and each.steps[0].text <= "3"

    found = shrunk(History(steps, 10), fails, seconds=10)
    assert [each.text for each in found.steps] == ["3", "31"]
    assert found.begin == 1
