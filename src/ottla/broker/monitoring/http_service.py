"""What a node serves over HTTP: metrics and health. Imported only where `ottla.http.listeners` asks for it."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ottla.base import ConfigError
from ottla.broker.monitoring.health import Check, Health
from ottla.broker.monitoring.prometheus import CONTENT_TYPE
from ottla.broker.monitoring.report import MetricsReport
from ottla.config import BrokerConfig, HttpListener
from ottla.http import BasicLogins, HttpError, Reply, Request, Who, json_reply, logins_of_file, text_reply
from ottla.service import Dialect, Endpoint, basic_admission, guard_of, routes_of, server_of

__all__ = ["HttpService"]

CONNECTIONS_MAX = 200
"""Scrapes and probes are few; what is left of the descriptors is for clients and files."""
ADMITS = "everybody who reaches it reads metrics, which name topics, and health"
ADMITS_LOGINS = "metrics by a login of ottla.http.logins.file, probes without"
LOGINS_FILE = "ottla.http.logins.file"


class HttpService:
    """Serves one node; `bound` is where, with the ports that were chosen.

    With a file of logins, metrics and what `/healthz` tells are for these alone: they name topics and folders. Probes ask
    `/livez` and `/readyz` without one.
    """

    def __init__(self, health: Health, report: Callable[[], MetricsReport | None], config: BrokerConfig) -> None:
        """Raises ConfigError where the file of logins cannot be read, or names nobody."""
        logins_file = config.settings.ottla_http_logins_file
        logins = _logins_of(logins_file) if logins_file else None
        self._health = health
        self._report = report
        self.bound: list[HttpListener] = []
        listeners = config.http_listeners
        guard = guard_of(
            basic_admission(logins, _refused),
            listeners=[each.host for each in listeners],
            advertised={each.host for each in config.all_advertised_listeners},
            hosts=config.settings.ottla_http_hosts,
            is_protected=logins is not None or all(each.is_secure for each in listeners),
        )
        routes = routes_of(self.endpoints(), Dialect(), lambda each: each.handle)
        admits = ADMITS if logins is None else ADMITS_LOGINS
        self._server = server_of(routes, guard, Dialect(), connections_max=CONNECTIONS_MAX, admits=admits)

    def endpoints(self) -> list[Endpoint[Callable[[Request], Awaitable[Reply]]]]:
        """Return every address."""
        well = (200, 503)
        return [
            Endpoint("GET", "/metrics", "Metrics for Prometheus", self._metrics, Who.LOGGED_IN, statuses=well),
            Endpoint("GET", "/livez", "Whether the node runs", self._livez, Who.ANYONE, statuses=well),
            Endpoint("GET", "/readyz", "Whether the node answers clients", self._readyz, Who.ANYONE, statuses=well),
            Endpoint("GET", "/healthz", "Whether the node is well", self._healthz, Who.LOGGED_IN, statuses=well),
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


def _logins_of(path: str) -> BasicLogins:
    logins = logins_of_file(LOGINS_FILE, path)
    if not all(logins.passwords.values()):
        raise ConfigError(LOGINS_FILE, path, "must be lines like name=password, and at least one")
    return logins


def _refused() -> Reply:
    told = json_reply({"error_code": 401, "message": "a login is asked for"}, status=401)
    return replace(told, headers={**told.headers, "WWW-Authenticate": 'Basic realm="ottla"'})


def _told(checks: list[Check]) -> Reply:
    """Return 200 where everything is as it has to be, else 503; the reasons stand in the body."""
    is_ok = all(each.is_ok for each in checks)
    told = {
        "status": "ok" if is_ok else "failed",
        "checks": [{"name": each.name, "ok": each.is_ok, "reason": each.reason} for each in checks],
    }
    return json_reply(told, status=200 if is_ok else 503)
