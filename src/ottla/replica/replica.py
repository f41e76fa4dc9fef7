"""A broker's view of one partition that it holds: role, epochs, in-sync replicas and the high watermark.

The leader's rules are Kafka's (KIP-497, KIP-966): the high watermark is the smallest log end among the replicas that count,
which are those in sync, those that a pending expansion adds, and those that have caught up and are about to join; while
fewer are in sync than `min.insync.replicas`, it stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ottla.base import ErrorCode, LeaderEpoch, NodeId, Offset

__all__ = ["NEVER", "NO_BROKER_EPOCH", "NO_EPOCH", "FollowerView", "IsrProposal", "LastFetch", "Replica", "Role"]

NO_EPOCH: Final = LeaderEpoch(-1)
"""In a request: the sender does not say which leader epoch it knows (KIP-320)."""
NO_BROKER_EPOCH: Final = -1
"""The epoch of a broker that is not known, or that did not say it (before KIP-903)."""
UNKNOWN_END: Final = Offset(-1)
NEVER: Final = float("-inf")


class Role(IntEnum):
    """What this broker is to the partition."""

    OFFLINE = 0
    FOLLOWER = 1
    LEADER = 2


class LastFetch:
    """When a follower last fetched: shared by all partitions of its session of which it has everything.

    They need not be looked at one by one then, of which there may be thousands (`Replica.park`).
    """

    __slots__ = ("confirmed_s", "fetched_s")

    def __init__(self, fetched_s: float) -> None:
        self.fetched_s = fetched_s
        self.confirmed_s = NEVER
        """A time after which the follower sent that fetch: it followed then."""


@dataclass(slots=True)
class _Follower:
    """What the leader knows of another replica's log; times are of the follower's own fetches."""

    log_end_offset: Offset = UNKNOWN_END
    log_start_offset: Offset = UNKNOWN_END
    caught_up_s: float = NEVER
    fetched_s: float = NEVER
    leader_end_then: Offset = UNKNOWN_END
    """Where this log ended at the follower's last fetch: who asks for that later had caught up then."""
    confirmed_s: float = NEVER
    """A time after which it sent a fetch in this leader's epoch, by the leader's clock alone."""
    broker_epoch: int = NO_BROKER_EPOCH
    is_joining: bool = False
    """True where it is not in sync, and so near that the high watermark waits for it."""
    last_fetch: LastFetch | None = None
    """Set while it is parked: as of each of its fetches, it has everything."""

    def last_fetch_s(self) -> float:
        """Return when the follower last fetched this partition, be it parked here or not."""
        return self.fetched_s if self.last_fetch is None else self.last_fetch.fetched_s

    def last_confirmed_s(self) -> float:
        """Return a time after which the follower has still followed."""
        return self.confirmed_s if self.last_fetch is None else max(self.confirmed_s, self.last_fetch.confirmed_s)


@dataclass(frozen=True, slots=True)
class FollowerView:
    """How far a follower is, for those who choose among replicas."""

    node: NodeId
    log_end_offset: Offset
    log_start_offset: Offset
    caught_up_s: float


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """A change of the ISR that the controller has been asked for, and the epochs it was asked in."""

    isr: tuple[NodeId, ...]
    broker_epochs: tuple[int, ...]
    """Of each member, as its last fetch said; -1 where it has not, and for this broker."""
    leader_epoch: LeaderEpoch
    partition_epoch: int
    grows: bool


class Replica:
    """One copy of a partition, on the broker `node_id`.

    `become` follows the metadata image; `appended` and `fetched_by` follow the logs; `propose_isr`, `isr_decided` and
    `withdraw` follow what the controller is asked for. The high watermark never goes back while an epoch lasts, a
    consumer never reads above it, and it is at most the log's end. Only a leader knows other copies, and asks for an ISR.
    """

    __slots__ = (
        "_counting",
        "_followers",
        "eligible",
        "epoch_start",
        "high_watermark",
        "is_departing",
        "isr",
        "lag_max_s",
        "leader",
        "leader_epoch",
        "log_end_offset",
        "min_insync_replicas",
        "node_id",
        "partition_epoch",
        "proposal",
        "replicas",
        "role",
    )

    def __init__(self, node_id: NodeId, *, high_watermark: Offset, log_end_offset: Offset) -> None:
        """Begin offline; the high watermark is the checkpointed one, and no more than what the log has."""
        self.node_id = node_id
        self.role = Role.OFFLINE
        self.leader = NodeId(-1)
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.replicas: tuple[NodeId, ...] = ()
        self.isr: tuple[NodeId, ...] = ()
        self.eligible: tuple[NodeId, ...] | None = ()
        """Who may lead where nobody is in sync (KIP-966); None where the metadata is to say so yet."""
        self.is_departing = False
        """True where a reassignment takes this copy away."""
        self.log_end_offset = log_end_offset
        self.high_watermark = min(high_watermark, log_end_offset)
        self.epoch_start = log_end_offset
        """Where this leader's epoch begins: what lies before it may be replicated further than the leader knows yet."""
        self.min_insync_replicas = 1
        self.lag_max_s = 30.0
        self.proposal: IsrProposal | None = None
        self._followers: dict[NodeId, _Follower] = {}
        self._counting: tuple[_Follower, ...] = ()

    # -- following the image

    def become(
        self,
        *,
        leader: NodeId,
        leader_epoch: LeaderEpoch,
        partition_epoch: int,
        replicas: tuple[NodeId, ...],
        isr: tuple[NodeId, ...],
        eligible: tuple[NodeId, ...] = (),
        is_departing: bool = False,
        now_s: float = 0.0,
    ) -> bool:
        """Take in the partition's state from the image; return True where this broker has begun a new leader epoch.

        What is older than the known partition epoch is ignored, so replaying an image is harmless.
        """
        if partition_epoch < self.partition_epoch or leader_epoch < self.leader_epoch:
            return False
        began = leader == self.node_id and (leader_epoch > self.leader_epoch or self.role is not Role.LEADER)
        if partition_epoch > self.partition_epoch:
            self.proposal = None
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self.isr = isr
        self.eligible = eligible
        self.is_departing = is_departing
        if leader != self.node_id:
            self.role = Role.FOLLOWER if leader >= 0 else Role.OFFLINE
            self.proposal = None
            self._followers.clear()
            self._counting = ()
            self._check()
            return False
        self.role = Role.LEADER
        known: dict[NodeId, _Follower] = {} if began else self._followers
        if began:
            self.epoch_start = self.log_end_offset
        self._followers = {
            node: known.get(node) or _Follower(caught_up_s=now_s if node in isr else NEVER)
            for node in replicas
            if node != self.node_id
        }
        self._count()
        self._advance()
        self._check()
        return began

    def _check(self) -> None:
        """Assert what always holds."""
        assert self.high_watermark <= self.log_end_offset, f"{self.high_watermark} beyond {self.log_end_offset}"
        assert (self.role is Role.LEADER) == (self.leader == self.node_id >= 0)
        assert self.role is Role.LEADER or not (self.proposal or self._followers or self._counting)

    # -- asking

    @property
    def is_leader(self) -> bool:
        """True where this broker serves the partition's reads and writes."""
        return self.role is Role.LEADER

    @property
    def has_followers(self) -> bool:
        """True where this broker leads and others have copies."""
        return bool(self._followers)

    @property
    def is_settled(self) -> bool:
        """True once the high watermark has reached the epoch's start: until then, earlier leaders may have told more."""
        return self.high_watermark >= self.epoch_start

    @property
    def is_under_min_isr(self) -> bool:
        """True where fewer replicas are in sync than a write with acks=all needs."""
        return not self.has_enough_in_sync(self.min_insync_replicas)

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> ErrorCode:
        """Return the error for a request to the leader that names the epoch which its sender knows, or NONE."""
        code = self.check_epoch(current_leader_epoch)
        if code is not ErrorCode.NONE:
            return code
        return ErrorCode.NONE if self.role is Role.LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def check_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Return the error for a request that names another leader epoch than this broker knows, or NONE."""
        if current_leader_epoch == NO_EPOCH or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def has_enough_in_sync(self, min_insync_replicas: int) -> bool:
        """Return whether a write with acks=all may be accepted; no topic can ask for more copies than it has."""
        return len(self.isr) >= min(min_insync_replicas, len(self.replicas))

    def had_enough_in_sync(self, min_insync_replicas: int) -> bool:
        """Return whether a replicated write may be acknowledged: a pending expansion counts, since it was waited for."""
        counted = len(self.isr) if self.proposal is None or not self.proposal.grows else len(self.proposal.isr)
        return counted >= min(min_insync_replicas, len(self.replicas))

    def confirmed_s(self) -> float:
        """Return a time at which whoever might lead in this broker's place followed it still.

        Those are the in-sync replicas, those about to be, and those that are eligible while too few are in sync (KIP-966);
        where there is none, nobody else can lead.
        """
        may_lead = {*self.isr, *(() if self.proposal is None else self.proposal.isr)}
        may_lead.update(self._followers if self.eligible is None else self.eligible)
        may_lead.discard(self.node_id)
        copies = self._followers
        return min(
            (copies[node].last_confirmed_s() if node in copies else NEVER for node in may_lead), default=float("inf")
        )

    def follows(self, node: NodeId) -> bool:
        """Return whether a broker is a replica of this partition other than this one."""
        return node in self._followers

    def in_sync_followers(self) -> list[FollowerView]:
        """Return how far the followers in the ISR are."""
        return [
            FollowerView(node, copy.log_end_offset, copy.log_start_offset, max(copy.caught_up_s, copy.last_fetch_s()))
            if copy.last_fetch is not None
            else FollowerView(node, copy.log_end_offset, copy.log_start_offset, copy.caught_up_s)
            for node, copy in self._followers.items()
            if node in self.isr
        ]

    # -- following the logs

    def appended(self, log_end_offset: Offset) -> bool:
        """Note this log's new end; return True where the high watermark moved."""
        self.log_end_offset = log_end_offset
        if not self._followers:  # the only copy: what it has is what is replicated
            if self.role is Role.LEADER and log_end_offset > self.high_watermark:
                self.high_watermark = log_end_offset
                return True
            return False
        return self._advance()

    def fetched_by(
        self,
        follower: NodeId,
        *,
        fetch_offset: Offset,
        log_start_offset: Offset,
        now_s: float,
        broker_epoch: int = NO_BROKER_EPOCH,
        is_eligible: bool = True,
        confirmed_s: float = NEVER,
    ) -> bool:
        """Note that a follower has everything before `fetch_offset`; return True where the high watermark moved.

        `is_eligible` says whether the controller would take it into the ISR: unfenced, staying, and of this broker epoch.
        `confirmed_s` is a time after which it has sent this.
        """
        copy = self._followers.get(follower)
        if copy is None:
            return False
        copy.last_fetch = None
        if fetch_offset >= self.log_end_offset:
            copy.caught_up_s = max(copy.caught_up_s, now_s)
        elif fetch_offset >= copy.leader_end_then:
            copy.caught_up_s = max(copy.caught_up_s, copy.fetched_s)
        copy.log_end_offset = fetch_offset
        copy.log_start_offset = log_start_offset
        copy.leader_end_then = max(copy.leader_end_then, self.log_end_offset)
        copy.fetched_s = now_s
        copy.confirmed_s = max(copy.confirmed_s, confirmed_s)
        copy.broker_epoch = broker_epoch
        joins = is_eligible and follower not in self.isr and self._is_caught_up(copy, now_s)
        if joins != copy.is_joining:
            copy.is_joining = joins
            self._count()
        return self._advance()

    def park(self, follower: NodeId, last_fetch: LastFetch) -> bool:
        """Look no more at a follower that is in sync and has everything; False where it is not so.

        Until `wake_followers`, which has to come before anything of the partition changes, its
        fetches count by `last_fetch`.
        """
        copy = self._followers.get(follower)
        if copy is None or follower not in self.isr or copy.log_end_offset != self.log_end_offset:
            return False
        copy.last_fetch = last_fetch
        return True

    def wake_followers(self) -> None:
        """Note of every parked follower when it was last known to have everything."""
        for copy in self._followers.values():
            last_fetch = copy.last_fetch
            if last_fetch is not None:
                copy.last_fetch = None
                copy.fetched_s = last_fetch.fetched_s
                copy.confirmed_s = max(copy.confirmed_s, last_fetch.confirmed_s)
                copy.caught_up_s = max(copy.caught_up_s, last_fetch.fetched_s)

    def followed(self, log_end_offset: Offset, leader_high_watermark: int) -> bool:
        """Note what was appended from the leader, and its high watermark; return True where this copy's moved.

        It never goes back by hearing of a lower one: what a new leader does not know yet to be committed stays so.
        """
        self.log_end_offset = log_end_offset
        known = min(leader_high_watermark, log_end_offset)
        if known <= self.high_watermark:
            return False
        self.high_watermark = Offset(known)
        return True

    def truncated(self, log_end_offset: Offset) -> None:
        """Note that this log was cut: nothing above its end is committed as far as this copy can tell."""
        self.log_end_offset = log_end_offset
        self.high_watermark = min(self.high_watermark, log_end_offset)
        self._check()

    def log_start_moved(self, log_start_offset: Offset) -> None:
        """Note that records before an offset are gone: they no longer count as not replicated."""
        self.high_watermark = max(self.high_watermark, log_start_offset)
        self._check()

    def low_watermark(self, log_start_offset: Offset, alive: frozenset[NodeId]) -> Offset:
        """Return before which offset no living copy has records (KIP-107), given where this log starts."""
        lowest = log_start_offset
        for node, copy in self._followers.items():
            if node in alive and copy.log_start_offset < lowest:
                lowest = copy.log_start_offset
        return lowest

    # -- the in-sync replicas

    def may_join(self, follower: NodeId) -> bool:
        """Return whether a follower that has just fetched should be proposed for the ISR.

        It has to have everything that is committed, and all that earlier leaders may have committed (KIP-101): what lies
        before this epoch's start. Whether the controller would take it, the caller knows.
        """
        if self.proposal is not None or follower in self.isr or self.role is not Role.LEADER:
            return False
        copy = self._followers.get(follower)
        return copy is not None and copy.log_end_offset >= max(self.high_watermark, self.epoch_start)

    def lagging(self, now_s: float) -> tuple[NodeId, ...]:
        """Return the followers that have to leave the ISR: not caught up for `replica.lag.time.max.ms`."""
        if self.proposal is not None or self.role is not Role.LEADER:
            return ()
        return tuple(
            node
            for node in self.isr
            if (copy := self._followers.get(node)) is not None and not self._is_caught_up(copy, now_s)
        )

    def forget_joining(self, now_s: float) -> bool:
        """Wait no longer for followers that fell behind before they joined; return True where the watermark moved."""
        stale = [each for each in self._followers.values() if each.is_joining and not self._is_caught_up(each, now_s)]
        for each in stale:
            each.is_joining = False
        if not stale:
            return False
        self._count()
        return self._advance()

    def propose_isr(self, isr: tuple[NodeId, ...]) -> IsrProposal:
        """Note that the controller is asked for this ISR; until it has answered, no other is proposed."""
        assert self.proposal is None and self.role is Role.LEADER and self.node_id in isr
        copies = self._followers
        epochs = tuple(copies[node].broker_epoch if node in copies else NO_BROKER_EPOCH for node in isr)
        grows = len(isr) > len(self.isr)
        self.proposal = IsrProposal(isr, epochs, self.leader_epoch, self.partition_epoch, grows)
        self._count()
        self._check()
        return self.proposal

    def isr_decided(self, *, leader_epoch: int, partition_epoch: int, isr: tuple[NodeId, ...]) -> bool:
        """Take in the controller's answer, which may come before the image; return True where the watermark moved."""
        if leader_epoch != self.leader_epoch or self.role is not Role.LEADER or partition_epoch < self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        self.isr = isr
        self.eligible = None
        self.proposal = None
        for node, copy in self._followers.items():
            copy.is_joining = copy.is_joining and node not in isr
        self._count()
        return self._advance()

    def withdraw(self, proposal: IsrProposal) -> bool:
        """Give up a proposal that the controller has refused; return True where the high watermark moved."""
        if self.proposal is not proposal:
            return False
        self.proposal = None
        self.bar(node for node in proposal.isr if node not in self.isr)  # until they fetch again, and may join
        self._count()
        return self._advance()

    def bar(self, nodes: Iterable[NodeId]) -> bool:
        """Wait no longer for copies that the controller would not take in; return True where the high watermark moved."""
        barred = [copy for node in nodes if (copy := self._followers.get(node)) is not None and copy.is_joining]
        for copy in barred:
            copy.is_joining = False
        if not barred:
            return False
        self._count()
        return self._advance()

    def _is_caught_up(self, copy: _Follower, now_s: float) -> bool:
        return copy.log_end_offset == self.log_end_offset or now_s - copy.caught_up_s <= self.lag_max_s

    def _count(self) -> None:
        """Settle which copies count for the high watermark: the maximal ISR (KIP-497), and who is about to join."""
        proposal = self.proposal
        members = self.isr if proposal is None or not proposal.grows else proposal.isr
        self._counting = tuple(copy for node, copy in self._followers.items() if copy.is_joining or node in members)

    def _advance(self) -> bool:
        """Move the high watermark to the smallest end among the copies that count; never back."""
        lowest = self.log_end_offset
        for copy in self._counting:
            if copy.log_end_offset < lowest:
                lowest = copy.log_end_offset
        if lowest <= self.high_watermark or self.role is not Role.LEADER or self.is_under_min_isr:
            return False
        self.high_watermark = lowest
        return True

    def settle(self) -> bool:
        """Look again after a change of settings; return True where the high watermark moved."""
        return self._advance()
