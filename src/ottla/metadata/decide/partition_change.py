"""Who leads and who is in sync after brokers come and go, with eligible leader replicas (KIP-966)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.base import NodeId
from ottla.metadata.image import NO_LEADER, Image, Partition, ResourceType, Topic
from ottla.wire.messages.partition_change_record import PartitionChangeRecord

__all__ = ["Availability", "changes_for_broker"]


@dataclass(frozen=True, slots=True)
class Availability:
    """One broker whose state changes: whether it can lead afterwards, and whether it may have lost what it had."""

    broker_id: NodeId
    active: bool
    lost_data: bool = False
    """True after an unclean shutdown: it then counts neither as in sync nor as eligible."""


@dataclass(frozen=True, slots=True)
class _Membership:
    isr: tuple[NodeId, ...]
    elr: tuple[NodeId, ...]
    last_known_elr: tuple[NodeId, ...]
    leader: NodeId


def changes_for_broker(image: Image, change: Availability) -> Iterator[PartitionChangeRecord]:
    """Yield the change of every partition that this broker's coming or going moves, by topic name and index."""
    elr_enabled = image.features.get("eligible.leader.replicas.version", 0) > 0
    for _, topic in sorted(image.topics.items()):
        for index, partition in topic.in_order():
            if change.broker_id in partition.replicas:
                record = _change(image, topic, index, partition, change, elr_enabled=elr_enabled)
                if record is not None:
                    yield record


def _change(
    image: Image, topic: Topic, index: int, partition: Partition, change: Availability, *, elr_enabled: bool
) -> PartitionChangeRecord | None:
    members = _without_the_lost(image, topic, partition, change, elr_enabled=elr_enabled)
    leader, unclean = _elected(image, topic, partition, members, change)
    isr, elr, last_known = members.isr, members.elr, members.last_known_elr
    if leader != NO_LEADER and leader not in isr:
        isr = (leader,)
        elr = tuple(each for each in elr if each != leader)
    if leader != NO_LEADER and len(isr) >= _min_insync_replicas(image, topic, partition):
        elr, last_known = (), ()
    new = _Membership(isr, elr, last_known, leader)
    old = _Membership(partition.isr, partition.eligible_leader_replicas, partition.last_known_elr, partition.leader)
    if new == old:
        return None
    return _record(topic, index, partition, old, new, unclean=unclean)


def _record(
    topic: Topic, index: int, partition: Partition, old: _Membership, new: _Membership, *, unclean: bool
) -> PartitionChangeRecord:
    recovering = 1 if unclean and partition.leader_recovery_state == 0 else -1
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=topic.id,
        isr=list(new.isr) if new.isr != old.isr else None,
        leader=new.leader if new.leader != old.leader else -2,
        leader_recovery_state=recovering,
        eligible_leader_replicas=list(new.elr) if new.elr != old.elr else None,
        last_known_elr=list(new.last_known_elr) if new.last_known_elr != old.last_known_elr else None,
    )


def _without_the_lost(
    image: Image, topic: Topic, partition: Partition, change: Availability, *, elr_enabled: bool
) -> _Membership:
    """Return the members left: out of the ISR goes who is not active, and stays eligible while the ISR is too small."""
    isr, elr = partition.isr, partition.eligible_leader_replicas
    gone = change.broker_id if change.lost_data or not change.active else None
    left = tuple(each for each in isr if each != gone)
    if not elr_enabled:
        # Without eligible replicas the last in-sync one stays on record, for it alone is known to have everything.
        return _Membership(left or isr, (), (), partition.leader)
    known = tuple(dict.fromkeys((*elr, *isr)))
    if change.lost_data:
        known = tuple(each for each in known if each != change.broker_id)
    few = len(left) < _min_insync_replicas(image, topic, partition)
    eligible = tuple(each for each in known if each not in left) if few else ()
    last_known = partition.last_known_elr
    if not left and partition.leader != NO_LEADER:
        last_known = (partition.leader,)
    return _Membership(left, eligible, last_known, partition.leader)


def _elected(
    image: Image, topic: Topic, partition: Partition, members: _Membership, change: Availability
) -> tuple[NodeId, bool]:
    """Return the leader, and whether it may lack records: the old one while it can, else the first able replica."""

    def able(broker_id: NodeId) -> bool:
        if broker_id == change.broker_id:
            return change.active
        broker = image.brokers.get(broker_id)
        return broker is not None and broker.active

    if partition.leader in members.isr and able(partition.leader):
        return partition.leader, False
    for pool in (members.isr, members.elr):
        for replica in partition.replicas:
            if replica in pool and able(replica):
                return replica, False
    if not members.isr and not members.elr and len(members.last_known_elr) == 1 and able(members.last_known_elr[0]):
        return members.last_known_elr[0], False  # nobody knows better what was committed
    if _unclean_allowed(image, topic):
        for replica in partition.replicas:
            if able(replica):
                return replica, True
    return NO_LEADER, False


def _setting(image: Image, topic: Topic, name: str) -> str | None:
    """Return a dynamic value: the topic's, else the one for all brokers."""
    return image.topic_config(topic.name).get(name) or image.config(ResourceType.BROKER, "").get(name)


def _min_insync_replicas(image: Image, topic: Topic, partition: Partition) -> int:
    return min(int(_setting(image, topic, "min.insync.replicas") or 1), len(partition.replicas))


def _unclean_allowed(image: Image, topic: Topic) -> bool:
    return _setting(image, topic, "unclean.leader.election.enable") == "true"
