"""One partition among its copies: fencing, the high watermark, in-sync replicas."""

from __future__ import annotations

from ottla.base import ErrorCode, LeaderEpoch, NodeId, Offset
from ottla.replica import LastFetch, Replica, Role


def led(*, replicas: tuple[int, ...] = (1,), isr: tuple[int, ...] | None = None, epoch: int = 5) -> Replica:
    replica = Replica(NodeId(1), high_watermark=Offset(0), log_end_offset=Offset(0))
    become(replica, leader=1, replicas=replicas, isr=isr or replicas, epoch=epoch)
    return replica


def become(
    replica: Replica,
    *,
    leader: int,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    epoch: int,
    partition_epoch: int = 0,
    eligible: tuple[int, ...] = (),
) -> bool:
    return replica.become(
        leader=NodeId(leader),
        leader_epoch=LeaderEpoch(epoch),
        partition_epoch=partition_epoch,
        replicas=tuple(map(NodeId, replicas)),
        isr=tuple(map(NodeId, isr)),
        eligible=tuple(map(NodeId, eligible)),
    )


def fetched(replica: Replica, follower: int, offset: int) -> bool:
    return replica.fetched_by(NodeId(follower), fetch_offset=Offset(offset), log_start_offset=Offset(0), now_s=0.0)


def test_alone_the_high_watermark_is_the_log_end() -> None:
    replica = led()
    assert replica.appended(Offset(10))
    assert replica.high_watermark == 10
    assert not replica.appended(Offset(10))


def test_the_high_watermark_is_the_smallest_end_in_sync() -> None:
    replica = led(replicas=(1, 2, 3))
    assert not replica.appended(Offset(10))
    assert not fetched(replica, 2, 8)
    assert fetched(replica, 3, 4)
    assert replica.high_watermark == 4
    assert fetched(replica, 3, 10)
    assert replica.high_watermark == 8


def test_a_replica_out_of_sync_holds_nothing_back() -> None:
    replica = led(replicas=(1, 2, 3), isr=(1, 2))
    replica.appended(Offset(10))
    assert fetched(replica, 2, 10)
    assert replica.high_watermark == 10


def test_a_shrunk_isr_moves_the_high_watermark_in_the_same_epoch() -> None:
    replica = led(replicas=(1, 2, 3))
    replica.appended(Offset(10))
    fetched(replica, 2, 10)
    assert replica.high_watermark == 0
    assert not become(replica, leader=1, replicas=(1, 2, 3), isr=(1, 2), epoch=5, partition_epoch=1)
    assert replica.high_watermark == 10


def test_a_new_epoch_forgets_what_followers_had() -> None:
    replica = led(replicas=(1, 2))
    replica.appended(Offset(10))
    fetched(replica, 2, 10)
    assert become(replica, leader=1, replicas=(1, 2), isr=(1, 2), epoch=6, partition_epoch=1)
    replica.appended(Offset(20))
    assert replica.high_watermark == 10


def test_old_partition_state_is_ignored() -> None:
    replica = led(epoch=5)
    become(replica, leader=1, replicas=(1, 2), isr=(1,), epoch=5, partition_epoch=3)
    assert not become(replica, leader=2, replicas=(1, 2), isr=(2,), epoch=4, partition_epoch=2)
    assert replica.is_leader


def test_requests_are_fenced_by_leader_epoch() -> None:
    replica = led(epoch=5)
    assert replica.check_leader() is ErrorCode.NONE
    assert replica.check_leader(5) is ErrorCode.NONE
    assert replica.check_leader(4) is ErrorCode.FENCED_LEADER_EPOCH
    assert replica.check_leader(6) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_follower_sends_clients_away() -> None:
    replica = led(replicas=(1, 2))
    become(replica, leader=2, replicas=(1, 2), isr=(1, 2), epoch=6, partition_epoch=1)
    assert (replica.role, replica.check_leader(6)) == (Role.FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    become(replica, leader=-1, replicas=(1, 2), isr=(1, 2), epoch=7, partition_epoch=2)
    assert replica.role is Role.OFFLINE


def test_min_insync_replicas_is_held_against_the_isr() -> None:
    replica = led(replicas=(1, 2, 3), isr=(1, 2))
    assert replica.has_enough_in_sync(2)
    assert not replica.has_enough_in_sync(3)


def test_one_copy_is_enough_where_there_is_only_one() -> None:
    assert led().has_enough_in_sync(2)


def test_truncation_takes_the_high_watermark_along() -> None:
    replica = led()
    replica.appended(Offset(10))
    replica.truncated(Offset(7))
    assert (replica.log_end_offset, replica.high_watermark) == (7, 7)


def test_the_checkpointed_high_watermark_is_no_more_than_the_log() -> None:
    replica = Replica(NodeId(1), high_watermark=Offset(9), log_end_offset=Offset(4))
    assert replica.high_watermark == 4


# -- in-sync replicas (KIP-497, KIP-966)


def ids(*nodes: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, nodes))


def at(replica: Replica, follower: int, offset: int, now_s: float, *, eligible: bool = True) -> bool:
    return replica.fetched_by(
        NodeId(follower),
        fetch_offset=Offset(offset),
        log_start_offset=Offset(0),
        now_s=now_s,
        is_eligible=eligible,
    )


def test_the_high_watermark_rests_while_too_few_are_in_sync() -> None:
    replica = led(replicas=(1, 2), isr=(1,))
    replica.min_insync_replicas = 2
    assert not replica.appended(Offset(10))
    replica.min_insync_replicas = 1
    assert replica.settle() and replica.high_watermark == 10


def test_a_pending_expansion_holds_the_high_watermark_and_a_pending_shrink_does_not_let_it_go() -> None:
    replica = led(replicas=(1, 2, 3), isr=(1, 2))
    replica.appended(Offset(10))
    at(replica, 2, 10, 1.0)
    assert replica.high_watermark == 10
    replica.propose_isr(ids(1, 2, 3))
    replica.appended(Offset(20))
    assert not at(replica, 2, 20, 2.0), "3 counts already"
    assert at(replica, 3, 20, 2.0)
    assert replica.high_watermark == 20
    shrinking = led(replicas=(1, 2), isr=(1, 2))
    shrinking.appended(Offset(10))
    proposal = shrinking.propose_isr(ids(1))
    assert shrinking.high_watermark == 0, "nobody has agreed yet"
    assert shrinking.isr_decided(leader_epoch=5, partition_epoch=1, isr=ids(1))
    assert shrinking.high_watermark == 10 and not shrinking.withdraw(proposal)


def test_the_high_watermark_waits_for_who_has_caught_up_and_is_about_to_join() -> None:
    replica = led(replicas=(1, 2), isr=(1,))
    replica.appended(Offset(10))
    assert replica.high_watermark == 10
    at(replica, 2, 10, 1.0)
    replica.appended(Offset(20))
    assert replica.high_watermark == 10 and replica.may_join(NodeId(2))
    at(replica, 2, 20, 2.0, eligible=False)
    replica.appended(Offset(30))
    assert replica.high_watermark == 30, "the controller would not take it"


def test_who_fell_behind_before_it_joined_is_not_waited_for() -> None:
    replica = led(replicas=(1, 2), isr=(1,))
    at(replica, 2, 0, 1.0)
    replica.appended(Offset(10))
    assert replica.high_watermark == 0
    assert not replica.forget_joining(30.0)
    assert replica.forget_joining(32.0) and replica.high_watermark == 10


def test_nobody_joins_without_what_earlier_leaders_may_have_committed() -> None:
    replica = led(replicas=(1, 2), isr=(1,))
    replica.appended(Offset(10))
    become(replica, leader=1, replicas=(1, 2), isr=(1,), epoch=6, partition_epoch=1)
    replica.epoch_start = Offset(10)
    replica.high_watermark = Offset(4)
    assert not replica.is_settled
    at(replica, 2, 9, 1.0)
    assert not replica.may_join(NodeId(2))
    at(replica, 2, 10, 1.0)
    assert replica.may_join(NodeId(2)) and replica.is_settled


def test_a_follower_lags_when_it_has_not_caught_up_for_long_whatever_it_fetches() -> None:
    replica = led(replicas=(1, 2))
    for now_s in range(1, 60):
        replica.appended(Offset(100 * now_s))
        at(replica, 2, 100 * now_s - 150, float(now_s))  # always more than one fetch behind
    assert replica.lagging(59.0) == (2,)
    steady = led(replicas=(1, 2))
    for now_s in range(1, 60):
        at(steady, 2, 100 * (now_s - 1), float(now_s))  # what there was at its last fetch
        steady.appended(Offset(100 * now_s))
    assert steady.lagging(60.0) == ()


def test_an_idle_follower_with_everything_lags_never() -> None:
    replica = led(replicas=(1, 2))
    replica.appended(Offset(10))
    at(replica, 2, 10, 1.0)
    assert replica.lagging(1e9) == ()


def test_while_one_change_is_pending_no_other_is_proposed() -> None:
    replica = led(replicas=(1, 2, 3), isr=(1, 2))
    at(replica, 3, 0, 1.0)
    replica.propose_isr(ids(1))
    assert not replica.may_join(NodeId(3)) and replica.lagging(1e9) == ()
    become(replica, leader=1, replicas=(1, 2, 3), isr=(1, 2), epoch=5, partition_epoch=1)
    assert replica.proposal is None, "the metadata has decided otherwise"


def test_an_answer_from_another_epoch_says_nothing() -> None:
    replica = led(replicas=(1, 2))
    replica.appended(Offset(10))
    assert not replica.isr_decided(leader_epoch=4, partition_epoch=9, isr=ids(1))
    assert replica.isr == (1, 2) and replica.high_watermark == 0


def test_an_acknowledgement_counts_who_was_waited_for() -> None:
    replica = led(replicas=(1, 2), isr=(1,))
    assert not replica.had_enough_in_sync(2)
    replica.propose_isr(ids(1, 2))
    assert replica.had_enough_in_sync(2) and not replica.has_enough_in_sync(2)


def test_what_is_parked_counts_as_fetched_until_it_is_woken() -> None:
    replica = led(replicas=(1, 2))
    replica.appended(Offset(10))
    at(replica, 2, 9, 1.0)
    last_fetch = LastFetch(1.0)
    assert not replica.park(NodeId(2), last_fetch), "it has not everything"
    at(replica, 2, 10, 2.0)
    assert replica.park(NodeId(2), last_fetch)
    last_fetch.fetched_s, last_fetch.confirmed_s = 50.0, 49.0
    assert replica.confirmed_s() == 49.0
    replica.wake_followers()
    last_fetch.fetched_s = last_fetch.confirmed_s = 99.0
    replica.appended(Offset(20))
    assert replica.confirmed_s() == 49.0
    assert replica.lagging(79.0) == () and replica.lagging(81.0) == (2,)


def test_where_nobody_else_could_lead_nobody_is_asked() -> None:
    replica = led(replicas=(1, 2, 3), isr=(1,))
    assert replica.confirmed_s() == float("inf")
    become(replica, leader=1, replicas=(1, 2, 3), isr=(1,), epoch=5, partition_epoch=1, eligible=(2,))
    assert replica.confirmed_s() == float("-inf"), "who is eligible may lead where this broker is gone"
    become(replica, leader=1, replicas=(1, 2, 3), isr=(1,), epoch=5, partition_epoch=2)
    replica.propose_isr(ids(1, 3))
    assert replica.confirmed_s() == float("-inf"), "it may be in sync already, as the controller knows it"
    replica.isr_decided(leader_epoch=5, partition_epoch=3, isr=ids(1))
    assert replica.confirmed_s() == float("-inf"), "who has left may be eligible: the metadata will say it"
