"""What may change in an application without losing state, and what is refused, each with its reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.streams import StageFacts, Topology, UpgradeError, check_upgrade, fingerprint
from tests.streams.run.plans import TEXT, count_by_word, mapped


def facts(made: Topology, kind: str = "native", name: str = "counting", **more: Any) -> StageFacts:
    return StageFacts(name, kind, frozenset(made.nodes), more.pop("sources", ("source",)), **more)


def print_of(made: Topology, kind: str = "native", name: str = "counting", **more: Any) -> dict[str, Any]:
    found = fingerprint(made, [facts(made, kind, name, **more)])
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


OLD = print_of(count_by_word())


def test_the_same_plan_fits_and_so_does_a_first_start() -> None:
    check_upgrade(OLD, print_of(count_by_word()))
    check_upgrade(None, OLD)


def test_a_stage_without_state_may_change_at_will() -> None:
    old = print_of(mapped(), "stateless")
    check_upgrade(old, fingerprint(mapped(), []))
    check_upgrade(old, OLD | {"stages": {**OLD["stages"], **old["stages"]}})


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (print_of(count_by_word(value=TEXT)), "store counts: the serde of its values was long and is now string"),
        (print_of(count_by_word(store="words")), "store counts (of counting) is not in the plan any more"),
        (print_of(count_by_word(), "stateful", tasks=2), "was native and is now stateful"),
        (print_of(count_by_word(), name="other"), "has moved from counting to other"),
        (print_of(count_by_word(), sources=("source", "second")), "read 1 inputs and now reads 2"),
        (print_of(count_by_word(window_size_ms=5)), "its window size was -1 and is now 5"),
    ],
)
def test_what_would_give_the_state_another_meaning_is_refused(new: dict[str, Any], words: str) -> None:
    with pytest.raises(UpgradeError) as error:
        check_upgrade(OLD, new)
    assert words in str(error.value) and "ottla streams reset" in str(error.value)


def test_a_changed_number_of_partitions_is_refused_where_keys_would_be_looked_for_elsewhere() -> None:
    old = print_of(count_by_word(), "stateful", tasks=2)
    with pytest.raises(UpgradeError, match="had 2 tasks and would have 3"):
        check_upgrade(old, print_of(count_by_word(), "stateful", tasks=3))


def test_a_store_may_go_when_that_is_said() -> None:
    check_upgrade(OLD, print_of(count_by_word(store="words")), drop_stores=True)


def test_a_checkpoint_of_another_format_is_not_guessed_at() -> None:
    with pytest.raises(UpgradeError, match="format 0"):
        check_upgrade({"format": 0, "stages": {}}, OLD)
