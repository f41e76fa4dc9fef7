"""Many seeds of loss, reordering, partitions and crashes; the promises are checked in `cluster.py` at every event."""

from __future__ import annotations

import pytest

from ottla.base import CorruptionError
from tests.raft.cluster import Cluster


def settle(cluster: Cluster) -> None:
    cluster.loss = 0.0
    cluster.links_cut.clear()
    for node in cluster.disks:
        if node not in cluster.nodes:
            cluster.start(node)
    cluster.run(4_000)
    assert cluster.propose()
    cluster.run(2_000)
    cluster.check_end()


def same_logs(cluster: Cluster) -> None:
    ends = {disk.end for disk in cluster.disks.values()}
    assert len(ends) == 1, f"logs end at {ends}"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("voters", [3, 5])
def test_promises_hold_under_loss_and_crashes(seed: int, voters: int) -> None:
    cluster = Cluster(seed, voters, observers=1, loss=0.1)
    rng = cluster.rng
    for _ in range(60):
        cluster.run(50 + rng.randrange(150))
        cluster.propose()
        roll = rng.random()
        up = sorted(cluster.nodes)
        if roll < 0.15 and len(up) > 1:
            cluster.crash(up[rng.randrange(len(up))])
        elif roll < 0.45:
            down = [each for each in cluster.disks if each not in cluster.nodes]
            if down:
                cluster.start(down[0])
        elif roll < 0.6:
            pair = rng.randrange(voters) + 1, rng.randrange(voters) + 1
            cluster.links_cut ^= {pair, pair[::-1]}
        elif roll < 0.75 and up:
            cluster.break_connection(up[rng.randrange(len(up))], rng.randrange(voters) + 1)
    settle(cluster)
    same_logs(cluster)


@pytest.mark.parametrize("seed", range(8))
def test_promises_hold_where_snapshots_replace_the_log(seed: int) -> None:
    cluster = Cluster(seed, 3, observers=1, loss=0.05)
    rng = cluster.rng
    for step in range(60):
        cluster.run(60 + rng.randrange(80))
        cluster.propose()
        up = sorted(cluster.nodes)
        if step % 12 == 3:
            cluster.crash(up[rng.randrange(len(up))])
        elif step % 12 == 11:
            for node in cluster.disks:
                if node not in cluster.nodes:
                    cluster.start(node)
        if up:
            node = up[rng.randrange(len(up))]
            if node in cluster.nodes:
                cluster.snapshot(node)
    settle(cluster)
    same_logs(cluster)


@pytest.mark.parametrize("seed", range(8))
def test_promises_hold_where_disks_are_full(seed: int) -> None:
    cluster = Cluster(seed, 3, observers=1, loss=0.05)
    rng = cluster.rng
    for step in range(60):
        cluster.run(60 + rng.randrange(80))
        cluster.full = {each for each in cluster.disks if rng.random() < 0.4}
        for _ in range(3):
            cluster.propose()
        if step % 12 == 3:
            up = sorted(cluster.nodes)
            cluster.crash(up[rng.randrange(len(up))])
        elif step % 12 == 11:
            for node in cluster.disks:
                if node not in cluster.nodes:
                    cluster.start(node)
    cluster.full = set()
    settle(cluster)
    same_logs(cluster)


def test_a_leader_whose_disk_is_full_leaves_the_lead_to_voters_that_have_room() -> None:
    cluster = Cluster(4, 3)
    cluster.run(2_000)
    assert cluster.leader is not None
    full = cluster.leader.key.id
    cluster.full = {full}
    for _ in range(20):
        cluster.propose()
        cluster.run(100)
    assert cluster.leader is not None and cluster.leader.key.id != full
    committed = cluster.leader.high_watermark
    cluster.propose()
    cluster.run(500)
    assert cluster.leader.high_watermark > committed and cluster.leader.key.id != full


def test_elections_are_slow_while_no_disk_has_room_and_end_when_one_has() -> None:
    cluster = Cluster(5, 3)
    cluster.run(2_000)
    assert cluster.leader is not None
    before = cluster.leader.epoch
    cluster.full = {1, 2, 3}
    for _ in range(200):
        cluster.propose()
        cluster.run(50)
    epochs = max(each.epoch for each in cluster.nodes.values()) - before
    assert 0 < epochs <= 50, f"{epochs} elections in ten seconds, with timeouts of 0.2 s"
    cluster.full = set()
    settle(cluster)
    same_logs(cluster)


def test_a_quorum_of_three_elects_and_commits_without_faults() -> None:
    cluster = Cluster(1, 3)
    cluster.run(2_000)
    assert cluster.leader is not None
    for _ in range(20):
        assert cluster.propose()
        cluster.run(20)
    cluster.run(500)
    assert cluster.leader.high_watermark == cluster.leader.log.end_offset
    assert {raft.high_watermark for raft in cluster.nodes.values()} == {cluster.leader.high_watermark}


def test_without_a_majority_nothing_is_committed_and_the_leader_steps_down() -> None:
    cluster = Cluster(2, 3)
    cluster.run(2_000)
    leader = cluster.leader
    assert leader is not None
    for node in list(cluster.nodes):
        if node != leader.key.id:
            cluster.crash(node)
    watermark = leader.high_watermark
    assert cluster.propose()
    cluster.run(3_000)
    assert leader.high_watermark == watermark
    assert not leader.is_leader


def test_a_voter_cut_off_does_not_depose_a_healthy_leader_when_it_returns() -> None:
    cluster = Cluster(3, 3)
    cluster.run(2_000)
    leader = cluster.leader
    assert leader is not None
    epoch = leader.epoch
    lost = next(each for each in cluster.nodes if each != leader.key.id)
    others = [each for each in cluster.nodes if each != lost]
    cluster.links_cut = {(lost, each) for each in others} | {(each, lost) for each in others}
    cluster.run(3_000)
    cluster.links_cut.clear()
    cluster.run(3_000)
    assert leader.is_leader and leader.epoch == epoch, "pre-vote keeps the epoch (KIP-996)"
    assert cluster.nodes[lost].leader_id == leader.key.id


def test_a_voter_meets_others_that_were_restored_from_an_older_backup_with_a_typed_error() -> None:
    cluster = Cluster(3, 3)
    cluster.run(2_000)
    for _ in range(5):
        cluster.propose()
        cluster.run(300)
    others = [each for each in (1, 2, 3) if each != 3]
    for each in others:
        cluster.crash(each)
    for each in others:
        del cluster.disks[each].batches[1:]
        cluster.start(each)
    cluster.links_cut = {(one, other) for one in (1, 2, 3) for other in (1, 2, 3) if one != other and 3 in (one, other)}
    cluster.check = lambda node: None  # type: ignore[method-assign]  # a backup breaks every promise
    cluster.run(3_000)
    cluster.links_cut.clear()
    with pytest.raises(CorruptionError, match="older backup"):
        cluster.run(10_000)
