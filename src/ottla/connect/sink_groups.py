"""The consumer groups of sinks on the cluster: their committed offsets are read, set and forgotten through the client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition, why_unreached
from ottla.client import Client, client_network, commit_offsets, committed_offsets, delete_group, delete_offsets
from ottla.connect.errors import ConnectError
from ottla.connect.herder import GroupBusyError

__all__ = ["ClientSinkGroups"]

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
        with _asking(group):
            return {each: found.offset for each, found in (await committed_offsets(self._client, group)).items()}

    async def alter(self, group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        """See `SinkGroups`; raises ConnectError for a topic that there is not, as Kafka does."""
        await self._refuse_unknown({each.topic for each in offsets})
        kept = {each: Offset(offset) for each, offset in offsets.items() if offset is not None}
        if kept:
            with _asking(group):
                await commit_offsets(self._client, group, kept)
        forgotten = [each for each, offset in offsets.items() if offset is None]
        if forgotten:
            with _asking(group):
                code, codes = await delete_offsets(self._client, group, forgotten)
            _refuse(group, [code, *codes.values()])

    async def delete(self, group: str) -> None:
        """See `SinkGroups`."""
        with _asking(group):
            code = await delete_group(self._client, group)
        _refuse(group, [code])

    @asynccontextmanager
    async def elsewhere(self, bootstrap: str, security: Mapping[str, str]) -> AsyncIterator[ClientSinkGroups]:
        """See `SinkGroups`; raises ConfigError for addresses that are none, and for what cannot be honoured."""
        async with Client(bootstrap, client_id="connect-offsets", network=client_network(security)) as client:
            yield ClientSinkGroups(client)

    async def _refuse_unknown(self, topics: set[str]) -> None:
        try:
            cluster = await self._client.metadata(sorted(topics))
        except (KafkaError, OSError) as error:
            raise ConnectError(f"The topics cannot be looked up: {why_unreached(error)}") from error
        missing = sorted(each for each in topics if each not in cluster.topics or cluster.topics[each].error)
        if missing:
            raise ConnectError(f"There is no topic {', '.join(missing)}")


@contextmanager
def _asking(group: str) -> Iterator[None]:
    """Say what went wrong in Connect's errors."""
    try:
        yield
    except KafkaError as error:
        if error.code in _BUSY:
            raise GroupBusyError(f"Group {group} has members: {error.code.name}") from error
        raise ConnectError(f"Group {group} cannot be asked: {error}") from error
    except OSError as error:
        raise ConnectError(f"Group {group} cannot be asked: {why_unreached(error)}") from error


def _refuse(group: str, codes: Iterable[ErrorCode]) -> None:
    """Raise for the first code that is more than the group's absence."""
    for code in codes:
        if code in _BUSY:
            raise GroupBusyError(f"Group {group} has members: {code.name}")
        if code not in _NO_GROUP:
            raise ConnectError(f"Group {group}: {code.name}")
