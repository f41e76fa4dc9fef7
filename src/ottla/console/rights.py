"""What somebody may see and do, as the brokers say it: operations on the cluster and on topics (KIP-430), and which groups.

Everybody's figures come from one sampler. What one user is shown of them is what the brokers would tell that user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ottla.base import OttlaError
from ottla.client import Client
from ottla.console.figures.samples import Flow, Moved, Sample, Traffic
from ottla.console.figures.views import Seen
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.metadata import MetadataRequest

__all__ = ["KeptRights", "Rights"]

SECONDS_MAX = 10.0
"""How long an answer holds: a right that was taken away is gone from the pages after this."""
METADATA_FROM = 8
"""The version of Metadata from which on it says what may be done to topics (KIP-430)."""
OPERATIONS: Mapping[int, str] = {
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
}
"""Kafka's codes of operations, by the place of their bit."""


@dataclass(frozen=True, slots=True)
class Rights:
    """Operations by their names; `groups` are those that are listed."""

    cluster: frozenset[str] = frozenset()
    topics: Mapping[str, frozenset[str]] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()

    def narrowed(self, seen: Seen) -> Seen:
        """Return of what is known the part that may be seen."""
        before = None if seen.before is None else self._sample(seen.before)
        return replace(seen, sample=self._sample(seen.sample), before=before)

    def _sample(self, sample: Sample) -> Sample:
        sees_cluster = "DESCRIBE" in self.cluster
        brokers = sample.brokers
        if not sees_cluster:  # what lies on disks is told to who may describe the cluster
            brokers = {node: replace(each, bytes=-1, total_bytes=-1, usable_bytes=-1) for node, each in brokers.items()}
        return replace(
            sample,
            brokers=brokers,
            topics={name: each for name, each in sample.topics.items() if name in self.topics},
            internal=sample.internal & self.topics.keys(),
            groups={
                name: replace(
                    each, committed={at: one for at, one in each.committed.items() if at.topic in self.topics}
                )
                for name, each in sample.groups.items()
                if name in self.groups
            },
            sizes=sample.sizes if sees_cluster else {},
            traffic=self._traffic(sample.traffic),
            traffic_before=self._traffic(sample.traffic_before),
            partial=sample.partial if sees_cluster or not sample.partial else ("parts of the cluster did not answer",),
        )

    def _traffic(self, traffic: Traffic | None) -> Traffic | None:
        """What clients of topics that may be seen move; who they have logged in as is told as the brokers do."""
        if traffic is None:
            return None
        sees_cluster = "DESCRIBE" in self.cluster
        found: dict[int, dict[Flow, Moved]] = {}
        for node, flows in traffic.flows.items():
            shown = found.setdefault(node, {})
            for flow, each in flows.items():
                if flow.topic not in self.topics:
                    continue
                key = flow if sees_cluster else replace(flow, principal=None)
                was = shown.get(key, Moved(0, 0, 0))
                shown[key] = Moved(
                    was.bytes_in + each.bytes_in, was.records_in + each.records_in, was.bytes_out + each.bytes_out
                )
        return replace(traffic, flows=found)

    def may_read_series(self, name: str) -> bool:
        """Return whether a series may be seen: `in`, `in/TOPIC`, `lag/GROUP`, `consumed/GROUP`, `disk/BROKER`."""
        kind, slash, what = name.partition("/")
        if not slash or kind == "disk":
            return "DESCRIBE" in self.cluster
        return what in (self.topics if kind == "in" else self.groups)


class KeptRights:
    """Asks for rights by a user's client, and keeps the answer for ten seconds."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rights = Rights()
        self._until_s = float("-inf")
        self._asking = asyncio.Lock()
        self._narrowed: tuple[Rights, Sample, Seen] | None = None
        """What was narrowed last: by which rights, of which sample, and to what."""

    async def now(self) -> Rights:
        """Return what the user may; raises OttlaError where the brokers do not answer."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._until_s:
            async with self._asking:
                if loop.time() >= self._until_s:
                    self._rights = await _asked(self._client)
                    self._until_s = loop.time() + SECONDS_MAX
        return self._rights

    async def narrowed(self, seen: Seen) -> Seen:
        """Return of what is known the part that the user may see, worked out once for a sample; raises OttlaError."""
        rights = await self.now()
        kept = self._narrowed
        if kept is None or kept[0] is not rights or kept[1] is not seen.sample:
            kept = self._narrowed = rights, seen.sample, rights.narrowed(seen)
        return replace(seen, sample=kept[2].sample, before=kept[2].before)

    def ask_again(self) -> None:
        """Ask anew next time: something was changed."""
        self._until_s = float("-inf")


async def _asked(client: Client) -> Rights:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=True)
    answer = await client.request(request, lowest=METADATA_FROM)
    topics = {each.name: _named(each.topic_authorized_operations) for each in answer.topics if each.name is not None}
    described = await client.request(DescribeClusterRequest(include_cluster_authorized_operations=True))
    groups: set[str] = set()
    for node in [each.node_id for each in answer.brokers]:
        try:
            listed = await client.request(ListGroupsRequest(states_filter=[], types_filter=[]), node=node)
        except OttlaError:  # a broker that is away: its groups are not shown until it answers
            continue
        groups.update(each.group_id for each in listed.groups)
    return Rights(_named(described.cluster_authorized_operations), topics, frozenset(groups))


def _named(bits: int) -> frozenset[str]:
    return frozenset(name for code, name in OPERATIONS.items() if bits >= 0 and bits >> code & 1)
