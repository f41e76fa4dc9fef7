from __future__ import annotations

import pytest

from ottla.base import CorruptionError, LeaderEpoch, NodeId
from ottla.raft import ElectionState, Voter, VoterSet, parse_election_state, render_election_state
from tests.raft.cluster import key

VOTERS = VoterSet.of([Voter(key(1))])


def test_static_voters_are_written_as_kafka_4_3_writes_them() -> None:
    text = render_election_state(ElectionState(LeaderEpoch(1), NodeId(1)), kraft_version=0, voters=VOTERS)
    assert text == (
        '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )


def test_recorded_voters_are_written_as_kafka_4_3_writes_them() -> None:
    text = render_election_state(ElectionState(LeaderEpoch(1), NodeId(1)), kraft_version=1, voters=VOTERS)
    assert text == (
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )


@pytest.mark.parametrize(
    "state",
    [
        ElectionState(),
        ElectionState(LeaderEpoch(7), NodeId(3)),
        ElectionState(LeaderEpoch(7), None, key(2)),
        ElectionState(LeaderEpoch(7), NodeId(3), key(2)),
    ],
)
def test_a_state_comes_back_as_it_was(state: ElectionState) -> None:
    assert parse_election_state(render_election_state(state, kraft_version=1, voters=VOTERS)) == state


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", '{"data_version":9}', '{"leaderId":"x","data_version":1}', "\ufffd"),
        '{"leaderId":1e400,"leaderEpoch":1,"votedId":-1,"data_version":1}',
    ],
)
def test_what_is_not_a_state_is_corruption(text: str) -> None:
    with pytest.raises(CorruptionError):
        parse_election_state(text)
