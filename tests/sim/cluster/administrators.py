"""Administrators of a simulated cluster: topics come, grow, change and go; replicas move; preferred leaders are elected."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.base import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.sim.client import NoAnswer
from tests.sim.cluster.client import MOVING, Application, Clients
from tests.sim.ledger import Violation

__all__ = ["Registry", "administer", "create_core_topic", "look_at_topics", "reassign"]

TOPIC_RESOURCE, TOPIC_CONFIG_SOURCE = 2, 1
RETRY_S = 0.2
UNCERTAIN = {*MOVING, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_PARTITIONS}
"""What may come after a request whose answer was lost, and what passes."""
REFUSED = {ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
"""Nothing was done, for the time being."""
STILL = {
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ErrorCode.REASSIGNMENT_IN_PROGRESS,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
}
RETENTION = "retention.ms"
Shape = tuple[int, str]
"""Partitions, and the retention that was set."""


@dataclass
class _Entry:
    """A topic of the administrator's: the shapes it may have now, None for absent."""

    may_be: set[Shape | None] = field(default_factory=lambda: {None})


@dataclass
class Registry:
    """What administrators were told."""

    topics: dict[str, _Entry] = field(default_factory=dict)


async def create_core_topic(
    clients: Clients, name: str, partitions: int, configs: dict[str, str], *, replication_factor: int = 3
) -> None:
    """Create a topic that stays, trying until it is there."""
    application = Application(clients, "admin")
    request = CreateTopicsRequest(
        topics=[_creatable(name, partitions, replication_factor, configs)],
        timeout_ms=3000,
    )
    while True:
        try:
            answer = await application.ask(await application.anyone(), request, CreateTopicsResponse, 7)
            code = ErrorCode(answer.topics[0].error_code)
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                metadata = await application.refresh(name)
                if metadata.topics[0].error_code == 0 and len(metadata.topics[0].partitions) == partitions:
                    clients.ledger.created(name, metadata.topics[0].topic_id, partitions)
                    application.close()
                    return
            elif code not in UNCERTAIN | REFUSED:
                raise Violation(f"creating {name}: {code.name} {answer.topics[0].error_message}")
        except NoAnswer:
            pass
        application.leave_any()
        await asyncio.sleep(RETRY_S)


def _creatable(name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


async def administer(clients: Clients, registry: Registry, stop: asyncio.Event) -> None:
    """Create, grow, configure and delete topics; elect preferred leaders."""
    application = Application(clients, "administrator")
    number = 0
    while not stop.is_set():
        number += 1
        act = clients.rng.choice((_create, _create, _delete, _grow, _configure, _elect))
        try:
            await act(application, registry, number)
        except NoAnswer:
            application.leave_any()
            await asyncio.sleep(RETRY_S)
        await asyncio.sleep(1.2 * clients.rng.random())
    application.close()


async def _create(application: Application, registry: Registry, number: int) -> None:
    rng = application.clients.rng
    name, partitions, retention = f"churn-{number}", 1 + rng.randrange(2), str(3_600_000 + number)
    entry = registry.topics.setdefault(name, _Entry())
    entry.may_be.add((partitions, retention))
    request = CreateTopicsRequest(topics=[_creatable(name, partitions, 3, {RETENTION: retention})], timeout_ms=3000)
    answer = await application.ask(await application.anyone(), request, CreateTopicsResponse)
    code = ErrorCode(answer.topics[0].error_code)
    if _was_done(application, code, f"creating {name}"):
        entry.may_be = {(partitions, retention)}
        application.clients.trace.note(f"created {name}")
    elif code in REFUSED:
        entry.may_be.discard((partitions, retention))


def _was_done(application: Application, code: ErrorCode, what: str) -> bool:
    if code is ErrorCode.NONE:
        return True
    if code not in UNCERTAIN | REFUSED:
        raise Violation(f"{what}: {code.name}")
    application.leave_any()
    return False


def _certain(application: Application, registry: Registry) -> tuple[str, _Entry, Shape] | None:
    """Return some topic of which all is known and which is there."""
    certain = [
        (name, entry, shape)
        for name, entry in registry.topics.items()
        if len(entry.may_be) == 1
        for shape in entry.may_be
        if shape is not None
    ]
    return application.clients.rng.choice(certain) if certain else None


async def _delete(application: Application, registry: Registry, number: int) -> None:
    found = _certain(application, registry)
    if found is None:
        return
    name, entry, _ = found
    entry.may_be.add(None)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=3000)
    answer = await application.ask(await application.anyone(), request, DeleteTopicsResponse, 6)
    if _was_done(application, ErrorCode(answer.responses[0].error_code), f"deleting {name}"):
        entry.may_be = {None}
        application.clients.trace.note(f"deleted {name}")


async def _grow(application: Application, registry: Registry, number: int) -> None:
    found = _certain(application, registry)
    if found is None:
        return
    name, entry, (partitions, retention) = found
    wanted = (partitions + 1, retention)
    entry.may_be.add(wanted)
    topic = CreatePartitionsTopic(name=name, count=partitions + 1, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=3000)
    answer = await application.ask(await application.anyone(), request, CreatePartitionsResponse)
    if _was_done(application, ErrorCode(answer.results[0].error_code), f"growing {name}"):
        entry.may_be = {wanted}


async def _configure(application: Application, registry: Registry, number: int) -> None:
    found = _certain(application, registry)
    if found is None:
        return
    name, entry, (partitions, _) = found
    wanted = (partitions, str(7_200_000 + number))
    entry.may_be.add(wanted)
    resource = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE,
        resource_name=name,
        configs=[AlterableConfig(name=RETENTION, config_operation=0, value=wanted[1])],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = await application.ask(await application.anyone(), request, IncrementalAlterConfigsResponse)
    if _was_done(application, ErrorCode(answer.responses[0].error_code), f"configuring {name}"):
        entry.may_be = {wanted}


async def _elect(application: Application, registry: Registry, number: int) -> None:
    """Give leaderships back to the first replicas."""
    topics = [
        TopicPartitions(topic=name, partitions=list(range(topic.partitions)))
        for name, topic in application.clients.ledger.topics.items()
    ]
    request = ElectLeadersRequest(election_type=0, topic_partitions=topics, timeout_ms=3000)
    answer = await application.ask(await application.anyone(), request, ElectLeadersResponse)
    for result in answer.replica_election_results:
        for partition in result.partition_result:
            code = ErrorCode(partition.error_code)
            if code not in {ErrorCode.NONE, *MOVING, *STILL}:
                raise Violation(f"electing {result.topic}-{partition.partition_id}: {code.name}")


async def reassign(
    clients: Clients, name: str, topic: str, index: int, nodes: Sequence[int], stop: asyncio.Event
) -> None:
    """Give a partition other replicas, again and again; the last time all three of the first nodes."""
    application = Application(clients, name)
    while True:
        is_last = stop.is_set()
        wanted = list(nodes)
        clients.rng.shuffle(wanted)
        wanted = wanted[: 3 if is_last else 2 + clients.rng.randrange(2)]
        cancels = not is_last and clients.rng.random() < 0.2
        partition = ReassignablePartition(partition_index=index, replicas=None if cancels else wanted)
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=[partition])], timeout_ms=3000
        )
        try:
            answer = await application.ask(await application.anyone(), request, AlterPartitionReassignmentsResponse, 0)
            code = ErrorCode(answer.error_code)
            if code is ErrorCode.NONE:
                code = ErrorCode(answer.responses[0].partitions[0].error_code)
            if code not in {ErrorCode.NONE, *MOVING, *STILL}:
                raise Violation(f"reassigning {topic}-{index} to {wanted}: {code.name}")
            clients.trace.note(f"reassign {topic}-{index} to {wanted}: {code.name}")
            if code is ErrorCode.NONE and is_last:
                break
        except NoAnswer:
            pass
        application.leave_any()
        await asyncio.sleep(0.3 + (0.0 if stop.is_set() else 2.5 * clients.rng.random()))
    application.close()


async def look_at_topics(clients: Clients, registry: Registry) -> None:
    """Every topic and its configuration are as somebody was told, or as an unanswered request may have left them."""
    application = Application(clients, "last administrator")
    request = MetadataRequest(topics=None)
    answer = await application.ask(await application.anyone(), request, MetadataResponse, 12)
    found = {topic.name: len(topic.partitions) for topic in answer.topics if topic.name is not None}
    for name, topic in clients.ledger.topics.items():
        if found.get(name) != topic.partitions:
            raise Violation(f"topic {name} had {topic.partitions} partitions and has {found.get(name)}")
    present = [name for name in registry.topics if name in found]
    retentions = await _retentions(application, present) if present else {}
    for name, entry in registry.topics.items():
        shape = (found[name], retentions.get(name, "")) if name in found else None
        if shape not in entry.may_be:
            raise Violation(f"topic {name} is {shape}, and may be {sorted(map(str, entry.may_be))}")
    application.close()


async def _retentions(application: Application, names: list[str]) -> dict[str, str]:
    resources = [
        DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
        for name in names
    ]
    request = DescribeConfigsRequest(resources=resources)
    answer = await application.ask(await application.anyone(), request, DescribeConfigsResponse)
    return {
        result.resource_name: next((each.value or "" for each in result.configs if each.name == RETENTION), "")
        for result in answer.results
    }
