"""`SqlServer`: the command topic followed, its queries kept running, and everything that answers asks it."""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ottla.base import KafkaError, OttlaError
from ottla.client import Client, Limits, client_network
from ottla.java import PatternError, compile_java
from ottla.sql import SqlError, parse_statement, split_statements
from ottla.sql.commands import (
    Applied,
    BeginQuery,
    Catalogue,
    Command,
    Decision,
    DeleteTopic,
    Effect,
    EndQuery,
    PauseQuery,
    ResumeQuery,
    ServerState,
    TopicWish,
    decide,
    topic_wish,
)
from ottla.sql.tree import statements as s
from ottla.sql_server.command_topic import CommandTopic
from ottla.sql_server.hosts import QueryHosts
from ottla.sql_server.inserting import Inserting
from ottla.sql_server.leading import leading_of
from ottla.sql_server.processing_log import drain, stream_text
from ottla.sql_server.pull import Pulling
from ottla.sql_server.push import Pushing
from ottla.sql_server.schemas import Asking, registry_of
from ottla.sql_server.session_properties import put, unset
from ottla.sql_server.settings import ServerSettings
from ottla.sql_server.topics import delete_topics, make_topic
from ottla.sql_server.turns import Turns

__all__ = ["SqlServer"]

log = logging.getLogger(__name__)
CLIENT_LIMITS = Limits(unreachable_s=5.0, backoff_s=0.02, call_s=30.0)
STATUSES_MAX = 10_000
"""Commands whose status is remembered for /status."""


class SqlServer:
    """One server; `start` first, `close` at the end."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.id = uuid.uuid4().hex[:8]
        self.client = self.make_client("server")
        self.hosts = QueryHosts(settings, self.client)
        self._first = ServerState(Catalogue(registry=registry_of(settings.properties, settings.registry_timeout_s)))
        self.asking = Asking(settings.registry_url, settings.registry_timeout_s, lambda: self.state.catalogue)
        learn = self.asking.learn if settings.registry_url else None
        self.turns = Turns()
        self.pulling = Pulling(settings, self.make_client, lambda: self.state, self.hosts.later, self.turns, learn)
        self.pushing = Pushing(self.id, settings, self.make_client, lambda: self.state, self.turns, learn)
        self.inserting = Inserting(self.make_client("inserts"), self.asking)
        self.cluster_id = ""
        self.statuses: OrderedDict[str, dict[str, Any]] = OrderedDict()
        """What became of each command, by its id; the newest last."""
        self.is_ready = False
        self._local = self._first
        self._leading = leading_of(
            self.make_client("group"),
            f"_confluent-ksql-{settings.service_id}servers",
            take=self._take_office,
            leave=self.hosts.leave_office,
        )
        self._topic: CommandTopic | None = None
        self._is_live = False

    def make_client(self, purpose: str) -> Client:
        """Return a client of the cluster for one purpose."""
        return Client(
            self.settings.bootstrap,
            client_id=f"ksql-{self.settings.service_id}{purpose}",
            limits=CLIENT_LIMITS,
            network=client_network(self.settings.client),
        )

    @property
    def state(self) -> ServerState:
        """What the commands say."""
        return self._local if self._topic is None else self._topic.state

    @property
    def topic(self) -> CommandTopic:
        """The command topic; a headless server has none."""
        assert self._topic is not None, "a headless server takes no commands"
        return self._topic

    @property
    def is_headless(self) -> bool:
        """Whether this server runs the statements of a file, and takes none."""
        return self.settings.is_headless

    @property
    def degraded(self) -> str | None:
        """Why commands cannot all be followed, None where they can."""
        return None if self._topic is None else self._topic.degraded or self._topic.waiting

    @property
    def command_offset(self) -> int:
        """Of the last command that was taken in, -1 for none."""
        return -1 if self._topic is None else self._topic.offset

    # -- life

    async def start(self) -> None:
        """Replay the commands, and have the queries run; raises ConfigError, KafkaError, SqlError."""
        self.cluster_id = (await self.client.metadata([])).cluster_id or ""
        await self.hosts.start()
        if self.is_headless:
            await self._run_file()
        else:
            self._topic = CommandTopic(
                self.settings.command_topic,
                self.make_client,
                self._applied,
                first=self._first,
                replicas=self.settings.replicas,
                timeout_s=self.settings.command_timeout_s,
                asking=self.asking,
            )
            await self._topic.start()
        self._is_live = True
        await self._make_log_topic()
        for query in self.state.queries.values():
            self.hosts.begin(query)
        self.is_ready = True
        if self.settings.processing.stream and not self.is_headless:
            self.hosts.later(self._make_log_stream, "stream of the processing log")
        self._leading.start()

    async def _take_office(self) -> None:
        self.hosts.take_office(self.state.queries.values(), sweep=self.degraded is None)

    async def close(self) -> None:
        """Answer no more, and have the queries commit and end."""
        self.is_ready = False
        await self.pushing.close()
        await self.pulling.close()
        if self._topic is not None:
            await self._topic.close()
        await self.hosts.close()
        await drain()
        await self._leading.close()
        await self.inserting.close()
        await self.client.close()
        self.asking.close()
        self.turns.close()

    async def _run_file(self) -> None:
        """Carry out the statements of the file; raises SqlError with the place of the one that cannot be."""
        text = Path(self.settings.queries_file).read_text()
        properties: dict[str, str] = {}
        for number, each in enumerate(split_statements(text)):
            statement = each.parse(self._local.catalogue.types)
            if isinstance(statement, s.SetProperty):
                put(properties, statement.name, statement.value)
                continue
            if isinstance(statement, s.UnsetProperty):
                unset(properties, statement.name)
                continue
            made = await self._decided(statement, each.text, properties, number)
            if made.command is None or made.expected is None:
                continue
            await self._prepare_topic(statement, made)
            self._local = made.expected.state

    async def _decided(self, statement: s.Statement, text: str, properties: Mapping[str, str], number: int) -> Decision:
        return await self.asking.run(
            lambda: decide(
                statement, text, self._local, properties=properties, settings=self.settings.properties, number=number
            ),
            has_to_end=True,
        )

    # -- the processing log

    async def _make_log_topic(self) -> None:
        wanted = self.settings.processing
        if not wanted.makes_topic:
            return
        try:
            wish = TopicWish(wanted.topic, wanted.partitions, wanted.replicas)
            await make_topic(self.client, wish, [], kind="STREAM")
        except (SqlError, KafkaError, OSError) as error:
            log.error("topic %s of the processing log is not created: %s", wanted.topic, error)

    async def _make_log_stream(self) -> None:
        text = stream_text(self.settings.processing)
        try:
            await self.write(parse_statement(text), text, {})
        except (OttlaError, OSError) as error:
            log.error("the processing log has no stream: %s", error)

    # -- commands

    async def _prepare_topic(self, statement: s.Statement, made: Decision) -> None:
        wish = topic_wish(statement, made)
        if wish is None or made.expected is None:
            return
        assert isinstance(statement, s.CreateSource | s.CreateAs), statement
        begun = next((each.query for each in made.expected.effects if isinstance(each, BeginQuery)), None)
        sources = [] if begun is None else [made.expected.state.catalogue.source(each).topic for each in begun.sources]
        await make_topic(self.client, wish, sources, kind=statement.kind)

    async def _prepare_query(self, made: Decision) -> None:
        """Settle where a new query begins."""
        if made.expected is None:
            return
        for each in made.expected.effects:
            if isinstance(each, BeginQuery) and not each.replaces:
                catalogue = made.expected.state.catalogue
                topics = [catalogue.source(name).topic for name in each.query.sources]
                await self.hosts.begin_offsets(each.query, topics)

    async def write(self, statement: s.Statement, text: str, properties: Mapping[str, str]) -> tuple[Decision, int]:
        """Write a statement as a command; returns its decision and offset (-1 for nothing to do).

        Raises SqlError where it is refused, KafkaError, CommandTimeoutError.
        """

        def decided(state: ServerState, number: int) -> Decision:
            made = decide(
                statement, text, state, properties=properties, settings=self.settings.properties, number=number
            )
            self._check_limit(made, state)
            return made

        async def prepare(made: Decision) -> None:
            await self._prepare_topic(statement, made)
            await self._prepare_query(made)

        written = await self.topic.write(decided, prepare)
        return written.decision, written.offset

    def _check_limit(self, made: Decision, state: ServerState) -> None:
        limit = self.settings.limits.persistent_queries
        more = made.expected is not None and len(made.expected.state.queries) > len(state.queries)
        if more and len(state.queries) >= limit:
            raise SqlError(
                f"Not executing statement(s) as doing so would cause the number of active, persistent queries in this "
                f"interactive cluster to exceed the configured limit. Use the TERMINATE command to terminate existing "
                f"queries. Current count: {len(state.queries)}. Configured limit "
                f"(ksql.query.persistent.active.limit): {limit}"
            )

    def _applied(self, command: Command, applied: Applied, offset: int) -> None:
        """Take note of a command, and once this server is live do what it says."""
        name = str(command.id)
        self.statuses.pop(name, None)
        self.statuses[name] = {"status": "SUCCESS", "message": applied.message, "queryId": applied.query_id}
        while len(self.statuses) > STATUSES_MAX:
            self.statuses.popitem(last=False)
        if self._is_live:
            for effect in applied.effects:
                self._do(effect)
            self.pulling.forget_dropped(self.state)

    def _do(self, effect: Effect) -> None:
        match effect:
            case BeginQuery(query, replaces):
                self.hosts.begin(query, replaces=replaces)
            case EndQuery(query):
                self.hosts.end(query)
            case PauseQuery(id_):
                self.hosts.pause(id_)
            case ResumeQuery(id_):
                self.hosts.resume(id_)
            case DeleteTopic(topic):
                self.hosts.later(lambda: self._delete(topic), f"delete {topic}")

    async def _delete(self, topic: str) -> None:
        try:
            await delete_topics(self.client, [topic])
        except (KafkaError, OSError) as error:
            log.error("topic %s is not deleted: %s", topic, error)

    # -- terminating the whole service

    async def terminate(self, patterns: list[str]) -> None:
        """End every query, and delete the topics of results that match, and the command topic; raises SqlError."""
        state = self.state
        topics = {each.sink.topic for each in state.queries.values()}
        topics |= {each.topic for each in state.catalogue.sources.values()}
        try:  # a pattern may also take too long for a topic's name: nothing has ended then
            gone = await self.turns.run(lambda: _matching(patterns, topics))
        except PatternError as error:
            raise SqlError(f"Invalid pattern: {error}") from None
        for query in state.queries.values():
            self.hosts.end(query)
        self.is_ready = False
        await self.hosts.settled()
        await delete_topics(self.client, [*gone, self.settings.command_topic])


def _matching(patterns: Iterable[str], topics: Iterable[str]) -> list[str]:
    """Return the topics that a pattern is of; raises PatternError."""
    wanted = [compile_java(each) for each in patterns]
    return sorted(each for each in topics if any(pattern.fullmatch(each) for pattern in wanted))
