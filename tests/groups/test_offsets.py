"""Committed offsets: who may commit, what is read, when they expire, and those of open transactions."""

from __future__ import annotations

from ottla import groups
from ottla.base import ErrorCode, ProducerId
from ottla.groups import Committed
from ottla.groups.offsets import NO_OFFSETS
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.groups.classic import GROUP, World, subscription

DAY_MS = 86_400_000


def committed(offset: int, record_offset: int = -1) -> Committed:
    return Committed(offset, -1, "", 0, record_offset=record_offset)


def clean(world: World) -> None:
    for decision in world.shard.expire_offsets(list(world.shard.groups), world.context()):
        world.perform(decision)


def delete_offset(world: World, topic: str = "t") -> tuple[ErrorCode, ErrorCode]:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(group_id=GROUP, topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions)])
    answer = world.perform(groups.delete_offsets(world.group(), world.shard.offsets, request), world.token())
    inner = answer.topics[0].partitions[0].error_code if answer.topics else 0
    return ErrorCode(answer.error_code), ErrorCode(inner)


def test_a_consumer_without_a_group_commits_while_nobody_is_in_it() -> None:
    world = World()
    assert world.commit(5) == 0
    assert world.committed() == 5
    assert world.group().state_name() == "Empty"
    assert world.group().protocol_type == ""
    world.stable(1)
    assert world.commit(6) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.committed() == 5


def test_a_generation_without_a_group_is_refused_by_the_code_of_its_version() -> None:
    world = World()
    assert world.commit(5, member_id="m", generation=1, version=8) == ErrorCode.ILLEGAL_GENERATION
    assert world.commit(5, member_id="m", generation=1, version=9) == ErrorCode.GROUP_ID_NOT_FOUND


def test_only_members_of_this_generation_commit() -> None:
    world = World()
    (leader, _), generation = world.stable(2)
    assert world.commit(1, member_id=leader, generation=generation) == 0
    assert world.commit(2, member_id=leader, generation=generation - 1) == ErrorCode.ILLEGAL_GENERATION
    assert world.commit(2, member_id="nobody", generation=generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit(2, member_id=leader, generation=generation, instance="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.committed() == 1


def test_members_may_commit_before_they_join_again_but_not_before_they_are_assigned() -> None:
    world = World()
    (leader, follower), generation = world.stable(2)
    tokens = [world.join(leader)]
    assert world.commit(1, member_id=follower, generation=generation) == 0
    tokens.append(world.join(follower))
    generation = world.answers[tokens[0]].generation_id
    assert world.commit(2, member_id=leader, generation=generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life() -> None:
    world = World()
    (leader,), generation = world.stable(1)
    for offset in range(5):
        world.pass_ms(9_000)
        assert world.commit(offset, member_id=leader, generation=generation) == 0


def test_metadata_is_bounded_by_its_length_in_java() -> None:
    world = World()
    assert world.commit(1, metadata="x" * 4096) == 0
    assert world.commit(2, metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert world.commit(2, metadata="\N{GRINNING FACE}" * 2049) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert world.commit(3, metadata=None) == 0
    assert world.committed() == 3


def test_what_is_read_after_a_takeover_is_what_was_committed() -> None:
    world = World()
    for offset in range(10):
        world.commit(offset, partition=offset % 3)
    before = world.shard.offsets
    world.take_over()
    assert world.shard.offsets == before
    assert [world.committed(partition=each) for each in range(3)] == [9, 7, 8]


# -- reading


def test_a_partition_without_an_offset_is_told_so_and_a_group_too() -> None:
    world = World()
    world.commit(4)
    asked = [("t", [0, 1]), ("u", [0])]
    found = groups.fetch_offsets(world.shard.state, GROUP, asked, member_id=None, member_epoch=-1, require_stable=False)
    assert [each.committed and each.committed.offset for each in found] == [4, None, None]
    none = groups.fetch_offsets(
        world.shard.state, "other", asked, member_id=None, member_epoch=-1, require_stable=False
    )
    assert all(each.committed is None and each.code is ErrorCode.NONE for each in none)


def test_an_open_transaction_makes_an_offset_unstable_for_who_asks() -> None:
    world = World()
    world.commit(4)
    offsets = world.shard.offsets.put(GROUP, "t", 0, committed(9, 50), ProducerId(7))
    state = groups.ShardState(world.shard.groups, offsets)

    def fetched(*, require_stable: bool) -> groups.FetchedOffset:
        asked = [("t", [0])]
        return groups.fetch_offsets(
            state, GROUP, asked, member_id=None, member_epoch=-1, require_stable=require_stable
        )[0]

    assert fetched(require_stable=True).code is ErrorCode.UNSTABLE_OFFSET_COMMIT
    stable = fetched(require_stable=False).committed
    assert stable is not None and stable.offset == 4


def test_a_transactions_offsets_count_when_it_commits_and_never_when_it_aborts() -> None:
    producer = ProducerId(7)
    pending = NO_OFFSETS.put("g", "t", 0, committed(1, 10)).put("g", "t", 0, committed(2, 11), producer)
    assert pending.is_pending("g", "t", 0)
    done, dropped = (pending.end_transaction(producer, commit=each) for each in (True, False))
    for offsets, wanted in ((done, 2), (dropped, 1)):
        found = offsets.get("g", "t", 0)
        assert found is not None and found.offset == wanted
        assert not offsets.is_pending("g", "t", 0)
        assert not offsets.pending and not offsets.waiting


def test_a_later_commit_outlives_the_transaction_before_it() -> None:
    producer = ProducerId(7)
    offsets = NO_OFFSETS.put("g", "t", 0, committed(2, 11), producer).put("g", "t", 0, committed(3, 12))
    found = offsets.end_transaction(producer, commit=True).get("g", "t", 0)
    assert found is not None and found.offset == 3


def test_an_offset_that_is_only_pending_in_a_transaction_is_deleted_too() -> None:
    world = World()
    world.commit(5)
    offsets = world.shard.offsets.put(GROUP, "u", 0, committed(6, 10), ProducerId(7))
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(group_id=GROUP, topics=[OffsetDeleteRequestTopic(name="u", partitions=partitions)])
    decision = groups.delete_offsets(world.group(), offsets, request)
    assert len(decision.records) == 1, "a tombstone, which takes what is pending with it"


def test_a_tombstone_takes_what_is_pending_with_it() -> None:
    offsets = NO_OFFSETS.put("g", "t", 0, committed(2, 11), ProducerId(7)).remove("g", "t", 0)
    assert offsets == NO_OFFSETS


# -- expiry (KIP-211)


def test_offsets_of_a_consumer_without_a_group_expire_by_their_own_commit() -> None:
    world = World()
    world.commit(1, partition=0)
    world.now_ms += 4 * DAY_MS
    world.commit(2, partition=1)
    world.now_ms += 3 * DAY_MS
    clean(world)
    assert (world.committed(partition=0), world.committed(partition=1)) == (None, 2)
    world.now_ms += 4 * DAY_MS
    clean(world)
    assert world.group() is None


def test_offsets_of_an_empty_group_expire_by_when_it_became_empty() -> None:
    world = World()
    (leader,), generation = world.stable(1, session_ms=1_800_000)
    world.commit(1, member_id=leader, generation=generation)
    world.pass_ms(1_000_000)
    world.leave(leader)
    world.now_ms += 7 * DAY_MS - 1
    clean(world)
    assert world.committed() == 1
    world.now_ms += 1
    clean(world)
    assert world.committed() is None
    assert world.group() is None
    assert world.replayed().state.groups == world.shard.groups


def test_while_members_subscribe_to_a_topic_its_offsets_stay_and_others_go() -> None:
    world = World()
    (leader,), generation = world.stable(1, session_ms=1_800_000)
    for topic in ("t", "u"):
        world.commit(1, topic=topic, member_id=leader, generation=generation)
    world.now_ms += 8 * DAY_MS
    clean(world)
    assert (world.committed("t"), world.committed("u")) == (1, None)


def test_offsets_of_members_that_are_no_consumers_never_expire() -> None:
    world = World()
    (leader,), generation = world.stable(1, session_ms=1_800_000, protocol_type="connect", protocols={"range": b""})
    world.commit(1, member_id=leader, generation=generation)
    world.now_ms += 30 * DAY_MS
    clean(world)
    assert world.committed() == 1


def test_a_retention_of_old_clients_is_kept() -> None:
    world = World()
    world.commit(1, retention_ms=1_000, version=4)
    world.take_over()
    world.now_ms += 1_000
    clean(world)
    assert world.committed() is None


def test_an_empty_group_without_offsets_goes() -> None:
    world = World()
    (leader,), _ = world.stable(1)
    world.leave(leader)
    clean(world)
    assert world.group() is None
    assert world.log[-1].value is None


# -- deleting


def test_what_is_subscribed_to_cannot_be_deleted() -> None:
    world = World()
    (leader,), generation = world.stable(1, protocols={"range": subscription("t")})
    for topic in ("t", "u"):
        world.commit(1, topic=topic, member_id=leader, generation=generation)
    assert delete_offset(world, "t") == (ErrorCode.NONE, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    assert delete_offset(world, "u") == (ErrorCode.NONE, ErrorCode.NONE)
    assert (world.committed("t"), world.committed("u")) == (1, None)


def test_offsets_of_a_group_that_cannot_be_asked_are_not_deleted() -> None:
    world = World()
    assert delete_offset(world)[0] is ErrorCode.GROUP_ID_NOT_FOUND
    world.stable(1, protocol_type="connect", protocols={"range": b""})
    assert delete_offset(world)[0] is ErrorCode.NON_EMPTY_GROUP


def test_a_group_is_deleted_with_its_offsets_while_it_is_empty() -> None:
    world = World()
    (leader,), generation = world.stable(1)
    world.commit(1, member_id=leader, generation=generation)
    refused = world.perform(groups.delete_group(world.shard.state, GROUP), world.token())
    assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
    world.leave(leader)
    assert world.perform(groups.delete_group(world.shard.state, GROUP), world.token()).error_code == 0
    assert world.group() is None
    assert world.replayed().state == groups.EMPTY_STATE
    again = world.perform(groups.delete_group(world.shard.state, GROUP), world.token())
    assert again.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deleted_topics_offsets_go() -> None:
    world = World()
    world.commit(1, topic="t")
    world.commit(1, topic="u")
    for decision in world.shard.forget_gone(list(world.shard.groups), lambda topic, _: topic == "t"):
        world.perform(decision)
    assert (world.committed("t"), world.committed("u")) == (None, 1)
