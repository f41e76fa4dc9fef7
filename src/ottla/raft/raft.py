"""KRaft's state machine: elections, replication by fetching, and the high watermark (KIP-595, KIP-853, KIP-996).

Feed it messages, time and proposals; ask `ready()` what to do about them. It touches nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from immutables import Map

from ottla.base import ErrorCode, KafkaError, LeaderEpoch, NodeId, Offset, Rng
from ottla.raft import elections, following, leading, progress
from ottla.raft.control import VoterHistory, control_batch, kraft_version_change, record_batch, voters_change
from ottla.raft.core import Core, RaftConfig
from ottla.raft.election_state import ElectionState
from ottla.raft.log_view import LogView, SnapshotId
from ottla.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Envelope,
    EpochRefused,
    Fetch,
    FetchReply,
    FetchSnapshot,
    SnapshotChunk,
    Vote,
    VoteReply,
)
from ottla.raft.ready import Ready
from ottla.raft.roles import Candidate, Follower, Leader, Progress, Prospective, Resigned, Role, Unattached
from ottla.raft.voters import ReplicaKey, VoterSet

__all__ = ["Raft"]


class Raft:
    """One replica of the quorum's log.

    `log` and `election` are what was durable when the process began, and `voters` the voter sets that snapshot and log
    name. `now` is in milliseconds since the Unix epoch on a clock that never goes back: deadlines and the timestamps of
    batches come from it. Call `tick` first: a voter alone in its quorum leads by the end of that call, on the path that
    every election takes.
    """

    def __init__(
        self,
        key: ReplicaKey,
        *,
        voters: VoterHistory,
        log: LogView,
        election: ElectionState,
        rng: Rng,
        now: int,
        config: RaftConfig | None = None,
    ) -> None:
        core = self._core = Core(
            key=key,
            config=config or RaftConfig(),
            rng=rng,
            history=voters,
            log=log,
            election=election,
            role=Unattached(deadline=now),
            flushed_offset=log.end_offset,
            high_watermark=log.snapshot.end_offset,
            persisted=election,
            applied_to=log.snapshot.end_offset,
        )
        deadline = now if core.voters.ids == (key.id,) else core.election_deadline(now)
        if election.leader_id == key.id:
            # What this process appended and did not flush is lost, so it must not go on in the epoch it led.
            core.role = Resigned(deadline=deadline, resend_at=now)
        elif election.leader_id is not None and core.voters.ids != (key.id,):
            # Probably it leads still: asking it costs less than an election.
            core.role = Follower(election.leader_id, deadline=now + core.config.fetch_timeout_ms, resend_at=now)
        else:
            core.role = Unattached(deadline=deadline)

    # What is known

    @property
    def key(self) -> ReplicaKey:
        """Which replica this is."""
        return self._core.key

    @property
    def role(self) -> Role:
        """What this replica is now."""
        return self._core.role

    @property
    def epoch(self) -> LeaderEpoch:
        """The newest epoch seen."""
        return self._core.epoch

    @property
    def leader_id(self) -> NodeId | None:
        """Who leads this epoch, where that is known."""
        return self._core.leader_id

    @property
    def voted_id(self) -> NodeId | None:
        """Whom this replica has voted for in its epoch."""
        voted = self._core.election.voted
        return None if voted is None else voted.id

    @property
    def is_leader(self) -> bool:
        """True while this replica may append."""
        return isinstance(self._core.role, Leader)

    @property
    def is_voter(self) -> bool:
        """True where this replica votes; others are observers."""
        return self._core.is_voter

    @property
    def log(self) -> LogView:
        """The log's shape, with everything appended whether durable or not."""
        return self._core.log

    @property
    def high_watermark(self) -> Offset:
        """Everything before this offset is committed."""
        return self._core.high_watermark

    @property
    def election(self) -> ElectionState:
        """What `quorum-state` holds once the next `ready()` is performed."""
        return self._core.election

    @property
    def voters(self) -> VoterSet:
        """The newest voter set in the log, which holds from its append on."""
        return self._core.voters

    @property
    def voter_history(self) -> VoterHistory:
        """Every voter set that the log names, with its offset, and the `kraft.version`."""
        return self._core.history

    @property
    def replicas(self) -> Map[NodeId, Progress]:
        """How far each replica is, as a leader knows it; empty elsewhere."""
        role = self._core.role
        return role.progress if isinstance(role, Leader) else Map()

    @property
    def asked_at(self) -> int | None:
        """When the leader was asked for what it has been asked for and has not answered yet; None where it was not."""
        role = self._core.role
        if not isinstance(role, Follower) or role.resend_at is None:
            return None
        return role.resend_at - self._core.config.request_timeout_ms

    @property
    def next_deadline(self) -> int:
        """When `tick` has something to do, if nothing else happens before."""
        core, role = self._core, self._core.role
        match role:
            case Unattached():
                return role.deadline
            case Prospective() | Candidate() | Resigned():
                return min(role.deadline, role.resend_at)
            case Follower():
                return role.deadline if role.resend_at is None else min(role.deadline, role.resend_at)
            case Leader():
                return progress.next_deadline(role, core.voters, core.key.id, core.config.check_quorum_ms)

    def ready(self) -> Ready:
        """Return what to do since the last call, and forget it; the caller does it in the order that Ready states."""
        return self._core.take_effects()

    # What happens

    def tick(self, now: int) -> None:
        """Act on every deadline that has passed."""
        core = self._core
        role = core.role
        match role:
            case Unattached() if now >= role.deadline and not core.is_voter:
                elections.discover(core, now)
            case Unattached() | Prospective() | Candidate() | Resigned() if now >= role.deadline:
                elections.become_prospective(core, now)
            case Prospective() | Candidate() if now >= role.resend_at:
                core.role = replace(role, resend_at=now + core.config.request_timeout_ms)
                elections.ask_for_votes(core, role.granted | role.rejected)
            case Follower():
                following.tick(core, role, now)
            case Leader():
                leading.tick(core, role, now)
            case Resigned() if now >= role.resend_at:
                core.role = replace(role, resend_at=now + core.config.request_timeout_ms)
                leading.announce_end(core, role.successors)
            case _:
                pass

    def step(self, envelope: Envelope, now: int) -> None:
        """Take in a message from another replica; one of an older epoch or answering nothing asked has no effect."""
        core, source, message = self._core, envelope.source, envelope.message
        core.answering = envelope.request
        match message:
            case Vote():
                elections.on_vote(core, source, message, now)
            case VoteReply():
                elections.on_vote_reply(core, source, message, now)
            case BeginEpoch():
                elections.on_begin_epoch(core, source, message, now)
            case EndEpoch():
                elections.on_end_epoch(core, source, message, now)
            case EpochRefused():
                elections.on_refused(core, source, message, now)
            case Fetch():
                leading.on_fetch(core, source, message, now)
            case FetchReply():
                following.on_fetch_reply(core, source, message, now)
            case FetchSnapshot():
                leading.on_fetch_snapshot(core, source, message, now)
            case SnapshotChunk():
                following.on_snapshot_chunk(core, source, message, now)

    def disconnected(self, peer: NodeId, now: int) -> None:
        """Take note that a peer's connection has closed, or could not be opened: nothing asked there is answered."""
        elections.on_disconnected(self._core, peer, now)

    def propose(self, values: Sequence[bytes], now: int) -> Offset:
        """Append records as one batch and return the offset of the last; raises NOT_CONTROLLER where not the leader.

        They are committed once `ready().committed` is beyond that offset while this replica still leads the epoch.
        """
        core = self._core
        if not isinstance(core.role, Leader):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {core.key.id} does not lead the metadata quorum")
        batch = record_batch(values, core.log.end_offset, core.epoch, now)
        leading.append(core, batch, len(values), control=False, now=now)
        return Offset(core.log.end_offset - 1)

    def propose_voters(self, voters: VoterSet, now: int) -> Offset:
        """Append a voter set that differs by one voter and return its offset; it holds from now on (KIP-853)."""
        core, role = self._core, self._core.role
        if not isinstance(role, Leader):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {core.key.id} does not lead the metadata quorum")
        if core.history.kraft_version < 1:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the voters are static: kraft.version is 0")
        if core.high_watermark <= role.epoch_start_offset or core.history.last_offset >= core.high_watermark:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "an earlier change of the quorum is not committed yet")
        if not voters.one_change_from(core.voters) or not len(voters):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "voters are added and removed one at a time")
        offset = core.log.end_offset
        batch = control_batch([voters_change(voters)], offset, core.epoch, now)
        core.history = core.history.changed(offset, voters=voters)
        leading.append(core, batch, 1, control=True, now=now)
        return offset

    def propose_kraft_version(self, level: int, voters: VoterSet, now: int) -> Offset:
        """Append a higher `kraft.version` and the voters that were static until now, and return the last offset."""
        core, role = self._core, self._core.role
        if not isinstance(role, Leader):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {core.key.id} does not lead the metadata quorum")
        if core.high_watermark <= role.epoch_start_offset:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the leader's epoch is not committed yet")
        offset = core.log.end_offset
        records = [kraft_version_change(level), voters_change(voters)]
        core.history = core.history.changed(offset, kraft_version=level).changed(offset + 1, voters=voters)
        leading.append(core, control_batch(records, offset, core.epoch, now), 2, control=True, now=now)
        return Offset(offset + 1)

    def flushed(self, end_offset: int, now: int) -> None:
        """Take note that everything before this offset is durable here."""
        core = self._core
        core.flushed_offset = Offset(max(core.flushed_offset, min(end_offset, core.log.end_offset)))
        match core.role:
            case Leader() as role:
                leading.flushed(core, role, now)
            case Follower() as role if role.resend_at is None and core.all_flushed:
                core.fetch(now)
            case _:
                pass

    def refused(self, offset: Offset, now: int) -> None:
        """Take note that the disk had no room for what was to be appended from this offset on: none of it is there.

        To be called while the `Ready` that asked for it is performed, before its messages leave. A leader resigns where
        others may have room; a follower keeps what it has, and asks for the rest again after a while.
        """
        core = self._core
        core.take_back(offset)
        match core.role:
            case Leader() as role:
                leading.refused(core, role, now)
            case Follower() as role:
                core.role = replace(role, resend_at=now + core.config.no_room_ms)
            case _:
                pass

    def not_downloaded(self, snapshot: SnapshotId, now: int) -> None:
        """Take note that the disk had no room for a snapshot being fetched: ask again after a while, from its start."""
        core, role = self._core, self._core.role
        if isinstance(role, Follower) and role.download is not None and role.download.snapshot == snapshot:
            core.role = replace(role, download=None, resend_at=now + core.config.no_room_ms)

    def snapshotted(self, snapshot: SnapshotId, start_offset: int) -> None:
        """Take note of a durable snapshot of committed records, and that the log now starts at this offset."""
        core = self._core
        assert snapshot.end_offset <= core.high_watermark, "a snapshot holds committed records only"
        core.log = core.log.with_snapshot(snapshot).trimmed(start_offset)

    def installed(self, snapshot: SnapshotId, voters: VoterHistory, now: int) -> None:
        """Take note that the driver has loaded a fetched snapshot, durably, and that its log is empty after it."""
        core = self._core
        core.log = LogView.after(snapshot)
        core.history = voters
        core.flushed_offset = snapshot.end_offset
        core.high_watermark = Offset(max(core.high_watermark, snapshot.end_offset))
        core.applied_to = Offset(max(core.applied_to, snapshot.end_offset))
        if isinstance(core.role, Follower):
            core.role = replace(core.role, download=None, resend_at=None)
            core.fetch(now)

    def resign(self, now: int) -> None:
        """Stop leading, so that others elect at once; elsewhere it does nothing."""
        leading.resign(self._core, now)
