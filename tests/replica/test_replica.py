"""One partition among its copies: fencing, the high watermark, in-sync replicas."""

from __future__ import annotations

from ottla.base import ErrorCode, LeaderEpoch, NodeId, Offset
from ottla.replica import Replica, Role


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
) -> bool:
    return replica.become(
        leader=NodeId(leader),
        leader_epoch=LeaderEpoch(epoch),
        partition_epoch=partition_epoch,
        replicas=tuple(map(NodeId, replicas)),
        isr=tuple(map(NodeId, isr)),
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
    assert replica.role is Role.FOLLOWER
    assert replica.check_leader(6) is ErrorCode.NOT_LEADER_OR_FOLLOWER
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
