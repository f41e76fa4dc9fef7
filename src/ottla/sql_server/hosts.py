"""Persistent queries where they run: each a Streams application of its own, named after its query's id.

All of them share one service's hosts, which are tasks of one Spark session, or threads of this process (`engine=python`).
What takes time (joining a group, making topics, the last commit) is done in threads; of one query one thing at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.background import end, keep_running, supervise
from ottla.base import KafkaError, OttlaError
from ottla.client import LATEST, Client, commit_offsets, committed_offsets, delete_group
from ottla.sql import SqlError
from ottla.sql.answers import application_id, topology_of
from ottla.sql.commands import PersistentQuery
from ottla.sql_server.processing_log import ProcessingLog, log_of
from ottla.sql_server.session_properties import allowed, of_streams
from ottla.sql_server.settings import ServerSettings
from ottla.sql_server.topics import delete_topics, internal_topics

if TYPE_CHECKING:
    from ottla.spark import StreamsApplication, StreamsService

__all__ = ["QueryHosts", "application_settings"]

log = logging.getLogger(__name__)
THREADS = 8
"""Queries that are begun, paused or ended at the same time."""
END_SECONDS = 30.0
CLOSE_SECONDS = 10.0
"""For all queries to commit at a stop, and then for their hosts: in all, less than others wait before they kill."""
LOST_SECONDS = 2.0
"""For queries of a server that has lost its office: another's may run already, and commits are refused, or unheard."""
RETRY_SECONDS, RETRY_SECONDS_MAX = 1.0, 60.0
"""Between two tries to begin a query that could not be."""
RUNNING, PAUSED, ERROR, STARTING = "RUNNING", "PAUSED", "ERROR", "RUNNING"


def application_settings(settings: ServerSettings, query: PersistentQuery) -> dict[str, Any]:
    """Return the settings of a query's Streams application: the server's, then those that a statement may set."""
    given: dict[str, Any] = {
        "application.id": application_id(settings.service_id, query.id),
        "bootstrap.servers": settings.bootstrap,
        "execution": "continuous",
        "auto.offset.reset": "latest",
        "commit.interval.ms": "100",
        "replication.factor": str(settings.replicas),
        "default.deserialization.exception.handler": "continue",
        **settings.client,
    }
    given |= settings.streams
    given |= of_streams(allowed(query.properties, query.id))
    return given


@dataclass(slots=True)
class _Hosted:
    query: PersistentQuery
    application: StreamsApplication | None = None
    failure: str | None = None
    turn: asyncio.Lock | None = None
    is_wanted: bool = True


class QueryHosts:
    """Begins, pauses, resumes and ends queries; `start` first, `close` at the end."""

    def __init__(self, settings: ServerSettings, client: Client) -> None:
        self._settings, self._client = settings, client
        self._service: StreamsService | None = None
        self._hosted: dict[str, _Hosted] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="queries")
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.has_office = False
        """Whether queries run here; else another server of the service runs them."""

    async def start(self) -> None:
        """Begin the service; its hosts come up beside what the server does next. Raises ConfigError, SparkMissingError."""
        await self._threaded(self._start)

    def _start(self) -> None:
        from ottla.spark import StreamsService, ThreadHostJobs, check_spark

        settings = self._settings
        if settings.engine == "spark":
            check_spark()
        service = StreamsService(
            f"{settings.service_id}sql",
            hosts=settings.hosts,
            master=settings.spark_master,
            settings={name: value for name, value in settings.properties.items() if name.startswith("spark.")},
            jobs=ThreadHostJobs() if settings.engine == "python" else None,
        )
        service.start(wait=False)
        self._service = service

    async def close(self) -> None:
        """Have every query commit and end; they go on where they were at the next start."""
        self._is_closed = True
        await end(*self._tasks)
        service = self._service
        if service is not None:
            patience_s = CLOSE_SECONDS if self.has_office else LOST_SECONDS
            await self._threaded(lambda: service.close(patience_s))
        self._threads.shutdown(wait=False)

    # -- office

    def take_office(self, queries: Iterable[PersistentQuery], *, sweep: bool) -> None:
        """Have all queries run here; with `sweep` what no query of these has left in the cluster is deleted."""
        self.has_office = True
        for each in queries:
            self.begin(each)
        if sweep:
            self.later(self._sweep, "sweep")

    def leave_office(self) -> None:
        """Have no query run here any more; what they have done is committed, where that is still allowed."""
        self.has_office = False
        if self._is_closed:
            return
        for hosted in self._hosted.values():
            hosted.is_wanted = False
            self._do(hosted, self._stopping(hosted))

    def _stopping(self, hosted: _Hosted) -> Callable[[], Awaitable[None]]:
        async def stop() -> None:
            service, name = self._service, application_id(self._settings.service_id, hosted.query.id)
            if hosted.application is not None and service is not None and not self.has_office:
                await self._threaded(lambda: service.end(name, timeout_s=LOST_SECONDS))
                hosted.application = None

        return stop

    async def _sweep(self) -> None:
        """Delete internal topics of queries that have ended while nobody was there to do it.

        Which queries there are is asked when the topics are known: one that began meanwhile keeps its own.
        """
        try:
            there = await internal_topics(self._client, self._settings.service_id)
            left = [topic for query, topics in there.items() if query not in self._hosted for topic in topics]
            if left:
                log.info("topics that ended queries have left are deleted: %s", ", ".join(left))
                await delete_topics(self._client, left)
        except (KafkaError, OSError) as error:
            log.warning("what ended queries have left cannot be deleted: %s", error)

    # -- queries

    def begin(self, query: PersistentQuery, *, replaces: bool = False) -> None:
        """Have a query run; in the place of another definition of it, which ends first."""
        hosted = self._hosted.setdefault(query.id, _Hosted(query))
        hosted.query, hosted.is_wanted = query, True
        if self.has_office:
            self._do(hosted, lambda: self._begin(hosted, replaces=replaces))

    def pause(self, id_: str) -> None:
        """Have a query read nothing until it is resumed."""
        self._each(id_, lambda application: application.pause())

    def resume(self, id_: str) -> None:
        """Have a query that was paused go on."""
        self._each(id_, lambda application: application.resume())

    def end(self, query: PersistentQuery) -> None:
        """End a query for good: its internal topics and its group are deleted."""
        hosted = self._hosted.setdefault(query.id, _Hosted(query))
        hosted.is_wanted = False
        if self.has_office:
            self._do(hosted, lambda: self._end(hosted))
        else:
            del self._hosted[query.id]

    def status(self, query: PersistentQuery) -> tuple[str, str | None]:
        """Return how a query stands, in ksqlDB's words, and why it failed where it did."""
        hosted = self._hosted.get(query.id)
        if hosted is None:
            return (PAUSED if query.is_paused else STARTING), None
        application = hosted.application
        if application is not None and str(application.state) == "ERROR":
            failure = application.error
            return ERROR, "" if failure is None else failure.reason
        if hosted.failure is not None:
            return ERROR, hosted.failure
        return (PAUSED if query.is_paused else RUNNING), None

    def facts(self, id_: str) -> Mapping[str, Any]:
        """Return an application's own facts: records, lag, hosts; none before it runs."""
        hosted = self._hosted.get(id_)
        return {} if hosted is None or hosted.application is None else hosted.application.status()

    def is_running(self, id_: str) -> bool:
        """Whether every work of a query runs."""
        hosted = self._hosted.get(id_)
        application = None if hosted is None else hosted.application
        return application is not None and str(application.state) == "RUNNING"

    def later(self, call: Callable[[], Awaitable[None]], name: str) -> None:
        """Have something done beside the queries; it is done again where it has failed by a mistake of ours."""
        self._keep(keep_running(lambda: _awaited(call), name=name, serves="the SQL server"))

    async def settled(self) -> None:
        """Return when everything that was asked for is done."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    # -- inside

    def _do(self, hosted: _Hosted, call: Callable[[], Awaitable[None]]) -> None:
        """Have something done of a query behind what is done of it already."""
        if hosted.turn is None:
            hosted.turn = asyncio.Lock()
        turn = hosted.turn

        async def in_turn() -> None:
            async with turn:
                await call()

        def failed(error: BaseException) -> None:
            hosted.failure = f"The server has failed: {error!r}; its log says why"

        name = f"query {hosted.query.id}"
        self._keep(supervise(in_turn(), name=name, serves=name, failed=failed))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _each(self, id_: str, call: Callable[[StreamsApplication], object]) -> None:
        hosted = self._hosted.get(id_)
        if hosted is None:
            return

        async def act() -> None:
            application = hosted.application
            if application is not None:
                await self._threaded(lambda: call(application))

        self._do(hosted, act)

    async def _begin(self, hosted: _Hosted, *, replaces: bool) -> None:
        """Begin a query; what stands against it may pass (a broker that is away), so that it is tried again."""
        wait_s = RETRY_SECONDS
        while hosted.is_wanted:
            try:
                await self._threaded(lambda: self._launch(hosted, replaces=replaces))
                hosted.failure = None
                return
            except (OttlaError, OSError, TypeError) as error:
                hosted.failure = f"{type(error).__name__}: {error}"
                log.warning(
                    "query %s does not begin, which is tried again in %.0f s: %s", hosted.query.id, wait_s, error
                )
                if isinstance(error, SqlError | TypeError):
                    return
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, RETRY_SECONDS_MAX)

    def _launch(self, hosted: _Hosted, *, replaces: bool) -> None:
        service = self._service
        assert service is not None, "start() comes first"
        name = application_id(self._settings.service_id, hosted.query.id)
        if replaces and hosted.application is not None:
            service.end(name, timeout_s=END_SECONDS)
            hosted.application = None
        topics = {each.topic for each in hosted.query.plan.sources}
        told = ProcessingLog(hosted.query.id, log_of(self._settings, topics))
        topology = topology_of(hosted.query.plan, told)
        hosted.application = service.add(topology, application_settings(self._settings, hosted.query))
        if hosted.query.is_paused:
            hosted.application.pause()

    async def begin_offsets(self, query: PersistentQuery, topics: Iterable[str]) -> None:
        """Have a new query that begins at the latest records begin at those of now, not of when its hosts run."""
        settings = application_settings(self._settings, query)
        if str(settings["auto.offset.reset"]).lower() != "latest":
            return
        group = str(settings["application.id"])
        wanted = sorted(set(topics))
        await self._client.metadata(wanted)
        places = [place for topic in wanted for place in self._client.cluster.partitions_of(topic)]
        known = await committed_offsets(self._client, group, places)
        ends = await self._client.list_offsets({each: LATEST for each in places if each not in known})
        await commit_offsets(self._client, group, {each: found.check().offset for each, found in ends.items()})

    async def _end(self, hosted: _Hosted) -> None:
        name = application_id(self._settings.service_id, hosted.query.id)
        service = self._service
        if hosted.application is not None and service is not None:
            await self._threaded(lambda: service.end(name, timeout_s=END_SECONDS))
        hosted.application = None
        await self._forget(hosted.query.id)
        if not hosted.is_wanted:  # else a query has been given the same name meanwhile, and begins behind this
            self._hosted.pop(hosted.query.id, None)

    async def _forget(self, query_id: str) -> None:
        """Delete what a query that has ended has left in the cluster."""
        service_id = self._settings.service_id
        try:
            await delete_topics(self._client, (await internal_topics(self._client, service_id)).get(query_id, ()))
            await delete_group(self._client, application_id(service_id, query_id))
        except (KafkaError, OSError) as error:
            log.warning("what query %s has left cannot be deleted: %s", query_id, error)

    async def _threaded(self, call: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


async def _awaited(call: Callable[[], Awaitable[None]]) -> None:
    await call()
