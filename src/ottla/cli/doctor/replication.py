"""The doctor's questions about copies: who leads, what refuses acks=all, what is on the move, and what holds it back."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.admin import ConfigEntity, describe_configs, list_reassignments
from ottla.cli.doctor.findings import Finding, fail, named, ok, warning

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ottla.client import BlockingClient, Cluster, Partition

__all__ = ["leaders", "min_insync", "moves"]

UNBALANCED_SHARE = 0.10
"""As `leader.imbalance.per.broker.percentage` by default: from here on the controller moves leaders itself."""
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def leaders(cluster: Cluster) -> list[Finding]:
    """Judge who leads: a broker that was away leads nothing when it comes back, until leaders are moved to it."""
    partitions = [each for topic in cluster.topics.values() for each in topic.partitions.values()]
    led = [each for each in partitions if each.leader in cluster.nodes]
    if len(cluster.nodes) < 2 or not led:
        return []
    by_broker = Counter(int(each.leader) for each in led)
    said = ", ".join(f"broker {node} leads {by_broker[int(node)]}" for node in sorted(cluster.nodes))
    elsewhere = sum(_could_move(each) for each in led)
    if elsewhere > UNBALANCED_SHARE * len(led):
        remedy = "`ottla leader-election --election-type preferred --all-topic-partitions` moves them where they belong"
        return [
            warning("leaders", f"{elsewhere} of {len(led)} partitions are not led by their first copy: {said}", remedy)
        ]
    return [ok("leaders", said)]


def _could_move(partition: Partition) -> bool:
    """True where the first copy could lead and does not."""
    preferred = partition.replicas[0] if partition.replicas else None
    return preferred in partition.in_sync and partition.leader != preferred


def min_insync(client: BlockingClient, cluster: Cluster) -> list[Finding]:
    """Name the partitions that refuse acks=all, since fewer copies are in sync than their topics ask for."""
    short = {
        name: [
            each
            for each in topic.partitions.values()
            if each.leader in cluster.nodes and len(each.in_sync) < len(each.replicas)
        ]
        for name, topic in cluster.topics.items()
    }
    candidates = sorted(name for name, partitions in short.items() if partitions)
    if not candidates:
        return []
    wanted = _values(client, "topics", candidates, ["min.insync.replicas"])
    refusing = [
        f"{name}-{each.index}"
        for name in candidates
        for each in short[name]
        if len(each.in_sync) < int(wanted.get((name, "min.insync.replicas"), "1"))
    ]
    if not refusing:
        return []
    said = f"{len(refusing)} partitions refuse acks=all, for want of in-sync copies: {named(refusing)}"
    return [
        fail("writes", said, "start the brokers that hold their copies: fewer than min.insync.replicas are in sync")
    ]


def moves(client: BlockingClient, cluster: Cluster) -> list[Finding]:
    """Say what is on the move, and name throttles that were left behind."""
    moving = list(list_reassignments(client))
    found = [ok("moves", f"{len(moving)} partitions are on the move: {named(moving)}")] if moving else []
    held = sorted({name for name, _ in _values(client, "brokers", map(str, sorted(cluster.nodes)), RATES)})
    if held and not moving:
        remedy = (
            "`ottla reassign-partitions --verify` with the plan drops them, or `ottla configs --alter --delete-config`"
        )
        said = f"nothing is on the move, and copying is still held back on brokers {named(held)}"
        found.append(warning("moves", said, remedy))
    return found


def _values(
    client: BlockingClient, kind: str, names: Iterable[str], keys: Collection[str]
) -> dict[tuple[str, str], str]:
    """Return what is in effect on topics, or what is set on brokers, each of which is asked itself."""
    entities = [ConfigEntity(kind, name) for name in names]
    return {
        (entity.name or "", each.name): each.value
        for entity, found in describe_configs(client, entities, keys=keys).items()
        for each in found
        if each.value is not None and not (kind == "brokers" and each.is_default)
    }
