"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol, and members whose time is up."""

from __future__ import annotations

from ottla.base import ErrorCode
from tests.groups.classic import World


def code(world: World, token: int) -> ErrorCode:
    return ErrorCode(world.answers[token].error_code)


def joined(world: World, count: int, **options: object) -> tuple[list[str], int]:
    """Bring a group to CompletingRebalance; return its members, the leader first."""
    members = [world.member(**options) for _ in range(count)]
    world.pass_ms(6_000)
    group = world.group()
    assert group.state_name() == "CompletingRebalance"
    return sorted(members, key=lambda each: each != group.leader), group.generation


def test_assignments_are_told_when_the_leader_has_brought_them() -> None:
    world = World()
    (leader, follower), generation = joined(world, 2)
    waiting = world.sync(follower, generation)
    assert waiting not in world.answers
    own = world.sync(leader, generation, {leader: b"1", follower: b"2"})
    assert (world.answers[own].assignment, world.answers[waiting].assignment) == (b"1", b"2")
    assert world.group().state_name() == "Stable"


def test_a_member_that_the_leader_left_out_gets_nothing() -> None:
    world = World()
    (leader, follower), generation = joined(world, 2)
    world.sync(leader, generation, {leader: b"1"})
    assert world.answers[world.sync(follower, generation)].assignment == b""


def test_a_sync_is_refused_as_kafka_does() -> None:
    world = World()
    (leader, _), generation = joined(world, 2)
    assert code(world, world.sync("nobody", generation)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code(world, world.sync(leader, generation + 1)) is ErrorCode.ILLEGAL_GENERATION
    assert code(world, world.sync(leader, generation, protocol="other")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(world, world.sync(leader, generation, instance="i")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_newcomer_tells_who_waits_for_an_assignment_to_join_again() -> None:
    world = World()
    (leader, follower), generation = joined(world, 2)
    waiting = world.sync(follower, generation)
    world.join(version=3)
    assert code(world, waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert code(world, world.sync(leader, generation)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_joins_and_never_syncs_is_removed_after_the_rebalance_timeout() -> None:
    world = World()
    (leader, follower), generation = joined(world, 2, rebalance_ms=20_000, session_ms=100_000)
    world.sync(leader, generation, {leader: b"1"})
    world.pass_ms(20_000)
    assert world.group().state_name() == "PreparingRebalance"
    assert set(world.group().members) == {leader}
    assert world.heartbeat(follower, generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_goes_when_its_session_ends_and_a_heartbeat_prolongs_it() -> None:
    world = World()
    (leader, follower), generation = world.stable(2)
    for _ in range(3):
        world.pass_ms(9_000)
        assert world.heartbeat(leader, generation) in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    assert set(world.group().members) == {leader}
    assert world.heartbeat(follower, generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_whose_join_is_parked_outlives_its_session() -> None:
    world = World()
    (leader, follower), generation = world.stable(2)
    waiting = world.join(leader)
    for _ in range(5):
        world.pass_ms(8_000)
        assert world.heartbeat(follower, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting not in world.answers
    world.join(follower)
    assert code(world, waiting) is ErrorCode.NONE


def test_a_heartbeat_is_refused_as_kafka_does() -> None:
    world = World()
    assert world.heartbeat("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    (leader, _), generation = world.stable(2)
    assert world.heartbeat(leader, generation - 1) == ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat("nobody", generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_whose_client_gave_up_is_removed_after_five_minutes() -> None:
    world = World()
    (leader,), _ = world.stable(1, session_ms=1_800_000, rebalance_ms=3_600_000)
    waiting = world.join(version=3, rebalance_ms=3_600_000)
    world.pass_ms(300_000)
    assert code(world, waiting) is ErrorCode.UNKNOWN_MEMBER_ID
    assert set(world.group().members) == {leader}


def test_leaving_rebalances_once_for_all_who_go() -> None:
    world = World()
    members, generation = world.stable(4)
    answer = world.leave(members[2], members[3], "nobody")
    assert [each.error_code for each in answer.members] == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.group().state_name() == "PreparingRebalance"
    again = [world.join(each) for each in members[:2]]
    assert {world.answers[each].generation_id for each in again} == {generation + 1}


def test_the_last_to_leave_empties_the_group_in_the_log_too() -> None:
    world = World()
    (leader,), generation = world.stable(1)
    world.leave(leader)
    assert world.group().state_name() == "Empty"
    assert world.group().generation == generation + 1
    value = world.log[-1].value
    assert value is not None
    assert (value.members, value.protocol, value.leader) == ([], None, None)  # type: ignore[attr-defined]


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    world = World()
    token = world.join(instance="i")
    world.pass_ms(3_000)
    member = world.answers[token].member_id
    world.sync(member, 1, {member: b""})
    answer = world.leave(("", "other"), ("wrong", "i"), ("", "i"))
    codes = [ErrorCode(each.error_code) for each in answer.members]
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.NONE]
    assert world.group().state_name() == "Empty"


def test_who_leaves_while_its_request_is_parked_is_answered() -> None:
    world = World()
    (leader, follower), generation = joined(world, 2)
    waiting = world.sync(follower, generation)
    world.leave(follower)
    assert code(world, waiting) is ErrorCode.UNKNOWN_MEMBER_ID
    parked = world.join(leader)
    assert code(world, parked) is ErrorCode.NONE


def test_an_unused_id_can_leave() -> None:
    world = World()
    member = world.answers[world.join()].member_id
    assert world.leave(member).members[0].error_code == 0
    assert code(world, world.join(member)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_a_group_that_does_not_exist_says_so_of_each_member() -> None:
    answer = World().leave("a", ("", "i"))
    assert [each.error_code for each in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
