"""What a node serves over HTTP: metrics and health. Imported only where `ottla.http.listeners` asks for it."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ottla.broker.monitoring.health import Check, Health
from ottla.broker.monitoring.prometheus import CONTENT_TYPE
from ottla.broker.monitoring.report import MetricsReport
from ottla.config import BrokerConfig, HttpListener
from ottla.http import HttpError, Reply, Request, Who, everybody, json_reply, text_reply
from ottla.service import Dialect, Endpoint, guard_of, routes_of, server_of

__all__ = ["HttpService"]


class HttpService:
    """Serves one node; `bound` is where, with the ports that were chosen."""

    def __init__(self, health: Health, report: Callable[[], MetricsReport | None], config: BrokerConfig) -> None:
        self._health = health
        self._report = report
        self.bound: list[HttpListener] = []
        listeners = config.http_listeners
        guard = guard_of(
            everybody,
            listeners=[each.host for each in listeners],
            advertised={each.host for each in config.all_advertised_listeners},
            hosts=config.settings.ottla_http_hosts,
            is_protected=all(each.is_secure for each in listeners),
        )
        self._server = server_of(routes_of(self.endpoints(), Dialect(), lambda each: each.handle), guard, Dialect())

    def endpoints(self) -> list[Endpoint[Callable[[Request], Awaitable[Reply]]]]:
        """Return every address."""
        well = (200, 503)
        return [
            Endpoint("GET", "/metrics", "Metrics for Prometheus", self._metrics, Who.LOGGED_IN, statuses=well),
            Endpoint("GET", "/livez", "Whether the node runs", self._livez, Who.ANYONE, statuses=well),
            Endpoint("GET", "/readyz", "Whether the node answers clients", self._readyz, Who.ANYONE, statuses=well),
            Endpoint("GET", "/healthz", "Whether the node is well", self._healthz, Who.ANYONE, statuses=well),
        ]

    async def listen(self, listener: HttpListener, tls: Callable[[], ssl.SSLContext] | None) -> None:
        """Serve one more address, by HTTPS with the context that `tls` returns; raises OSError where it is taken."""
        port = await self._server.listen(listener.host, listener.port, tls if listener.is_secure else None)
        self.bound.append(replace(listener, port=port))

    async def close(self) -> None:
        """Stop serving."""
        await self._server.close()

    async def _metrics(self, request: Request) -> Reply:
        report = self._report()
        if report is None:
            raise HttpError(503, "There are no metrics yet: the node is starting.")
        return text_reply(await report.text(), content_type=CONTENT_TYPE)

    async def _livez(self, request: Request) -> Reply:
        return _told(self._health.alive())

    async def _readyz(self, request: Request) -> Reply:
        return _told(self._health.ready())

    async def _healthz(self, request: Request) -> Reply:
        return _told(self._health.well())


def _told(checks: list[Check]) -> Reply:
    """Return 200 where everything is as it has to be, else 503; the reasons stand in the body."""
    is_ok = all(each.is_ok for each in checks)
    told = {
        "status": "ok" if is_ok else "failed",
        "checks": [{"name": each.name, "ok": each.is_ok, "reason": each.reason} for each in checks],
    }
    return json_reply(told, status=200 if is_ok else 503)
