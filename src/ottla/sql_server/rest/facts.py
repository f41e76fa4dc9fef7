"""What a server says of itself: info, health, the states of commands, its hosts, metrics."""

from __future__ import annotations

import time
from typing import Any

from ottla.base import KafkaError
from ottla.http import Reply, Request, text_reply
from ottla.sql_server.errors import BAD_REQUEST, NOT_FOUND, StatementError
from ottla.sql_server.rest.metrics import metrics_text
from ottla.sql_server.rest.serving import Serving, answer
from ottla.sql_server.server import SqlServer
from ottla.sql_server.session_properties import refusal_of

__all__ = ["Facts"]

VERSION = "8.4.0"
"""Of ksqlDB's interface that this server has: clients compare it with their own."""


class Facts:
    """Answers about the server."""

    def __init__(self, server: SqlServer, serving: Serving) -> None:
        self._server, self._serving = server, serving

    async def root(self, request: Request) -> Reply:
        """`GET /`."""
        return Reply(b"", "text/plain", 307, {"Location": "/info"})

    async def info(self, request: Request) -> Reply:
        """`GET /info`."""
        server = self._server
        status = "DEGRADED" if server.degraded else "RUNNING" if server.is_ready else "STARTING"
        told = {
            "version": VERSION,
            "kafkaClusterId": server.cluster_id,
            "ksqlServiceId": server.settings.service_id,
            "serverStatus": status,
        }
        return answer(request, {"KsqlServerInfo": told})

    async def health(self, request: Request) -> Reply:
        """`GET /healthcheck`: 503 where something that the server needs is not well."""
        server = self._server
        try:
            await server.client.metadata([])
            kafka = True
        except (KafkaError, OSError):
            kafka = False
        runs = server.is_headless or (server.is_ready and server.topic.is_followed and server.degraded is None)
        details: dict[str, dict[str, Any]] = {
            "metastore": {"isHealthy": server.is_ready},
            "kafka": {"isHealthy": kafka},
            "commandRunner": {"isHealthy": runs},
        }
        if server.pulling.failed:
            details["pullQueries"] = {"isHealthy": False, "tables": server.pulling.failed}
        well = all(each["isHealthy"] for each in details.values())
        told = {"isHealthy": well, "details": details, "serverState": "READY" if server.is_ready else "INITIALIZING"}
        return answer(request, told, 200 if well else 503)

    async def alive(self, request: Request) -> Reply:
        """`GET /chc/live`, `/chc/ready`."""
        return answer(request, {}, 200 if self._server.is_ready or request.path.endswith("live") else 503)

    async def statuses(self, request: Request) -> Reply:
        """`GET /status`."""
        return answer(
            request, {"commandStatuses": {name: each["status"] for name, each in self._server.statuses.items()}}
        )

    async def status(self, request: Request) -> Reply:
        """`GET /status/{type}/{entity}/{action}`."""
        found = request.match_info
        name = f"{found['type']}/{found['entity']}/{found['action']}"
        known = self._server.statuses.get(name)
        if known is None:
            raise StatementError(NOT_FOUND, "Command not found")
        return answer(request, known)

    async def cluster(self, request: Request) -> Reply:
        """`GET /clusterStatus`: this server, and how far its queries are behind."""
        server = self._server
        address = server.settings.listeners[0]
        lags = {each: server.hosts.facts(each).get("lag", 0) for each in server.state.queries}
        told = {
            "hostAlive": server.is_ready,
            "lastStatusUpdateMs": time.time_ns() // 1_000_000,
            "activeStandbyPerQuery": {each: {} for each in server.state.queries},
            "hostStoreLags": {"stateStoreLags": lags, "updateTimeMs": time.time_ns() // 1_000_000},
        }
        return answer(request, {"clusterStatus": {f"{address.host or 'localhost'}:{address.port}": told}})

    async def valid_property(self, request: Request) -> Reply:
        """`GET /is_valid_property/{name}`: whether SET may name it."""
        name = request.match_info["name"].strip("'")
        if (refusal := refusal_of(name)) is not None:
            raise StatementError(BAD_REQUEST, refusal)
        return answer(request, True)

    async def metadata(self, request: Request) -> Reply:
        """`GET /v1/metadata`, `/v1/metadata/id`."""
        clusters = {"kafka-cluster": self._server.cluster_id, "ksql-cluster": self._server.settings.service_id}
        told: dict[str, Any] = {"id": "", "scope": {"path": [], "clusters": clusters}}
        return answer(request, told)

    async def metrics(self, request: Request) -> Reply:
        """`GET /metrics`, in Prometheus' text form."""
        return text_reply(metrics_text(self._server, self._serving))
