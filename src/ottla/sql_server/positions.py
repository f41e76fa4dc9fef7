"""Waiting for a position: that a table is as new as somebody has seen it, or has all that somebody has written.

A position is `{"topic": {"partition": offset}}`, offsets being the next ones. That of a table's own topic, as answers tell
it, is reached when the topic has been followed so far. That of a topic which the table's query reads is reached when the
query has committed it, and all that it led to on the way (repartition topics) and in the table's topic has been read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.base import TopicPartition
from ottla.client import LATEST, Client, committed_offsets
from ottla.sql import SqlError
from ottla.sql.answers import application_id
from ottla.sql.commands import PersistentQuery, ServerState
from ottla.sql_server.settings import ServerSettings
from ottla.sql_server.tables import FollowedTable
from ottla.sql_server.topics import internal_topics

__all__ = ["Positions", "position_of"]

LOOK_SECONDS = 0.02
Ends = Mapping[TopicPartition, int]


def position_of(text: str) -> dict[str, dict[int, int]]:
    """Return the position that a property says; raises SqlError."""
    try:
        return {
            topic: {int(number): int(offset) for number, offset in offsets.items()}
            for topic, offsets in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise SqlError(
            'ottla.sql.pull.position has to be an object of topics, partitions and offsets: {"topic": {"0": 12}}'
        ) from None


class Positions:
    """Waits for positions; its client is made when it is needed."""

    def __init__(
        self, settings: ServerSettings, make_client: Callable[[str], Client], state: Callable[[], ServerState]
    ) -> None:
        self._settings, self._make_client, self._state = settings, make_client, state
        self._client: Client | None = None

    async def close(self) -> None:
        """Close the client."""
        if self._client is not None:
            await self._client.close()

    async def reached(self, position: Mapping[str, Mapping[int, int]], tables: Sequence[FollowedTable]) -> None:
        """Return when tables are at a position; raises SqlError for a topic that says nothing of them."""
        queries = {table.source.name: self._query(table) for table in tables}
        for topic, offsets in position.items():
            wanted = {TopicPartition(topic, number): offset for number, offset in offsets.items()}
            own = [each for each in tables if each.source.topic == topic]
            behind = [each for each in tables if topic in self._topics(queries[each.source.name])]
            if not own and not behind:
                names = ", ".join(each.source.name for each in tables)
                raise SqlError(f"ottla.sql.pull.position names topic {topic}, which is not read for {names}")
            for table in own:
                _check(wanted, table.position)
                await table.wait_for(wanted)
            for table in behind:
                query = queries[table.source.name]
                assert query is not None, topic
                await self._passed(query, wanted)
                await table.wait_for(await table.ends(committed=False))

    def _query(self, table: FollowedTable) -> PersistentQuery | None:
        made_by = table.source.made_by
        return None if made_by is None else self._state().queries.get(made_by)

    def _topics(self, query: PersistentQuery | None) -> frozenset[str]:
        if query is None:
            return frozenset()
        catalogue = self._state().catalogue
        return frozenset(catalogue.sources[each].topic for each in query.sources if each in catalogue.sources)

    async def _passed(self, query: PersistentQuery, wanted: Ends) -> None:
        """Return when a query has committed what it has read so far, and what that led to on its way."""
        client = self._client = self._client or self._make_client("positions")
        group = application_id(self._settings.service_id, query.id)
        await _committed(client, group, wanted)
        there = (await internal_topics(client, self._settings.service_id)).get(query.id, ())
        between = [each for each in there if each.endswith("-repartition")]
        await client.metadata(between)
        places = [place for topic in between for place in client.cluster.partitions_of(topic)]
        for _ in between:  # each may lead to the next, in an order that their names do not tell
            ends = await client.list_offsets(dict.fromkeys(places, LATEST))
            await _committed(client, group, {place: int(found.check().offset) for place, found in ends.items()})


def _check(wanted: Ends, known: Iterable[TopicPartition]) -> None:
    for place in wanted:
        if place not in known:
            raise SqlError(f"ottla.sql.pull.position names partition {place.partition}, which {place.topic} has not")


async def _committed(client: Client, group: str, wanted: Ends) -> None:
    """Return when a group has committed offsets; nothing was read where the end is 0."""
    left = {place: offset for place, offset in wanted.items() if offset > 0}
    while left:
        found = await committed_offsets(client, group, left)
        left = {place: offset for place, offset in left.items() if place not in found or found[place].offset < offset}
        if left:
            await asyncio.sleep(LOOK_SECONDS)
