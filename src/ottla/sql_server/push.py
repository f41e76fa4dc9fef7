"""Push queries: each a task of this server over the topics that it reads, until its client goes, its LIMIT is reached, or
somebody closes it. Its state is nowhere else, and what the client does not take is not read.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from ottla.client import Client
from ottla.sql.answers import OneTask, formats_text, plan_select, record_text
from ottla.sql.commands import ServerState
from ottla.sql.expressions import Row
from ottla.sql.tree import queries as q
from ottla.sql.tree import statements as s
from ottla.sql.types import SqlType, backticked
from ottla.sql_server.errors import PUSH_LIMIT, StatementError
from ottla.sql_server.processing_log import ProcessingLog, log_of
from ottla.sql_server.reading import Learn, TopicReader
from ottla.sql_server.session_properties import allowed, of_streams
from ottla.sql_server.settings import ServerSettings
from ottla.sql_server.turns import Turns
from ottla.streams import Record

__all__ = ["PushQuery", "Pushing"]

WAIT_MS = 500
BATCH = 500
RESET = "auto.offset.reset"


@dataclass(slots=True)
class PushQuery:
    """A push query that runs."""

    id: str
    statement: str
    names: tuple[str, ...]
    types: tuple[SqlType, ...]
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    rows: int = 0
    reached_limit: bool = False

    @property
    def schema_text(self) -> str:
        """The columns as a header of an answer tells them."""
        return ", ".join(f"{backticked(name)} {type_}" for name, type_ in zip(self.names, self.types, strict=True))


class Pushing:
    """Runs push queries, and PRINT."""

    def __init__(
        self,
        name: str,
        settings: ServerSettings,
        make_client: Callable[[str], Client],
        state: Callable[[], ServerState],
        turns: Turns,
        learn: Learn | None = None,
    ) -> None:
        """`name` is in the ids of queries: other servers have others; `learn` is the readers'."""
        self._learn, self._turns = learn, turns
        self._name, self._settings, self._make_client, self._state = name, settings, make_client, state
        self._numbers = itertools.count(1)
        self.queries: dict[str, PushQuery] = {}
        self._planned = 0
        """Queries that are planned at the moment, and run when they are."""
        self.rows = 0
        """That were given so far."""

    async def close(self) -> None:
        """End every query."""
        for each in self.queries.values():
            each.closing.set()

    def end(self, id_: str) -> bool:
        """End a query, named in any case of letters, as SQL does; returns whether it ran."""
        found = next((each for each in self.queries.values() if id_.upper() == each.id.upper()), None)
        if found is not None:
            found.closing.set()
        return found is not None

    async def begin(
        self, query: q.Query, text: str, properties: Mapping[str, str]
    ) -> tuple[PushQuery, AsyncGenerator[list[Row], None]]:
        """Begin a query; returns it and its rows as they come. Raises SqlError, StatementError where there are too many."""
        limit = self._settings.limits.push_queries
        if len(self.queries) + self._planned >= limit:
            raise StatementError(
                PUSH_LIMIT,
                f"Maximum number of push queries exceeded: {limit} run on this server (max.push.queries).",
            )
        id_ = f"transient_{query.source.name}_{self._name}_{next(self._numbers)}"
        state = self._state()
        session = state.settings_under(properties)
        given = {**self._settings.properties, **session}

        def begun() -> tuple[PushQuery, OneTask]:
            plan = plan_select(query, state.catalogue, given, id_)
            columns = plan.sink.schema.value
            found = PushQuery(id_, text, tuple(each.name for each in columns), tuple(each.type for each in columns))
            return found, OneTask(
                plan, ProcessingLog(id_, log_of(self._settings, {each.topic for each in plan.sources}))
            )

        self._planned += 1
        try:
            found, task = await self._turns.run(begun)
        finally:
            self._planned -= 1
        where = of_streams(allowed(session)).get(RESET) or self._settings.streams.get(RESET, "latest")
        self.queries[id_] = found
        return found, self._rows(found, task, where, query.limit)

    async def _rows(
        self, query: PushQuery, task: OneTask, where: str, limit: int | None
    ) -> AsyncGenerator[list[Row], None]:
        reader = TopicReader(self._make_client(query.id), task.topics, self._learn)
        try:
            await reader.begin(where.lower())
            yield []  # it has begun: what is written from now on is part of it
            while not query.closing.is_set():
                records = await reader.read(WAIT_MS)
                if not records:
                    continue
                async for batch in self._turns.batches(_ticking(task, records), BATCH):
                    rows = batch if limit is None else batch[: limit - query.rows]
                    query.rows += len(rows)
                    self.rows += len(rows)
                    yield rows
                    if query.rows == limit:
                        query.reached_limit = True
                        return
        finally:
            self.queries.pop(query.id, None)
            await reader.close()

    async def printed(self, statement: s.PrintTopic) -> AsyncGenerator[str, None]:
        """Records of a topic as text, until LIMIT or for ever."""
        reader = TopicReader(self._make_client("print"), [statement.topic])
        every, most = statement.interval or 1, statement.limit
        count = seen = 0
        told = False
        try:
            await reader.begin("earliest" if statement.from_beginning else "latest")
            yield ""
            while most is None or count < most:
                records = await reader.read(WAIT_MS)
                if records and not told:
                    told = True
                    yield await self._turns.run(partial(formats_text, records))
                wanted = [record for number, record in enumerate(records, seen) if not number % every]
                seen += len(records)
                if most is not None:
                    wanted = wanted[: most - count]
                count += len(wanted)
                async for texts in self._turns.batches(map(record_text, wanted), BATCH):
                    for each in texts:
                        yield each
        finally:
            await reader.close()


def _ticking(task: OneTask, records: list[Record]) -> Iterator[Row | None]:
    """The rows that records lead to, with None behind each record, so that others may have their turn."""
    for record in _merged(records):
        yield from task.rows((record,))
        yield None


def _merged(records: list[Record]) -> list[Record]:
    """Records of several partitions by their times, each partition's in its own order, as Kafka Streams takes them."""
    queues: dict[tuple[str, int], list[tuple[int, Record]]] = {}
    for record in records:
        queue = queues.setdefault((record.topic, record.partition), [])
        queue.append((max(record.timestamp, queue[-1][0]) if queue else record.timestamp, record))
    return [record for _, record in heapq.merge(*queues.values(), key=lambda each: each[0])]
