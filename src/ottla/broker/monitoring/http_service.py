"""What a node serves over HTTP: metrics and health. Imported only where `ottla.http.listeners` asks for it."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import replace

from ottla.broker.monitoring.health import Check, Health
from ottla.broker.monitoring.prometheus import CONTENT_TYPE
from ottla.broker.monitoring.report import MetricsReport
from ottla.config import HttpListener
from ottla.http import HttpError, HttpServer, Reply, Request, Route, json_reply, text_reply

__all__ = ["HttpService"]


class HttpService:
    """Serves one node; `bound` is where, with the ports that were chosen."""

    def __init__(self, health: Health, report: Callable[[], MetricsReport | None]) -> None:
        self._health = health
        self._report = report
        self.bound: list[HttpListener] = []
        self._server = HttpServer(
            [
                Route("GET", "/metrics", self._metrics),
                Route("GET", "/livez", self._livez),
                Route("GET", "/readyz", self._readyz),
                Route("GET", "/healthz", self._healthz),
            ]
        )

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
