"""`Instance`: a server with its interface on its addresses, started and stopped as one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from ottla.http import HttpServer, Reply, Request, Route, Socket, SocketRoute, Who
from ottla.registry import Logins
from ottla.service import Dialect, Endpoint, Limits, guard_of, routes_of, server_of, socket_route
from ottla.sql_server.command_topic import CommandTimeoutError
from ottla.sql_server.connectors import Connectors
from ottla.sql_server.errors import BAD_STATEMENT, COMMAND_TIMEOUT, StatementError
from ottla.sql_server.outside import Outside
from ottla.sql_server.rest.bodies import json_object, statement_body
from ottla.sql_server.rest.facts import Facts
from ottla.sql_server.rest.inserts import Inserts
from ottla.sql_server.rest.queries import Queries
from ottla.sql_server.rest.serving import EARLY, Handle, Serving, admission, answer, sql_dialect
from ottla.sql_server.rest.socket_queries import SocketQueries
from ottla.sql_server.server import SqlServer
from ottla.sql_server.settings import Address, ServerSettings
from ottla.sql_server.statements import Asked, Statements

__all__ = ["Instance"]

REQUEST_SECONDS_MAX = 120.0
SocketHandle = Callable[[Request, Socket], Awaitable[None]]
_WELL = (200, 503)
_STATUS, _PROPERTY = "/status/{type}/{entity:.+}/{action}", "/is_valid_property/{name}"


class Instance:
    """One server; `addresses` is where it answers."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.server = SqlServer(settings)
        self.addresses: list[Address] = []
        self._outside = Outside(settings.connect_url, settings.registry_url)
        self._statements = Statements(self.server, Connectors(self._outside))
        self._logins = Logins(settings.access)
        self._serving, self._queries = Serving(self.server), Queries(self.server)
        self._sockets = SocketQueries(self.server, self._queries)
        self._http: HttpServer | None = None

    async def start(self) -> None:
        """Replay the commands, and answer. Raises ConfigError, KafkaError, SqlError, and OSError for a taken address."""
        settings = self.settings
        try:
            await self._logins.start()
            dialect = sql_dialect(Limits(settings.limits.request_bytes, REQUEST_SECONDS_MAX))
            self._http = server_of(
                self._routes(dialect),
                guard_of(
                    admission(self._logins),
                    listeners=[each.host for each in settings.listeners],
                    advertised=[settings.advertised],
                    hosts=settings.host_names,
                    origins=settings.cors.origins,
                    is_protected=settings.is_protected,
                ),
                dialect,
                headers=settings.cors.headers if settings.cors.origins else None,
                admits=settings.access.told,
                http2=True,
            )
            for each in self.settings.listeners:
                tls = self.settings.tls if each.scheme == "https" else None
                port = await self._http.listen(each.host, each.port, tls)
                self.addresses.append(Address(each.host, port, each.scheme))
            await self.server.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Answer no more, and have the queries commit and end."""
        await self.server.pushing.close()
        if self._http is not None:
            await self._http.close()
        self._logins.close()
        await self._outside.close()
        await self.server.close()

    def endpoints(self) -> tuple[list[Endpoint[Handle]], list[Endpoint[SocketHandle]]]:
        """Return every address: those that are asked, and WebSockets."""
        facts, queries, inserts = Facts(self.server, self._serving), self._queries, Inserts(self.server)
        found: list[Endpoint[Handle]] = [
            Endpoint("GET", "/", "Lead to /info.", facts.root, Who.LOGGED_IN, statuses=(307,), tags=EARLY),
            Endpoint("GET", "/info", "Name the server and its cluster.", facts.info, Who.LOGGED_IN, tags=EARLY),
            Endpoint(
                "GET", "/healthcheck", "Whether it is well.", facts.health, Who.ANYONE, statuses=_WELL, tags=EARLY
            ),
            Endpoint("GET", "/chc/live", "Whether it runs.", facts.alive, Who.ANYONE, tags=EARLY),
            Endpoint("GET", "/chc/ready", "Whether it answers.", facts.alive, Who.ANYONE, statuses=_WELL, tags=EARLY),
            Endpoint("GET", "/v1/metadata", "Name the cluster.", facts.metadata, Who.LOGGED_IN, tags=EARLY),
            Endpoint("GET", "/v1/metadata/id", "Name the cluster.", facts.metadata, Who.LOGGED_IN, tags=EARLY),
            Endpoint("GET", "/status", "States of all commands.", facts.statuses, Who.LOGGED_IN),
            Endpoint("GET", _STATUS, "A command's state.", facts.status, Who.LOGGED_IN, statuses=(200, 404)),
            Endpoint("GET", "/clusterStatus", "This server, and its queries' lags.", facts.cluster, Who.LOGGED_IN),
            Endpoint("GET", _PROPERTY, "Whether SET may name it.", facts.valid_property, Who.LOGGED_IN),
            Endpoint("GET", "/metrics", "Numbers for Prometheus.", facts.metrics, Who.LOGGED_IN),
        ]
        if self.settings.is_headless:
            return found, []
        change = partial(Endpoint[Handle], "POST", who=Who.LOGGED_IN, changes=True)
        found += [
            change("/ksql", "Carry statements out.", self._ksql, body="Statements"),
            change("/ksql/terminate", "End the cluster, and its topics.", self._terminate, body="Terminate"),
            Endpoint("POST", "/query", "Rows of a query.", queries.query, Who.LOGGED_IN, body="Query"),
            Endpoint("POST", "/query-stream", "Rows of a query.", queries.query_stream, Who.LOGGED_IN, body="Query"),
            change("/close-query", "End a push query.", queries.close, body="QueryId"),
            change("/inserts-stream", "Write rows, line by line.", inserts.stream, body="Rows"),
        ]
        socket: Endpoint[SocketHandle] = Endpoint(
            "GET",
            "/ws/query",
            "Rows of a query, by WebSocket.",
            self._sockets.handle,
            Who.LOGGED_IN,
            query=("request",),
        )
        return found, [socket]

    def _routes(self, dialect: Dialect) -> list[Route | SocketRoute]:
        asked, sockets = self.endpoints()
        return [
            *(socket_route(each, self._sockets.admit) for each in sockets),
            *routes_of(asked, dialect, self._serving.bind),
        ]

    async def _ksql(self, request: Request) -> Reply:
        """`POST /ksql`."""
        body = statement_body(await request.read(), "ksql", "streamsProperties")
        if body.sequence is not None and body.sequence >= 0:
            try:
                await self.server.topic.wait_for(body.sequence, self.settings.command_timeout_s)
            except CommandTimeoutError as error:
                raise StatementError(COMMAND_TIMEOUT, str(error)) from error
        found = await self._statements.execute(body.text, Asked(body.properties, body.variables))
        return await self.server.turns.run(lambda: answer(request, found))

    async def _terminate(self, request: Request) -> Reply:
        """`POST /ksql/terminate`."""
        patterns = json_object(await request.read()).get("deleteTopicList") or []
        if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
            raise StatementError(BAD_STATEMENT, "deleteTopicList has to be a list of patterns")
        await self.server.terminate(patterns)
        return answer(request, [])
