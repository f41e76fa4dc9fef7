"""What a request costs grows with its size, and no faster: counted in steps and comparisons, never in time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from ottla.registry.core import State, StoredSchema, Wanted, delete_subject, register, set_config
from ottla.registry.core.lookups import LATEST, by_id, referenced_texts
from ottla.registry.core.records import SchemaStored, SubjectDeleted
from ottla.registry.rest.bodies import metadata_of, rule_set_of
from ottla.schemas import SchemaReference

SMALL = 200
GROWTH_MAX = 6.5
"""Of the work for four times as much: n log n is below it, n squared is 16."""


class Name(str):
    """Text that counts how often it is compared and hashed, which no step of Python shows."""

    work = 0

    def __eq__(self, other: object) -> bool:
        Name.work += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        Name.work += 1
        return str.__hash__(self)


class Number(int):
    """A number that counts how often it is compared."""

    def __lt__(self, other: int) -> bool:
        Name.work += 1
        return int.__lt__(self, other)


def work(call: Callable[[], object]) -> int:
    """Return the steps of Python's and the comparisons of names that a call takes."""
    steps = 0

    def step(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps += event == "opcode"
        return step

    Name.work = 0
    before = sys.gettrace()
    sys.settrace(step)
    try:
        call()
    finally:
        sys.settrace(before)
    return steps + Name.work


def versions(count: int, **more: Any) -> State:
    """Return a state with a subject of so many versions."""
    state = State()
    for number in range(1, count + 1):
        state.apply(SchemaStored(StoredSchema(Name("s"), Number(number), number, f'"v{number}"', **more)))
    return state


def rules(count: int) -> Callable[[], object]:
    body = {"domainRules": [{"name": Name(f"r{each}"), "type": "CEL"} for each in range(count)]}
    return lambda: rule_set_of(body)


def tags(count: int) -> Callable[[], object]:
    body = {"tags": {"t": [Name(f"t{each}") for each in range(count)]}, "sensitive": [Name("a")] * count}
    return lambda: metadata_of(body)


def laid_tags(count: int) -> Callable[[], object]:
    state = State()
    given = {"tags": {"t": [f"t{each}" for each in range(count)]}}
    for each in set_config(
        state, "s", {"defaultMetadata": {"sensitive": [Name(f"a{each}") for each in range(count)]}}
    ).records:
        state.apply(each)
    wanted = Wanted("x", metadata={**given, "sensitive": [Name(f"b{each}") for each in range(count)]})
    return lambda: register(state, "s", wanted, default_level="NONE")


def deletion(count: int) -> Callable[[], object]:
    state = versions(count, deleted=True)
    return lambda: delete_subject(state, Name("s"), permanent=True)


def end_of_a_subject(count: int) -> Callable[[], object]:
    state = versions(count)
    return lambda: state.apply(SubjectDeleted("s", count))


def latest_references(count: int) -> Callable[[], object]:
    state = versions(count)
    references = tuple(SchemaReference(f"r{each}", "s", LATEST) for each in range(count))
    return lambda: referenced_texts(state, "other", references)


def ids_of_many_subjects(count: int) -> Callable[[], object]:
    state = State()
    for number in range(1, count + 1):
        state.apply(SchemaStored(StoredSchema(f"s{number}", 1, number, f'"v{number}"')))
    return lambda: [by_id(state, each, "s1") for each in range(1, count + 1)]


@pytest.mark.parametrize(
    "request_of",
    [rules, tags, laid_tags, deletion, end_of_a_subject, latest_references, ids_of_many_subjects],
)
def test_four_times_as_much_takes_about_four_times_the_work(request_of: Callable[[int], Callable[[], object]]) -> None:
    small, large = work(request_of(SMALL)), work(request_of(4 * SMALL))
    assert large < GROWTH_MAX * small, (small, large)


def test_the_last_of_two_versions_with_one_number_holds_in_its_place() -> None:
    state = versions(3)
    state.apply(SchemaStored(replace(state.versions("s")[2], deleted=True)))
    assert list(state.versions("s")) == [1, 2, 3] and state.versions("s")[2].deleted
    assert [each.version for each in state.users(".", 2)] == [2] and state.contexts() == ["."]
