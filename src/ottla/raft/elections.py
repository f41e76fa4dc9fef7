"""Elections: pre-votes, votes, and what a new leader begins with (KIP-595, KIP-996)."""

from __future__ import annotations

from dataclasses import replace

from immutables import Map

from ottla.base import LeaderEpoch, NodeId
from ottla.raft import leading
from ottla.raft.control import control_batch, leader_change
from ottla.raft.core import Core
from ottla.raft.election_state import ElectionState
from ottla.raft.messages import BeginEpoch, EndEpoch, EpochRefused, Vote, VoteReply
from ottla.raft.roles import Candidate, Follower, Leader, Progress, Prospective, Unattached

__all__ = [
    "ask_for_votes",
    "become_prospective",
    "discover",
    "on_begin_epoch",
    "on_disconnected",
    "on_end_epoch",
    "on_refused",
    "on_vote",
    "on_vote_reply",
]


def become_prospective(core: Core, now: int) -> None:
    """Ask whether this replica would win; one that does not vote never campaigns."""
    if not core.is_voter:
        core.become_unattached(core.epoch, now)
        return
    core.role = Prospective(
        deadline=core.election_deadline(now),
        resend_at=now + core.config.request_timeout_ms,
        granted=frozenset({core.key.id}),
    )
    ask_for_votes(core, frozenset({core.key.id}))
    count_votes(core, now)


def become_candidate(core: Core, now: int) -> None:
    """Take a new epoch and vote for oneself in it."""
    core.election = ElectionState(LeaderEpoch(core.epoch + 1), None, core.key)
    core.role = Candidate(
        deadline=core.election_deadline(now),
        resend_at=now + core.config.request_timeout_ms,
        granted=frozenset({core.key.id}),
    )
    ask_for_votes(core, frozenset({core.key.id}))
    count_votes(core, now)


def ask_for_votes(core: Core, answered: frozenset[NodeId]) -> None:
    """Ask every voter that has not answered yet."""
    request = Vote(
        epoch=core.epoch,
        candidate=core.key,
        last_epoch=core.log.last_epoch,
        end_offset=core.log.end_offset,
        pre_vote=isinstance(core.role, Prospective),
    )
    for voter in core.voters.others(core.key.id):
        if voter not in answered:
            core.send(voter, request)


def count_votes(core: Core, now: int) -> None:
    """Go on once a majority has granted; wait a while once a majority has refused."""
    role = core.role
    assert isinstance(role, Prospective | Candidate)
    if len(role.granted) >= core.voters.majority:
        if isinstance(role, Prospective):
            become_candidate(core, now)
        else:
            become_leader(core, role.granted, now)
    elif len(core.voters) - len(role.rejected) < core.voters.majority:
        lose(core, role, now)


def lose(core: Core, role: Prospective | Candidate, now: int) -> None:
    """Wait a while before the next try, or go on following the leader that others still hear."""
    if isinstance(role, Prospective) and core.leader_id is not None:
        core.become_follower(core.leader_id, core.epoch, now)
    elif isinstance(role, Candidate) and not role.backing_off:
        backoff = core.rng.randrange(core.config.election_backoff_max_ms + 1)
        core.role = replace(role, backing_off=True, deadline=now + backoff, resend_at=now + backoff)


def on_disconnected(core: Core, peer: NodeId, now: int) -> None:
    """A peer's connection has closed, or none could be opened: a leader there is probably dead, nobody there votes."""
    role = core.role
    if isinstance(role, Prospective | Candidate) and peer in core.voters.ids and peer not in role.granted:
        core.role = replace(role, rejected=role.rejected | {peer})
        count_votes(core, now)
    elif isinstance(role, Follower) and role.leader_id == peer:
        # Whoever had heard from the leader campaigns at once; who had not since it began to follow tries more slowly.
        wait = core.stagger(peer) if role.heard else core.stagger(peer) + core.config.stagger_ms
        again = None if role.resend_at is None else now + core.config.stagger_ms // 2
        core.role = replace(role, heard=False, deadline=min(role.deadline, now + wait), resend_at=again)
    else:
        look_again(core, now)


def become_leader(core: Core, granting: frozenset[NodeId], now: int) -> None:
    """Lead the epoch, beginning with a record of that."""
    core.election = ElectionState(core.epoch, core.key.id)
    start = core.log.end_offset
    progress = Map({voter.key.id: Progress(voter.key) for voter in core.voters})
    core.role = Leader(start, since=now, begin_at=now + core.config.request_timeout_ms, progress=progress)
    records = [leader_change(core.key, core.voters, granting)]
    if core.history.kraft_version and core.history.last_offset < 0:
        # The voter set of the formatted snapshot enters the log with the first leader (KIP-853).
        records += core.history.as_records()
        core.history = core.history.changed(start + 2)
    batch = control_batch(records, start, core.epoch, now)
    leading.append(core, batch, len(records), control=True, now=now)
    for voter in core.voters.others(core.key.id):
        core.send(voter, BeginEpoch(core.epoch))


def on_vote(core: Core, source: NodeId, vote: Vote, now: int) -> None:
    """Answer a request for a vote, or for what one would be."""
    if vote.epoch > core.epoch:
        core.become_unattached(vote.epoch, now)
    granted = vote.epoch == core.epoch and would_vote(core, vote)
    if granted and not vote.pre_vote and core.election.voted is None:
        core.election = replace(core.election, voted=vote.candidate)
        core.role = Unattached(deadline=core.election_deadline(now))
    core.reply(source, VoteReply(core.epoch, core.leader_id, granted, vote.pre_vote))


def would_vote(core: Core, vote: Vote) -> bool:
    """Return whether to grant: one vote an epoch, to no shorter log, and no pre-vote while a leader is heard."""
    up_to_date = (vote.last_epoch, vote.end_offset) >= (core.log.last_epoch, core.log.end_offset)
    role = core.role
    if vote.pre_vote:
        hears_leader = isinstance(role, Leader) or (isinstance(role, Follower) and role.heard)
        return up_to_date and not hears_leader
    if not isinstance(role, Unattached | Prospective) or core.leader_id is not None:
        return False
    voted = core.election.voted
    return up_to_date if voted is None else voted == vote.candidate


def on_vote_reply(core: Core, source: NodeId, reply: VoteReply, now: int) -> None:
    """Count a vote; one for an older campaign has no effect."""
    if reply.epoch > core.epoch:
        core.observe(reply.epoch, reply.leader_id, now)
        return
    role = core.role
    counted = isinstance(role, Prospective) if reply.pre_vote else isinstance(role, Candidate)
    if reply.epoch < core.epoch or not counted or source not in core.voters.ids:
        return
    assert isinstance(role, Prospective | Candidate)
    if core.leader_id is None and reply.leader_id is not None:
        core.observe(reply.epoch, reply.leader_id, now)
        return
    if reply.granted:
        core.role = replace(role, granted=role.granted | {source}, rejected=role.rejected - {source})
    elif source not in role.granted:
        core.role = replace(role, rejected=role.rejected | {source})
    count_votes(core, now)


def on_begin_epoch(core: Core, source: NodeId, message: BeginEpoch, now: int) -> None:
    """Follow a new leader."""
    if message.epoch < core.epoch:
        core.reply(source, EpochRefused(core.epoch, core.leader_id))
    else:
        core.observe(message.epoch, source, now)


def on_end_epoch(core: Core, source: NodeId, message: EndEpoch, now: int) -> None:
    """Campaign soon after the leader has resigned, the first successor at once."""
    if message.epoch > core.epoch:
        core.become_unattached(message.epoch, now)
    role = core.role
    if message.epoch != core.epoch or not isinstance(role, Follower) or role.leader_id != source:
        return
    rank = message.successors.index(core.key.id) if core.key.id in message.successors else len(message.successors)
    delay = 0 if rank == 0 else core.config.election_backoff_max_ms // 2 * rank
    core.role = Follower(source, deadline=now + min(delay, core.config.fetch_timeout_ms))
    if not delay:
        become_prospective(core, now)


def on_refused(core: Core, source: NodeId, message: EpochRefused, now: int) -> None:
    """Learn the epoch or the leader that a request missed."""
    role = core.role
    core.observe(message.epoch, message.leader_id, now)
    if core.role is role:
        look_again(core, now)
    if not (isinstance(role, Follower) and core.role is role and role.leader_id == source):
        return
    if message.epoch == core.epoch and message.leader_id != source:
        core.become_unattached(core.epoch, now)
    elif message.epoch == core.epoch and role.download is not None and not role.download.complete:
        # The leader has no such snapshot any more: its answer to the next fetch names another.
        core.role = replace(role, download=None, resend_at=now + core.config.stagger_ms)


def look_again(core: Core, now: int) -> None:
    """An observer that asked in vain asks soon again, somebody else perhaps: an election does not take long."""
    role = core.role
    if isinstance(role, Unattached) and not core.is_voter:
        core.role = Unattached(deadline=min(role.deadline, now + core.config.stagger_ms // 2))


def discover(core: Core, now: int) -> None:
    """An observer asks a voter, or where to begin; whoever does not lead answers who does."""
    others = core.voters.others(core.key.id) or core.config.bootstrap
    core.role = Unattached(deadline=now + core.config.request_timeout_ms)
    if others:
        core.send(others[core.rng.randrange(len(others))], core.fetch_request())
