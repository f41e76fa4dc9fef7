"""Pull queries answered: from tables that are followed, and from streams as they are at the moment.

A table is followed from its first query on. An answer is what has been read so far: by default as new as the topic's end was
when the table began to be followed, and from then on as far as the follower is, which the answer tells as its position.
`ottla.sql.pull.consistency=latest` waits for the topic's end at the time of the query, `ottla.sql.pull.position` for a
place.
Several tables of one query are looked into at one moment, which their positions name.
"""

from __future__ import annotations

import asyncio
import bisect
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from ottla.base import TopicPartition
from ottla.client import Client
from ottla.sql import SqlError
from ottla.sql.answers import (
    ComposedQuery,
    FormatError,
    PullQuery,
    Shapes,
    TableRows,
    composed_query,
    is_composed,
    is_light,
    pull_query,
)
from ottla.sql.commands import ServerState, Source
from ottla.sql.expressions import Row
from ottla.sql.tree import queries as q
from ottla.sql_server.errors import BAD_STATEMENT, TOO_MANY, StatementError
from ottla.sql_server.positions import Positions, position_of
from ottla.sql_server.processing_log import ProcessingLog, log_of
from ottla.sql_server.reading import Learn, TopicReader
from ottla.sql_server.settings import ServerSettings
from ottla.sql_server.tables import FollowedTable, Stored
from ottla.sql_server.turns import Turns
from ottla.streams import Record

__all__ = ["BATCH", "PullAnswer", "Pulling"]

CONSISTENCY, POSITION = "ottla.sql.pull.consistency", "ottla.sql.pull.position"
BATCH = 500
"""Rows that are made before others have their turn; fewer of a table are all."""
LIGHT_KEYS_MAX = 100
"""Keys of a light query that are looked up at once; more are looked up in a thread."""
WAIT_MS = 200
BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@dataclass(frozen=True, slots=True)
class PullAnswer:
    """An answer: its columns, how far the topic was read, and its rows as they are found."""

    query: PullQuery | ComposedQuery
    position: Mapping[str, Mapping[str, int]]
    rows: AsyncGenerator[list[Row], None]
    of_table: bool = True


class Latency:
    """How long queries took from their first look into a table, as a histogram of seconds."""

    def __init__(self) -> None:
        self._counts = [0] * len(BUCKETS_S)
        self._count, self._sum_s = 0, 0.0

    def add(self, seconds: float) -> None:
        """Count a query."""
        self._count += 1
        self._sum_s += seconds
        for at in range(bisect.bisect_left(BUCKETS_S, seconds), len(BUCKETS_S)):
            self._counts[at] += 1

    def samples(self) -> list[tuple[str, str, float]]:
        """Return Prometheus' samples: what stands behind the name, labels, and the value."""
        found = [("_bucket", f'{{le="{each:g}"}}', float(n)) for each, n in zip(BUCKETS_S, self._counts, strict=True)]
        found.append(("_bucket", '{le="+Inf"}', float(self._count)))
        return [*found, ("_sum", "", self._sum_s), ("_count", "", float(self._count))]


class Pulling:
    """Answers pull queries."""

    def __init__(
        self,
        settings: ServerSettings,
        make_client: Callable[[str], Client],
        state: Callable[[], ServerState],
        later: Callable[[Callable[[], Awaitable[None]], str], None],
        turns: Turns,
        learn: Learn | None = None,
    ) -> None:
        """`later` has something done beside what is asked; `learn` is the readers'."""
        self._learn, self._turns = learn, turns
        self._settings, self._make_client, self._state, self._later = settings, make_client, state, later
        self._tables: dict[str, FollowedTable] = {}
        self._beginning: dict[str, asyncio.Lock] = {}
        self._shapes = Shapes()
        self._positions = Positions(settings, make_client, state)
        self.running = 0
        """Queries that are being answered."""
        self.answered = 0
        self.latency = Latency()

    async def close(self) -> None:
        """Follow no table any more."""
        for each in self._tables.values():
            await each.close()
        self._tables.clear()
        await self._positions.close()

    @property
    def followed(self) -> int:
        """How many tables are followed."""
        return len(self._tables)

    @property
    def failed(self) -> list[str]:
        """The tables that are followed no more, and that no query has asked for since: the next one reads them anew."""
        return sorted(name for name, table in self._tables.items() if table.failure is not None)

    @property
    def rows(self) -> int:
        """How many rows they have."""
        return sum(each.count for each in self._tables.values())

    def forget_dropped(self, state: ServerState) -> None:
        """Let tables go that are not what they were."""
        for name, table in list(self._tables.items()):
            if state.catalogue.sources.get(name) != table.source:
                self._forget(name)

    # -- answering

    async def answer(self, query: q.Query, text: str, properties: Mapping[str, str]) -> PullAnswer:
        """Begin to answer; raises SqlError, StatementError, KafkaError."""
        settings = self._settings
        if not settings.pulls:
            raise StatementError(
                BAD_STATEMENT, "Pull queries are disabled. Set ksql.pull.queries.enable to true to allow them.", text
            )
        properties = self._state().settings_under(properties)
        scans = properties.get("ksql.query.pull.table.scan.enabled", str(settings.scans)).lower() == "true"
        given = {**settings.properties, **properties}
        if is_composed(query):
            return await self._composed(query, text, given, properties, scans=scans)
        catalogue = self._state().catalogue
        found = await self._planned(
            query, lambda: pull_query(query, catalogue, given, scans=scans, shapes=self._shapes)
        )
        if found.source.kind == "STREAM":
            return await self._of_stream(found)
        table = await self._table(found.source)
        try:
            await self._as_new_as(properties, [table])
            table.check()
            return PullAnswer(found, _told(table.position), self._rows(table, found))
        finally:
            table.release()

    async def _composed(
        self, query: q.Query, text: str, given: Mapping[str, str], properties: Mapping[str, str], *, scans: bool
    ) -> PullAnswer:
        """Answer a query over several tables, or one with groups or an order."""
        catalogue = self._state().catalogue
        found = await self._turns.run(lambda: composed_query(query, catalogue, given, scans=scans))
        tables: dict[str, FollowedTable] = {}
        try:
            for each in found.tables:
                if each.source.name not in tables:
                    tables[each.source.name] = await self._table(each.source)
            await self._as_new_as(properties, list(tables.values()))
            async with AsyncExitStack() as still:  # what is read is of one moment: no table moves until all is read
                for _, each_table in sorted(tables.items()):
                    await still.enter_async_context(each_table.still)
                    each_table.check()
                rows = await self._turns.run(partial(found.begin, _Reading(tables, self._settings.limits.pull_rows)))
                position = {topic: told for each in tables.values() for topic, told in _told(each.position).items()}
        finally:
            for each_table in tables.values():
                each_table.release()
        return PullAnswer(found, position, self._in_turns(rows))

    async def _planned(self, query: q.Query, plan: Callable[[], PullQuery]) -> PullQuery:
        """Plan a query: one that is light, and known but for its condition, at once, since that takes less than a turn."""
        if is_light(query) and self._shapes.know(query, self._state().catalogue):
            return plan()
        return await self._turns.run(plan)

    async def _as_new_as(self, properties: Mapping[str, str], tables: Sequence[FollowedTable]) -> None:
        """Return when tables are as new as a query wants them; raises SqlError."""
        name = ", ".join(each.source.name for each in tables)
        wanted = properties.get(POSITION)
        if wanted:
            await self._in_time(self._positions.reached(position_of(wanted), tables), name)
        if properties.get(CONSISTENCY, "").lower() == "latest":
            await self._in_time(_all_to_end(tables), name)

    async def _in_turns(self, rows: Iterator[Row | None]) -> AsyncGenerator[list[Row], None]:
        with self._counted():
            async for batch in self._turns.batches(rows, BATCH):
                yield batch

    @contextmanager
    def _counted(self) -> Iterator[None]:
        limit = self._settings.limits.pull_queries
        if self.running >= limit:
            raise StatementError(
                TOO_MANY,
                f"Host is at concurrent limit for pull queries. Currently set to {limit} maximum concurrent requests "
                "(ksql.query.pull.max.concurrent.requests).",
            )
        self.running += 1
        begun_s = time.monotonic()
        try:
            yield
        finally:
            self.running -= 1
            self.answered += 1
            self.latency.add(time.monotonic() - begun_s)

    async def _rows(self, table: FollowedTable, query: PullQuery) -> AsyncGenerator[list[Row], None]:
        keys = query.wanted.keys
        if table.is_closed:  # it made room for another, or was dropped, before its rows were wanted
            table = await self._table(query.source)
        else:
            table.hold()
        try:
            with self._counted():
                rows = query.turns(self._bounded(table.found(query.wanted), query))
                if query.is_light and keys is not None and len(keys) <= LIGHT_KEYS_MAX:
                    yield [row for row in rows if row is not None]
                    return
                async for batch in self._turns.batches(rows, BATCH):
                    yield batch
        finally:
            table.release()

    def _bounded(self, rows: Iterator[Row], query: PullQuery) -> Iterator[Row]:
        """Rows to look at; raises where a scan is longer than is allowed."""
        most = self._settings.limits.pull_rows
        for number, row in enumerate(rows):
            if number >= most and query.wanted.keys is None:
                raise _too_many(most, query.source.name, "a smaller range of them, or a LIMIT")
            yield row

    # -- tables

    async def _table(self, source: Source) -> FollowedTable:
        """Return a table that has been read to its end, held: whoever asked for it releases it."""
        lock = self._beginning.setdefault(source.name, asyncio.Lock())
        async with lock:
            table = self._tables.get(source.name)
            if table is not None and (table.failure is not None or table.source != source):
                self._forget(source.name)
                table = None
            if table is None:
                table = await self._begun(source)
            else:
                table.hold()
        table.last_asked_s = time.monotonic()
        return table

    async def _begun(self, source: Source) -> FollowedTable:
        """Begin to follow a table, which keeps its place meanwhile, and return it held when it has been read to its end."""
        await self._make_room()
        table = self._tables[source.name] = self._made(source)
        table.hold()
        try:
            await table.start()
            await self._in_time(_all_to_end([table]), source.name)
        except BaseException:
            table.release()
            if self._tables.get(source.name) is table:
                del self._tables[source.name]
            await table.close()
            raise
        is_old = self._state().catalogue.sources.get(source.name) != source
        if is_old and self._tables.get(source.name) is table:  # dropped or replaced since the query was planned
            self._forget(source.name)
        return table

    def _forget(self, name: str) -> None:
        """Follow a table no more, once those who have it have released it."""
        self._later(self._tables.pop(name).close, f"forget {name}")

    def _made(self, source: Source) -> FollowedTable:
        reader = TopicReader(self._make_client("table"), [source.topic], self._learn)
        return FollowedTable(source, reader, ProcessingLog(source.name, log_of(self._settings, {source.topic})))

    async def _in_time(self, waiting: Awaitable[None], name: str) -> None:
        limit = self._settings.limits.pull_timeout_s
        try:
            async with asyncio.timeout(limit):
                await waiting
        except TimeoutError:
            raise SqlError(f"{name} was not read within {limit:g} s (ottla.sql.pull.timeout.ms); ask again") from None

    async def _make_room(self) -> None:
        """Let the table go that was asked for longest ago, where there are too many; raises StatementError."""
        limit = self._settings.limits.followed_tables
        while len(self._tables) >= limit:
            idle = [each for each, table in self._tables.items() if not table.users]
            if not idle:
                raise StatementError(
                    TOO_MANY,
                    f"Queries look at {limit} tables at the moment, which is as many as this server follows "
                    "(ottla.sql.followed.tables.max).",
                )
            name = min(idle, key=lambda each: self._tables[each].last_asked_s)
            await self._tables.pop(name).close()

    # -- streams

    async def _of_stream(self, query: PullQuery) -> PullAnswer:
        """All rows that a stream has now."""
        reader = TopicReader(self._make_client("stream"), [query.source.topic], self._learn)
        try:
            await reader.begin("earliest")
            ends = await reader.ends()
        except BaseException:
            await reader.close()
            raise
        position = {str(each.partition): end for each, end in ends.items()}
        rows = self._read(reader, dict(ends), query)
        return PullAnswer(query, {query.source.topic: position}, rows, of_table=False)

    async def _read(
        self, reader: TopicReader, ends: Mapping[TopicPartition, int], query: PullQuery
    ) -> AsyncGenerator[list[Row], None]:
        with self._counted():
            try:
                left = query.limit
                while not reader.is_past(ends) and left != 0:
                    records = await reader.read(WAIT_MS)
                    before = [
                        each for each in records if each.offset < ends[TopicPartition(each.topic, each.partition)]
                    ]
                    async for batch in self._turns.batches(query.turns(_stream_rows(before, query)), BATCH):
                        rows = batch if left is None else batch[:left]
                        left = None if left is None else left - len(rows)
                        if rows:
                            yield rows
                        if left == 0:
                            break
            finally:
                await reader.close()


class _Reading:
    """Tables read for one query, which counts the rows that it holds."""

    def __init__(self, tables: Mapping[str, FollowedTable], most: int) -> None:
        self._tables, self._most, self._left = tables, most, most

    def __call__(self, wanted: TableRows) -> list[Stored]:
        """Take rows of a table; raises StatementError for too many."""
        found = self._tables[wanted.source.name].taken(wanted, self._left)
        self.made(len(found), wanted.source.name)
        return found

    def decoded(self, wanted: TableRows, stored: Iterable[Stored]) -> Iterator[Row | None]:
        """Return what rows are."""
        return self._tables[wanted.source.name].decoded(stored)

    def made(self, count: int, name: str = "its tables, joined") -> None:
        """Count rows."""
        self._left -= count
        if self._left < 0:
            raise _too_many(self._most, name, "or a smaller range of them")


def _too_many(most: int, name: str, instead: str) -> StatementError:
    words = f"The query looks at more than {most} rows of {name} (ottla.sql.pull.rows.max). Name keys, {instead}."
    return StatementError(BAD_STATEMENT, words)


async def _all_to_end(tables: Iterable[FollowedTable]) -> None:
    for table in tables:
        await table.wait_for(await table.ends())


def _told(position: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for place, offset in position.items():
        found.setdefault(place.topic, {})[str(place.partition)] = offset
    return found


def _stream_rows(records: list[Record], query: PullQuery) -> Iterator[Row]:
    """Rows of a stream, as its columns and the pseudo columns."""
    source = query.source
    key_codec, value_codec = source.layout.key_codec(source.schema), source.layout.value_codec(source.schema)
    keys, values = len(source.schema.key), len(source.schema.value)
    for record in records:
        try:
            key, value = key_codec.decode(record.key), value_codec.decode(record.value)
        except FormatError:
            continue
        if value is None:
            continue
        in_key, in_value = iter(key or (None,) * keys), iter(value or (None,) * values)
        columns = [
            next(in_key)
            if each.place == "key"
            else next(in_value)
            if each.place == "value"
            else _header(record, each.header_key)
            for each in source.schema.columns
        ]
        yield (*columns, record.timestamp, record.partition, record.offset)


def _header(record: Record, name: str | None) -> object:
    if name is None:
        return [{"KEY": key, "VALUE": value} for key, value in record.headers]
    return next((value for key, value in reversed(record.headers) if key == name), None)
