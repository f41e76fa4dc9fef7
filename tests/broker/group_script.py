"""One story of groups, told to any broker: every request with its answer, so that two brokers' can be compared."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.wire import Message, encode
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.node_client import NodeClient

__all__ = ["Teller", "commit_request", "fetch_request", "join_request", "sync_request", "tell"]

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
NOT_AVAILABLE, LOADING, NOT_COORDINATOR = 15, 14, 16
ASKED_MAX = 20_000


def consumer(*topics: str) -> bytes:
    return b"\x00\x01" + encode(ConsumerProtocolSubscription(topics=topics), 1)


def join_request(
    group_id: str = "g",
    member_id: str = "",
    *,
    instance: str | None = None,
    session_ms: int = 30_000,
    protocol_type: str = "consumer",
    protocols: dict[str, bytes] | None = None,
) -> JoinGroupRequest:
    named = {"range": consumer("t")} if protocols is None else protocols
    return JoinGroupRequest(
        group_id=group_id,
        member_id=member_id,
        group_instance_id=instance,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=60_000,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in named.items()],
        reason=None,
    )


def sync_request(
    member_id: str,
    generation: int,
    *assigned: str,
    group_id: str = "g",
    instance: str | None = None,
    protocol_type: str | None = "consumer",
    protocol: str | None = "range",
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignments=[SyncGroupRequestAssignment(member_id=each, assignment=b"\x01\x02") for each in assigned],
    )


def heartbeat_request(
    member_id: str, generation: int, *, group_id: str = "g", instance: str | None = None
) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance
    )


def leave_request(*members: tuple[str, str | None], group_id: str = "g") -> LeaveGroupRequest:
    named = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members]
    return LeaveGroupRequest(group_id=group_id, members=named)


def commit_request(
    offset: int,
    *,
    group_id: str = "simple",
    topic: str = "t",
    topic_id: bytes = bytes(16),
    partitions: tuple[int, ...] = (0,),
    member_id: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str | None = "m",
) -> OffsetCommitRequest:
    places = [
        OffsetCommitRequestPartition(
            partition_index=each, committed_offset=offset, committed_leader_epoch=0, committed_metadata=metadata
        )
        for each in partitions
    ]
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=places)],
    )


def fetch_request(
    version: int,
    group_id: str = "simple",
    *,
    topics: tuple[tuple[str, bytes], ...] | None = (("t", bytes(16)),),
    partitions: tuple[int, ...] = (0, 1, 9),
    member_id: str | None = None,
    member_epoch: int = -1,
) -> OffsetFetchRequest:
    if version < 8:
        named = None
        if topics is not None:
            named = [OffsetFetchRequestTopic(name=name, partition_indexes=partitions) for name, _ in topics]
        return OffsetFetchRequest(group_id=group_id, topics=named)
    by_id = None
    if topics is not None:
        by_id = [
            OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=partitions)
            for name, topic_id in topics
        ]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=by_id, member_id=member_id, member_epoch=member_epoch)
    return OffsetFetchRequest(groups=[group])


def offset_delete_request(group_id: str, *places: tuple[str, int]) -> OffsetDeleteRequest:
    topics = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index)])
        for name, index in places
    ]
    return OffsetDeleteRequest(group_id=group_id, topics=topics)


class Teller:
    """Asks one broker and notes every answer, without what no two brokers share: member ids keep their first part only."""

    def __init__(self, client: NodeClient, connect: Callable[[], Awaitable[NodeClient]]) -> None:
        self.client = client
        self.connect = connect
        self.told: dict[str, str] = {}

    def note(self, name: str, answer: Message) -> None:
        text = UUID.sub("UUID", repr(answer))
        for topic_id in self.client.topic_ids.values():
            text = text.replace(repr(topic_id), "ID")
        self.told[f"{len(self.told)}: {name}"] = re.sub(r"port=\d{4,5}", "port=PORT", text)

    async def ask(self, name: str, request: Message, version: int) -> Any:
        """Ask, and note the answer."""
        answer = await self.client.ask(request, version)
        for field in ("groups", "results"):
            several = getattr(answer, field, ())
            if several and hasattr(several[0], "group_id"):  # in which order Kafka answers follows from its hash tables
                answer = answer.replace(**{field: sorted(several, key=lambda each: str(getattr(each, "group_id", "")))})
        if isinstance(answer, DescribeGroupsResponse):
            described = [
                each.replace(members=sorted(each.members, key=lambda one: one.member_assignment))
                for each in answer.groups
            ]
            answer = answer.replace(groups=described)
        self.note(f"{name} v{version}", answer)
        return answer

    async def each(self, name: str, request: Message, versions: range) -> None:
        """Ask in every version."""
        for version in versions:
            await self.ask(name, request, version)

    async def ready(self, *group_ids: str) -> None:
        """Return when the coordinators of these groups answer."""
        for group_id in group_ids:
            for _ in range(ASKED_MAX):
                request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
                found = await self.client.ask(request, 6)
                if found.coordinators[0].error_code == NOT_AVAILABLE:
                    continue
                probe = (await self.client.ask(fetch_request(9, group_id), 9)).groups[0].error_code
                if probe not in (NOT_AVAILABLE, LOADING, NOT_COORDINATOR):
                    break
            else:
                raise AssertionError(f"no coordinator of {group_id} after {ASKED_MAX} questions")


async def tell(teller: Teller) -> None:
    """Tell the whole story; the topics `t` and `u`, of two partitions each, are there already."""
    await teller.ready("g", "simple", "none", "static", "two", "", "kept")
    await coordinators(teller)
    await strangers(teller)
    await simple(teller)
    await one_member(teller)
    await two_members(teller)
    await static_members(teller)
    await listed(teller)


async def coordinators(teller: Teller) -> None:
    for version in range(4):
        request = FindCoordinatorRequest(key="g", key_type=0)
        await teller.ask("find", request, version)
    for version in (1, 3):
        await teller.ask("find kind 9", FindCoordinatorRequest(key="g", key_type=9), version)
    for version in (4, 5, 6):
        for kind, keys in ((0, ["g", "", "simple"]), (9, ["g"]), (2, ["g:x", "nothing"]), (0, [])):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)
            await teller.ask(f"find {kind} {keys}", request, version)


async def strangers(teller: Teller) -> None:
    """Requests about a group that does not exist, or with an id that none has."""
    for group_id in ("none", ""):
        await teller.each(f"heartbeat {group_id!r}", heartbeat_request("m", 1, group_id=group_id), range(5))
        for version in range(6):
            await teller.ask("sync", sync_request("m", 1, "m", group_id=group_id), version)
            leave = leave_request(("m", None), ("", None), group_id=group_id)
            if version < 3:
                leave = LeaveGroupRequest(group_id=group_id, member_id="m")
            await teller.ask("leave", leave, version)
        await teller.each("describe", DescribeGroupsRequest(groups=[group_id]), range(7))
        await teller.each("delete", DeleteGroupsRequest(groups_names=[group_id]), range(3))
        await teller.ask("offset delete", offset_delete_request(group_id, ("t", 0), ("nope", 0), ("t", 7)), 0)
        for version in range(1, 10):
            await teller.ask("fetch", fetch_request(version, group_id), version)
            if version > 1:
                await teller.ask("fetch all", fetch_request(version, group_id, topics=None), version)
        for version in range(2, 10):
            await teller.ask("commit", commit_request(1, group_id=group_id, member_id="m", generation=3), version)
    for version in range(10):
        for name, request in {
            "no id": join_request(""),
            "short": join_request("none", session_ms=10),
            "unknown": join_request("none", "m"),
            "no protocols": join_request("bad", protocols={}),
        }.items():
            await teller.ask(f"join {name}", request, version)
    await teller.ask("sync without names", sync_request("m", 1, group_id="none", protocol=None), 5)


async def simple(teller: Teller) -> None:
    """Offsets of a consumer without a group."""
    topic_id = teller.client.topic_ids["t"]
    for version in range(2, 11):
        request = commit_request(version, topic_id=topic_id, partitions=(0, 1, 9))
        await teller.ask("commit", request, version)
        topics = (("t", topic_id), ("u", teller.client.topic_ids["u"]))
        await teller.ask("fetch", fetch_request(version, topics=topics), version)
        await teller.ask("fetch all", fetch_request(version, topics=None), version)
    await teller.ask("commit nowhere", commit_request(1, topic="nope", topic_id=b"x" * 16), 9)
    await teller.ask("commit nowhere", commit_request(1, topic="nope", topic_id=b"x" * 16), 10)
    await teller.ask("fetch nowhere", fetch_request(10, topics=(("", b"x" * 16),)), 10)
    await teller.ask("commit long", commit_request(1, metadata="x" * 5000), 9)
    await teller.ask("commit none", commit_request(1, metadata=None), 9)
    await teller.ask("commit negative", commit_request(-1, metadata=None), 9)
    await teller.ask("fetch as a member", fetch_request(9, member_id="m", member_epoch=1), 9)
    await teller.ask("commit as nobody", commit_request(1, member_id="m"), 9)
    await teller.each(
        "describe", DescribeGroupsRequest(groups=["simple"], include_authorized_operations=False), range(7)
    )
    described = DescribeGroupsRequest(groups=["simple", "none"], include_authorized_operations=True)
    await teller.each("describe", described, range(3, 7))
    await teller.ask("offset delete", offset_delete_request("simple", ("t", 0), ("nope", 0), ("t", 7)), 0)
    await teller.ask("fetch all", fetch_request(9, topics=None), 9)
    await teller.client.ask(commit_request(77, group_id="kept"), 9)


async def one_member(teller: Teller) -> None:
    required = await teller.ask("join", join_request(), 9)
    member = required.member_id
    # Nobody is in yet. Whether Kafka shows this group or calls it dead depends on when it last took a snapshot of its
    # shard, so that the two are not compared here: tests/broker/test_groups.py says what ours shows.
    await teller.ask("join", join_request(member_id=member), 9)
    await teller.ask("commit too early", commit_request(3, group_id="g", member_id=member, generation=1), 9)
    await teller.each("describe", DescribeGroupsRequest(groups=["g"]), range(7))
    await teller.ask("join again", join_request(member_id=member), 9)
    await teller.ask("sync of another generation", sync_request(member, 7, member), 5)
    await teller.ask("sync of another protocol", sync_request(member, 1, member, protocol="x"), 5)
    await teller.ask("sync of nobody", sync_request("m", 1, member), 5)
    await teller.ask("sync of an instance", sync_request(member, 1, member, instance="i"), 5)
    await teller.ask("sync", sync_request(member, 1, member), 5)
    for version in range(6):
        names = {"protocol_type": "consumer", "protocol": "range"} if version == 5 else {}
        await teller.ask("sync again", sync_request(member, 1, **names), version)  # type: ignore[arg-type]
    await teller.each("heartbeat", heartbeat_request(member, 1), range(5))
    await teller.ask("heartbeat late", heartbeat_request(member, 0), 4)
    await teller.ask("heartbeat of nobody", heartbeat_request("m", 1), 4)
    await teller.ask("heartbeat of an instance", heartbeat_request(member, 1, instance="i"), 4)
    for generation, who in ((1, member), (0, member), (-1, ""), (1, "m"), (-1, member)):
        request = commit_request(5, group_id="g", member_id=who, generation=generation)
        await teller.ask(f"commit {generation} {bool(who)}", request, 9)
    await teller.ask("commit", commit_request(6, group_id="g", topic="u", member_id=member, generation=1), 9)
    await teller.ask("offset delete", offset_delete_request("g", ("t", 0), ("u", 0)), 0)
    await teller.ask("fetch all", fetch_request(9, "g", topics=None), 9)
    await teller.each("describe", DescribeGroupsRequest(groups=["g"]), range(7))
    await teller.ask("delete", DeleteGroupsRequest(groups_names=["g", "none", "g"]), 2)
    await teller.ask("another type", join_request(protocol_type="connect"), 9)
    await teller.ask("another protocol", join_request(protocols={"x": b""}), 9)
    await teller.ask("leave", leave_request((member, None), ("m", None), ("", "i")), 5)
    await teller.each("describe", DescribeGroupsRequest(groups=["g"]), range(7))
    await teller.ask("heartbeat after", heartbeat_request(member, 1), 4)
    await teller.ask("sync after", sync_request(member, 1), 5)
    await teller.ask("commit after", commit_request(7, group_id="g", member_id=member, generation=1), 9)
    await teller.ask("commit admin", commit_request(7, group_id="g"), 9)


async def two_members(teller: Teller) -> None:
    """A rebalance of two: who waits is answered when the other comes."""
    one = (await teller.ask("join", join_request("two"), 9)).member_id
    await teller.ask("join", join_request("two", one), 9)
    await teller.ask("sync", sync_request(one, 1, one, group_id="two"), 5)
    other = await teller.connect()
    joining = join_request("two", protocols={"other": b"o", "range": consumer("t")})
    two = (await other.ask(joining, 9)).member_id
    again = joining.replace(member_id=two)
    other.send(again, 9)
    for _ in range(ASKED_MAX):
        beat = await teller.client.ask(heartbeat_request(one, 1, group_id="two"), 4)
        if beat.error_code:
            break
    teller.note("heartbeat while rebalancing", beat)
    await teller.ask("sync while rebalancing", sync_request(one, 1, group_id="two"), 5)
    await teller.ask("commit while rebalancing", commit_request(8, group_id="two", member_id=one, generation=1), 9)
    await teller.ask("describe", DescribeGroupsRequest(groups=["two"]), 5)
    await teller.ask("join again", join_request("two", one), 9)
    teller.note("joined", await other.receive(again, 9))
    await teller.ask("sync", sync_request(one, 2, one, group_id="two"), 5)
    sync = sync_request(two, 2, group_id="two")
    teller.note("sync left out", await other.ask(sync, 5))
    await teller.ask("follower joins the same", again, 9)
    await teller.client.ask(leave_request((one, None), (two, None), group_id="two"), 5)
    other.close()


async def static_members(teller: Teller) -> None:
    first = (await teller.ask("join", join_request("static", instance="i"), 9)).member_id
    await teller.ask("sync", sync_request(first, 1, first, group_id="static", instance="i"), 5)
    second = (await teller.ask("join again", join_request("static", instance="i"), 9)).member_id
    await teller.ask("heartbeat of the old", heartbeat_request(first, 1, group_id="static", instance="i"), 4)
    await teller.ask("sync of the old", sync_request(first, 1, group_id="static", instance="i"), 5)
    await teller.ask("join of the old", join_request("static", first, instance="i"), 9)
    old = commit_request(9, group_id="static", member_id=first, generation=1, instance="i")
    await teller.ask("commit of the old", old, 9)
    await teller.ask("heartbeat", heartbeat_request(second, 1, group_id="static", instance="i"), 4)
    third = (await teller.ask("join by version 8", join_request("static", instance="i"), 8)).member_id
    await teller.ask("sync", sync_request(third, 1, group_id="static", instance="i"), 5)
    await teller.ask("describe", DescribeGroupsRequest(groups=["static"]), 6)
    await teller.ask("leave", leave_request(("wrong", "i"), ("", "other"), ("", "i"), group_id="static"), 5)
    await teller.ask("describe", DescribeGroupsRequest(groups=["static"]), 6)


async def listed(teller: Teller) -> None:
    for version in range(6):
        answer = await teller.client.ask(ListGroupsRequest(), version)
        ordered = sorted(answer.groups, key=lambda each: each.group_id)
        teller.note(f"list v{version}", answer.replace(groups=ordered))
    for states, types in (
        (["Stable"], []),
        (["empty"], ["CLASSIC"]),
        ([], ["consumer"]),
        (["nonsense"], []),
        ([], ["x"]),
    ):
        answer = await teller.client.ask(ListGroupsRequest(states_filter=states, types_filter=types), 5)
        ordered = sorted(answer.groups, key=lambda each: each.group_id)
        teller.note(f"list {states} {types}", answer.replace(groups=ordered))
    await teller.ask("delete", DeleteGroupsRequest(groups_names=["g", "static", "two", "bad"]), 2)
    await teller.ask("delete", DeleteGroupsRequest(groups_names=["simple"]), 2)
    await teller.ask("fetch all", fetch_request(9, topics=None), 9)
