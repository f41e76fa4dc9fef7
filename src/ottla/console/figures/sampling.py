"""Taking a sample of a cluster: one request per broker for offsets, one per coordinator for groups, the rest more seldom."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ottla.base import ErrorCode, KafkaError, NodeId, OttlaError, TopicPartition
from ottla.client import EARLIEST, LATEST, Client, Coordinated
from ottla.client import Cluster as ClusterView
from ottla.console.figures.samples import BrokerSample, Flow, GroupSample, Moved, PartitionSample, Sample, Traffic
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.describe_client_traffic import DescribeClientTrafficRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

__all__ = ["Sampling"]

METADATA_SECONDS = 30.0
LOG_DIRS_SECONDS = 60.0
TRAFFIC_SECONDS = 15.0
"""What clients move, and which clients are a group's members."""
MEMBERS_GROUPS_MAX = 500
"""Groups that are asked for their members."""
COORDINATORS_AT_ONCE = 32
COORDINATORS_SECONDS_MAX = 10.0
"""For all groups together: where none can be found, each would be waited for."""
GROUPS_PER_REQUEST = 500
GROUPS_FROM = 8
"""The version of OffsetFetch from which on it asks for several groups (KIP-709)."""
TOPIC_NAMES_UNTIL = 9
SHARE = "share"
"""The type of groups whose members share partitions (KIP-932)."""


@dataclass(frozen=True, slots=True)
class _Seldom:
    """What is asked for more seldom, and when it was."""

    view: ClusterView = field(default_factory=ClusterView)
    groups: Mapping[str, GroupSample] = field(default_factory=dict)
    brokers: Mapping[int, BrokerSample] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    clients: Mapping[str, frozenset[str]] = field(default_factory=dict)
    traffic: Traffic | None = None
    traffic_before: Traffic | None = None
    metadata_s: float = float("-inf")
    log_dirs_s: float = float("-inf")
    traffic_s: float = float("-inf")


class Sampling:
    """Samples of one cluster, each made with what the ones before have learned."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._seldom = _Seldom()

    def look_again(self) -> None:
        """Ask for everything next time: something has been changed."""
        self._seldom = replace(self._seldom, metadata_s=float("-inf"), log_dirs_s=float("-inf"))

    async def take(self, at_ms: int) -> Sample:
        """Return the cluster as it is now; raises KafkaError where no broker answers. What else is silent is `partial`."""
        partial: list[str] = []
        now_s = asyncio.get_running_loop().time()
        if now_s - self._seldom.metadata_s >= METADATA_SECONDS:
            view = await self._client.metadata()
            groups = await self._groups(view, partial)
            self._seldom = replace(self._seldom, view=view, groups=groups, metadata_s=now_s)
        view = self._seldom.view
        if now_s - self._seldom.log_dirs_s >= LOG_DIRS_SECONDS:
            brokers, sizes = await self._log_dirs(view, partial)
            self._seldom = replace(self._seldom, brokers=brokers, sizes=sizes, log_dirs_s=now_s)
        if now_s - self._seldom.traffic_s >= TRAFFIC_SECONDS:
            traffic, clients = await self._traffic(view, at_ms, partial), await self._members(self._seldom.groups)
            before = self._seldom.traffic
            self._seldom = replace(
                self._seldom, traffic=traffic, traffic_before=before, clients=clients, traffic_s=now_s
            )
        led = [
            TopicPartition(name, index)
            for name, topic in view.topics.items()
            for index, each in topic.partitions.items()
            if each.leader in view.nodes
        ]
        starts, ends = await asyncio.gather(self._offsets(led, EARLIEST, partial), self._offsets(led, LATEST, partial))
        committed = await self._committed(self._seldom.groups, partial)
        topics = {
            name: {
                index: PartitionSample(
                    leader=each.leader if each.leader in view.nodes else -1,
                    replicas=tuple(each.replicas),
                    in_sync=tuple(each.in_sync),
                    start=starts.get(TopicPartition(name, index), -1),
                    end=ends.get(TopicPartition(name, index), -1),
                )
                for index, each in sorted(topic.partitions.items())
            }
            for name, topic in view.topics.items()
        }
        await asyncio.sleep(0)  # of thousands each step takes a while: others may have their turn
        return Sample(
            at_ms=at_ms,
            cluster_id=view.cluster_id or "",
            controller=view.controller_id,
            brokers=_brokers(view, self._seldom.brokers),
            topics=topics,
            internal=frozenset(name for name, each in view.topics.items() if each.is_internal or name.startswith("__")),
            groups={
                name: replace(
                    each, committed=committed.get(name, {}), clients=self._seldom.clients.get(name, frozenset())
                )
                for name, each in self._seldom.groups.items()
            },
            sizes=self._seldom.sizes,
            partial=tuple(dict.fromkeys(partial)),
            traffic=self._seldom.traffic,
            traffic_before=self._seldom.traffic_before,
        )

    async def _offsets(self, led: list[TopicPartition], at: int, partial: list[str]) -> dict[TopicPartition, int]:
        """Where partitions begin or end; where one cannot be asked, topic by topic, so that one costs itself alone."""
        if not led:
            return {}
        try:
            return await self._listed(led, at)
        except KafkaError:
            found: dict[TopicPartition, int] = {}
            for topic in sorted({each.topic for each in led}):
                try:
                    found |= await self._listed([each for each in led if each.topic == topic], at)
                except KafkaError as error:
                    partial.append(f"offsets of {topic}: {error}")
                    self.look_again()
            return found

    async def _listed(self, partitions: list[TopicPartition], at: int) -> dict[TopicPartition, int]:
        answers = await self._client.list_offsets(dict.fromkeys(partitions, at))  # type: ignore[arg-type]
        return {partition: each.offset for partition, each in answers.items()}

    async def _groups(self, view: ClusterView, partial: list[str]) -> dict[str, GroupSample]:
        found: dict[str, GroupSample] = {}
        for node in sorted(view.nodes):
            try:
                answer = await self._client.request(ListGroupsRequest(states_filter=[], types_filter=[]), node=node)
            except OttlaError as error:
                partial.append(f"groups of broker {node}: {error}")
                continue
            for each in answer.groups:
                kind = (each.group_type or "classic").lower()
                found[each.group_id] = GroupSample(each.group_state or "Unknown", kind, each.protocol_type)
        return found

    async def _traffic(self, view: ClusterView, at_ms: int, partial: list[str]) -> Traffic | None:
        """What clients have moved, by broker; None where no broker tells it."""
        found: dict[int, Mapping[Flow, Moved]] = {}
        for node in sorted(view.nodes):
            try:
                answer = await self._client.request(DescribeClientTrafficRequest(topics=None), node=node)
            except KafkaError as error:
                if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                    partial.append(f"what clients of broker {node} move: {error}")
                continue
            found[node] = {
                Flow(topic.name, each.client_id, each.principal): Moved(each.bytes_in, each.records_in, each.bytes_out)
                for topic in answer.topics
                for each in topic.clients
            }
        return Traffic(at_ms, found) if found else None

    async def _members(self, groups: Mapping[str, GroupSample]) -> dict[str, frozenset[str]]:
        """Client ids of groups that have members; a group that cannot be asked is left out."""
        by_node: dict[NodeId, list[str]] = {}
        wanted = [name for name, each in groups.items() if each.state.upper() not in ("EMPTY", "DEAD")]
        with suppress(TimeoutError):
            async with asyncio.timeout(COORDINATORS_SECONDS_MAX):
                for name in wanted[:MEMBERS_GROUPS_MAX]:
                    if groups[name].type in ("classic", "consumer"):
                        with suppress(OttlaError):
                            by_node.setdefault(await self._client.coordinator(Coordinated(name)), []).append(name)
        found: dict[str, frozenset[str]] = {}
        for node, names in by_node.items():
            classic = [name for name in names if groups[name].type == "classic"]
            newer = [name for name in names if groups[name].type == "consumer"]
            with suppress(OttlaError):
                if classic:
                    told = await self._client.request(DescribeGroupsRequest(groups=classic), node=node)
                    found |= {each.group_id: frozenset(one.client_id for one in each.members) for each in told.groups}
                if newer:
                    said = await self._client.request(ConsumerGroupDescribeRequest(group_ids=newer), node=node)
                    found |= {each.group_id: frozenset(one.client_id for one in each.members) for each in said.groups}
        return found

    async def _committed(
        self, groups: Mapping[str, GroupSample], partial: list[str]
    ) -> dict[str, dict[TopicPartition, int]]:
        by_node: dict[NodeId, list[str]] = {}
        at_once = asyncio.Semaphore(COORDINATORS_AT_ONCE)

        async def find(name: str) -> None:
            async with at_once:
                try:
                    node = await self._client.coordinator(Coordinated(name))
                except OttlaError as error:
                    partial.append(f"the coordinator of group {name}: {error}")
                else:
                    by_node.setdefault(node, []).append(name)

        # the positions of streams groups lie elsewhere
        wanted = [name for name, group in groups.items() if group.type != "streams"]
        try:
            async with asyncio.timeout(COORDINATORS_SECONDS_MAX):
                await asyncio.gather(*map(find, wanted))
        except TimeoutError:
            partial.append(f"coordinators of some groups: not found in {COORDINATORS_SECONDS_MAX:g} s")
        found: dict[str, dict[TopicPartition, int]] = {}
        for node, names in by_node.items():
            share = [name for name in names if groups[name].type == SHARE]
            others = [name for name in names if groups[name].type != SHARE]
            for first in range(0, len(others), GROUPS_PER_REQUEST):
                found |= await self._fetched(node, others[first : first + GROUPS_PER_REQUEST], partial)
            for first in range(0, len(share), GROUPS_PER_REQUEST):
                found |= await self._share_starts(node, share[first : first + GROUPS_PER_REQUEST], partial)
        return found

    async def _share_starts(
        self, node: NodeId, names: Iterable[str], partial: list[str]
    ) -> dict[str, dict[TopicPartition, int]]:
        """Where share groups begin (KIP-932): what lies before is done with, of what follows a part may be, too."""
        asked = [DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None) for name in names]
        try:
            answer = await self._client.request(DescribeShareGroupOffsetsRequest(groups=asked), node=node)
        except OttlaError as error:
            partial.append(f"where share groups at broker {node} begin: {error}")
            return {}
        if any(each.error_code for each in answer.groups):
            self.look_again()
        return {
            group.group_id: {
                TopicPartition(topic.topic_name, each.partition_index): each.start_offset
                for topic in group.topics
                for each in topic.partitions
                if each.start_offset >= 0 and not each.error_code
            }
            for group in answer.groups
            if not group.error_code
        }

    async def _fetched(
        self, node: NodeId, names: Iterable[str], partial: list[str]
    ) -> dict[str, dict[TopicPartition, int]]:
        asked = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
        message = OffsetFetchRequest(groups=asked, require_stable=False)
        try:
            answer = await self._client.request(message, node=node, lowest=GROUPS_FROM, highest=TOPIC_NAMES_UNTIL)
        except OttlaError as error:
            partial.append(f"what groups at broker {node} have committed: {error}")
            return {}
        if any(each.error_code for each in answer.groups):
            self.look_again()
        return {
            group.group_id: {
                TopicPartition(topic.name, each.partition_index): each.committed_offset
                for topic in group.topics
                for each in topic.partitions
                if each.committed_offset >= 0 and not each.error_code
            }
            for group in answer.groups
            if not group.error_code
        }

    async def _log_dirs(self, view: ClusterView, partial: list[str]) -> tuple[dict[int, BrokerSample], dict[str, int]]:
        brokers: dict[int, BrokerSample] = {}
        sizes: dict[str, int] = {}
        for node, each in view.nodes.items():
            try:
                answer = await self._client.request(DescribeLogDirsRequest(topics=None), node=node)
            except OttlaError as error:
                partial.append(f"the disks of broker {node}: {error}")
                continue
            held = 0
            folders = [folder for folder in answer.results if not folder.error_code]
            for folder in folders:
                for topic in folder.topics:
                    size = sum(partition.partition_size for partition in topic.partitions)
                    sizes[topic.name] = sizes.get(topic.name, 0) + size
                    held += size
            brokers[node] = BrokerSample(
                *(each.address.host, each.address.port, each.rack, held),
                sum(folder.total_bytes for folder in folders) if folders else -1,
                sum(folder.usable_bytes for folder in folders) if folders else -1,
            )
        return brokers, sizes


def _brokers(view: ClusterView, known: Mapping[int, BrokerSample]) -> dict[int, BrokerSample]:
    return {
        node: replace(
            known.get(node, BrokerSample("", 0, None)), host=each.address.host, port=each.address.port, rack=each.rack
        )
        for node, each in sorted(view.nodes.items())
    }
