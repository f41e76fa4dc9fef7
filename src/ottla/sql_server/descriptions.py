"""What a server tells of its streams, tables, queries and topics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.base import TopicPartition
from ottla.client import EARLIEST, LATEST, committed_offsets
from ottla.sql import SqlError, statement_text
from ottla.sql.answers import application_id, plan_select, topology_of
from ottla.sql.commands import PersistentQuery, Source, decide, entities
from ottla.sql.commands.entities import Entity, entity
from ottla.sql.tree import statements as s
from ottla.sql_server.connectors import ASSERT_SECONDS, LOOK_SECONDS, literal_text
from ottla.sql_server.errors import FAILED_ASSERTION, StatementError
from ottla.sql_server.schemas import ReadRegistry
from ottla.sql_server.session_properties import allowed
from ottla.sql_server.topics import replicas_of

if TYPE_CHECKING:
    from ottla.sql_server.server import SqlServer

__all__ = ["Descriptions"]

INTERNAL = ("__", "_confluent", "_schemas", "_connect")


class Descriptions:
    """Answers questions."""

    def __init__(self, server: SqlServer) -> None:
        self._server = server

    @property
    def _statuses(self) -> dict[str, str]:
        hosts = self._server.hosts
        return {each.id: hosts.status(each)[0] for each in self._server.state.queries.values()}

    # -- streams and tables

    async def sources(self, kind: str, text: str, *, extended: bool) -> Entity:
        """LIST STREAMS or TABLES, and DESCRIBE of all of them."""
        state = self._server.state
        if not extended:
            return entities.sources_entity(kind, text, state)
        found = [each for _, each in sorted(state.catalogue.sources.items()) if each.kind == kind]
        described = [await self._described(each, extended=True) for each in found]
        return entity("source_descriptions", text, sourceDescriptions=described)

    async def source(self, name: str, text: str, *, extended: bool) -> Entity:
        """DESCRIBE of one; raises SqlError where there is none."""
        found = self._server.state.catalogue.sources.get(name)
        if found is None:
            raise SqlError(f"Could not find STREAM/TABLE '{name}' in the Metastore")
        return entity("sourceDescription", text, sourceDescription=await self._described(found, extended=extended))

    async def over(self, topics: Collection[str]) -> list[Entity]:
        """Descriptions of all that is over some topics."""
        sources = self._server.state.catalogue.sources.values()
        return [await self._described(each, extended=False) for each in sources if each.topic in topics]

    async def _described(self, source: Source, *, extended: bool) -> Entity:
        state, statuses = self._server.state, self._statuses
        run = self._server.turns.run  # one with thousands of columns has a long description
        if not extended:
            return await run(lambda: entities.source_description(source, state, statuses, extended=False))
        copies = await replicas_of(self._server.client, source.topic)
        writers = [state.queries[each] for each in state.writers(source.name)]
        described = partial(
            entities.source_description,
            source,
            state,
            statuses,
            extended=True,
            partitions=len(copies),
            replication=max(copies, default=0),
            offsets=[await self._offsets(each) for each in writers],
            statistics=self._statistics(writers),
            errors=self._errors(writers),
        )
        return await run(described)

    async def _offsets(self, query: PersistentQuery) -> Entity:
        """Where a query's group is in the topics that it reads."""
        client, group = self._server.client, application_id(self._server.settings.service_id, query.id)
        sources = self._server.state.catalogue.sources
        topics = [sources[each].topic for each in query.sources if each in sources]
        await client.metadata(topics)
        places = [place for topic in topics for place in client.cluster.partitions_of(topic)]
        first = await client.list_offsets(dict.fromkeys(places, EARLIEST))
        last = await client.list_offsets(dict.fromkeys(places, LATEST))
        committed = await committed_offsets(client, group, places)

        def offsets(topic: str) -> list[Entity]:
            return [
                {
                    "partition": each.partition,
                    "logStartOffset": int(first[each].offset),
                    "logEndOffset": int(last[each].offset),
                    "consumerOffset": _committed(committed, each),
                }
                for each in places
                if each.topic == topic
            ]

        told = [{"kafkaTopic": topic, "offsets": offsets(topic)} for topic in topics]
        return {"groupId": group, "topicSummaries": told}

    def _statistics(self, queries: list[PersistentQuery]) -> str:
        facts = [self._server.hosts.facts(each.id) for each in queries]
        rows, rate = sum(each.get("rows", 0) for each in facts), sum(each.get("rows_per_second", 0.0) for each in facts)
        lag = sum(each.get("lag", 0) for each in facts)
        if not any(facts):
            return ""
        return f"messages-per-sec: {rate:10.2f}   total-messages: {rows:10d}   lag: {lag:10d}"

    def _errors(self, queries: list[PersistentQuery]) -> str:
        found = [self._server.hosts.status(each)[1] for each in queries]
        return "\n".join(each for each in found if each)

    # -- queries

    async def queries(self, text: str, *, extended: bool) -> Entity:
        """LIST QUERIES, push queries among them."""
        server, statuses = self._server, self._statuses
        if extended:
            found = [await self._description(each) for each in server.state.queries.values()]
            return entity("queryDescriptions", text, queryDescriptions=found)
        listed = [entities.query_entry(each, statuses[each.id]) for each in server.state.queries.values()]
        listed += [entities.transient_entry(each.id, each.statement) for each in server.pushing.queries.values()]
        return entity("queries", text, queries=listed)

    async def _description(self, query: PersistentQuery) -> Entity:
        status, error = self._server.hosts.status(query)
        host = self._host
        found = await self._server.turns.run(
            lambda: entities.query_description(query, _topology_text(query.plan), status, host)
        )
        found["overriddenProperties"] = allowed(query.properties)  # what holds, and not what a command may also hold
        if error:
            found["queryErrors"] = [{"timestamp": 0, "errorMessage": error, "type": "UNKNOWN"}]
        return found

    @property
    def _host(self) -> str:
        address = self._server.settings.listeners[0]
        return f"{address.host or 'localhost'}:{address.port}"

    async def explained(self, statement: s.Explain, text: str, properties: Mapping[str, str]) -> Entity:
        """EXPLAIN of a query that runs, or of a statement; raises SqlError."""
        server = self._server
        if statement.query_id is not None:
            found = server.state.queries.get(statement.query_id)
            if found is None:
                raise SqlError(
                    f"Query with id:{statement.query_id} does not exist, use SHOW QUERIES to view the full set of queries."
                )
            return entity("queryDescription", text, queryDescription=await self._description(found))
        inner = statement.statement
        assert inner is not None, text
        query = await server.asking.run(lambda: self._planned(inner, properties))
        host = self._host
        told = await server.turns.run(lambda: entities.query_description(query, _topology_text(query.plan), "", host))
        told |= {"id": "", "sinks": [], "ksqlHostQueryStatus": {}, "state": None}
        return entity("queryDescription", text, queryDescription=told)

    def _planned(self, statement: s.Statement, properties: Mapping[str, str]) -> PersistentQuery:
        """The query that a statement would run; may ask the schema registry, and changes nothing there. Raises SqlError."""
        settings, state = self._server.settings.properties, self._server.state
        if (registry := state.catalogue.registry) is not None:
            state = replace(state, catalogue=replace(state.catalogue, registry=ReadRegistry(registry)))
        if isinstance(statement, s.QueryStatement):
            given = {**settings, **state.settings_under(properties)}
            plan = plan_select(statement.query, state.catalogue, given, "EXPLAIN")
            return PersistentQuery("", statement_text(statement), plan, statement.query, plan.sink, makes_sink=False)
        made = decide(statement, statement_text(statement), state, properties=properties, settings=settings, number=0)
        id_ = None if made.expected is None else made.expected.query_id
        if made.expected is None or id_ is None:
            raise SqlError("The provided statement does not run a ksql query")
        return made.expected.state.query(id_)

    # -- topics

    async def topics(self, text: str, *, every: bool, extended: bool) -> Entity:
        """LIST TOPICS: without ALL only those that are nobody's own."""
        found = (await self._server.client.metadata()).topics
        names = sorted(name for name in found if every or not name.startswith(INTERNAL))
        rows: list[dict[str, Any]] = [
            {"name": name, "replicaInfo": [len(each.replicas) for each in found[name].partitions.values()]}
            for name in names
        ]
        if not extended:
            return entity("kafka_topics", text, topics=rows)
        readers = self._readers()
        for row in rows:
            groups = readers.get(row["name"], 0)
            row |= {"consumerCount": groups, "consumerGroupCount": groups}
        return entity("kafka_topics_extended", text, topics=rows)

    def _readers(self) -> dict[str, int]:
        """How many of this server's queries read each topic."""
        state = self._server.state
        found: dict[str, int] = {}
        for query in state.queries.values():
            for name in query.sources:
                if (source := state.catalogue.sources.get(name)) is not None:
                    found[source.topic] = found.get(source.topic, 0) + 1
        return found

    async def asserted_topic(self, statement: s.AssertTopic, text: str) -> Entity:
        """ASSERT [NOT EXISTS] TOPIC; raises StatementError where it does not hold in time."""
        seconds = ASSERT_SECONDS if statement.timeout is None else statement.timeout.ms / 1000
        until = time.monotonic() + seconds
        wanted = {name.upper().strip("'"): literal_text(value) for name, value in statement.properties}
        while (failure := await self._differs(statement, wanted)) is not None:
            if time.monotonic() >= until:
                raise StatementError(FAILED_ASSERTION, failure, text)
            await asyncio.sleep(LOOK_SECONDS)
        return entity("assert_topic", text, topicName=statement.topic, exists=statement.exists)

    async def _differs(self, statement: s.AssertTopic, wanted: Mapping[str, str]) -> str | None:
        copies = await replicas_of(self._server.client, statement.topic)
        if not statement.exists:
            return f"Topic {statement.topic} exists" if copies else None
        if not copies:
            return f"Topic {statement.topic} does not exist"
        facts = {"PARTITIONS": str(len(copies)), "REPLICAS": str(max(copies))}
        words = [
            f"Mismatched configuration for topic {statement.topic}: "
            f"For config {name.lower()}, expected {value} got {facts[name]}"
            if name in facts
            else f"Cannot assert unknown topic property: {name.lower()}."
            for name, value in wanted.items()
            if facts.get(name) != value
        ]
        return "\n".join(words) or None


def _committed(found: Mapping[TopicPartition, Any], place: TopicPartition) -> int:
    known = found.get(place)
    return -1 if known is None else int(known.offset)


def _topology_text(plan: Any) -> str:
    return topology_of(plan).describe()
