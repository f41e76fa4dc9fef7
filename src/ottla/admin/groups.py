"""Groups: which there are, who is in them, and how members are thrown out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.admin.errors import raise_code
from ottla.base import ErrorCode, KafkaError, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client import BlockingClient, Node

__all__ = [
    "CONSUMER_PROTOCOL",
    "GroupDescription",
    "ListedGroup",
    "MemberDescription",
    "consumer_groups",
    "coordinator_of",
    "describe_group",
    "group_state",
    "list_groups",
    "remove_members",
]

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of consumers, as opposed to that of Connect's workers and others."""


@dataclass(frozen=True)
class ListedGroup:
    """A group as ListGroups names it; state and type as Kafka capitalises them."""

    group: str
    protocol: str
    state: str
    type: str

    @property
    def is_consumer_group(self) -> bool:
        """True for groups of consumers; a classic group without members and protocol counts as one."""
        if self.type == "Consumer":
            return True
        return self.type == "Classic" and self.protocol in (CONSUMER_PROTOCOL, "")


@dataclass(frozen=True)
class MemberDescription:
    """One member; epochs and target are None where the group's protocol has none (KIP-848)."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: list[TopicPartition]
    epoch: int | None = None
    target: list[TopicPartition] | None = None


@dataclass(frozen=True)
class GroupDescription:
    """A group as its coordinator describes it; `state` is Dead where there is none of that name."""

    group: str
    coordinator: Node
    state: str
    assignor: str
    members: list[MemberDescription]
    epoch: int | None = None
    target_epoch: int | None = None

    @property
    def is_inactive(self) -> bool:
        """True where nobody is in the group, so that its offsets may be set from outside."""
        return self.state in ("Empty", "Dead")


def list_groups(client: BlockingClient, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    """Return the groups that every broker coordinates, sorted by name, of some states (KIP-518) or types (KIP-848).

    Raises the first broker's KafkaError; UNSUPPORTED_VERSION where one does not know a filter.
    """
    from ottla.wire.messages.list_groups import ListGroupsRequest

    message = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    lowest = 5 if types else 4 if states else 0
    found: dict[str, ListedGroup] = {}
    for node in sorted(client.metadata(()).nodes):
        response = client.request(message, node=node, lowest=lowest)
        raise_code(response.error_code)
        for each in response.groups:
            kind = each.group_type or "Classic"
            found[each.group_id] = ListedGroup(each.group_id, each.protocol_type, each.group_state, capitalised(kind))
    return [found[name] for name in sorted(found)]


def capitalised(text: str) -> str:
    """Return a group type as Kafka's tools write it, whichever case the broker sends."""
    return text[:1].upper() + text[1:].lower()


def consumer_groups(client: BlockingClient) -> list[str]:
    """Return the names of all groups of consumers."""
    return [each.group for each in list_groups(client) if each.is_consumer_group]


def describe_group(client: BlockingClient, group: str) -> GroupDescription:
    """Ask a group's coordinator, by the newer protocol first; raises GROUP_ID_NOT_FOUND where there is none."""
    from ottla.wire import ApiKey

    coordinator = coordinator_of(client, group)
    offered = client.run(client.client.versions(coordinator.node_id))
    if ApiKey.CONSUMER_GROUP_DESCRIBE in offered:
        try:
            return _modern(client, group, coordinator)
        except KafkaError as error:
            if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                raise
    return _classic(client, group, coordinator)


def group_state(client: BlockingClient, group: str) -> str:
    """Return a group's state; a group that does not exist is as good as Dead."""
    try:
        return describe_group(client, group).state
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return "Dead"
        raise


def remove_members(client: BlockingClient, group: str, members: Sequence[MemberDescription], *, reason: str) -> None:
    """Make members of a classic group leave, as an administrator may (KIP-345, KIP-800); raises the group's KafkaError."""
    from ottla.client import Coordinated
    from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

    identities = [
        MemberIdentity(member_id=each.member_id, group_instance_id=each.instance_id, reason=reason) for each in members
    ]
    message = LeaveGroupRequest(group_id=group, members=identities)
    raise_code(client.request(message, coordinator_of=Coordinated(group), lowest=3).error_code)


def coordinator_of(client: BlockingClient, group: str) -> Node:
    """Return the broker that coordinates a group."""
    from ottla.client import Coordinated

    node = client.coordinator(Coordinated(group))
    if node not in client.client.cluster.nodes:
        client.metadata(())
    return client.client.cluster.nodes[node]


def _modern(client: BlockingClient, group: str, coordinator: Node) -> GroupDescription:
    from ottla.client import Coordinated
    from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    response = client.request(ConsumerGroupDescribeRequest(group_ids=[group]), coordinator_of=Coordinated(group))
    (found,) = response.groups
    raise_code(found.error_code, found.error_message or f"Group {group} not found.")
    members = [
        MemberDescription(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            _partitions(each.assignment),
            each.member_epoch,
            _partitions(each.target_assignment),
        )
        for each in found.members
    ]
    return GroupDescription(
        group, coordinator, found.group_state, found.assignor_name, members, found.group_epoch, found.assignment_epoch
    )


def _partitions(assignment: Any) -> list[TopicPartition]:
    return sorted(
        TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions
    )


def _classic(client: BlockingClient, group: str, coordinator: Node) -> GroupDescription:
    from ottla.client import Coordinated
    from ottla.wire.messages.describe_groups import DescribeGroupsRequest

    response = client.request(DescribeGroupsRequest(groups=[group]), coordinator_of=Coordinated(group))
    (found,) = response.groups
    raise_code(found.error_code, found.error_message)
    if found.group_state == "Dead":
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group} not found.")
    if found.protocol_type not in (CONSUMER_PROTOCOL, ""):
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"GroupId {group} is not a consumer group ({found.protocol_type})."
        )
    members = [
        MemberDescription(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            parse_assignment(bytes(each.member_assignment)),
        )
        for each in found.members
    ]
    return GroupDescription(group, coordinator, found.group_state, found.protocol_data, members)


def parse_assignment(data: bytes) -> list[TopicPartition]:
    """Read what a member of a classic group was assigned; nothing where no version of the format fits."""
    from ottla.base import WireError
    from ottla.wire import decode
    from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment

    if len(data) < 2:
        return []
    version = min(int.from_bytes(data[:2], "big"), ConsumerProtocolAssignment.VERSIONS[1])
    try:
        found, _ = decode(ConsumerProtocolAssignment, memoryview(data), version, 2)
    except WireError:
        return []
    return sorted(TopicPartition(each.topic, index) for each in found.assigned_partitions for index in each.partitions)
