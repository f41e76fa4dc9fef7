"""Voters that come, go and move (KIP-853): what the leader decides about them, and what every controller does for itself.

Every controller sees to it that the voter set names it as it is now; one that may join by itself
(`controller.quorum.auto.join.enable`) asks to be a voter once it follows the leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ottla.background import count_failure
from ottla.base import ZERO_UUID, ErrorCode, KafkaError, LeaderEpoch, Millis, NodeId, uuid_text
from ottla.broker.quorum.settings import QuorumStatus
from ottla.client import Address
from ottla.metadata import SUPPORTED_FEATURES
from ottla.raft import ReplicaKey, Voter, VoterEndpoint, VoterSet
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest
from ottla.wire.messages.add_raft_voter import Listener as AddListener
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.wire.messages.update_raft_voter import KRaftVersionFeature, UpdateRaftVoterRequest
from ottla.wire.messages.update_raft_voter import Listener as UpdateListener

__all__ = ["Membership", "VotingQuorum", "key_text"]

log = logging.getLogger(__name__)

NO_EPOCH = LeaderEpoch(-1)
KRAFT_VERSION = "kraft.version"
OBSERVED_MS_MAX = 300_000
"""Who has not fetched for so long is not caught up, whatever it had then."""


def key_text(key: ReplicaKey) -> str:
    """Return a replica as Kafka's messages name it."""
    directory = "<undefined>" if key.directory_id == ZERO_UUID else uuid_text(key.directory_id)
    return f"ReplicaKey(id={key.id}, directoryId={directory})"


def _keys_text(voters: VoterSet) -> str:
    return f"[{', '.join(key_text(each.key) for each in voters)}]"


class VotingQuorum(Protocol):
    """What changes of the voters need of the quorum: how it stands, and its log."""

    @property
    def key(self) -> ReplicaKey:
        """This node as a replica."""
        ...

    @property
    def cluster_id(self) -> str:
        """The cluster's id, which every request of the quorum names."""
        ...

    @property
    def status(self) -> QuorumStatus:
        """How the quorum stands, as this node knows."""
        ...

    @property
    def leader(self) -> tuple[NodeId | None, LeaderEpoch]:
        """Who leads the quorum as far as this node knows, and in which epoch."""
        ...

    @property
    def is_leader(self) -> bool:
        """True while this node decides for the cluster."""
        ...

    @property
    def kraft_version(self) -> int:
        """The quorum's own feature level."""
        ...

    def now_ms(self) -> Millis:
        """Return the time on the clock of the quorum, which never goes back."""
        ...

    async def change_voters(
        self, change: Callable[[VoterSet], VoterSet], *, timeout_ms: int, until_committed: bool = True
    ) -> None:
        """Append a changed voter set."""
        ...

    async def record_voters(self, voters: VoterSet, level: int) -> None:
        """Append a higher `kraft.version` and with it the voters."""
        ...


@dataclass
class Membership:
    """Changes of the voters; `versions_of` asks a controller which `kraft.version` levels it understands."""

    quorum: VotingQuorum
    request: Callable[[NodeId, Any], Any]
    versions_of: Callable[[Address], Any]
    endpoints: Callable[[], tuple[VoterEndpoint, ...]]
    period_ms: int
    joins: bool = False
    told_epoch: LeaderEpoch = NO_EPOCH
    known: dict[NodeId, Voter] = field(default_factory=dict)
    """What static voters have said of themselves, for the day on which they become records."""
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    # What the leader decides

    async def add(
        self, key: ReplicaKey, endpoints: tuple[VoterEndpoint, ...], *, timeout_ms: int, until_committed: bool
    ) -> None:
        """Make a replica that has caught up a voter; raises KafkaError where that cannot be."""
        self._check_reconfigurable("adding")
        async with self._alone():
            voters = self.quorum.status.voters
            if voters.get(key.id) is not None:
                raise KafkaError(
                    ErrorCode.DUPLICATE_VOTER,
                    f"The voter id for {key_text(key)} is already part of the set of voters {_keys_text(voters)}.",
                )
            lowest, highest = await self._versions(key, endpoints)
            level = self.quorum.kraft_version
            if not lowest <= level <= highest:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Aborted add voter operation for {key_text(key)} since kraft.version range {lowest} to {highest} "
                    f"doesn't support the finalized kraft.version {level}",
                )
            self._check_caught_up(key)
            added = Voter(key, endpoints, lowest, highest)
            await self.quorum.change_voters(
                lambda now: VoterSet.of([*now, added]), timeout_ms=timeout_ms, until_committed=until_committed
            )

    async def remove(self, key: ReplicaKey, *, timeout_ms: int) -> None:
        """Take a voter out of the set; a leader that removes itself leads until that is committed."""
        self._check_reconfigurable("removing")
        async with self._alone():
            voters = self.quorum.status.voters
            found = voters.get(key.id)
            if found is None or found.key != key:
                raise KafkaError(
                    ErrorCode.VOTER_NOT_FOUND,
                    f"Cannot remove voter {key_text(key)} from the set of voters {_keys_text(voters)}",
                )
            if len(voters) == 1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"Cannot remove voter {key_text(key)}, which is the only one"
                )
            await self.quorum.change_voters(
                lambda now: VoterSet.of(each for each in now if each.key != key), timeout_ms=timeout_ms
            )

    async def update(self, voter: Voter) -> None:
        """Take over where a voter listens and what it understands; raises KafkaError where it is none."""
        status = self.quorum.status
        found = status.voters.get(voter.key.id)
        if found is None or not found.key.same_replica(voter.key):
            raise KafkaError(ErrorCode.VOTER_NOT_FOUND)
        if not voter.endpoints or not voter.kraft_version_min <= status.kraft_version <= voter.kraft_version_max:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        self.known[voter.key.id] = voter
        if status.kraft_version == 0 or found == voter:
            return
        async with self._alone():
            await self._replace(voter)

    async def _replace(self, voter: Voter) -> None:
        await self.quorum.change_voters(
            lambda now: VoterSet.of(voter if each.key == voter.key else each for each in now),
            timeout_ms=self.period_ms,
            until_committed=False,
        )

    async def record(self, level: int) -> None:
        """Write the static voters into the log with `kraft.version` 1: from then on they can change."""
        async with self._alone():
            status = self.quorum.status
            if level <= status.kraft_version:
                raise KafkaError(
                    ErrorCode.INVALID_UPDATE_VERSION,
                    f"kraft.version cannot be changed from {status.kraft_version} to {level}",
                )
            self.known[self.quorum.key.id] = self._own()
            missing = [each for each in status.voters.ids if each not in self.known]
            if missing:
                raise KafkaError(
                    ErrorCode.INVALID_UPDATE_VERSION,
                    f"the voters {', '.join(map(str, missing))} have not told yet where they listen",
                )
            voters = VoterSet.of(self.known[each] for each in status.voters.ids)
            if any(not each.kraft_version_min <= level <= each.kraft_version_max for each in voters):
                raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "not every voter understands that kraft.version")
            await self.quorum.record_voters(voters, level)

    def _check_reconfigurable(self, what: str) -> None:
        level = self.quorum.kraft_version
        if level < 1:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Cluster doesn't support {what} voter because the kraft.version feature is {level}",
            )

    def _alone(self) -> asyncio.Lock:
        if self._changing.locked():
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for leader to handle previous voter change request",
            )
        return self._changing

    async def _versions(self, key: ReplicaKey, endpoints: tuple[VoterEndpoint, ...]) -> tuple[int, int]:
        """Ask the replica itself, which also shows that it is reached where it says."""
        address = Address(endpoints[0].host, endpoints[0].port)
        try:
            found: tuple[int, int] = await self.versions_of(address)
        except KafkaError as error:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Aborted add voter operation for {key_text(key)} since API_VERSIONS returned an error {error.code.name}",
            ) from error
        return found

    def _check_caught_up(self, key: ReplicaKey) -> None:
        known = self.quorum.status.replicas.get(key.id)
        now = self.quorum.now_ms()
        if (
            known is None
            or known.key != key
            or known.caught_up_at is None
            or (known.heard_at or 0) < now - OBSERVED_MS_MAX
        ):
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Aborted add voter operation for {key_text(key)} since it is lagging behind the leader",
            )

    # What every controller sees to

    def _own(self) -> Voter:
        lowest, highest = SUPPORTED_FEATURES[KRAFT_VERSION]
        return Voter(self.quorum.key, self.endpoints(), lowest, highest)

    async def keep(self) -> None:
        """Go on seeing to it, until cancelled, whatever goes wrong."""
        while True:
            await asyncio.sleep(self.period_ms / 1000)
            try:
                await self.see_to_it()
            except KafkaError as error:
                log.info("The voters of the metadata quorum stay as they are: %s", error.message or error.code.name)
            except (
                Exception
            ):  # a mistake of our own costs this round: without a next one this node is never a voter again
                log.exception("Seeing to the voters of the metadata quorum has failed, and goes on")
                count_failure("the voters of the metadata quorum")

    async def see_to_it(self) -> None:
        """Let the voter set name this controller as it is, or ask to be in it."""
        leader_id, epoch = self.quorum.leader
        own = self._own()
        if leader_id is None or not own.endpoints:
            return
        level = self.quorum.kraft_version
        found = self.quorum.status.voters.get(own.key.id)
        is_voter = found is not None and found.key.same_replica(own.key)
        if is_voter and level > 0 and found != own:
            if self.quorum.is_leader:
                async with self._alone():
                    await self._replace(own)
            else:
                await self._tell(leader_id, epoch, own)
        elif is_voter and level == 0 and not self.quorum.is_leader and self.told_epoch != epoch:
            await self._tell(leader_id, epoch, own)
            self.told_epoch = epoch
        elif not is_voter and level > 0 and self.joins:
            await self._join(leader_id, own, found)

    async def _tell(self, leader_id: NodeId, epoch: LeaderEpoch, own: Voter) -> None:
        await self.request(
            leader_id,
            UpdateRaftVoterRequest(
                cluster_id=self.quorum.cluster_id,
                current_leader_epoch=epoch,
                voter_id=own.key.id,
                voter_directory_id=own.key.directory_id,
                listeners=[UpdateListener(name=each.name, host=each.host, port=each.port) for each in own.endpoints],
                k_raft_version_feature=KRaftVersionFeature(
                    min_supported_version=own.kraft_version_min, max_supported_version=own.kraft_version_max
                ),
            ),
        )

    async def _join(self, leader_id: NodeId, own: Voter, former: Voter | None) -> None:
        """Ask to be a voter; where another directory of this node is one, ask first that it leaves."""
        cluster_id = self.quorum.cluster_id
        if former is not None:
            request: Any = RemoveRaftVoterRequest(
                cluster_id=cluster_id, voter_id=former.key.id, voter_directory_id=former.key.directory_id
            )
        else:
            request = AddRaftVoterRequest(
                cluster_id=cluster_id,
                timeout_ms=self.period_ms,
                voter_id=own.key.id,
                voter_directory_id=own.key.directory_id,
                listeners=[AddListener(name=each.name, host=each.host, port=each.port) for each in own.endpoints],
                ack_when_committed=False,
            )
        response = await self.request(leader_id, request)
        if response.error_code:
            log.info("Node %d may not join the quorum yet: %s", own.key.id, response.error_message)
