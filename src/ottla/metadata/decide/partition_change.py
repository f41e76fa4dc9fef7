"""What one partition becomes: who holds it, who is in sync and who leads, as KRaft's controller decides it.

Every decision that moves a partition says what it wants (`Wanted`) and gets one record or none. In this order: a
reassignment that is complete ends (KIP-455); who leaves too small an ISR stays eligible (KIP-966); a leader is elected; the
leader epoch rises where followers must hear of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from ottla.base import NodeId, Uuid
from ottla.config import BrokerConfig
from ottla.metadata.decide.placement import replica_directory
from ottla.metadata.image import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    NO_LEADER,
    Image,
    Partition,
    ResourceType,
    Topic,
)
from ottla.metadata.partitions import LEADER_UNCHANGED
from ottla.wire.messages.partition_change_record import PartitionChangeRecord

__all__ = [
    "RECOVERED",
    "RECOVERING",
    "Availability",
    "Election",
    "Wanted",
    "able_to_lead",
    "change_partition",
    "changes_for_broker",
    "elr_enabled",
    "min_insync_replicas",
    "unclean_allowed",
]

RECOVERED, RECOVERING, UNCHANGED = 0, 1, -1
"""A leader's recovery state (KIP-704): RECOVERING after an election that may have lost records."""
BUMP_ON_SHRINK_BEFORE = 12
"""Before `metadata.version` 3.6-IV0 brokers need a new leader epoch where the ISR shrinks (KAFKA-15021)."""
DIRECTORIES_FROM = 17
"""From `metadata.version` 3.7-IV2 on partitions record their replicas' directories (KIP-858)."""

T = TypeVar("T")
Able = Callable[[int], bool]
"""Says whether a broker may lead a partition."""


class Election(Enum):
    """Which leader is wanted where there is a choice."""

    ONLINE = "online"
    """The one there is while it can, else the first replica in sync."""
    PREFERRED = "preferred"
    """The first replica, if it is in sync."""
    UNCLEAN = "unclean"
    """As ONLINE, and at worst a replica that may lack records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a partition is to become; None is as it is."""

    isr: tuple[NodeId, ...] | None = None
    replicas: tuple[NodeId, ...] | None = None
    removing: tuple[NodeId, ...] | None = None
    adding: tuple[NodeId, ...] | None = None
    recovery: int | None = None
    election: Election = Election.ONLINE
    lost: tuple[NodeId, ...] = ()
    """Replicas that may have lost what they had: after an unclean shutdown."""
    directories: Mapping[int, Uuid] = field(default_factory=dict)
    """Where brokers keep their replica, for those that tell."""


@dataclass(frozen=True, slots=True)
class Availability:
    """One broker whose state changes: whether it can lead afterwards, and whether it may have lost what it had."""

    broker_id: NodeId
    active: bool
    lost_data: bool = False
    """True after an unclean shutdown: it then counts neither as in sync nor as eligible."""


def changes_for_broker(
    image: Image, change: Availability, config: BrokerConfig | None = None
) -> Iterator[PartitionChangeRecord]:
    """Yield the change of every partition that this broker's coming or going moves, by topic name and index.

    Who goes leaves every ISR; who has lost data leaves the eligible replicas, too; who comes may lead what has no leader.
    """
    broker_id, elr = change.broker_id, elr_enabled(image)
    lost = change.lost_data and elr
    for _, topic in sorted(image.topics.items()):
        election = Election.UNCLEAN if unclean_allowed(image, topic, config) else Election.ONLINE
        for index, partition in topic.in_order():
            if change.active:
                touched = partition.leader == NO_LEADER
            else:
                touched = broker_id in partition.isr or (lost and broker_id in partition.eligible_leader_replicas)
            if not touched:
                continue
            wanted = Wanted(
                isr=partition.isr if change.active else tuple(each for each in partition.isr if each != broker_id),
                election=election,
                lost=(broker_id,) if lost else (),
            )
            able = _able_after(image, partition, change)
            record = change_partition(image, topic, index, wanted, able=able, config=config)
            if record is not None:
                yield record


def _able_after(image: Image, partition: Partition, change: Availability) -> Able:
    """Return who may lead once this broker has come or gone, which the image does not show yet."""
    able = able_to_lead(image, partition)

    def decided(broker_id: int) -> bool:
        if broker_id != change.broker_id:
            return able(broker_id)
        return change.active and _has_directory(image, partition, broker_id)

    return decided


def able_to_lead(image: Image, partition: Partition) -> Able:
    """Return who may lead: a broker that serves, and whose directory of this replica is not offline."""

    def able(broker_id: int) -> bool:
        broker = image.brokers.get(broker_id)
        return broker is not None and broker.active and _has_directory(image, partition, broker_id)

    return able


def _has_directory(image: Image, partition: Partition, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    directory = partition.directory_of(broker_id)
    if broker is None or directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING):
        return broker is not None
    return directory != DIRECTORY_LOST and (not broker.log_dirs or directory in broker.log_dirs)


def elr_enabled(image: Image) -> bool:
    """Return whether the cluster remembers eligible leader replicas (KIP-966)."""
    return image.features.get("eligible.leader.replicas.version", 0) > 0


def min_insync_replicas(image: Image, topic: Topic, config: BrokerConfig | None = None) -> int:
    """Return how many copies have to be in sync: what is configured, and no more than the topic has."""
    first = topic.partitions.get(0) or topic.partitions[min(topic.partitions)]
    wanted = _setting(image, topic, "min.insync.replicas")
    if wanted is None:
        wanted = "1" if config is None else str(config.settings.min_insync_replicas)
    return min(int(wanted), len(first.replicas))


def unclean_allowed(image: Image, topic: Topic, config: BrokerConfig | None = None) -> bool:
    """Return whether a replica that may lack records may lead this topic where no other is left."""
    wanted = _setting(image, topic, "unclean.leader.election.enable")
    if wanted is None:
        return config is not None and config.settings.unclean_leader_election_enable
    return wanted == "true"


def _setting(image: Image, topic: Topic, name: str) -> str | None:
    """Return a dynamic value: the topic's, else the one for all brokers."""
    return image.topic_config(topic.name).get(name) or image.config(ResourceType.BROKER, "").get(name)


def change_partition(
    image: Image,
    topic: Topic,
    index: int,
    wanted: Wanted,
    *,
    able: Able | None = None,
    config: BrokerConfig | None = None,
) -> PartitionChangeRecord | None:
    """Return the record that makes the partition what is wanted, with all that follows; None where nothing changes."""
    partition = topic.partitions[index]
    change = _Change(image, partition, wanted, able or able_to_lead(image, partition))
    change.end_reassignment()
    if change.elr_enabled:
        change.keep_eligible(min_insync_replicas(image, topic, config))
    change.elect()
    return change.record(topic, index)


class _Change:
    """A change on its way: what the partition would be, refined step by step."""

    def __init__(self, image: Image, partition: Partition, wanted: Wanted, able: Able) -> None:
        self.image = image
        self.old = partition
        self.able = able
        self.election = wanted.election
        self.lost = wanted.lost
        self.directories = wanted.directories
        self.elr_enabled = elr_enabled(image)
        self.isr = partition.isr if wanted.isr is None else wanted.isr
        self.replicas = partition.replicas if wanted.replicas is None else wanted.replicas
        self.removing = partition.removing_replicas if wanted.removing is None else wanted.removing
        self.adding = partition.adding_replicas if wanted.adding is None else wanted.adding
        self.recovery = partition.leader_recovery_state if wanted.recovery is None else wanted.recovery
        self.elr = partition.eligible_leader_replicas
        self.leader = partition.leader
        self.moves = False
        """True where the leader epoch has to rise."""
        self.unclean = False

    def end_reassignment(self) -> None:
        """Drop the replicas to remove once the new ones are in sync, and where fewer are left than before, all of those."""
        if not self.removing and not self.adding:
            return
        isr = tuple(each for each in self.isr if each not in self.removing)
        replicas = tuple(each for each in self.replicas if each not in self.removing)
        needed = {*self.adding, *(replicas if len(self.adding) < len(self.removing) else ())}
        if isr and replicas and needed <= {*isr}:
            self.isr, self.replicas = isr, replicas
            self.removing = self.adding = ()

    def keep_eligible(self, min_insync_replicas: int) -> None:
        """While too few are in sync, who leaves the ISR stays eligible: it has everything that was acknowledged."""
        if len(self.isr) >= min_insync_replicas:
            self.elr = ()
            return
        known = {*self.elr, *self.old.isr} & {*self.replicas}
        self.elr = tuple(sorted(each for each in known if each not in self.isr and each not in self.lost))

    def elect(self) -> None:
        """Choose the leader, and who is in sync with it from then on."""
        self.leader, self.unclean = self._elected()
        if self.leader == self.old.leader:
            return
        self.moves = True
        if self.unclean:
            self.isr, self.elr = (self.leader,), ()
            if self.old.leader_recovery_state != RECOVERING:
                self.recovery = RECOVERING
        elif self.leader in self.elr:
            self.isr = (self.leader,)
            self.elr = tuple(each for each in self.elr if each != self.leader)

    def _elected(self) -> tuple[NodeId, bool]:
        """Return the leader, and whether it may lack records."""
        candidates: tuple[NodeId, ...] = (self.old.leader, *self.replicas)
        if self.election is Election.PREFERRED:
            candidates = (self.replicas[0], *candidates)
        for each in candidates:
            if self._is_valid(each):
                return each, False
        last_known = self.old.last_known_elr
        is_empty = self.elr_enabled and not self.isr and not self.elr
        if is_empty and len(last_known) == 1 and last_known[0] in self.replicas and self.able(last_known[0]):
            return last_known[0], True  # the last leader: nobody knows better what was committed
        if self.election is Election.UNCLEAN:
            for each in self.replicas:
                if self.able(each):
                    return each, True
        return NO_LEADER, False

    def _is_valid(self, broker_id: NodeId) -> bool:
        pool = self.isr or self.elr
        return broker_id in pool and self.able(broker_id)

    def record(self, topic: Topic, index: int) -> PartitionChangeRecord | None:
        """Return what differs from the partition as it is."""
        old = self.old
        if not self.elr_enabled:
            self.elr = ()
            if not self.isr:  # then the last one in sync stays on record: it alone is known to have everything
                self.isr = old.isr
        level = self.image.metadata_version
        left = any(each not in self.replicas for each in old.replicas)
        shrunk = level < BUMP_ON_SHRINK_BEFORE and any(each not in self.isr for each in old.isr)
        moves = self.moves or left or shrunk
        directories = self._directories()
        record = PartitionChangeRecord(
            partition_id=index,
            topic_id=topic.id,
            isr=_if_changed(self.isr, old.isr),
            leader=self.leader if moves else LEADER_UNCHANGED,
            replicas=_if_changed(self.replicas, old.replicas),
            removing_replicas=_if_changed(self.removing, old.removing_replicas),
            adding_replicas=_if_changed(self.adding, old.adding_replicas),
            leader_recovery_state=self.recovery if self.recovery != old.leader_recovery_state else UNCHANGED,
            directories=_if_changed(directories, old.directories) if level >= DIRECTORIES_FROM else None,
            eligible_leader_replicas=_if_changed(self.elr, old.eligible_leader_replicas),
            last_known_elr=_if_changed(self._last_known(), old.last_known_elr),
        )
        nothing = PartitionChangeRecord(partition_id=index, topic_id=topic.id)
        return None if record == nothing else record

    def _last_known(self) -> tuple[NodeId, ...]:
        """Return the last leader while there is none, so that it may lead again when nobody else is known to be able."""
        old = self.old
        if not self.elr_enabled:
            return old.last_known_elr
        if self.leader != NO_LEADER:
            return ()
        return (old.leader,) if old.leader in self.replicas else old.last_known_elr

    def _directories(self) -> tuple[Uuid, ...]:
        """Return where every replica lies: as told, else as before, else where a new replica would go."""
        old = dict(zip(self.old.replicas, self.old.directories, strict=False))
        return tuple(
            self.directories.get(each) or old.get(each) or replica_directory(self.image, each) for each in self.replicas
        )


def _if_changed(new: tuple[T, ...], old: tuple[T, ...]) -> list[T] | None:
    return None if new == old else list(new)
