"""The state that all of the machine's parts work on, with the steps that more than one of them takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.base import LeaderEpoch, NodeId, Offset, Rng
from ottla.raft.control import VoterHistory
from ottla.raft.election_state import ElectionState
from ottla.raft.log_view import LogView
from ottla.raft.messages import Envelope, Fetch, FetchSnapshot, Message
from ottla.raft.ready import NOTHING, Append, Ready, SnapshotWrite
from ottla.raft.roles import Follower, Leader, Resigned, Role, Unattached
from ottla.raft.voters import ReplicaKey, VoterSet

__all__ = ["Core", "RaftConfig"]


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """Timings, as the `controller.quorum.*` keys name them."""

    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    fetch_max_wait_ms: int = 500
    stagger_ms: int = 200
    """How much later each further voter campaigns, so that two seldom do at once: more than an election takes."""
    observer_forgotten_ms: int = 300_000
    no_room_ms: int = 500
    """How long a replica waits whose disk had no room before it fetches again what it could not append."""
    bootstrap: tuple[NodeId, ...] = ()
    """Whom an observer asks while it knows no voters: numbers below zero that the driver has given to addresses."""

    @property
    def check_quorum_ms(self) -> int:
        """How long a leader leads without hearing from a majority: longer than followers wait before they campaign."""
        return self.fetch_timeout_ms * 3 // 2


@dataclass(slots=True)
class Core:
    """One replica, as its `Raft` alone sees it: state, and the effects that wait for the next `ready`.

    Always `applied_to` ≤ `high_watermark` ≤ the log's end, and `flushed_offset` ≤ the log's end.
    """

    key: ReplicaKey
    config: RaftConfig
    rng: Rng
    history: VoterHistory
    log: LogView
    election: ElectionState
    role: Role
    flushed_offset: Offset
    """Everything before is durable here."""
    high_watermark: Offset
    """Everything before is committed."""
    persisted: ElectionState
    applied_to: Offset
    """Everything before was handed out as committed."""
    truncate_to: Offset | None = None
    appends: list[Append] = field(default_factory=list)
    writes: list[SnapshotWrite] = field(default_factory=list)
    messages: list[Envelope] = field(default_factory=list)
    answering: int = 0
    """The number of the request that is being taken in; a reply carries it."""

    @property
    def epoch(self) -> LeaderEpoch:
        """The newest epoch seen."""
        return self.election.epoch

    @property
    def leader_id(self) -> NodeId | None:
        """Who leads this epoch, where that is known."""
        return self.election.leader_id

    @property
    def voters(self) -> VoterSet:
        """The newest voter set in the log, which holds from its append on."""
        return self.history.latest

    @property
    def is_voter(self) -> bool:
        """True where this replica votes."""
        return self.voters.has(self.key)

    @property
    def all_flushed(self) -> bool:
        """True where everything appended is durable here."""
        return self.flushed_offset == self.log.end_offset

    # Effects

    def send(self, to: NodeId, message: Message) -> None:
        """Let a request leave with the next `ready`."""
        self.messages.append(Envelope(self.key.id, to, message))

    def reply(self, to: NodeId, message: Message, request: int | None = None) -> None:
        """Let an answer leave with the next `ready`: to the request at hand, or to an earlier one by its number."""
        self.messages.append(Envelope(self.key.id, to, message, self.answering if request is None else request))

    def append(self, batches: bytes, count: int, *, control: bool, epoch: LeaderEpoch) -> None:
        """Put batches at the log's end."""
        self.appends.append(Append(self.log.end_offset, count, epoch, batches, control))
        self.log = self.log.appended(self.log.end_offset, count, epoch)

    def take_back(self, offset: Offset) -> None:
        """Go on as if nothing had been appended from this offset on: it is neither on the disk nor sent to anybody."""
        self.appends = [each for each in self.appends if each.base_offset < offset]
        self.log = self.log.truncated(offset)
        self.history = self.history.truncated(offset)
        self.flushed_offset = min(self.flushed_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.applied_to = min(self.applied_to, offset)

    def check(self) -> None:
        """Assert what always holds."""
        end = self.log.end_offset
        assert self.flushed_offset <= end, f"flushed to {self.flushed_offset}, beyond the end {end}"
        assert self.applied_to <= self.high_watermark <= end, f"{self.applied_to}, {self.high_watermark}, {end}"

    def take_effects(self) -> Ready:
        """Return what is to be done, and forget it."""
        self.check()
        election = self.election if self.election != self.persisted else None
        committed = self.high_watermark if self.high_watermark > self.applied_to else None
        if not (election or committed or self.appends or self.messages or self.writes) and self.truncate_to is None:
            return NOTHING
        ready = Ready(
            election=election,
            truncate_to=self.truncate_to,
            appends=tuple(self.appends),
            snapshot_writes=tuple(self.writes),
            messages=tuple(self.messages),
            committed=committed,
        )
        self.persisted = self.election
        self.applied_to = self.high_watermark
        self.truncate_to = None
        self.appends, self.writes, self.messages = [], [], []
        return ready

    # Steps that elections, followers and leaders share

    def election_deadline(self, now: int) -> int:
        """Return when to campaign: at random, so that voters seldom begin together."""
        timeout = self.config.election_timeout_ms
        return now + timeout + self.rng.randrange(max(timeout, 1))

    def stagger(self, leader_id: NodeId) -> int:
        """Return how long this replica lets the voters before it campaign first."""
        others = self.voters.others(leader_id)
        return others.index(self.key.id) * self.config.stagger_ms if self.key.id in others else 0

    def silence_deadline(self, leader_id: NodeId, now: int) -> int:
        """Return until when a leader may be silent."""
        return now + self.config.fetch_timeout_ms + self.stagger(leader_id)

    def become_unattached(self, epoch: LeaderEpoch, now: int) -> None:
        """Follow nobody in this epoch, as yet."""
        if epoch > self.epoch:
            self.election = ElectionState(epoch)
        deadline = self.election_deadline(now) if self.is_voter else now + self.config.stagger_ms // 2
        self.role = Unattached(deadline=deadline)

    def become_follower(self, leader_id: NodeId, epoch: LeaderEpoch, now: int) -> None:
        """Follow this epoch's leader, and fetch as soon as what is here is durable."""
        voted = self.election.voted if epoch == self.epoch else None
        self.election = ElectionState(epoch, leader_id, voted)
        self.role = Follower(leader_id, deadline=self.silence_deadline(leader_id, now))
        if self.all_flushed:
            self.fetch(now)

    def observe(self, epoch: LeaderEpoch, leader_id: NodeId | None, now: int) -> None:
        """Take over a newer epoch, or the leader of this one."""
        if leader_id == self.key.id:
            leader_id = None  # an echo of an epoch that this replica led before it restarted
        if epoch > self.epoch:
            if leader_id is None:
                self.become_unattached(epoch, now)
            else:
                self.become_follower(leader_id, epoch, now)
        elif epoch == self.epoch and leader_id is not None and not isinstance(self.role, Follower | Leader | Resigned):
            self.become_follower(leader_id, epoch, now)

    def fetch_request(self) -> Fetch:
        """Return the request for what comes after this log's end."""
        return Fetch(
            self.epoch,
            self.key,
            self.log.end_offset,
            self.log.last_epoch,
            self.high_watermark,
            self.config.fetch_max_wait_ms,
        )

    def fetch(self, now: int) -> None:
        """Ask the leader for more; only called when all that is here is durable, since the request says so."""
        role = self.role
        assert isinstance(role, Follower) and self.all_flushed
        self.role = role.waiting_until(now + self.config.request_timeout_ms)
        download = role.download
        if download is None:
            self.send(role.leader_id, self.fetch_request())
        elif not download.complete:
            self.send(role.leader_id, FetchSnapshot(self.epoch, download.snapshot, download.position))
