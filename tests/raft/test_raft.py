from __future__ import annotations

from random import Random

import pytest

from ottla.base import ErrorCode, KafkaError, LeaderEpoch, NodeId, Offset, Uuid
from ottla.raft import (
    NO_ELECTION,
    BeginEpoch,
    Candidate,
    ElectionState,
    Envelope,
    Fetch,
    FetchReply,
    Follower,
    Leader,
    LogView,
    Prospective,
    Raft,
    RaftConfig,
    ReplicaKey,
    Resigned,
    SnapshotId,
    Vote,
    Voter,
    VoterEndpoint,
    VoteReply,
    VoterHistory,
    VoterSet,
    control_batch,
    observed,
    read_batches,
    record_batch,
)
from ottla.wire import ControlType, control_type, iter_batch_records
from tests.raft.cluster import CONFIG, key


def voters(*ids: int) -> VoterSet:
    return VoterSet.of(Voter(key(each), (VoterEndpoint("CONTROLLER", "localhost", 9090 + each),)) for each in ids)


def raft(
    node: int = 1,
    *ids: int,
    election: ElectionState = NO_ELECTION,
    log: LogView | None = None,
    kraft_version: int = 1,
    offset: int = -1,
) -> Raft:
    history = VoterHistory.starting(voters(*(ids or (node,))), kraft_version=kraft_version, offset=offset)
    return Raft(key(node), voters=history, log=log or LogView(), election=election, rng=Random(1), now=0, config=CONFIG)


def kinds(data: bytes) -> list[int]:
    return [
        control_type(record.key)
        for batch in read_batches(data)
        for record in iter_batch_records(batch.data, 0, batch.header)
    ]


def test_a_voter_alone_leads_by_its_first_tick_and_commits_once_flushed() -> None:
    node = raft()
    node.tick(0)
    ready = node.ready()
    assert node.is_leader and node.epoch == 1
    assert ready.election == ElectionState(LeaderEpoch(1), NodeId(1))
    assert ready.committed is None and not ready.messages
    node.propose([b"x", b"y"], 1)
    (append,) = node.ready().appends
    assert (append.base_offset, append.count, append.control) == (3, 2, False)
    node.flushed(3, 2)
    assert node.ready().committed == 3
    node.flushed(5, 2)
    assert node.ready().committed == 5


def test_the_first_leader_writes_the_formatted_voters_into_the_log() -> None:
    node = raft()
    node.tick(0)
    (append,) = node.ready().appends
    assert append.control
    assert kinds(append.batches) == [ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]
    (batch,) = read_batches(append.batches)
    seen = observed(VoterHistory(), batch)
    assert (seen.kraft_version, seen.latest) == (1, voters(1))


def test_static_voters_are_not_written() -> None:
    node = raft(kraft_version=0)
    node.tick(0)
    (append,) = node.ready().appends
    assert kinds(append.batches) == [ControlType.LEADER_CHANGE]


def test_a_later_leader_writes_only_the_leader_change() -> None:
    log = LogView().appended(0, 3, 1)
    node = raft(log=log, election=ElectionState(LeaderEpoch(1), NodeId(1)), offset=2)
    assert isinstance(node.role, Resigned), "the epoch it led is over"
    node.tick(0)
    (append,) = node.ready().appends
    assert kinds(append.batches) == [ControlType.LEADER_CHANGE] and node.epoch == 2


def test_what_earlier_epochs_wrote_is_committed_by_the_first_record_of_this_one() -> None:
    log = LogView().appended(0, 10, 1)
    node = raft(log=log, election=ElectionState(LeaderEpoch(1), NodeId(1)), offset=2)
    node.tick(0)
    node.ready()
    node.flushed(10, 0)
    assert node.high_watermark == 0
    node.flushed(11, 0)
    assert node.ready().committed == 11


def test_only_a_leader_takes_proposals() -> None:
    with pytest.raises(KafkaError) as caught:
        raft(1, 1, 2, 3).propose([b"x"], 0)
    assert caught.value.code == ErrorCode.NOT_CONTROLLER


def vote(node: int, epoch: int, *, pre: bool = False, last: int = 0, end: int = 0) -> Envelope:
    request = Vote(LeaderEpoch(epoch), key(node), LeaderEpoch(last), Offset(end), pre)
    return Envelope(NodeId(node), NodeId(1), request)


def reply_of(node: Raft) -> VoteReply:
    (envelope,) = node.ready().messages
    assert isinstance(envelope.message, VoteReply)
    return envelope.message


def test_one_vote_an_epoch_and_it_is_durable_before_the_reply_leaves() -> None:
    node = raft(1, 1, 2, 3)
    node.step(vote(2, 5), 0)
    ready = node.ready()
    assert ready.election == ElectionState(LeaderEpoch(5), None, key(2))
    assert [each.message.granted for each in ready.messages] == [True]  # type: ignore[union-attr]
    node.step(vote(3, 5), 0)
    assert not reply_of(node).granted
    node.step(vote(2, 5), 0)
    assert reply_of(node).granted, "the same candidate asks again after a lost reply"


def test_a_vote_survives_a_restart() -> None:
    node = raft(1, 1, 2, 3, election=ElectionState(LeaderEpoch(5), None, key(2)))
    node.step(vote(3, 5), 0)
    assert not reply_of(node).granted


def test_a_shorter_log_gets_no_vote() -> None:
    node = raft(1, 1, 2, 3, log=LogView().appended(0, 5, 2))
    node.step(vote(2, 5, last=2, end=4), 0)
    assert not reply_of(node).granted
    node.step(vote(2, 6, last=1, end=9), 0)
    assert not reply_of(node).granted
    node.step(vote(2, 7, last=2, end=5), 0)
    assert reply_of(node).granted


def test_a_pre_vote_costs_nobody_an_epoch() -> None:
    node = raft(1, 1, 2, 3)
    node.step(vote(2, 0, pre=True), 0)
    ready = node.ready()
    assert ready.election is None and node.epoch == 0
    node.tick(10_000)
    sent = [each.message for each in node.ready().messages]
    assert all(isinstance(each, Vote) and each.pre_vote and each.epoch == 0 for each in sent) and len(sent) == 2


def test_a_restarted_leader_neither_leads_nor_votes_in_its_old_epoch() -> None:
    node = raft(1, 1, 2, 3, election=ElectionState(LeaderEpoch(4), NodeId(1)))
    node.step(vote(2, 4), 0)
    assert not reply_of(node).granted and not node.is_leader


def test_a_follower_fetches_only_when_what_it_has_is_durable() -> None:
    node = raft(2, 1, 2, 3)
    node.step(Envelope(NodeId(1), NodeId(2), BeginEpoch(LeaderEpoch(1))), 0)
    (fetch,) = node.ready().messages
    assert isinstance(fetch.message, Fetch) and fetch.message.offset == 0
    data = record_batch([b"x", b"y"], 0, 1, 0)
    answer = FetchReply(LeaderEpoch(1), Offset(0), LeaderEpoch(0), Offset(1), data)
    node.step(Envelope(NodeId(1), NodeId(2), answer), 5)
    ready = node.ready()
    assert [each.base_offset for each in ready.appends] == [0] and not ready.messages
    assert ready.committed == 1
    node.flushed(2, 6)
    (fetch,) = node.ready().messages
    assert isinstance(fetch.message, Fetch) and fetch.message.offset == 2


def test_a_doubled_fetch_reply_changes_nothing() -> None:
    node = raft(2, 1, 2, 3)
    node.step(Envelope(NodeId(1), NodeId(2), BeginEpoch(LeaderEpoch(1))), 0)
    node.ready()
    answer = FetchReply(LeaderEpoch(1), Offset(0), LeaderEpoch(0), Offset(1), record_batch([b"x"], 0, 1, 0))
    node.step(Envelope(NodeId(1), NodeId(2), answer), 5)
    node.ready()
    node.step(Envelope(NodeId(1), NodeId(2), answer), 6)
    assert not node.ready()


def leading_three() -> Raft:
    node = raft(1, 1, 2, 3)
    node.tick(10_000)
    node.step(Envelope(NodeId(2), NodeId(1), VoteReply(LeaderEpoch(0), None, True, True)), 10_000)
    node.step(Envelope(NodeId(3), NodeId(1), VoteReply(LeaderEpoch(1), None, True, False)), 10_000)
    assert isinstance(node.role, Leader)
    node.ready()
    return node


def test_voters_change_one_at_a_time_and_only_after_a_commit() -> None:
    node = leading_three()
    with pytest.raises(KafkaError) as caught:
        node.propose_voters(voters(1, 2, 3, 4), 10_000)
    assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT
    node.flushed(3, 10_000)
    node.step(
        Envelope(NodeId(2), NodeId(1), Fetch(LeaderEpoch(1), key(2), Offset(3), LeaderEpoch(1), Offset(0))), 10_001
    )
    assert node.high_watermark == 3
    with pytest.raises(KafkaError) as caught:
        node.propose_voters(voters(1, 2, 3, 4, 5), 10_001)
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    offset = node.propose_voters(voters(1, 2, 3, 4), 10_001)
    assert (offset, node.voters.ids) == (3, (1, 2, 3, 4))
    node.flushed(4, 10_002)
    node.step(
        Envelope(NodeId(2), NodeId(1), Fetch(LeaderEpoch(1), key(2), Offset(4), LeaderEpoch(1), Offset(3))), 10_003
    )
    assert node.high_watermark == 3, "three of four are the majority now"
    node.step(
        Envelope(NodeId(3), NodeId(1), Fetch(LeaderEpoch(1), key(3), Offset(4), LeaderEpoch(1), Offset(3))), 10_003
    )
    assert node.high_watermark == 4


def test_a_snapshot_of_what_is_not_committed_is_a_mistake() -> None:
    node = leading_three()
    with pytest.raises(AssertionError):
        node.snapshotted(SnapshotId(Offset(3), LeaderEpoch(1)), 0)


def test_truncation_goes_back_to_an_older_voter_set() -> None:
    history = VoterHistory.starting(voters(1), kraft_version=1, offset=2)
    grown = history.changed(7, voters=voters(1, 2))
    assert grown.truncated(7).latest == voters(1)
    assert grown.truncated(8).latest == voters(1, 2)
    assert grown.at(5).latest == voters(1)


def test_a_control_batch_keeps_its_offsets_and_epoch() -> None:
    data = control_batch(VoterHistory.starting(voters(1), kraft_version=1).as_records(), 40, 6, 1_000)
    (batch,) = read_batches(data)
    assert (batch.header.base_offset, batch.count, batch.epoch, batch.header.is_control) == (40, 2, 6, True)


def test_a_corrupt_batch_is_refused_before_anything_is_taken_in() -> None:
    data = bytearray(record_batch([b"x"], 0, 1, 0) + record_batch([b"y"], 1, 1, 0))
    data[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        list(read_batches(bytes(data)))
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def follower_of(leader: int, node_id: int = 2, *, heard: bool = True) -> Raft:
    node = raft(node_id, 1, 2, 3)
    node.step(Envelope(NodeId(leader), NodeId(node_id), BeginEpoch(LeaderEpoch(1))), 0)
    node.ready()
    if heard:
        answer = FetchReply(LeaderEpoch(1), Offset(0), LeaderEpoch(0), Offset(0))
        node.step(Envelope(NodeId(leader), NodeId(node_id), answer), 1)
        node.ready()
    return node


def test_the_first_voter_campaigns_at_once_when_its_leader_hangs_up_and_the_next_one_later() -> None:
    first, second = follower_of(1, 2), follower_of(1, 3)
    for node in (first, second):
        node.disconnected(NodeId(1), 10)
        node.tick(10)
    assert {each.message for each in first.ready().messages} and isinstance(first.role, Prospective)
    assert isinstance(second.role, Follower) and second.next_deadline <= 10 + RaftConfig().stagger_ms
    second.step(Envelope(NodeId(2), NodeId(3), Vote(LeaderEpoch(1), key(2), LeaderEpoch(0), Offset(0), True)), 11)
    assert reply_of(second).granted, "who has lost the leader itself does not hold up others"


def test_who_still_hears_the_leader_refuses_and_the_one_that_lost_it_follows_again() -> None:
    node = follower_of(1, 2)
    node.disconnected(NodeId(1), 10)
    node.tick(10)
    node.ready()
    for other in (1, 3):
        node.step(Envelope(NodeId(other), NodeId(2), VoteReply(LeaderEpoch(1), NodeId(1), False, True)), 12)
    assert isinstance(node.role, Follower) and node.role.leader_id == 1 and node.epoch == 1


def test_a_candidate_does_not_wait_for_voters_that_cannot_be_reached() -> None:
    node = raft(1, 1, 2, 3)
    node.tick(10_000)
    node.step(Envelope(NodeId(2), NodeId(1), VoteReply(LeaderEpoch(0), None, True, True)), 10_000)
    node.step(Envelope(NodeId(2), NodeId(1), VoteReply(LeaderEpoch(1), None, False, False)), 10_001)
    assert isinstance(node.role, Candidate) and not node.role.backing_off
    node.disconnected(NodeId(3), 10_002)
    assert isinstance(node.role, Candidate) and node.role.backing_off


def test_another_directory_of_a_voters_node_does_not_count_for_it() -> None:
    node = leading_three()
    node.flushed(3, 10_000)
    stranger = ReplicaKey(NodeId(2), Uuid(b"another disk 16b"))
    fetch = Fetch(LeaderEpoch(1), stranger, Offset(3), LeaderEpoch(1), Offset(0))
    node.step(Envelope(NodeId(2), NodeId(1), fetch), 10_001)
    assert node.high_watermark == 0


def test_a_removed_leader_leads_until_that_is_committed_and_no_longer() -> None:
    node = leading_three()
    node.flushed(3, 10_000)

    def fetched(by: int, offset: int) -> None:
        fetch = Fetch(LeaderEpoch(1), key(by), Offset(offset), LeaderEpoch(1), Offset(0))
        node.step(Envelope(NodeId(by), NodeId(1), fetch), 10_001)

    fetched(2, 3)
    node.propose_voters(voters(2, 3), 10_001)
    node.flushed(4, 10_002)
    fetched(2, 4)
    assert node.is_leader and node.high_watermark == 3, "its own copy does not count any more"
    fetched(3, 4)
    assert node.high_watermark == 4 and not node.is_leader


def test_a_restarted_voter_asks_the_leader_that_it_knew_before_it_campaigns() -> None:
    node = raft(2, 1, 2, 3, election=ElectionState(LeaderEpoch(4), NodeId(1)))
    node.tick(0)
    (asked,) = node.ready().messages
    assert asked.to == 1 and isinstance(asked.message, Fetch) and asked.message.epoch == 4
