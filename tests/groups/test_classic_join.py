"""JoinGroup of the classic protocol: who gets in, when a rebalance begins and ends, and what everyone is told."""

from __future__ import annotations

from importlib import import_module

import pytest

from ottla.base import ErrorCode
from tests.groups.classic import GROUP, World, subscription


def code(world: World, token: int) -> ErrorCode:
    return ErrorCode(world.answers[token].error_code)


def test_a_new_member_is_given_an_id_and_asked_to_come_back() -> None:
    world = World()
    answer = world.answers[world.join(client="me")]
    assert ErrorCode(answer.error_code) is ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("me-")
    assert len(answer.member_id) == len("me-") + 36
    assert world.group().state_name() == "Empty"


def test_versions_before_4_are_let_in_at_once() -> None:
    world = World()
    token = world.join(version=3)
    world.pass_ms(3_000)
    assert code(world, token) is ErrorCode.NONE


def test_the_first_rebalance_waits_for_more_members() -> None:
    world = World()
    world.member()
    world.pass_ms(2_999)
    assert world.group().state_name() == "PreparingRebalance"
    world.pass_ms(1)
    assert world.group().state_name() == "CompletingRebalance"


def test_the_initial_delay_is_prolonged_while_members_come_but_not_past_the_rebalance_timeout() -> None:
    world = World()
    world.member(rebalance_ms=7_000)
    for _ in range(2):
        world.pass_ms(2_000)
        world.member(rebalance_ms=7_000)
        world.pass_ms(1_000)
        assert world.group().state_name() == "PreparingRebalance"
    world.pass_ms(1_000)
    assert world.group().state_name() == "CompletingRebalance"
    assert len(world.group().members) == 3


def test_the_leader_alone_is_told_of_every_member() -> None:
    world = World()
    tokens = [world.join(version=3, client=f"c{at}") for at in range(3)]
    world.pass_ms(6_000)
    answers = [world.answers[each] for each in tokens]
    assert {each.generation_id for each in answers} == {1}
    leader = answers[0].leader
    for answer in answers:
        assert answer.leader == leader
        assert len(answer.members) == (3 if answer.member_id == leader else 0)
    assert answers[0].members[0].metadata == subscription("t")


def test_the_protocol_that_most_prefer_of_those_that_all_have_is_chosen() -> None:
    world = World()
    both, other = {"range": b"r", "roundrobin": b"rr"}, {"roundrobin": b"rr", "range": b"r"}
    tokens = [world.join(version=3, protocols=each) for each in (both, other, {**other, "sticky": b"s"})]
    world.pass_ms(6_000)
    assert {world.answers[each].protocol_name for each in tokens} == {"roundrobin"}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_what_is_wrong_with_a_first_join_is_said(options: dict[str, object], wanted: ErrorCode) -> None:
    world = World()
    assert code(world, world.join(**options)) is wanted  # type: ignore[arg-type]


def test_another_protocol_type_or_no_common_protocol_is_refused() -> None:
    world = World()
    world.stable(1)
    assert code(world, world.join(protocol_type="connect")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(world, world.join(protocols={"other": b""})) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_that_is_full_lets_nobody_more_in() -> None:
    world = World(group_max_size=2)
    members, _ = world.stable(2)
    assert code(world, world.join(version=3)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert set(world.group().members) == set(members)


def test_a_newcomer_makes_everyone_join_again_and_who_does_not_is_out() -> None:
    world = World()
    (first, second), generation = world.stable(2, session_ms=100_000)
    world.join(version=3)
    assert world.heartbeat(first, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    again = world.join(first, session_ms=100_000)
    assert again not in world.answers
    world.pass_ms(60_000)
    assert world.answers[again].generation_id == generation + 1
    assert second not in world.group().members
    assert code(world, world.join(second)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_repeats_its_join_is_told_the_generation_again() -> None:
    world = World()
    (leader, follower), generation = world.stable(2)
    answer = world.answers[world.join(follower)]
    assert (answer.error_code, answer.generation_id, answer.leader, answer.members) == (0, generation, leader, ())
    assert world.group().state_name() == "Stable"


def test_the_leader_that_joins_again_begins_a_rebalance() -> None:
    world = World()
    (leader, _), _ = world.stable(2)
    assert world.join(leader) not in world.answers
    assert world.group().state_name() == "PreparingRebalance"


def test_other_metadata_begins_a_rebalance() -> None:
    world = World()
    (_, follower), _ = world.stable(2)
    assert world.join(follower, protocols={"range": subscription("t", "u")}) not in world.answers
    assert world.group().state_name() == "PreparingRebalance"


def test_a_join_that_is_sent_again_answers_the_one_that_was_given_up() -> None:
    world = World()
    (leader, _), _ = world.stable(2)
    first = world.join(leader)
    world.join(leader)
    assert code(world, first) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_id_that_is_never_used_is_forgotten_when_its_session_would_end() -> None:
    world = World()
    member = world.answers[world.join(session_ms=6_000)].member_id
    world.pass_ms(6_000)
    assert code(world, world.join(member)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_join_phase_waits_for_ids_that_were_given_out() -> None:
    world = World()
    (leader,), _ = world.stable(1, session_ms=30_000)
    world.join(session_ms=6_000)
    again = world.join(leader, session_ms=30_000)
    assert again not in world.answers
    world.pass_ms(6_000)
    assert code(world, again) is ErrorCode.NONE


def test_a_new_group_is_in_the_log_before_its_first_generation() -> None:
    world = World()
    world.join()
    (record,) = world.log
    assert record.value is not None
    assert (record.value.protocol_type, record.value.generation, record.value.members) == ("", 0, [])  # type: ignore[attr-defined]


# -- static members (KIP-345)


def test_a_static_member_needs_no_second_join() -> None:
    world = World()
    token = world.join(instance="i")
    world.pass_ms(3_000)
    assert world.answers[token].member_id.startswith("i-")


def test_a_restarted_static_member_takes_its_place_without_a_rebalance() -> None:
    world = World()
    tokens = [world.join(instance=each) for each in ("one", "two")]
    world.pass_ms(6_000)
    ids = [world.answers[each].member_id for each in tokens]
    for each in reversed(ids):
        world.sync(each, 1, dict.fromkeys(ids, b"a") if each == world.group().leader else None)
    follower = next(each for each in ids if each != world.group().leader)
    instance = follower[:3]
    answer = world.answers[world.join(instance=instance)]
    assert (answer.error_code, answer.generation_id, answer.skip_assignment) == (0, 1, False)
    assert answer.member_id != follower
    assert world.group().state_name() == "Stable"
    assert world.group().members[answer.member_id].assignment == b"a"
    assert world.heartbeat(follower, 1, instance=instance) == ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    world.take_over()
    assert world.heartbeat(answer.member_id, 1, instance=instance) == ErrorCode.NONE


@pytest.mark.parametrize(("version", "skips"), [(9, True), (8, False)])
def test_a_restarted_static_leader_skips_the_assignment_from_version_9(version: int, skips: bool) -> None:
    world = World()
    token = world.join(instance="one")
    world.pass_ms(3_000)
    before = world.answers[token].member_id
    world.sync(before, 1, {before: b"a"})
    answer = world.answers[world.join(instance="one", version=version)]
    assert answer.skip_assignment is skips
    assert len(answer.members) == (1 if skips else 0)
    assert answer.leader == (answer.member_id if skips else before)


def test_a_static_member_that_waits_under_its_old_id_is_fenced() -> None:
    world = World()
    first = world.join(instance="one")
    world.join(instance="one")
    assert code(world, first) is ErrorCode.FENCED_INSTANCE_ID


def test_a_silent_static_member_keeps_its_place_in_a_rebalance_until_its_session_ends() -> None:
    world = World()
    tokens = [world.join(instance=each, session_ms=100_000, rebalance_ms=10_000) for each in ("one", "two")]
    world.pass_ms(6_000)
    ids = [world.answers[each].member_id for each in tokens]
    for each in reversed(ids):
        world.sync(each, 1, dict.fromkeys(ids, b"a") if each == world.group().leader else None)
    world.join(ids[0], instance="one", protocols={"range": subscription("u")}, session_ms=100_000, rebalance_ms=10_000)
    world.pass_ms(10_000)
    assert set(world.group().members) == set(ids)
    assert world.group().generation == 2


# -- the coordinator changes


def test_a_stable_group_goes_on_under_the_next_coordinator() -> None:
    world = World()
    (leader, follower), generation = world.stable(2)
    world.take_over()
    group = world.group()
    assert (group.state_name(), group.generation, group.leader, group.protocol) == (
        "Stable",
        generation,
        leader,
        "range",
    )
    assert world.heartbeat(follower, generation) == ErrorCode.NONE
    token = world.sync(follower, generation)
    assert world.answers[token].assignment == follower.encode()


def test_sessions_begin_when_a_shard_is_loaded() -> None:
    world = World()
    world.stable(2)
    world.now_ms += 3_600_000
    world.take_over()
    assert len(world.group().members) == 2
    world.pass_ms(10_000)
    assert world.group().state_name() == "Empty"


def test_a_group_that_is_too_large_when_it_is_loaded_rebalances() -> None:
    world = World()
    world.stable(3)
    world.settings = World(group_max_size=2).settings
    world.take_over()
    assert world.group(GROUP).state_name() == "PreparingRebalance"


def test_ids_that_nobody_uses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("ottla.groups.classic.join"), "PENDING_JOINS_MAX", 3)
    world = World()
    for _ in range(3):
        assert code(world, world.join()) is ErrorCode.MEMBER_ID_REQUIRED
    assert code(world, world.join()) is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.pass_ms(10_000)
    assert code(world, world.join()) is ErrorCode.MEMBER_ID_REQUIRED
