"""`Instance`: a server with its interface on its addresses, started and stopped as one."""

from __future__ import annotations

from ottla.http import HttpServer, Reply, Request, Route, SocketRoute
from ottla.registry import Logins
from ottla.sql_server.command_topic import CommandTimeoutError
from ottla.sql_server.connectors import Connectors
from ottla.sql_server.errors import BAD_STATEMENT, COMMAND_TIMEOUT, StatementError
from ottla.sql_server.outside import Outside
from ottla.sql_server.rest.bodies import json_object, statement_body
from ottla.sql_server.rest.facts import Facts
from ottla.sql_server.rest.inserts import Inserts
from ottla.sql_server.rest.queries import Queries
from ottla.sql_server.rest.serving import Serving, answer
from ottla.sql_server.rest.socket_queries import SocketQueries
from ottla.sql_server.server import SqlServer
from ottla.sql_server.settings import Address, ServerSettings
from ottla.sql_server.statements import Asked, Statements

__all__ = ["Instance"]

REQUEST_SECONDS_MAX = 120.0


class Instance:
    """One server; `addresses` is where it answers."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.server = SqlServer(settings)
        self.addresses: list[Address] = []
        self._outside = Outside(settings.connect_url, settings.registry_url)
        self._statements = Statements(self.server, Connectors(self._outside))
        self._logins = Logins(settings.access)
        self._http: HttpServer | None = None

    async def start(self) -> None:
        """Replay the commands, and answer. Raises ConfigError, KafkaError, SqlError, and OSError for a taken address."""
        try:
            await self._logins.start()
            self._http = HttpServer(
                self.routes(),
                request_seconds_max=REQUEST_SECONDS_MAX,
                body_bytes_max=self.settings.limits.request_bytes,
                admits=self.settings.access.told,
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

    def routes(self) -> list[Route | SocketRoute]:
        """Return every address."""
        serving = Serving(self.server, self._logins)
        facts, queries, inserts = Facts(self.server, serving), Queries(self.server), Inserts(self.server)
        open_ = {
            "/": facts.root,
            "/info": facts.info,
            "/healthcheck": facts.health,
            "/chc/live": facts.alive,
            "/chc/ready": facts.alive,
            "/v1/metadata": facts.metadata,
            "/v1/metadata/id": facts.metadata,
        }
        asked = {
            "/status": facts.statuses,
            "/status/{type}/{entity:.+}/{action}": facts.status,
            "/clusterStatus": facts.cluster,
            "/is_valid_property/{name}": facts.valid_property,
            "/metrics": facts.metrics,
        }
        given = {
            "/ksql": self._ksql,
            "/ksql/terminate": self._terminate,
            "/query": queries.query,
            "/query-stream": queries.query_stream,
            "/close-query": queries.close,
            "/inserts-stream": inserts.stream,
        }
        if self.settings.is_headless:
            given = {}
        sockets = SocketQueries(self.server, queries, self._logins)
        return [
            *([] if self.settings.is_headless else [SocketRoute("/ws/query", sockets.handle, sockets.admit)]),
            *(Route("GET", path, serving.open(handle)) for path, handle in open_.items()),
            *(Route("GET", path, serving.guarded(handle)) for path, handle in asked.items()),
            *(Route("POST", path, serving.guarded(handle)) for path, handle in given.items()),
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
        return answer(request, found)

    async def _terminate(self, request: Request) -> Reply:
        """`POST /ksql/terminate`."""
        patterns = json_object(await request.read()).get("deleteTopicList") or []
        if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
            raise StatementError(BAD_STATEMENT, "deleteTopicList has to be a list of patterns")
        await self.server.terminate(patterns)
        return answer(request, [])
