"""One life of a consumer group, played to any broker over a plain socket; what it answered, without what is its own."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

from ottla.base import ErrorCode
from ottla.wire import APIS, Message, encode, encode_request, read_response
from ottla.wire.messages import consumer_group_heartbeat as hb
from ottla.wire.messages import offset_commit as oc
from ottla.wire.messages import offset_fetch as of
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.consumer_protocol_subscription import TopicPartition as OwnedTopic
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.sync_group import SyncGroupRequest

SETTINGS = (
    "group.consumer.assignment.interval.ms=0",
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.max.size=3",
    "offsets.topic.num.partitions=1",
)
Step = tuple[str, Any]
TIMEOUT_S = 20.0


class Wire:
    """One connection; every request waits for its answer."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.ids: dict[str, bytes] = {}

    def ask(self, request: Message, version: int | None = None) -> Any:
        assert request.API_KEY is not None
        version = request.VERSIONS[1] if version is None else version
        self.socket.sendall(encode_request(request, version, 1, "script"))
        (size,) = struct.unpack(">i", self._exactly(4))
        return read_response(APIS[request.API_KEY].response, self._exactly(size), request.API_KEY, version)[1]

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            assert part, "the broker hung up"
            data += part
        return data

    def create(self, name: str, partitions: int) -> None:
        made = self.ask(
            CreateTopicsRequest(
                topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)], timeout_ms=10_000
            )
        )
        assert not made.topics[0].error_code, made.topics[0].error_message
        self.ids[name] = bytes(made.topics[0].topic_id)

    def await_coordinator(self, group: str) -> None:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        deadline = time.monotonic() + TIMEOUT_S
        while self.ask(request).coordinators[0].error_code or Member(self, group, "x").beat(1) != "GROUP_ID_NOT_FOUND":
            assert time.monotonic() < deadline, "no coordinator"
            time.sleep(0.1)

    def named(self, partitions: Any) -> dict[str, list[int]]:
        names = {topic_id: name for name, topic_id in self.ids.items()}
        return {names[bytes(each.topic_id)]: sorted(each.partitions) for each in partitions.topic_partitions}


class Member:
    """A member that plays along: it owns what it was told last."""

    def __init__(self, wire: Wire, group: str, member_id: str, **fields: Any) -> None:
        self.wire, self.group, self.id, self.fields = wire, group, member_id, fields
        self.epoch, self.owned = 0, dict[str, list[int]]()

    def beat(self, epoch: int | None = None, **fields: Any) -> Any:
        """Send a heartbeat, and return (error, epoch, sizes of the assignment); None for an answer without one."""
        epoch = self.epoch if epoch is None else epoch
        owned = {} if epoch == 0 else self.owned
        asked: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": epoch,
            "instance_id": self.fields.get("instance_id"),
            "topic_partitions": [
                hb.TopicPartitions(topic_id=self.wire.ids[name], partitions=each) for name, each in owned.items()
            ],
        }
        if epoch == 0:
            asked |= {"rebalance_timeout_ms": 60_000, **self.fields}
        version = fields.pop("version", 1)
        answer = self.wire.ask(hb.ConsumerGroupHeartbeatRequest(**(asked | fields)), version)
        error = ErrorCode(answer.error_code).name
        if answer.error_code:
            return error
        assert answer.member_id == self.id or not asked["member_id"]
        self.epoch = answer.member_epoch if answer.member_epoch >= 0 else self.epoch
        if answer.assignment is None:
            return answer.member_epoch, answer.heartbeat_interval_ms, None
        self.owned = self.wire.named(answer.assignment)
        return answer.member_epoch, answer.heartbeat_interval_ms, {name: len(each) for name, each in self.owned.items()}


def play(port: int) -> list[Step]:
    """Return every step's name with what was answered."""
    wire = Wire(port)
    for name, partitions in (("alpha", 4), ("beta", 2), ("betamax", 1)):
        wire.create(name, partitions)
    wire.await_coordinator("g")
    steps = [*_two_members(wire), *_refusals(wire), *_static(wire), *_commits(wire), *_expressions(wire)]
    steps += [*_classic_in_consumer(wire), *_upgrade(wire), *_empty_kinds(wire), *_leftovers(wire)]
    wire.socket.close()
    return steps


def _two_members(wire: Wire) -> Iterator[Step]:
    a = Member(wire, "g", "a", subscribed_topic_names=["alpha"])
    b = Member(wire, "g", "b", subscribed_topic_names=["alpha"])
    yield "join", a.beat()
    yield "quiet", a.beat()
    yield "full", a.beat(rebalance_timeout_ms=60_000, subscribed_topic_names=["alpha"])
    yield "second joins", b.beat()
    yield "describe while reconciling", describe(wire, "g")
    yield "second waits", b.beat()
    before = a.owned
    yield "first is asked to give back", a.beat()
    held, a.owned = a.owned, before
    yield "first has not given back", a.beat()
    a.owned = held
    yield "second waits still", b.beat()
    yield "first has given back", a.beat()
    yield "second receives", b.beat()
    yield "describe", describe(wire, "g")
    yield "subscribe to more", a.beat(subscribed_topic_names=["alpha", "beta"])
    yield "describe changed", describe(wire, "g")
    yield "one step", a.beat()
    yield "other steps", [b.beat(), a.beat(), b.beat(), a.beat(), b.beat()]
    yield "again from zero", a.beat(0)
    yield "settle", [b.beat(), a.beat(), b.beat(), a.beat()]
    yield "listed", listed(wire, "g")
    yield "leave", a.beat(-1)
    yield "the other has all", [b.beat(), b.beat()]
    yield "delete too early", ErrorCode(wire.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error_code).name
    yield "last leaves", b.beat(-1)
    yield "describe empty", describe(wire, "g")
    yield "delete", ErrorCode(wire.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error_code).name
    yield "describe deleted", describe(wire, "g")


def _refusals(wire: Wire) -> Iterator[Step]:
    a = Member(wire, "r", "a", subscribed_topic_names=["alpha"])
    yield "no group", a.beat(1)
    yield "no group to leave", a.beat(-1)
    yield "empty member id", a.beat(0, member_id="")
    yield "empty group id", a.beat(0, group_id="")
    yield "empty instance id", a.beat(0, instance_id="")
    yield "empty rack", a.beat(0, rack_id="")
    yield "no timeout", a.beat(0, rebalance_timeout_ms=-1)
    yield "no partitions", a.beat(0, topic_partitions=None)
    owned = [hb.TopicPartitions(topic_id=wire.ids["alpha"], partitions=[0])]
    yield "owns already", a.beat(0, topic_partitions=owned)
    yield "no subscription", a.beat(0, subscribed_topic_names=None)
    yield "epoch too low", a.beat(-3)
    yield "static leave without instance", a.beat(-2)
    yield "unknown assignor", a.beat(0, server_assignor="lucky")
    yield "bad expression", a.beat(0, subscribed_topic_names=None, subscribed_topic_regex="a(")
    yield "look-ahead", a.beat(0, subscribed_topic_names=None, subscribed_topic_regex="(?=a)")
    yield "the group was not made", describe(wire, "r")
    yield "join", a.beat()
    yield "unknown member", Member(wire, "r", "x").beat(1)
    yield "unknown member leaves", Member(wire, "r", "x").beat(-1)
    yield "epoch ahead", a.beat(5)
    yield "an older version makes ids", Member(wire, "r", "").beat(0, version=0, subscribed_topic_names=["alpha"])[0]
    yield "third", Member(wire, "r", "c", subscribed_topic_names=["alpha"]).beat()[0]
    yield "too many", Member(wire, "r", "d", subscribed_topic_names=["alpha"]).beat()
    yield "instance unknown", a.beat(1, instance_id="nobody")
    yield "nothing subscribed", Member(wire, "n", "a", subscribed_topic_names=[]).beat()
    yield "missing topic", Member(wire, "m", "a", subscribed_topic_names=["missing"]).beat()
    yield "describe missing topic", describe(wire, "m")


def _static(wire: Wire) -> Iterator[Step]:
    a = Member(wire, "s", "a", subscribed_topic_names=["alpha"], instance_id="one")
    b = Member(wire, "s", "b", subscribed_topic_names=["alpha"], instance_id="two")
    yield "join", [a.beat(), b.beat(), a.beat(), a.beat(), b.beat()]
    again = Member(wire, "s", "a2", subscribed_topic_names=["alpha"], instance_id="one")
    yield "not released", again.beat()
    yield "itself again", a.beat(0)
    yield "goes away", a.beat(-2)
    yield "describe away", describe(wire, "s")
    yield "comes back", again.beat()
    yield "the old one", a.beat()
    yield "fenced", a.beat(a.epoch, instance_id="one")
    yield "describe back", describe(wire, "s")
    yield "other is calm", b.beat()
    yield "leaves for good", again.beat(-1)
    yield "other takes over", [b.beat(), b.beat()]


def _commits(wire: Wire) -> Iterator[Step]:
    a = Member(wire, "o", "a", subscribed_topic_names=["alpha"])
    yield "join", a.beat()
    first = a.epoch
    yield "commit", commit(wire, "o", "a", first, 0)
    yield "epoch ahead", commit(wire, "o", "a", first + 1, 0)
    yield "unknown member", commit(wire, "o", "x", 1, 0)
    yield "without a group id", commit(wire, "o", "", -1, 0)
    yield "old version", commit(wire, "o", "a", first, 0, version=8)
    b = Member(wire, "o", "b", subscribed_topic_names=["alpha"])
    yield "another comes", [b.beat(), a.beat(), a.beat(), b.beat()]
    kept = a.owned["alpha"][0]
    given = b.owned["alpha"][0]
    yield "an old epoch for what was held then", commit(wire, "o", "a", first, kept)
    yield "an old epoch for what is held by another", commit(wire, "o", "a", first, given)
    yield "an old epoch from before it was given", commit(wire, "o", "b", first, given)
    yield "fetch", fetch(wire, "o", "a", a.epoch, kept)
    yield "fetch with another epoch", fetch(wire, "o", "a", a.epoch - 1, kept)
    yield "fetch as nobody", fetch(wire, "o", None, -1, kept)
    yield "fetch as a stranger", fetch(wire, "o", "x", 1, kept)
    yield "leave", [a.beat(-1), b.beat(-1)]
    yield "commit without members", commit(wire, "o", "", -1, 0)
    yield "commit with an epoch", commit(wire, "o", "a", 2, 0)


def _expressions(wire: Wire) -> Iterator[Step]:
    a = Member(wire, "e", "a", subscribed_topic_regex="^beta.*")
    a.beat()
    for _ in range(50):  # Kafka resolves an expression beside the request, and tells in a later answer
        if sum(map(len, a.owned.values())) == 3:
            break
        a.beat()
        time.sleep(0.1)
    yield "resolved", a.owned
    described = wire.ask(ConsumerGroupDescribeRequest(group_ids=["e"])).groups[0]
    yield "describe", [(list(each.subscribed_topic_names), each.subscribed_topic_regex) for each in described.members]
    a.beat(subscribed_topic_regex="", subscribed_topic_names=["alpha"])
    for _ in range(5):
        a.beat()
    yield "names in its place", a.owned
    yield "leave", a.beat(-1)


class ClassicMember:
    """A member of the classic protocol with the cooperative assignor."""

    def __init__(self, wire: Wire, group: str, topics: list[str]) -> None:
        self.wire, self.group, self.topics = wire, group, topics
        self.id, self.generation, self.owned = "", -1, dict[str, list[int]]()

    def join(self) -> Any:
        subscription = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=[OwnedTopic(topic=name, partitions=each) for name, each in self.owned.items()],
        )
        request = JoinGroupRequest(
            group_id=self.group,
            member_id=self.id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="cooperative-sticky", metadata=b"\0\1" + encode(subscription, 1))],
        )
        answer = self.wire.ask(request)
        if not self.id:
            self.id = answer.member_id
        self.generation = answer.generation_id
        return ErrorCode(answer.error_code).name, answer.generation_id, answer.protocol_type, answer.protocol_name, (
            answer.leader == self.id
        ), len(answer.members)  # fmt: skip

    def sync(self) -> Any:
        request = SyncGroupRequest(
            group_id=self.group,
            member_id=self.id,
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name="cooperative-sticky",
        )
        answer = self.wire.ask(request)
        if not answer.error_code:
            from ottla.groups.consumer.classic_protocol import read_assignment

            assigned = read_assignment(bytes(answer.assignment)).assigned_partitions
            self.owned = {each.topic: list(each.partitions) for each in assigned}
        sizes = {name: len(each) for name, each in self.owned.items()}
        return ErrorCode(answer.error_code).name, answer.protocol_type, answer.protocol_name, sizes

    def beat(self) -> str:
        request = HeartbeatRequest(group_id=self.group, member_id=self.id, generation_id=self.generation)
        return ErrorCode(self.wire.ask(request).error_code).name

    def leave(self) -> Any:
        request = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.id)])
        answer = self.wire.ask(request)
        return answer.error_code, [each.error_code for each in answer.members]


def _classic_in_consumer(wire: Wire) -> Iterator[Step]:
    a = Member(wire, "c", "a", subscribed_topic_names=["alpha"])
    yield "join", a.beat()
    b = ClassicMember(wire, "c", ["alpha"])
    yield "classic is told its id", b.join()
    yield "classic joins", b.join()
    yield "classic syncs", b.sync()
    yield "classic waits", b.beat()
    yield "consumer gives back", [a.beat(), a.beat()]
    yield "classic may join again", b.beat()
    yield "classic joins again", b.join()
    yield "classic syncs again", b.sync()
    yield "classic is calm", b.beat()
    yield "describe", describe(wire, "c")
    yield "commit by generation", commit(wire, "c", b.id, b.generation, b.owned["alpha"][0], version=8)
    yield "commit ahead", commit(wire, "c", b.id, b.generation + 1, b.owned["alpha"][0])
    b.generation += 1
    yield "classic ahead", [b.beat(), b.sync()]
    b.generation -= 1
    yield "a classic heartbeat of a consumer", wire.ask(
        HeartbeatRequest(group_id="c", member_id="a", generation_id=a.epoch)
    ).error_code  # fmt: skip
    yield "an older assignor", _foreign_join(wire)
    yield "consumer leaves, the group is classic", a.beat(-1)
    yield "listed", listed(wire, "c")
    yield "classic is told", b.beat()
    yield "a generation of its own", b.join()
    yield "classic leaves", b.leave()


def _foreign_join(wire: Wire) -> str:
    protocols = [JoinGroupRequestProtocol(name="custom", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")]
    request = JoinGroupRequest(
        group_id="c",
        member_id="z",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    return ErrorCode(wire.ask(request).error_code).name


def _upgrade(wire: Wire) -> Iterator[Step]:
    b = ClassicMember(wire, "u", ["alpha"])
    b.join()
    yield "classic joins", b.join()
    yield "classic syncs", b.sync()
    a = Member(wire, "u", "a", subscribed_topic_names=["alpha"])
    yield "upgrade", a.beat()
    yield "listed", listed(wire, "u")
    yield "classic is told", b.beat()
    yield "classic joins again", [b.join(), b.sync(), b.beat()]
    yield "settle", [a.beat(), b.beat(), a.beat()]
    yield "describe", describe(wire, "u")
    yield "classic leaves", b.leave()
    yield "consumer goes on", [a.beat(), a.beat()]
    yield "leave", a.beat(-1)


def _empty_kinds(wire: Wire) -> Iterator[Step]:
    b = ClassicMember(wire, "u", ["alpha"])
    b.join()
    yield "classic in an empty consumer group", b.join()
    yield "listed", listed(wire, "u")
    yield "leave", b.leave()
    a = Member(wire, "u", "a", subscribed_topic_names=["alpha"])
    yield "consumer in an empty classic group", a.beat()
    yield "leave again", a.beat(-1)


def _leftovers(wire: Wire) -> Iterator[Step]:
    a = Member(wire, "p", "a", subscribed_topic_names=["beta"], server_assignor="range", rack_id="r")
    yield "join", a.beat()
    grow = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="beta", count=3, assignments=None)], timeout_ms=10_000
    )
    yield "grow", [each.error_code for each in wire.ask(grow).results]
    for _ in range(50):
        if len(a.owned["beta"]) == 3:
            break
        a.beat()
        time.sleep(0.1)
    yield "partitions came", (a.epoch, a.owned)
    yield "describe", describe(wire, "p")
    yield "leave", a.beat(-1)


def describe(wire: Wire, group: str) -> Any:
    found = wire.ask(ConsumerGroupDescribeRequest(group_ids=[group])).groups[0]
    if found.error_code:
        return ErrorCode(found.error_code).name
    members = sorted(
        (
            each.member_epoch,
            each.member_type,
            each.instance_id or "",
            each.rack_id or "",
            each.client_id,
            each.client_host,
            sorted(each.subscribed_topic_names),
            sum(len(topic.partitions) for topic in each.assignment.topic_partitions),
            sum(len(topic.partitions) for topic in each.target_assignment.topic_partitions),
        )
        for each in found.members
    )
    return found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name, members


def listed(wire: Wire, group: str) -> Any:
    groups = wire.ask(ListGroupsRequest()).groups
    return [(each.protocol_type, each.group_state, each.group_type) for each in groups if each.group_id == group]


def commit(wire: Wire, group: str, member: str, epoch: int, partition: int, version: int = 9) -> str:
    topic = oc.OffsetCommitRequestTopic(
        name="alpha", partitions=[oc.OffsetCommitRequestPartition(partition_index=partition, committed_offset=7)]
    )
    request = oc.OffsetCommitRequest(
        group_id=group, member_id=member, generation_id_or_member_epoch=epoch, topics=[topic]
    )
    return ErrorCode(wire.ask(request, version).topics[0].partitions[0].error_code).name


def fetch(wire: Wire, group: str, member: str | None, epoch: int, partition: int) -> Any:
    asked = of.OffsetFetchRequestGroup(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        topics=[of.OffsetFetchRequestTopics(name="alpha", partition_indexes=[partition])],
    )
    found = wire.ask(of.OffsetFetchRequest(groups=[asked]), 9).groups[0]
    if found.error_code:
        return ErrorCode(found.error_code).name
    return found.topics[0].partitions[0].committed_offset
