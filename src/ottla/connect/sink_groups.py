"""The consumer groups of sinks on the cluster: their committed offsets are read, set and forgotten through the client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from ottla.base import ErrorCode, KafkaError, TopicPartition
from ottla.client import Client, Coordinated
from ottla.connect.errors import ConnectError
from ottla.connect.herder import GroupBusyError
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
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
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

__all__ = ["ClientSinkGroups"]

_GROUPS_FROM, _NAMES_UNTIL = 8, 9
"""OffsetFetch asks for groups from version 8 on, and names topics (instead of ids) until version 9."""
_BUSY = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.ILLEGAL_GENERATION,
}
_NO_GROUP = {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}


class ClientSinkGroups:
    """`SinkGroups` of the cluster that a client asks."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def committed(self, group: str) -> Mapping[TopicPartition, int]:
        """See `SinkGroups`; raises ConnectError where the cluster does not answer."""
        message = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        response = await self._ask(group, message, lowest=_GROUPS_FROM, highest=_NAMES_UNTIL)
        (found,) = response.groups
        _refuse(group, [found.error_code], allowed=_NO_GROUP)
        return {
            TopicPartition(topic.name, each.partition_index): each.committed_offset
            for topic in found.topics
            for each in topic.partitions
            if each.committed_offset >= 0
        }

    async def alter(self, group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        """See `SinkGroups`; raises ConnectError for a topic that there is not, as Kafka does."""
        await self._refuse_unknown({each.topic for each in offsets})
        kept = {each: offset for each, offset in offsets.items() if offset is not None}
        if kept:
            await self._commit(group, kept)
        forgotten = [each for each, offset in offsets.items() if offset is None]
        if forgotten:
            await self._forget(group, forgotten)

    async def delete(self, group: str) -> None:
        """See `SinkGroups`."""
        response = await self._ask(group, DeleteGroupsRequest(groups_names=[group]))
        _refuse(group, [each.error_code for each in response.results], allowed=_NO_GROUP)

    @asynccontextmanager
    async def elsewhere(self, bootstrap: str) -> AsyncIterator[ClientSinkGroups]:
        """See `SinkGroups`; raises ConfigError for addresses that are none."""
        async with Client(bootstrap, client_id="connect-offsets") as client:
            yield ClientSinkGroups(client)

    async def _refuse_unknown(self, topics: set[str]) -> None:
        try:
            cluster = await self._client.metadata(sorted(topics))
        except (KafkaError, OSError) as error:
            raise ConnectError(f"The topics cannot be looked up: {error}") from error
        missing = sorted(each for each in topics if each not in cluster.topics or cluster.topics[each].error)
        if missing:
            raise ConnectError(f"There is no topic {', '.join(missing)}")

    async def _commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=each.partition, committed_offset=offsets[each], committed_metadata=""
                    )
                    for each in partitions
                ],
            )
            for name, partitions in _by_topic(offsets).items()
        ]
        message = OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=-1, member_id="", group_instance_id=None, topics=topics
        )
        response = await self._ask(group, message, highest=_NAMES_UNTIL)
        _refuse(group, [each.error_code for topic in response.topics for each in topic.partitions])

    async def _forget(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        topics = [
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=each.partition) for each in found],
            )
            for name, found in _by_topic(partitions).items()
        ]
        response = await self._ask(group, OffsetDeleteRequest(group_id=group, topics=topics))
        inner = [each.error_code for topic in response.topics for each in topic.partitions]
        _refuse(group, [response.error_code, *inner], allowed=_NO_GROUP)

    async def _ask(self, group: str, message: Any, *, lowest: int = 0, highest: int | None = None) -> Any:
        try:
            return await self._client.request(
                message, coordinator_of=Coordinated(group), lowest=lowest, highest=highest
            )
        except (KafkaError, OSError) as error:
            raise ConnectError(f"Group {group} cannot be asked: {error}") from error


def _refuse(group: str, codes: Iterable[int], *, allowed: Collection[ErrorCode] = (ErrorCode.NONE,)) -> None:
    for number in codes:
        code = ErrorCode(number)
        if code in _BUSY:
            raise GroupBusyError(f"Group {group} has members: {code.name}")
        if code not in allowed:
            raise ConnectError(f"Group {group}: {code.name}")


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each)
    return found
