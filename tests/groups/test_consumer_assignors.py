"""The server-side assignors: everyone who asks is served, nobody has much more than another, and little moves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from immutables import Map

from ottla.base import Uuid
from ottla.groups.consumer.assign_range import assign_range
from ottla.groups.consumer.assign_uniform import assign_uniform
from ottla.groups.consumer.assignment import Assignment, Subscriptions
from ottla.groups.consumer.member import Target, target_from


def topic(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def asked(members: dict[str, set[int]], partitions: dict[int, int], target: Assignment | None = None) -> Subscriptions:
    used = set().union(*members.values()) if members else set()
    before: dict[str, Target] = {name: target_from(each) for name, each in (target or {}).items()}
    return Subscriptions(
        members={name: frozenset(map(topic, topics)) for name, topics in sorted(members.items())},
        partitions={topic(each): count for each, count in partitions.items() if each in used},
        target=Map(before),
    )


def pairs(assignment: Assignment) -> dict[tuple[Uuid, int], str]:
    found: dict[tuple[Uuid, int], str] = {}
    for member, topics in assignment.items():
        for topic_id, partitions in topics.items():
            for each in partitions:
                assert (topic_id, each) not in found, "a partition was given twice"
                found[topic_id, each] = member
    return found


def loads(assignment: Assignment) -> dict[str, int]:
    return {member: sum(map(len, topics.values())) for member, topics in assignment.items()}


def check_complete(subscriptions: Subscriptions, assignment: Assignment) -> None:
    found = pairs(assignment)
    assert set(found) == {(t, p) for t, count in subscriptions.partitions.items() for p in range(count)}
    assert all(t in subscriptions.members[member] for (t, _), member in found.items())


def moved(before: Assignment, after: Assignment) -> int:
    old, new = pairs(before), pairs(after)
    return sum(1 for key in old.keys() & new.keys() if old[key] != new[key])


def test_uniform_spreads_each_topic_over_the_members() -> None:
    found = assign_uniform(asked({"a": {1, 2}, "b": {1, 2}}, {1: 2, 2: 2}))
    assert {member: sorted(topics) for member, topics in found.items()} == {
        "a": [topic(1), topic(2)],
        "b": [topic(1), topic(2)],
    }


def test_uniform_takes_from_members_only_what_a_newcomer_needs() -> None:
    first = assign_uniform(asked({"a": {1}, "b": {1}}, {1: 10}))
    second = assign_uniform(asked({"a": {1}, "b": {1}, "c": {1}}, {1: 10}, first))
    assert sorted(loads(second).values()) == [3, 3, 4]
    assert moved(first, second) == 3


def test_uniform_moves_nothing_between_those_who_stay_when_a_member_leaves() -> None:
    first = assign_uniform(asked({"a": {1}, "b": {1}, "c": {1}}, {1: 12}))
    second = assign_uniform(asked({"a": {1}, "b": {1}}, {1: 12}, first))
    assert moved(first, second) == 4  # only what the one who left had


def test_range_splits_co_partitioned_topics_alike() -> None:
    found = assign_range(asked({"a": {1, 2}, "b": {1, 2}, "c": {1, 2}}, {1: 7, 2: 7}))
    assert all(topics[topic(1)] == topics[topic(2)] for topics in found.values())
    assert {member: topics[topic(1)] for member, topics in found.items()} == {
        "a": {0, 1, 2},
        "b": {3, 4},
        "c": {5, 6},
    }


def test_range_keeps_what_a_member_has_when_another_comes() -> None:
    first = assign_range(asked({"a": {1, 2}, "b": {1, 2}}, {1: 6, 2: 6}))
    second = assign_range(asked({"a": {1, 2}, "aa": {1, 2}, "b": {1, 2}}, {1: 6, 2: 6}, first))
    assert moved(first, second) == 4
    assert all(topics[topic(1)] == topics[topic(2)] for topics in second.values())


def test_range_leaves_members_beyond_the_partitions_without_any() -> None:
    assert loads(assign_range(asked({"a": {1}, "b": {1}, "c": {1}}, {1: 2}))) == {"a": 1, "b": 1, "c": 0}


def test_members_that_ask_for_nothing_are_given_nothing() -> None:
    for assign in (assign_uniform, assign_range):
        assert assign(asked({"a": set()}, {})) == {"a": {}}
        assert assign(asked({}, {})) == {}


memberships = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.sets(st.integers(1, 5)), max_size=12)
counts = st.fixed_dictionaries({number: st.integers(1, 12) for number in range(1, 6)})


@settings(max_examples=50, deadline=None)
@given(memberships, memberships, counts, counts)
def test_assignors_serve_all_and_balance_whatever_was_before(
    old: dict[str, set[int]], new: dict[str, set[int]], old_counts: dict[int, int], new_counts: dict[int, int]
) -> None:
    for assign in (assign_uniform, assign_range):
        before = assign(asked(old, old_counts))
        subscriptions = asked(new, new_counts, before)
        after = assign(subscriptions)
        check_complete(subscriptions, after)
        assert pairs(assign(asked(new, new_counts, after))) == pairs(after), "what is balanced stays as it is"
    uneven = loads(assign_uniform(subscriptions))
    for (topic_id, _), member in pairs(assign_uniform(subscriptions)).items():
        for other, topics in subscriptions.members.items():
            assert topic_id not in topics or uneven[member] - uneven[other] < 2


@settings(max_examples=30, deadline=None)
@given(st.sets(st.integers(0, 40), min_size=1), st.sets(st.integers(0, 40), min_size=1), counts)
def test_uniform_moves_no_more_than_balance_needs(old: set[int], new: set[int], partitions: dict[int, int]) -> None:
    everything = set(partitions)
    before = assign_uniform(asked({f"m{each}": everything for each in old}, partitions))
    after = assign_uniform(asked({f"m{each}": everything for each in new}, partitions, before))
    assert max(loads(after).values()) - min(loads(after).values()) <= 1
    total = sum(partitions.values())
    share, extras = divmod(total, len(new))
    kept_at_best = 0
    for size in sorted((loads(before)[f"m{each}"] for each in old & new), reverse=True):
        kept_at_best += min(size, share + (1 if extras > 0 and size > share else 0))
        extras -= size > share
    assert total - moved(before, after) == kept_at_best


@settings(max_examples=30, deadline=None)
@given(memberships, counts)
def test_range_shares_each_topic_within_one(members: dict[str, set[int]], partitions: dict[int, int]) -> None:
    found = assign_range(asked(members, partitions))
    for number in partitions:
        sizes = [len(found[each].get(topic(number), ())) for each, topics in members.items() if number in topics]
        assert not sizes or max(sizes) - min(sizes) <= 1


class Counted(int):
    """A partition that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < int(other)

    def __gt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) > int(other)

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return int(self) == other

    def __neg__(self) -> Counted:
        return Counted(-int(self))


def comparisons(count: int, *, homogeneous: bool) -> int:
    """Return how many it takes to share out what one member has, of one topic, with seven others."""
    topics = [Uuid(bytes([each] * 16)) for each in (1, 2)]
    members = {f"m{at}": frozenset(topics if homogeneous or at % 2 else topics[:1]) for at in range(8)}
    target = Map({"m0": Map({topics[0]: frozenset(map(Counted, range(count)))})})
    Counted.compared = 0
    found = assign_uniform(Subscriptions(members, {topics[0]: count, topics[1]: 8}, target))
    assert sum(len(each) for mine in found.values() for each in mine.values()) == count + 8
    return Counted.compared


@pytest.mark.parametrize("homogeneous", [True, False])
def test_four_times_the_partitions_cost_an_assignment_about_four_times_as_much(homogeneous: bool) -> None:
    assert comparisons(4000, homogeneous=homogeneous) < 8 * comparisons(1000, homogeneous=homogeneous)
